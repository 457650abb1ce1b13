"""The work of the commands that look: what they read, and what they tell of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from forkpoint.cli.opening import Shelf, now_ms, reading, runtime_for
from forkpoint.cli.output import Told
from forkpoint.errors import CommandUnfit
from forkpoint.ids import AtStep

if TYPE_CHECKING:
    from forkpoint.cli.choosing import EventFilter
    from forkpoint.cli.documents import WaitTold
    from forkpoint.cli.files_between import FilesBetween
    from forkpoint.cli.phrases import Phrase
    from forkpoint.cli.told import StepTold, Story
    from forkpoint.events import RecordedEvent
    from forkpoint.ports import RunFilter, RunRow
    from forkpoint.state import RunState

T = TypeVar("T")


async def list_runs(store: str | None, app: str | None, which: "RunFilter", *, after: int | None, limit: int) -> Told:
    """A page of runs."""
    from forkpoint.cli.rows import of_row

    async with reading(store, app=app) as shelf:
        if which.parent is not None:
            which = replace(which, parent=(await shelf.row(which.parent)).run)
        page = await shelf.journal.rows(which, after=after, limit=limit)

    def view(terminal: bool) -> Iterator[Any]:
        from rich.text import Text

        from forkpoint.cli.rows import runs_table

        if not page.rows:
            yield Text("No runs match." if which != type(which)() else "No runs yet.", style="dim")
            return
        yield runs_table(page.rows, now_ms=now_ms(), fit=terminal)
        if page.next is not None:
            yield Text(f"\nThere are more: add --after {page.next}", style="dim")

    return Told(document={"runs": [of_row(row) for row in page.rows], "next": page.next}, view=view)


async def show_story(
    store: str | None, app: str | None, given: str, *, page: int | None, limit: int, full: bool
) -> Told:
    """A run told as turns, steps and calls, as of now or a moment."""
    from forkpoint.cli.documents import of_story
    from forkpoint.cli.files_between import files_of_steps
    from forkpoint.cli.story import story
    from forkpoint.cli.told import StepTold

    async with reading(store, app=app) as shelf:
        row, history = await _history(shelf, given)
        if full:
            history = [await _whole(shelf, recorded) for recorded in history]
        told = story(history)
        lineage = await _lineage(shelf, row)
        forks = [fork for fork in await shelf.journal.children(row.run) if fork.at <= told.state.seq]
        waits = await _waits(shelf, told.state)
        items, note = stretch(told.items, page, limit)
        files = await files_of_steps(shelf, told.state, (item for item in items if isinstance(item, StepTold)))
    document = of_story(told, row, lineage=lineage, forks=forks, waits=waits, files=files)

    def view(terminal: bool) -> Iterator[Any]:
        from forkpoint.cli import render_story

        yield from render_story.heading(told, row, lineage=lineage, now_ms=now_ms())
        if note:
            yield note_line(note)
        if full:
            yield from _in_detail(items, files)
        else:
            yield from render_story.items_lines(items, forks, files)
        yield from render_story.waiting_lines(waits, now_ms=now_ms())
        yield from ending_lines(told, row)

    return Told(document=document, view=view)


def _in_detail(items: Sequence[Any], files: "Mapping[int, FilesBetween]") -> Iterator[Any]:
    from forkpoint.cli import render_story
    from forkpoint.cli.told import StepTold

    for item in items:
        if isinstance(item, StepTold):
            yield from render_story.step_in_detail(item, cut=None, files=files)
        else:
            yield from render_story.items_lines([item], (), files)


def ending_lines(told: "Story", row: "RunRow") -> Iterator[Any]:
    """What to look at next."""
    from forkpoint.cli.rows import owned

    if told.state.seq == row.head and told.state.status == "running" and not owned(row):
        yield note_line(f"\nNobody performs it: forkpoint resume {row.run}")
    if told.state.step:
        yield note_line(f"\nWhole values of a step: forkpoint show {row.run} --step {told.state.step}")


def note_line(words: str) -> Any:
    """A line that is not part of what was asked for."""
    from rich.text import Text

    return Text(words, style="dim")


def stretch(items: Sequence[T], page: int | None, limit: int) -> tuple[Sequence[T], str]:
    """Page ``page`` of ``items``, or the last ``limit`` of them, and in words what is left out."""
    pages = max(1, -(-len(items) // limit))
    if len(items) <= limit and page in (None, 1):
        return items, ""
    if page is None:
        return items[-limit:], f"The last {limit} of {len(items)}; the rest with --page 1 to {pages}."
    if page > pages:
        raise CommandUnfit(detail=f"--page {page} is over the last one, {pages}")
    return items[(page - 1) * limit : page * limit], f"Page {page} of {pages}."


async def show_step(store: str | None, app: str | None, given: str, number: int, *, full: bool) -> Told:
    """One step with its values in full."""
    from forkpoint.cli.documents import of_step
    from forkpoint.cli.files_between import files_of_steps
    from forkpoint.cli.story import story

    async with reading(store, app=app) as shelf:
        row, history = await _history(shelf, given)
        told = story(history)
        place, step = _find_step(told, number)
        wanted = {step.seq, step.ended, *_events_of(history, {call.effect for call in step.calls})}
        history = [await _whole(shelf, one) if one.seq in wanted else one for one in history]
        step = story(history).steps[place]
        files = await files_of_steps(shelf, told.state, [step])

    def view(terminal: bool) -> Iterator[Any]:
        from forkpoint.cli import render_story

        cut = None if full else render_story.VALUE_CUT
        yield from render_story.step_in_detail(step, cut=cut, files=files)
        if not full:
            yield note_line(f"\nWhat the model was shown: forkpoint request {row.run}@step:{number}")

    return Told(document={"run": row.run, **of_step(step, files)}, view=view)


def _find_step(told: "Story", number: int) -> "tuple[int, StepTold]":
    from forkpoint.timetravel.moments import missing_point

    for place, step in enumerate(told.steps):
        if step.number == number:
            return place, step
    raise missing_point(told.state, AtStep(number))


def _events_of(history: "Sequence[RecordedEvent]", effects: set[int]) -> set[int]:
    """The events that request, decide and settle these effects."""
    found = {one.seq for one in history if one.seq in effects}
    for one in history:
        effect = getattr(one.event, "effect", None)
        if isinstance(effect, int) and effect in effects:
            found.add(one.seq)
    return found


async def _whole(shelf: Shelf, recorded: "RecordedEvent") -> "RecordedEvent":
    return replace(recorded, event=await shelf.reader.whole(recorded.event))


async def show_events(
    store: str | None,
    app: str | None,
    given: str,
    which: "EventFilter",
    *,
    page: int | None,
    limit: int,
    full: bool,
) -> Told:
    """A page of a run's events, those that ``which`` takes."""
    from forkpoint.cli.documents import of_event

    async with reading(store, app=app) as shelf:
        row, history = await _history(shelf, given)
        names = names_of(history)
        found = list(_taken(history, names, which))
        shown, note = stretch(found, page, limit)
        if full:
            shown = [(await _whole(shelf, recorded), told) for recorded, told in shown]
    document = {
        "run": row.run,
        "events": [of_event(recorded, names) for recorded, _ in shown],
        "matching": len(found),
        "of": len(history),
    }

    def view(terminal: bool) -> Iterator[Any]:
        from forkpoint.cli.render_story import events_table

        if shown:
            yield events_table(shown, fit=terminal)
        if note or which.restricts:
            yield note_line(f"\n{len(found)} of {len(history)} events match. {note}".rstrip())

    return Told(document=document, view=view)


def names_of(history: "Sequence[RecordedEvent]") -> Mapping[int, str]:
    """What each effect of a history is called."""
    from forkpoint.cli.phrases import effect_name
    from forkpoint.events import EffectRequested

    return {one.seq: effect_name(one.event.effect) for one in history if isinstance(one.event, EffectRequested)}


def _taken(
    history: "Sequence[RecordedEvent]", names: Mapping[int, str], which: "EventFilter"
) -> "Iterator[tuple[RecordedEvent, Phrase]]":
    from forkpoint.cli.phrases import phrase

    for recorded in history:
        told = phrase(recorded.event, names)
        if which.takes(recorded, told):
            yield recorded, told


async def _history(shelf: Shelf, given: str) -> "tuple[RunRow, list[RecordedEvent]]":
    """A run's row, and its events up to the moment that ``RUN[@AT]`` names."""
    from forkpoint.runtime.places import locate

    address = await shelf.address(given)
    row = await shelf.reader.row(address.run)
    upto = row.head if address.where is None else await locate(shelf.reader, address.run, address.where)
    return row, await shelf.reader.history(address.run, upto=upto)


async def _lineage(shelf: Shelf, row: "RunRow") -> list[tuple[str, int]]:
    points = []
    current: RunRow | None = row
    while current is not None and current.parent is not None:
        points.append((current.parent, current.at))
        current = await shelf.journal.row(current.parent)
    return points


async def list_waits(store: str | None, app: str | None, given: str | None) -> Told:
    """Every decision that a run, or some run of the store, needs."""
    from forkpoint.cli.documents import of_wait

    async with reading(store, app=app) as shelf:
        rows = [await shelf.row(given)] if given else await every_row(shelf)
        found: list[WaitTold] = []
        for row in reversed(rows):
            if row.summary.waits:
                found += await _waits(shelf, (await shelf.reader.load(row.run)).state)

    def view(terminal: bool) -> Iterator[Any]:
        from forkpoint.cli.render_waits import wait_lines

        if not found:
            yield note_line("Nothing waits for a decision.")
        for wait in found:
            yield from wait_lines([wait], now_ms=now_ms())
            yield ""

    return Told(document={"waits": [of_wait(wait) for wait in found]}, view=view)


async def every_row(shelf: Shelf) -> "list[RunRow]":
    """Every run of the store, newest first."""
    from forkpoint.ports import RunFilter

    rows: list[RunRow] = []
    after: int | None = None
    while True:
        page = await shelf.journal.rows(RunFilter(), after=after, limit=500)
        rows += page.rows
        after = page.next
        if after is None:
            return rows


async def _waits(shelf: Shelf, state: "RunState") -> "list[WaitTold]":
    from forkpoint.cli.documents import WaitTold
    from forkpoint.status import waits

    found = []
    for wait in waits(state):
        asked = await shelf.reader.outlines(state.run, after=wait.effect - 1, upto=wait.effect)
        opened = state.effects.get(wait.effect)
        at_ms = asked[0].at_ms if asked else state.at_ms
        found.append(WaitTold(run=state.run, wait=wait, opened=opened, at_ms=at_ms))
    return found


async def show_request(store: str | None, app: str | None, given: str, *, full: bool) -> Told:
    """What the model was shown for a step."""
    from forkpoint.cli.documents import of_request
    from forkpoint.cli.opening import full_address

    async with runtime_for(store, app=app, read_only=True) as runtime:
        address = await full_address(runtime.edge.journal, given)
        if address.where is not None and not isinstance(address.where, AtStep):
            raise CommandUnfit(detail=f"A request is that of a step, and {address.where} is none")
        run = await runtime.open(address.run)
        shown = await run.request(address.where.step if address.where else None)
        step = address.where.step if address.where else (await run.brief()).step

    def view(terminal: bool) -> Iterator[Any]:
        from forkpoint.cli.render_story import VALUE_CUT, request_lines

        yield from request_lines(run.id, step, shown, cut=None if full else VALUE_CUT)

    return Told(document=of_request(run.id, step, shown), view=view)
