"""The work of the commands that exchange runs with files."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkpoint.cli.opening import reading, runtime_for
from forkpoint.cli.output import Told
from forkpoint.errors import CommandUnfit

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
                yield Text(f"    {one_line(str(repair), 400)}", style="yellow")
    for says in sorted(common):
        yield Text(f"In every run: {one_line(says, 400)}", style="yellow")
    there = len(report.runs) - len(report.written)
    already = f", {there} already there" if there else ""
    yield Text(f"{count(len(report.written), 'run')} imported{already}.", style="dim")


_ENDINGS = {".html": "html", ".htm": "html", ".jsonl": "forkpoint"}


async def export_to(
    given: str,
    file: str,
    *,
    format: str | None,
    content: bool,
    force: bool,
    store: str | None,
    app: str | None,
    as_json: bool,
) -> Told:
    """A run, up to the moment that ``RUN[@AT]`` names, as a file, or on standard output."""
    from forkpoint.exchange.exporting import export_run
    from forkpoint.exchange.files import write_file
    from forkpoint.runtime.places import locate

    if file == "-" and as_json:
        raise CommandUnfit(detail="--json and an export to standard output cannot be had together")
    chosen = format or _ENDINGS.get(Path(file).suffix.lower(), "openai-chat")
    if content and chosen != "otel":
        raise CommandUnfit(detail=f"--content goes with --format otel; {chosen} always has what was said")
    async with reading(store, app=app) as shelf:
        address = await shelf.address(given)
        upto = await locate(shelf.reader, address.run, address.where)
        data = await export_run(shelf.reader, address.run, format=chosen, upto=upto, content=content)
    if file == "-":
        _write_out(data)
        return Told(document=None, view=lambda _: ())
    write_file(file, data, force=force)

    def view(terminal: bool) -> Iterator[Any]:
        from forkpoint.cli.words import size

        yield f"{address} written to {file} as {chosen}, {size(len(data))}"

    document = {"run": address.run, "at": upto, "format": chosen, "file": file, "bytes": len(data)}
    return Told(document=document, view=view)


def _write_out(data: bytes) -> None:
    """To a pipe exactly as it is; a terminal is shown it with what it might act on spelled out."""
    if sys.stdout.isatty():
        from forkpoint.cli.words import safe

        sys.stdout.write(safe(data.decode("utf-8", "backslashreplace")))
        return
    sys.stdout.buffer.write(data)
