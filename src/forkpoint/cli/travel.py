"""The work of the commands that travel in time."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkpoint.cli.live import performed
from forkpoint.cli.opening import full_address, reading, runtime_for
from forkpoint.cli.output import Told
from forkpoint.errors import CommandUnfit

if TYPE_CHECKING:
    from forkpoint.cli.files_between import FilesBetween
    from forkpoint.events import EffectsPolicy, Pending
    from forkpoint.runtime.run import Run
    from forkpoint.timetravel.comparing import Comparison, Table
    from forkpoint.timetravel.patches import Patch


async def fork_run(
    given: str,
    patch: "Patch",
    *,
    run_id: str | None,
    effects: "EffectsPolicy",
    pending: "Pending",
    labels: Mapping[str, str],
    workspace: Path | None,
    carry_on: bool,
    accept_changes: bool,
    actor: str | None,
    store: str | None,
    app: str | None,
    as_json: bool,
) -> Told:
    """Fork a run at the moment that ``RUN[@AT]`` names; perform the fork if it is to be carried on here."""
    async with runtime_for(store, app=app, agents=carry_on) as runtime:
        address = await full_address(runtime.edge.journal, given)
        parent = await runtime.open(address.run)
        child = await parent.fork(
            address.where,
            patch=patch,
            run_id=run_id,
            effects=effects,
            pending=pending,
            workspace=workspace,
            labels=labels,
            actor=actor,
        )
        if carry_on:
            await child.resume(accept_changes=accept_changes)
            return await performed(child, as_json=as_json)
        return await _forked(child, parent)


async def _forked(child: "Run", parent_run: "Run") -> Told:
    """That a fork was made, from where, with what change, with which files, and how to go on."""
    from forkpoint.cli.phrases import patch_words
    from forkpoint.events import RunForked

    row = await child.row()
    event = (await child.history(after=row.at, upto=row.at + 1))[0].event
    assert isinstance(event, RunForked)
    changes, parent = patch_words(event), parent_run.id
    seen = None if event.workspace is None else await parent_run.workspace.seen(event.at)
    document = {
        "run": child.id,
        "parent": parent,
        "at": row.at,
        "status": row.summary.status,
        "changes": changes,
        "effects": event.effects,
        "pending": event.pending,
        "due": row.summary.due,
        "waits": row.summary.waits,
    }
    if seen is not None:
        document |= {"workspace": event.workspace, "snapshot": seen.taken}

    def view(terminal: bool) -> Iterator[Any]:
        from rich.text import Text

        from forkpoint.cli.words import one_line

        yield Text.assemble((f"{child.id}  ", "bold"), f"forked from {parent}@{row.at}; nothing was performed")
        for change in changes:
            yield Text(f"  {change}")
        if seen is not None and event.workspace is not None:
            late = f"; since then {seen.behind}" if seen.behind else ""
            yield Text(f"  files of its own in {one_line(event.workspace, 400)}, as of {parent}@{seen.taken}{late}")
        if row.summary.waits:
            yield Text(f"It needs decisions: forkpoint waits {child.id}", style="yellow")
        if row.summary.due:
            yield Text(f"Perform it: forkpoint resume {child.id}", style="dim")
        yield Text(f"Compare it: forkpoint compare {parent} {child.id}", style="dim")

    return Told(document=document, view=view)


async def compare_runs(
    given: Sequence[str], *, usage: bool, html: Path | None, force: bool, store: str | None, app: str | None
) -> Told:
    """Two runs compared in detail, or more as a table, each now or at a moment."""
    from forkpoint.cli.files_between import files_between
    from forkpoint.runtime import comparing

    if len(given) < 2:
        raise CommandUnfit(detail="Comparing takes two runs or more")
    found: Comparison | Table
    files: FilesBetween | None = None
    async with reading(store, app=app) as shelf:
        names = [str(await shelf.address(one)) for one in given]
        if len(names) == 2:
            found = await comparing.compare_runs(shelf.reader, names[0], names[1], usage=usage)
            files = await files_between(shelf, found)
        else:
            found = await comparing.compare_table(shelf.reader, names)
    if html is not None:
        from forkpoint.exchange.files import write_file

        write_file(html, found.as_html().encode(), force=force)

    def view(terminal: bool) -> Iterator[Any]:
        from rich.text import Text

        yield Text(found.as_text())
        if files is not None:
            yield from files.lines()
        if html is not None:
            yield Text(f"\nWritten to {html}", style="dim")

    document = found.as_json() if files is None else found.as_json() | {"files": files.as_json()}
    return Told(document=document, view=view)
