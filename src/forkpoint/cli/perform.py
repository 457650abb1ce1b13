"""The work of the commands that perform runs."""

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from forkpoint.cli.ask import recorded
from forkpoint.cli.live import performed
from forkpoint.cli.opening import full_id, runtime_for
from forkpoint.cli.output import Told, console_of

if TYPE_CHECKING:
    from pathlib import Path

    from forkpoint.runtime.runtime import Recovered

CONFLICT = 3
"""The exit status of a recovery that left runs behind, as for every conflict."""


async def start_run(
    agent: str,
    input: str | None,
    *,
    run_id: str | None,
    labels: Mapping[str, str],
    workspace: "Path | None",
    carry_on: bool,
    actor: str | None,
    store: str | None,
    app: str | None,
    as_json: bool,
) -> Told:
    """Begin a run; perform it if it is to be carried on here."""
    async with runtime_for(store, app=app, agents=True, create=True) as runtime:
        run = await runtime.start(
            agent, input, run_id=run_id, labels=labels, workspace=workspace, actor=actor, perform=carry_on
        )
        return await performed(run, as_json=as_json) if carry_on else await recorded(run, "the run is begun")


async def resume_run(given: str, *, accept_changes: bool, store: str | None, app: str | None, as_json: bool) -> Told:
    """Perform what is due in a run."""
    async with runtime_for(store, app=app, agents=True) as runtime:
        run = await runtime.open(await full_id(runtime.edge.journal, given))
        await run.resume(accept_changes=accept_changes)
        return await performed(run, as_json=as_json)


async def recover_runs(*, watch: bool, store: str | None, app: str | None, as_json: bool) -> Told:
    """Recover once, or for as long as nobody interrupts."""
    async with runtime_for(store, app=app, agents=True) as runtime:
        if watch:
            await runtime.keep_recovering(_Rounds(as_json))
        done = await runtime.recover()
        states = [await (await runtime.open(name)).row() for name in done.runs]
    document = {"runs": [{"run": row.run, "status": row.summary.status} for row in states], **_failures(done)}

    def view(terminal: bool) -> Iterator[Any]:
        from rich.text import Text

        from forkpoint.cli.rows import status_text
        from forkpoint.cli.words import count

        for row in states:
            line = Text.assemble((f"{row.run}  ", "bold"), status_text(row.summary.status))
            if row.summary.waits:
                line.append(
                    f"  needs {count(row.summary.waits, 'decision')}: forkpoint waits {row.run}", style="yellow"
                )
            yield line
        yield from _failed_lines(done)
        if not states and not done.failed:
            yield Text("Nothing was due.", style="dim")

    return Told(document=document, view=view, status=CONFLICT if done.failed else 0)


def _failures(done: "Recovered") -> dict[str, Any]:
    return {"failed": dict(done.failed)}


def _failed_lines(done: "Recovered") -> Iterator[Any]:
    from rich.text import Text

    from forkpoint.cli.words import paragraph

    for run, why in done.failed.items():
        yield Text.assemble((f"{run}  ", "bold"), (f"not recovered: {paragraph(why, 1000)}", "red"))


class _Rounds:
    """Tells of the rounds of a watch as they happen; what keeps failing is told once."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._failing: Mapping[str, str] = {}

    def __call__(self, done: "Recovered") -> None:
        news = replace(done, failed={run: why for run, why in done.failed.items() if self._failing.get(run) != why})
        self._failing = done.failed
        if not news.runs and not news.failed:
            return
        if self._as_json:
            from forkpoint.cli.words import json_line

            sys.stdout.write(json_line({"runs": list(news.runs), **_failures(news)}) + "\n")
        else:
            console = console_of(sys.stdout)
            for run in news.runs:
                console.print(f"{run}  taken up")
            for line in _failed_lines(news):
                console.print(line)
        sys.stdout.flush()
