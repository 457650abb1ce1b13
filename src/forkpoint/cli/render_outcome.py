"""Where a run stands after it was asked something or performed. Pure: data in, renderables out."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from forkpoint.cli.documents import WaitTold
from forkpoint.cli.phrases import ending
from forkpoint.cli.render_waits import wait_lines
from forkpoint.cli.rows import status_text
from forkpoint.cli.words import count, one_line, paragraph, spent_line
from forkpoint.state import RunState


def outcome_lines(run: str, state: RunState, waits: Sequence[WaitTold], *, now_ms: int) -> Iterator[Text]:
    """The run's status, its answer or what stopped it, and what to type next."""
    head = Text.assemble((f"{run}  ", "bold"), status_text(state.status))
    spent = spent_line(state.spent.usage.total, state.spent.cost, state.spent.cost_unknown)
    counts = f"{count(state.turn, 'turn')}, {count(state.step, 'step')}"
    head.append("  " + " · ".join(part for part in (counts, spent) if part), style="dim")
    yield head
    match state.status:
        case "idle":
            if state.output:
                yield Text(paragraph(state.output, None))
        case "failed":
            assert state.failure is not None
            yield Text(ending(state.failure, 2000), style="red")
            yield Text(f"forkpoint resume {run} tries the failed effect again", style="dim")
        case "waiting":
            yield from wait_lines(waits, now_ms=now_ms, runs=False)
        case "paused":
            assert state.paused is not None
            limit = f"the limit of {state.paused.limit} was reached" if state.paused.limit else "paused"
            yield Text(f"{limit}: {one_line(state.paused.reason)}".rstrip(": "), style="magenta")
            yield Text(f"forkpoint unpause {run} --resume goes on", style="dim")
        case "running" | "stopped":
            pass


def recorded_line(run: str, words: str, *, owned: bool, due: bool) -> Iterator[Text]:
    """That something was recorded, and whether anybody acts on it."""
    yield Text.assemble((f"{run}  ", "bold"), words)
    if due and owned:
        yield Text("It is being performed, and whoever does so sees this.", style="dim")
    elif due:
        yield Text(f"Nobody performs it now: forkpoint resume {run}", style="dim")
