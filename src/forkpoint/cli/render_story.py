"""A run's story, its events and its requests, for a terminal. Pure: data in, renderables out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from forkpoint.cli.documents import NO_FILES, WaitTold
from forkpoint.cli.files_between import FilesBetween
from forkpoint.cli.phrases import Phrase, ending, large_of, parts_text
from forkpoint.cli.render_waits import wait_lines
from forkpoint.cli.rows import STYLES, plain_table, status_text
from forkpoint.cli.told import CallTold, Item, Mark, OwnTold, StepTold, Story, TurnBegun
from forkpoint.cli.words import ago, called, count, full, lasting, local, one_line, paragraph, size, spent_line
from forkpoint.events import RecordedEvent
from forkpoint.messages import CallPart, Message, Part, Reasoning, ResponsePart
from forkpoint.messages import Text as Words
from forkpoint.outcomes import Cancelled, Failed, Succeeded, Unknown
from forkpoint.ports import ModelRequest, RunRow

SIGNS = {
    "succeeded": "✓",
    "occurred": "✓",
    "failed": "✗",
    "denied": "✗",
    "cancelled": "-",
    "not occurred": "-",
    "running": "…",
    "asking": "…",
    "asked": "·",
    "not inherited": "-",
}
"""How a call stands at a glance; anything else needs looking at and is ``?``."""

VALUE_CUT = 2000
"""How much of one value a single step shows unless it is asked for in full."""


def heading(story: Story, row: RunRow, *, lineage: Sequence[tuple[str, int]], now_ms: int) -> Iterator[Text]:
    """Who the run is, where it stands, and where it comes from."""
    state = story.state
    head = Text.assemble((state.run, "bold"))
    if state.seq != row.head:
        head.append(f"@{state.seq}", style="cyan")
    head.append("  ")
    head.append_text(status_text(state.status))
    head.append(f"  {f'the function {state.function}' if state.function else state.agent.name}", style="dim")
    head.append(f" ({one_line(state.agent.model, 60)})" if state.agent.model else "", style="dim")
    yield head
    counts = f"{count(state.turn, 'turn')}, {count(state.step, 'step')}, {count(state.seq, 'event')}"
    spent = spent_line(state.spent.usage.total, state.spent.cost, state.spent.cost_unknown)
    yield Text(
        " · ".join(part for part in (f"started {ago(state.started_at_ms, now_ms)}", counts, spent) if part), "dim"
    )
    if lineage:
        yield Text("forked from " + ", from ".join(f"{run}@{at}" for run, at in lineage), "dim")
    if state.labels:
        labels = ", ".join(f"{one_line(key, 40)}={one_line(value, 60)}" for key, value in state.labels.items())
        yield Text(f"labels {labels}", "dim")
    if state.paused is not None:
        limit = f" (limit of {state.paused.limit})" if state.paused.limit else ""
        yield Text(f"paused{limit}: {one_line(state.paused.reason) or 'no reason given'}", STYLES["paused"])
    if state.failure is not None:
        yield Text(f"failed: {ending(state.failure, 400)}", STYLES["failed"])


def items_lines(
    items: Sequence[Item], forks: Sequence[RunRow], files: Mapping[int, FilesBetween] = NO_FILES
) -> Iterator[Any]:
    """Turns, steps, calls and what else happened, with the forks where they left."""
    left = sorted(forks, key=lambda fork: fork.at)
    ends = [item.seq for item in items[1:]]
    for place, item in enumerate(items):
        match item:
            case TurnBegun():
                yield Text("")
                yield _turn(item)
            case StepTold():
                yield from step_lines(item, files)
            case OwnTold():
                yield from _call_lines(item.call, 2)
            case Mark(quiet=False):
                yield Text(f"  @{item.seq}  {item.says}", style="red" if item.failed else "dim")
        while left and (place == len(ends) or left[0].at < ends[place]):
            fork = left.pop(0)
            yield Text.assemble(("  ↳ forked: ", "dim"), fork.run, (f" at @{fork.at}", "dim"))


def _turn(item: TurnBegun) -> Text:
    return Text.assemble((f"Turn {item.turn}", "bold"), (f"  @{item.seq}", "dim"), f"  {parts_text(item.parts)}")


def step_lines(step: StepTold, files: Mapping[int, FilesBetween] = NO_FILES) -> Iterator[Any]:
    """A step in a few lines: what the model said, each call on one line, and the files that it changed."""
    yield _step_head(step)
    for remark in step.remarks:
        yield Padding(Text(remark, style="dim"), (0, 0, 0, 4), expand=False)
    if step.message is not None and (words := message_words(step.message, 300)):
        yield Padding(Text(words), (0, 0, 0, 4), expand=False)
    for call in step.calls:
        yield from _call_lines(call, 4)
    for told in step.files:
        if told.failed is not None:
            yield Padding(Text("files  not captured", style="red"), (0, 0, 0, 4), expand=False)
        elif told.seq in files and not files[told.seq].nothing:
            text = Text.assemble(("files  ", "dim"), files[told.seq].words, no_wrap=True, overflow="ellipsis")
            yield Padding(text, (0, 0, 0, 4), expand=False)


def _call_lines(call: CallTold, indent: int) -> Iterator[Any]:
    yield Padding(call_line(call), (0, 0, 0, indent), expand=False)
    for remark in call.remarks if call.status != "denied" else ():
        yield Padding(Text(remark, style="dim"), (0, 0, 0, indent + 4), expand=False)


def _step_head(step: StepTold) -> Text:
    name = f"Step {step.number}" if step.number else "Model call"
    text = Text.assemble((f"  {name}", "bold"), (f"  @{step.ended or step.seq}", "dim"))
    facts = [lasting(step.ms)]
    if step.usage is not None:
        facts.append(f"{step.usage.total:,} tokens")
    if step.cost:
        facts.append(f"${step.cost:.4f}")
    if step.attempts > 1:
        facts.append(f"attempt {step.attempts}")
    known = [fact for fact in facts if fact]
    text.append(f"  {' · '.join(known)}" if known else "", style="dim")
    if step.status != "succeeded":
        text.append("  ")
        text.append_text(status_text(step.status))
    return text


def message_words(message: Message, limit: int) -> str:
    """What a message says, without what it calls or thinks, on one line."""
    return parts_text([part for part in message.parts if not isinstance(part, CallPart | Reasoning)], limit)


def call_line(call: CallTold) -> Text:
    """A call on one line: how it stands, its effect's number, what was asked, what came of it."""
    style = STYLES.get(call.status, "yellow")
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{SIGNS.get(call.status, '?')} ", style=style)
    text.append(f"{call.effect or '-'}  ", style="dim")
    if call.arguments_aside is not None:
        text.append(f"{one_line(call.tool, 60)}({size(call.arguments_aside.size)} of arguments)")
    else:
        text.append(called(call.tool, call.arguments))
    facts = [lasting(call.ms), f"attempt {call.attempts}" if call.attempts > 1 else ""]
    text.append("".join(f"  {fact}" for fact in facts if fact), style="dim")
    if call.outcome is not None:
        text.append(" → ", style="dim")
        if call.status not in ("succeeded", "denied"):
            text.append(f"{call.status}: ", style=style)
        text.append(ending(call.outcome, 160))
    elif call.status != "succeeded":
        text.append(f"  {call.status}", style=style)
    return text


def waiting_lines(waits: Sequence[WaitTold], *, now_ms: int) -> Iterator[Text]:
    """What the run waits for, with what to type."""
    if waits:
        yield Text("")
        yield Text(f"Waits for {count(len(waits), 'decision')}", style="bold yellow")
        yield from wait_lines(waits, now_ms=now_ms, runs=False)


def step_in_detail(step: StepTold, *, cut: int | None, files: Mapping[int, FilesBetween] = NO_FILES) -> Iterator[Any]:
    """One step with its whole texts, arguments and results, each cut after ``cut`` characters if it is set."""
    yield _step_head(step)
    for remark in step.remarks:
        yield Text(f"    {remark}", style="dim")
    if step.message is not None:
        for part in step.message.parts:
            if isinstance(part, Reasoning):
                yield from _block("thought", large_of(part, "content") or paragraph(part.content, cut))
        yield from _block("said", _words_in_full(step.message, cut))
    for call in step.calls:
        yield _call_head(call)
        arguments = (
            f"({size(call.arguments_aside.size)}, kept aside)" if call.arguments_aside else full(call.arguments, cut)
        )
        yield from _block("arguments", arguments)
        yield from _block("result", _result(call, cut))
        for remark in call.remarks:
            yield Text(f"      {remark}", style="dim")
    for told in step.files:
        if told.failed is not None:
            yield Text(f"    files not captured: {one_line(told.failed, 400)}", style="red")
        elif told.seq in files:
            yield Padding(Group(*files[told.seq].lines("files changed")), (0, 0, 0, 4), expand=False)


def _call_head(call: CallTold) -> Text:
    sign = (f"    {SIGNS.get(call.status, '?')} ", STYLES.get(call.status, "yellow"))
    facts = [f"effect {call.effect}" if call.effect else "", f"call id {one_line(call.call, 200)}", lasting(call.ms)]
    facts.append(f"attempt {call.attempts}" if call.attempts > 1 else "")
    facts.append(f"key {one_line(call.key, 80)}" if call.key else "")
    said = " · ".join(fact for fact in facts if fact)
    return Text.assemble(sign, (one_line(call.tool, 60), "bold"), f"  {call.status}", (f"  {said}", "dim"))


def _words_in_full(message: Message, cut: int | None) -> str:
    words = [part for part in message.parts if isinstance(part, Words)]
    return "\n".join(large_of(part, "content") or paragraph(part.content, cut) for part in words)


def _result(call: CallTold, cut: int | None) -> str:
    outcome = call.outcome
    match outcome:
        case None:
            return call.status
        case Succeeded():
            return large_of(outcome, "value") or full(outcome.value, cut)
        case Failed():
            return f"{one_line(outcome.error, 200)}: {large_of(outcome, 'text') or paragraph(outcome.text, cut)}"
        case Cancelled():
            return f"cancelled: {large_of(outcome, 'reason') or paragraph(outcome.reason, cut)}"
        case Unknown():
            return f"unknown ({outcome.because}): {large_of(outcome, 'text') or paragraph(outcome.text, cut)}"


def _block(name: str, words: str) -> Iterator[Any]:
    if words:
        yield Text(f"      {name}", style="dim")
        yield Padding(Text(words), (0, 0, 0, 8), expand=False)


def events_table(events: Sequence[tuple[RecordedEvent, Phrase]], *, fit: bool) -> Table:
    """Events one a line: number, time, kind, what it is about, what it says."""
    table = plain_table(fit=fit)
    table.add_column("SEQ", justify="right", no_wrap=True)
    table.add_column("TIME", no_wrap=True)
    table.add_column("KIND", no_wrap=True)
    table.add_column("ABOUT", no_wrap=True, overflow="ellipsis")
    table.add_column("STATUS", no_wrap=True)
    table.add_column("SAYS", no_wrap=True, overflow="ellipsis", ratio=1 if fit else None)
    for recorded, told in events:
        table.add_row(
            str(recorded.seq),
            Text(local(recorded.at_ms), style="dim"),
            told.kind,
            Text(told.subject),
            status_text(told.status),
            Text(told.says),
        )
    return table


def event_line(recorded: RecordedEvent, told: Phrase) -> Text:
    """An event on one line, for watching."""
    text = Text.assemble((f"{recorded.seq:>5}  {local(recorded.at_ms)[11:]}  ", "dim"))
    text.append(f"{told.kind:<12} ")
    text.append(told.subject)
    if told.status:
        text.append("  ")
        text.append_text(status_text(told.status))
    text.append(f"  {told.says}", style="dim" if told.kind in ("requested", "dispatched") else "")
    return text


def request_lines(run: str, step: int, request: ModelRequest, *, cut: int | None) -> Iterator[Any]:
    """What a model was shown, message by message."""
    yield Text.assemble((f"{run}  ", "bold"), f"step {step}", (f"  model {one_line(request.model, 60)}", "dim"))
    if request.settings:
        yield Text(f"settings {one_line(full(dict(request.settings)), 400)}", "dim")
    if request.tools:
        names = ", ".join(one_line(tool.name, 60) for tool in request.tools)
        yield Text(f"tools {names}", style="dim")
    if request.instructions:
        yield Text("")
        yield Text("instructions", style="bold")
        yield Padding(Text(paragraph(request.instructions, cut)), (0, 0, 0, 2), expand=False)
    for number, message in enumerate(request.messages):
        yield Text("")
        yield Text.assemble((f"{number}  ", "dim"), (message.role, "bold"))
        for part in message.parts:
            yield Padding(Text(_part_in_full(part, cut)), (0, 0, 0, 2), expand=False)


def _part_in_full(part: Part, cut: int | None) -> str:
    match part:
        case Words():
            return paragraph(part.content, cut)
        case Reasoning():
            return f"(thought) {paragraph(part.content, cut)}"
        case CallPart():
            return f"calls {one_line(part.name, 60)} ({one_line(part.id, 60)}): {full(part.arguments, cut)}"
        case ResponsePart():
            return f"answers {one_line(part.id, 60)}: {full(part.response, cut)}"
        case _:
            return parts_text([part])
