"""Recorded conversations into a store, each as a run that is shown, replayed, forked and compared like any other."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from forkpoint.errors import RunExists
from forkpoint.exchange.conversation import Conversation, Repair
from forkpoint.exchange.journal_in import ELSEWHERE, import_journal
from forkpoint.exchange.reading_chats import file_bytes, import_conversations
from forkpoint.exchange.recording import Recording, recorded
from forkpoint.ids import check_run_id
from forkpoint.ports import Append
from forkpoint.runtime.cell import Edge
from forkpoint.runtime.checkpoints import EVERY, freezable, freeze
from forkpoint.status import summary

AGENT = "imported"
"""The name of the agent that an imported run records. A live agent of that name can go on with its forks."""

LABEL = "imported"
"""The label that names, by its content, the conversation that a run was imported from."""


class Imported(Struct, frozen=True, kw_only=True):
    """One conversation after an import: the run that it is, and what had to be repaired.

    ``already`` says that the run was there before, from the same conversation, and nothing was written.
    """

    run: str
    where: str
    steps: int
    already: bool = False
    repairs: tuple[Repair, ...] = ()


class ImportReport(Struct, frozen=True, kw_only=True):
    """What an import did, conversation by conversation. Printing it gives sentences."""

    runs: tuple[Imported, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        """The runs that are new."""
        return tuple(one.run for one in self.runs if not one.already)

    def __str__(self) -> str:
        there = len(self.runs) - len(self.written)
        lines = [f"{_runs(len(self.written))} imported" + (f", {there} already there" if there else "")]
        common = set.intersection(*(set(one.repairs) for one in self.runs)) if len(self.runs) > 1 else set()
        lines += [f"all of them: {repair}" for repair in self.runs[0].repairs if repair in common] if common else []
        for one in self.runs:
            lines += [f"{one.run} ({one.where}): {repair}" for repair in one.repairs if repair not in common]
        return "\n".join(lines)


async def import_file(
    edge: Edge,
    source: str | Path | bytes,
    *,
    format: str = "openai-chat",
    agent: str = AGENT,
    labels: Mapping[str, str] | None = None,
    again: bool = False,
) -> ImportReport:
    """Every conversation of a file as a run, each written whole or not at all, in the file's order.

    ``openai-chat`` and ``tau-bench`` are recorded conversations; ``forkpoint`` is a run that was exported exactly, with
    the past that it shares (``agent``, ``labels`` and ``again`` do not apply: a journal is what it is).

    A run's id follows from what the conversation says, so that importing a file again changes nothing; ``again``
    makes new runs of it. ``agent`` is the name that the runs record: fork one, and an agent of that name in this
    process goes on with it (``resume(accept_changes=True)``). ``labels`` are added to those that the file gives.
    Raises ``import.no-file``, ``import.not-json``, ``import.not-chat``, ``import.unknown-format``, ``run.exists`` if
    an id names another run, ``import.altered``, ``import.secret``, ``import.other-run`` and the ``store.*`` errors; a
    file that is refused writes nothing.
    """
    if format == "forkpoint":
        return await _journal(edge, source)
    conversations = import_conversations(source, format)
    seen: Counter[str] = Counter()
    done = []
    for conversation in conversations:
        seen[conversation.digest] += 1
        done.append(await _bring_in(edge, conversation, agent, labels or {}, seen[conversation.digest], again))
    return ImportReport(runs=tuple(done))


async def _journal(edge: Edge, source: str | Path | bytes) -> ImportReport:
    data = source if isinstance(source, bytes) else file_bytes(source)
    done = []
    for stood in await import_journal(edge, data):
        row = await edge.reader.row(stood.run)
        done.append(
            Imported(
                run=stood.run,
                where=f"events to {row.head}",
                steps=row.summary.step,
                already=not stood.written,
                repairs=(Repair(None, f"paused: {ELSEWHERE}"),) if stood.paused else (),
            )
        )
    return ImportReport(runs=tuple(done))


async def _bring_in(
    edge: Edge, conversation: Conversation, agent: str, labels: Mapping[str, str], copy: int, again: bool
) -> Imported:
    """Write one run. ``copy`` numbers equal conversations of one file, which are as many runs."""
    mark = conversation.digest[:16]
    name = check_run_id(_name(conversation, copy))
    row = await edge.journal.row(name)
    while row is not None and again:
        copy += 1
        name = check_run_id(_name(conversation, copy))
        row = await edge.journal.row(name)
    at_ms = edge.clock.now_ms()
    told = recorded(
        conversation, run=name, agent=agent, writer=edge.writer, at_ms=at_ms, labels={**labels, LABEL: mark}
    )
    already = False
    try:
        await edge.journal.append(_append(edge, told))
    except RunExists:
        row = await edge.journal.row(name)
        if row is None or row.summary.labels.get(LABEL) != mark:
            raise
        already = True
    return Imported(
        run=name, where=conversation.where, steps=told.state.step, already=already, repairs=conversation.repairs
    )


def _name(conversation: Conversation, copy: int) -> str:
    """``tau-1-0-3f2a91c04b`` or ``chat-3f2a91c04b``: what the file calls it, and its content."""
    said = [conversation.labels.get(key, "") for key in ("task", "trial")] if conversation.format == "tau-bench" else []
    head = ["tau" if conversation.format == "tau-bench" else "chat", *(part for part in said if _is_short(part))]
    tail = [conversation.digest[:10], *([str(copy)] if copy > 1 else [])]
    return "-".join([*head, *tail])


def _is_short(text: str) -> bool:
    return text.isascii() and text.isalnum() and len(text) <= 20


def _append(edge: Edge, told: Recording) -> Append:
    draft, state = told.draft, told.state
    frozen = state.seq >= EVERY and freezable(state)
    return Append(
        run=draft.run,
        after=draft.after,
        before=draft.before,
        commit=draft.commit(edge.writer.codec),
        summary=summary(state),
        blobs=draft.blobs,
        refs=draft.refs,
        calls=told.calls,
        checkpoint=freeze(state, draft.digest, None) if frozen else None,
        born=True,
    )


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"
