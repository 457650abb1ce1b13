"""The work of the commands that exchange runs with files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkpoint.cli.opening import runtime_for
from forkpoint.cli.output import Told

if TYPE_CHECKING:
    from forkpoint.exchange.importing import Imported, ImportReport


async def import_runs(
    file: Path, *, format: str, agent: str, labels: Mapping[str, str], again: bool, store: str | None, app: str | None
) -> Told:
    """Every conversation of a file as a run."""
    from forkpoint.exchange.importing import import_file

    async with runtime_for(store, app=app, create=True) as runtime:
        report = await import_file(runtime.edge, file, format=format, agent=agent, labels=labels, again=again)

    def view(terminal: bool) -> Iterator[Any]:
        yield from _report_lines(report)

    document = {"written": len(report.written), "runs": [_of_imported(one) for one in report.runs]}
    return Told(document=document, view=view)


def _of_imported(one: "Imported") -> dict[str, Any]:
    return {
        "run": one.run,
        "where": one.where,
        "steps": one.steps,
        "already": one.already,
        "repairs": [str(repair) for repair in one.repairs],
    }


def _report_lines(report: "ImportReport") -> Iterator[Any]:
    from collections import Counter

    from rich.text import Text

    from forkpoint.cli.words import count, one_line

    repairs = Counter(str(repair) for one in report.runs for repair in one.repairs)
    common = {says for says, runs in repairs.items() if runs == len(report.runs) > 1}
    for one in report.runs:
        line = Text.assemble((f"{one.run}  ", "bold"), count(one.steps, "step"), (f"  {one_line(one.where)}", "dim"))
        if one.already:
            line.append("  already there", style="dim")
        yield line
        for repair in one.repairs:
            if str(repair) not in common:
                yield Text(f"    repaired: {one_line(str(repair), 400)}", style="yellow")
    for says in sorted(common):
        yield Text(f"In every run, repaired: {one_line(says, 400)}", style="yellow")
    there = len(report.runs) - len(report.written)
    already = f", {there} already there" if there else ""
    yield Text(f"{count(len(report.written), 'run')} imported{already}.", style="dim")
