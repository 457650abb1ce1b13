"""Runs out of a store: as an OpenAI chat, as an exact journal, as a page to look at, or as OpenTelemetry spans."""

from pathlib import Path
from typing import Literal, TypeAlias

from msgspec.structs import replace

from forkpoint.errors import ImportUnknownFormat
from forkpoint.events import RecordedEvent
from forkpoint.exchange.chat_out import chat_bytes, chat_of
from forkpoint.exchange.files import write_file
from forkpoint.exchange.journal_lines import journal_lines
from forkpoint.exchange.otlp import otlp_bytes
from forkpoint.exchange.run_page import run_page
from forkpoint.runtime.reading import Reader
from forkpoint.timetravel.facts import gathered
from forkpoint.timetravel.spans import spans

ExportFormat: TypeAlias = Literal["openai-chat", "forkpoint", "html", "otel"]

EXPORTS: tuple[ExportFormat, ...] = ("openai-chat", "forkpoint", "html", "otel")


async def export_run(
    reader: Reader, run: str, *, format: str = "openai-chat", upto: int | None = None, content: bool = False
) -> bytes:
    """A run up to event ``upto`` (its head if left out) as the bytes of a file.

    ``openai-chat``: one JSON object with the whole conversation. ``forkpoint``: JSON lines, every event exactly as
    stored with its digest, the shared past and large values included; it can be imported again. ``html``: one page
    that needs no server and runs no script. ``otel``: spans by the OpenTelemetry GenAI conventions, as one request in
    OTLP/JSON; without what people, models and tools said, unless ``content`` is set. A fork's are those of its own
    events. Raises ``run.not-found``, ``import.unknown-format`` or ``export.differs``.
    """
    await reader.row(run)
    match format:
        case "openai-chat":
            state, facts = gathered(await _whole(reader, run, upto), None)
            return chat_bytes(chat_of(state, facts))
        case "html":
            return run_page(await _whole(reader, run, upto))
        case "forkpoint":
            return await journal_lines(reader, run, upto=upto)
        case "otel":
            history = await _whole(reader, run, upto) if content else await reader.history(run, upto=upto)
            return otlp_bytes(spans(history, content=content))
        case _:
            raise ImportUnknownFormat(given=format, known=", ".join(EXPORTS))


async def export_file(
    reader: Reader,
    run: str,
    path: str | Path,
    *,
    format: str = "openai-chat",
    upto: int | None = None,
    content: bool = False,
    force: bool = False,
) -> int:
    """The same, written to exactly ``path`` (mode 0600); how many bytes. Nothing half-written is ever left behind.

    Raises ``export.exists`` without ``force``, ``export.not-a-file`` for a link or folder, and ``export.failed``.
    """
    data = await export_run(reader, run, format=format, upto=upto, content=content)
    write_file(path, data, force=force)
    return len(data)


async def _whole(reader: Reader, run: str, upto: int | None) -> list[RecordedEvent]:
    history = await reader.history(run, upto=upto)
    return [replace(recorded, event=await reader.whole(recorded.event)) for recorded in history]
