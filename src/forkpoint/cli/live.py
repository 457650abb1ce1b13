"""Runs while they move: watched from anywhere, or performed here with what happens told on a terminal."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from forkpoint.cli.opening import full_id, now_ms, runtime_for
from forkpoint.cli.output import Told, console_of

if TYPE_CHECKING:
    from forkpoint.runtime.run import Run
    from forkpoint.state import RunState


async def watch_run(
    store: str | None, app: str | None, given: str, *, after: int | None, follow: bool, as_json: bool
) -> Told:
    """Print events as they come, until the run is stopped or, without ``follow``, is not running."""
    from forkpoint.events import EffectRequested, RecordedEvent, RunStopped

    async with runtime_for(store, app=app, read_only=True) as runtime:
        run = await runtime.open(await full_id(runtime.edge.journal, given))
        state = await run.brief()
        names = {key: opened.name for key, opened in state.effects.items()}
        if state.stopped and after is None:
            return _nothing()
        async for recorded in run.watch(after=after, follow=follow):
            if not isinstance(recorded, RecordedEvent):
                continue
            if isinstance(recorded.event, EffectRequested):
                names[recorded.seq] = _name(recorded)
            _print(recorded, names, as_json)
            if isinstance(recorded.event, RunStopped):
                break
    return _nothing()


def _name(recorded: Any) -> str:
    from forkpoint.cli.phrases import effect_name

    return effect_name(recorded.event.effect)


def _nothing() -> Told:
    """What is told at the end by a command that told everything on the way."""
    return Told(document=None, view=lambda _: ())


def _print(recorded: Any, names: dict[int, str], as_json: bool) -> None:
    if as_json:
        from forkpoint.cli.documents import of_event
        from forkpoint.cli.words import json_line

        sys.stdout.write(json_line(of_event(recorded, names)) + "\n")
    else:
        from forkpoint.cli.phrases import phrase
        from forkpoint.cli.render_story import event_line

        console_of(sys.stdout).print(event_line(recorded, phrase(recorded.event, names)), soft_wrap=True)
    sys.stdout.flush()


async def perform(run: "Run", *, as_json: bool) -> "RunState":
    """The run's state once it rests or waits; what happens meanwhile is told on standard error, at a terminal only."""
    if as_json or not sys.stderr.isatty():
        return await run.wait()
    import asyncio

    telling = asyncio.ensure_future(_tell_progress(run))
    try:
        return await run.wait()
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell_progress(run: "Run") -> None:
    from forkpoint.cli.words import one_line
    from forkpoint.events import EffectRequested, RecordedEvent

    console = console_of(sys.stderr)
    state = await run.brief()
    names = {key: opened.name for key, opened in state.effects.items()}
    heard = ""
    with console.status("performing …") as line:
        async for recorded in run.watch(after=state.seq):
            if not isinstance(recorded, RecordedEvent):
                heard = (heard + recorded.text + recorded.tool)[-200:]
                line.update(one_line(heard, max(20, console.width - 8)))
                continue
            heard = ""
            if isinstance(recorded.event, EffectRequested):
                names[recorded.seq] = _name(recorded)
            for words in _news(recorded, names):
                console.print(words, style="dim")
            line.update(f"performing … {one_line(names.get(recorded.seq, ''), 60)}")


def _news(recorded: Any, names: dict[int, str]) -> Iterator[str]:
    """What of an event is worth a line while one waits."""
    from forkpoint.cli.phrases import phrase
    from forkpoint.cli.words import one_line

    told = phrase(recorded.event, names)
    if told.kind in ("settled", "resolved", "approval_requested", "paused", "interrupted", "compacted"):
        yield one_line(f"{told.subject or told.kind}  {told.status}  {told.says}", 160)


async def performed(run: "Run", *, as_json: bool) -> Told:
    """Have the run performed, as it was asked for, and tell where that left it. A failed turn exits with 1."""
    state = await perform(run, as_json=as_json)
    return await outcome_of(run, state)


async def outcome_of(run: "Run", state: "RunState") -> Told:
    """Where a run stands, with its output, its error, or the decisions it needs."""
    from forkpoint.cli.documents import WaitTold, of_outcome, of_usage, of_wait

    found = []
    for wait in state.waits:
        asked = await run.outline(after=wait.effect - 1, upto=wait.effect)
        at_ms = asked[0].at_ms if asked else state.at_ms
        found.append(WaitTold(run=run.id, wait=wait, opened=state.effects.get(wait.effect), at_ms=at_ms))
    document = {
        "run": run.id,
        "status": state.status,
        "turn": state.turn,
        "step": state.step,
        "seq": state.seq,
        "output": state.output,
        "failure": of_outcome(state.failure) if state.failure else None,
        "paused": {"reason": state.paused.reason, "limit": state.paused.limit} if state.paused else None,
        "waits": [of_wait(wait) for wait in found],
        "usage": of_usage(state.spent.usage),
        "cost": state.spent.cost,
        "cost_unknown": state.spent.cost_unknown,
    }

    def view(terminal: bool) -> Iterator[Any]:
        from forkpoint.cli.render_outcome import outcome_lines

        yield from outcome_lines(run.id, state, found, now_ms=now_ms())

    return Told(document=document, view=view, status=1 if state.status == "failed" else 0)
