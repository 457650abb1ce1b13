"""Files of recorded conversations, read: OpenAI chats and tau-bench trajectories. Pure but for reading the file."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from forkpoint.definition import ToolRecord
from forkpoint.errors import ImportNoFile, ImportNotChat, ImportUnknownFormat
from forkpoint.exchange.conversation import Conversation, Item, Repair, Response
from forkpoint.exchange.json_text import documents
from forkpoint.exchange.pairing import paired
from forkpoint.exchange.parts import as_text, storable
from forkpoint.exchange.spoken import spoken

ChatFormat: TypeAlias = Literal["openai-chat", "tau-bench"]

LABELS = 64
"""How many labels a run takes from a file."""

_TAU = ("task_id", "trial", "reward")


class _Found(Struct, frozen=True, kw_only=True):
    """One conversation of a file before its messages are read."""

    where: str
    messages: Sequence[Any]
    labels: Mapping[str, Any] = {}
    model: Any = None
    tools: Any = None
    left_out: Sequence[str] = ()


def import_conversations(source: str | Path | bytes, format: str = "openai-chat") -> list[Conversation]:
    """The conversations of a file, in order, each with what had to be repaired.

    ``openai-chat``: a JSON list of messages, an object with ``messages``, a list of these, or one of them a line.
    ``tau-bench``: a list of tasks with ``traj``. ``source`` is a path, or the bytes themselves. Performs and stores
    nothing. Raises ``import.no-file``, ``import.not-json``, ``import.not-chat`` or ``import.unknown-format``.
    """
    reader = _FORMATS.get(format)
    if reader is None:
        raise ImportUnknownFormat(given=format, known=", ".join(_FORMATS))
    found = reader(documents(source if isinstance(source, bytes) else file_bytes(source)))
    return [_conversation(one, format) for one in found]


def file_bytes(path: str | Path) -> bytes:
    """The bytes of a regular file. Raises ``import.no-file``."""
    try:
        if not Path(path).is_file():
            raise ImportNoFile(path=str(path), detail="it is no regular file, or not there")
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise ImportNoFile(path=str(path), detail=str(error)) from error


def _conversation(found: _Found, format: str) -> Conversation:
    messages = [spoken(raw, index, f"{found.where}[{index}]", format) for index, raw in enumerate(found.messages)]
    told = paired(messages)
    tools, remarks = _tools(found.tools)
    repairs = [Repair(None, remark) for remark in remarks]
    left_out = [*found.left_out, *list(found.labels)[LABELS:]]
    if left_out:
        repairs.append(Repair(None, f"a run has no place for {', '.join(left_out)}; left out"))
    return Conversation(
        where=found.where,
        format=format,
        items=told.items,
        instructions=told.instructions,
        model=found.model if isinstance(found.model, str) else "",
        tools=(*tools, *_called(told.items, {tool.name for tool in tools})),
        labels={key: as_text(value) for key, value in list(found.labels.items())[:LABELS]},
        repairs=(*repairs, *told.repairs),
    )


def _called(items: Sequence[Item], known: set[str]) -> list[ToolRecord]:
    """The tools that were called and are not defined by the file, in order of their first call."""
    names = dict.fromkeys(part.name for item in items if isinstance(item, Response) for part in item.message.calls)
    return [ToolRecord(name=name) for name in names if name not in known]


def _tools(given: Any) -> tuple[list[ToolRecord], list[str]]:
    """The tools that a file defines, with their schemas."""
    if given is None:
        return [], []
    found: dict[str, ToolRecord] = {}
    remarks = []
    for place, item in enumerate(given if isinstance(given, list) else [given]):
        held = item.get("function", item) if isinstance(item, dict) else None
        name = held.get("name") if isinstance(held, dict) else None
        if not isinstance(held, dict) or not isinstance(name, str) or name in found:
            remarks.append(f"tool {place} of the file has no name of its own; left out")
            continue
        described = held.get("description")
        found[name] = ToolRecord(
            name=name,
            description=described if isinstance(described, str) else "",
            parameters=storable(held.get("parameters")),
        )
    return list(found.values()), remarks


# ── openai-chat ──────────────────────────────────────────────────────────────────────────────────────────────────


def _chats(values: Sequence[tuple[str, Any]]) -> list[_Found]:
    return [found for where, value in values for found in _chat(where, value, nested=True)]


def _chat(where: str, value: Any, *, nested: bool) -> list[_Found]:
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        return [_of_object(where, value)]
    if not isinstance(value, list):
        detail = "it is neither a list of messages nor an object with a list of messages"
        raise ImportNotChat(where=where, format="openai-chat", detail=detail)
    if nested and value and not any(_is_message(item) for item in value):
        return [found for place, item in enumerate(value) for found in _chat(f"{where}[{place}]", item, nested=False)]
    return [_Found(where=where, messages=value)]


def _is_message(item: Any) -> bool:
    return isinstance(item, dict) and "role" in item


def _of_object(where: str, value: dict[str, Any]) -> _Found:
    labels: dict[str, Any] = {}
    left_out = []
    for key, held in value.items():
        if key in ("messages", "tools", "functions", "model"):
            continue
        if key == "metadata" and isinstance(held, dict):
            labels |= held
        elif isinstance(held, str | int | float | bool):
            labels[key] = held
        elif held is not None:
            left_out.append(key)
    return _Found(
        where=f"{where}.messages",
        messages=value["messages"],
        labels=labels,
        model=value.get("model"),
        tools=value.get("tools", value.get("functions")),
        left_out=left_out,
    )


# ── tau-bench ────────────────────────────────────────────────────────────────────────────────────────────────────


def _tau_bench(values: Sequence[tuple[str, Any]]) -> list[_Found]:
    found = []
    for where, value in values:
        whole = value if isinstance(value, list) else [value]
        for place, one in enumerate(whole):
            found.append(_tau(f"{where}[{place}]" if isinstance(value, list) else where, one))
    return found


def _tau(where: str, value: Any) -> _Found:
    if not isinstance(value, dict) or not isinstance(value.get("traj"), list):
        detail = "each entry is an object with a trajectory 'traj', a list of messages"
        raise ImportNotChat(where=where, format="tau-bench", detail=detail)
    return _Found(
        where=f"{where}.traj",
        messages=value["traj"],
        labels={"task" if key == "task_id" else key: value[key] for key in _TAU if value.get(key) is not None},
        left_out=[key for key in value if key not in (*_TAU, "traj")],
    )


_FORMATS: dict[str, Callable[[Sequence[tuple[str, Any]]], list[_Found]]] = {
    "openai-chat": _chats,
    "tau-bench": _tau_bench,
}
