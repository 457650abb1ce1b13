"""How stories, lists and errors look: pure functions from data to what a terminal of a given width shows."""

import asyncio
import io
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from surfaces_shop import agents

from forkpoint.cli.phrases import phrase
from forkpoint.cli.render_error import error_lines
from forkpoint.cli.render_story import SIGNS, event_line, events_table, items_lines, step_in_detail
from forkpoint.cli.rows import STYLES, runs_table
from forkpoint.cli.story import Mark, StepTold, Story, TurnBegun, story
from forkpoint.errors import RunNotFound
from forkpoint.events import RecordedEvent
from forkpoint.ports import RunRow, RunSummary
from forkpoint.timetravel.patches import Patch
from forkpoint.wiring import connect

NOW_MS = 1_700_000_000_000


def drawn(parts: Iterable[Any], width: int = 80) -> list[str]:
    """The lines that a terminal of ``width`` columns shows."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, markup=False, emoji=False, highlight=False)
    for part in parts:
        console.print(part)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def _row(run: str, **summary: Any) -> RunRow:
    told = RunSummary(agent="shop", **({"status": "idle"} | summary))
    return RunRow(run=run, head=9, digest=bytes(32), started_at_ms=NOW_MS, updated_at_ms=NOW_MS - 60_000, summary=told)


async def _performed() -> tuple[list[RecordedEvent], list[RecordedEvent]]:
    async with connect("memory:", agents=agents) as runtime:
        run = await runtime.start("shop", "collect 17", run_id="inv")
        await run.wait()
        await run.send("hello")
        child = await run.fork(before="c2", patch=Patch(tool_results={"c2": {"id": 1}}, state={"a": 1}))
        await child.pause("look")
        return await run.history(), await child.history()


def _stories() -> tuple[Story, Story, list[RecordedEvent]]:
    parent, child = asyncio.run(_performed())
    return story(parent), story(child), parent


def test_every_run_is_one_line_however_long_its_title() -> None:
    rows = [_row("inv-17", title="a long title " * 20, status="waiting", waits=2), _row("b", cost=0.5, cost_unknown=3)]
    lines = drawn([runs_table(rows, now_ms=NOW_MS, fit=True)])
    assert len(lines) == 3 and all(len(line) <= 80 for line in lines)
    assert "waiting (2)" in lines[1] and "…" in lines[1] and "1 min ago" in lines[1]
    assert "$0.5000+3?" in lines[2]


def test_a_running_run_that_nobody_performs_stands_out() -> None:
    (line,) = drawn([runs_table([_row("inv", status="running")], now_ms=NOW_MS, fit=True)])[1:]
    assert "running (unowned)" in line


def test_a_story_is_turns_then_steps_then_calls() -> None:
    told, _, _ = _stories()
    assert [type(item) for item in told.items] == [TurnBegun, StepTold, StepTold, Mark]
    lines = drawn(items_lines(told.items, ()))
    assert lines[1].startswith("Turn 1  @2  collect 17")
    assert lines[4] == '    ✓ 6  invoice(number="17") → {"due":4200,"number":"17"}'
    assert lines[6] == '    ? 12  charge(number="17", cents=4200) → unknown: reported: the gateway did …'
    assert lines[7] == "  @15  queued input: hello"


def test_a_fork_tells_what_it_changed_where_it_began() -> None:
    _, told, _ = _stories()
    call = told.steps[1].calls[0]
    assert (call.status, call.remarks) == ("succeeded", ("replaced by the fork's patch",))
    marks = [item.says for item in told.items if isinstance(item, Mark)]
    assert marks[0].startswith("forked from inv@12: the application's state replaced, another result for call c2")
    assert marks[1] == "paused: look"


def test_a_step_in_detail_shows_arguments_and_results_on_their_own_lines() -> None:
    told, _, _ = _stories()
    lines = drawn(step_in_detail(told.steps[0], cut=2000))
    assert "      said" in lines and "        Let me look." in lines
    assert '          "number": "17"' in lines and '          "due": 4200' in lines


def test_every_event_has_one_line_in_a_table_and_when_watched() -> None:
    _, _, history = _stories()
    names = {6: "invoice", 12: "charge"}
    table = drawn([events_table([(one, phrase(one.event, names)) for one in history], fit=True)])
    assert len(table) == len(history) + 1
    watched = drawn((event_line(one, phrase(one.event, names)) for one in history), width=300)
    assert len(watched) == len(history)
    assert "charge (12)  unknown  reported: the gateway did not answer" in watched[13]


def test_every_standing_of_a_call_has_a_sign_or_asks_for_attention() -> None:
    assert set(SIGNS) - set(STYLES) <= {"asked", "not occurred"}


def test_an_error_says_what_why_and_what_to_do() -> None:
    lines = drawn(error_lines(RunNotFound(run="inv")), width=200)
    assert lines[0] == "There is no run inv in this store"
    assert [line.split()[0] for line in lines[1:]] == ["why:", "fix:", "code:"]
