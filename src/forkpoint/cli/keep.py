"""The work of the commands about the store as a whole."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from forkpoint.cli.opening import chosen_app, chosen_store, full_id, loaded_app, runtime_for
from forkpoint.cli.output import Told
from forkpoint.errors import CommandNotConfirmed, ForkpointError

if TYPE_CHECKING:
    from forkpoint.runtime.keeping import Pruned, Removed
    from forkpoint.runtime.verifying import Verified

ALTERED = 4
"""The exit status of a verification that found something, as for every error of data."""


async def verify_store(given: str | None, *, fold: bool, store: str | None, app: str | None) -> Told:
    """What a verification looked at, and what it found."""
    async with runtime_for(store, app=app, read_only=True) as runtime:
        run = None if given is None else await full_id(runtime.edge.journal, given)
        found = await runtime.verify(run, fold=fold)

    def view(terminal: bool) -> Iterator[Any]:
        yield from _verified_lines(found)

    document = msgspec.to_builtins(found) | {"sound": found.sound}
    return Told(document=document, view=view, status=0 if found.sound else ALTERED)


def _verified_lines(found: "Verified") -> Iterator[Any]:
    from rich.text import Text

    from forkpoint.cli.words import count, one_line

    for one in found.findings:
        place = f"{one.run}@{one.seq}" if one.seq else one.run
        yield Text.assemble((f"{place}  ", "bold red"), f"{one_line(one.says, 400)}  ", (one.code, "dim"))
    if found.more:
        yield Text(f"and {found.more:,} more", style="red")
    looked = f"{count(found.runs, 'run')}, {count(found.events, 'event')}, {count(found.blobs, 'blob')}"
    folded = f", {count(found.checkpoints, 'checkpoint')}, every state rebuilt" if found.folded else ""
    verdict = "as written" if found.sound else "something was altered"
    yield Text(f"{looked}{folded}: {verdict}", style="green" if found.sound else "bold red")
    yield Text(found.cannot_see, style="dim")


def confirmed(question: str, *, yes: bool, ask: bool) -> bool:
    """Whether a person, or --yes, says yes. Nobody is asked where nobody could answer."""
    if yes:
        return True
    if not ask or not sys.stdin.isatty():
        return False
    import typer

    return typer.confirm(question, err=True)


async def delete_run(given: str, *, yes: bool, store: str | None, ask: bool) -> Told:
    """Remove one run, if that is confirmed."""
    async with runtime_for(store, app=None) as runtime:
        run = await full_id(runtime.edge.journal, given)
        if not confirmed(f"Delete the run {run} for good?", yes=yes, ask=ask):
            raise CommandNotConfirmed(what=f"Deleting the run {run}")
        removed = await runtime.delete(run)

    def view(terminal: bool) -> Iterator[Any]:
        yield from _removed_lines([removed])
        if removed.kept_upto:
            yield f"Its events up to {removed.kept_upto} stay: forks share them."

    return Told(document=msgspec.to_builtins(removed), view=view)


def _removed_lines(removed: "Sequence[Removed]", verb: str = "removed") -> Iterator[Any]:
    from rich.text import Text

    from forkpoint.cli.words import count, size

    for one in removed:
        facts = f"{count(one.events, 'event')}, {size(one.bytes)} and {size(one.blob_bytes)} in blobs"
        yield Text.assemble((f"{one.run}  ", "bold"), f"{verb}  ", (facts, "dim"))


async def prune_runs(
    given: Sequence[str] | None, *, older_than_s: float | None, dry_run: bool, yes: bool, store: str | None, ask: bool
) -> Told:
    """Remove runs by age or by name, after showing which, if that is confirmed."""
    async with runtime_for(store, app=None) as runtime:
        journal = runtime.edge.journal
        runs = None if given is None else [await full_id(journal, one) for one in given]
        confirm = yes
        if not dry_run and not yes:
            plan = await runtime.prune(older_than_s=older_than_s, runs=runs, dry_run=True)
            _show_plan(plan, ask)
            question = f"Remove {len(plan.removed)} runs for good?"
            confirm = not plan.removed or confirmed(question, yes=yes, ask=ask)
        done = await runtime.prune(older_than_s=older_than_s, runs=runs, dry_run=dry_run, confirm=confirm)

    def view(terminal: bool) -> Iterator[Any]:
        yield from _pruned_lines(done)

    return Told(document=msgspec.to_builtins(done), view=view)


def _show_plan(plan: "Pruned", ask: bool) -> None:
    """What would go, for whoever is about to be asked."""
    if ask and plan.removed and sys.stdin.isatty():
        from forkpoint.cli.output import console_of

        console = console_of(sys.stderr)
        for line in _removed_lines(plan.removed, "would be removed"):
            console.print(line)


def _pruned_lines(done: "Pruned") -> Iterator[Any]:
    from rich.text import Text

    from forkpoint.cli.words import count, size

    yield from _removed_lines(done.removed, "would be removed" if done.dry_run else "removed")
    for one in done.kept:
        yield Text.assemble((f"{one.run}  ", "bold"), f"stays: {one.why}", style="dim")
    if done.dry_run:
        yield Text(f"{count(len(done.removed), 'run')} would be removed; nothing was.", style="dim")
    else:
        yield Text(f"{count(len(done.removed), 'run')} removed, {size(done.freed_bytes)} given back.", style="dim")


async def diagnose(*, store: str | None, app: str | None) -> Told:
    """Which store and agents are meant here, why, and whether they can be used."""
    import platform
    import sqlite3

    import forkpoint

    facts: dict[str, Any] = {
        "forkpoint": forkpoint.__version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "store": await _store_facts(store),
        "agents": _agent_facts(app),
    }
    looked = (facts["store"], facts["store"].get("files", {}), facts["agents"])
    problems = [part["problem"] for part in looked if part.get("problem")]

    def view(terminal: bool) -> Iterator[Any]:
        yield from _fact_lines(facts)

    return Told(document=facts, view=view, status=1 if problems else 0)


async def _store_facts(given: str | None) -> dict[str, Any]:
    from forkpoint.cli.look import every_row
    from forkpoint.cli.opening import reading

    choice = chosen_store(given)
    facts: dict[str, Any] = {"name": choice.name, "chosen": choice.chosen, "exists": choice.exists}
    if not choice.exists or choice.path is None:
        return facts
    facts["bytes"] = choice.path.stat().st_size
    facts["writable"] = os.access(choice.path, os.W_OK)
    facts |= _files_facts(choice.path)
    try:
        async with reading(given) as shelf:
            rows = await every_row(shelf)
    except ForkpointError as error:
        return facts | {"problem": f"{error.code}: {error}"}
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.summary.status] = counts.get(row.summary.status, 0) + 1
    return facts | {"runs": len(rows), "statuses": counts}


def _files_facts(path: Path) -> dict[str, Any]:
    """Where the contents of workspaces lie beside a store, and whether they can be kept; nothing if there are none."""
    from forkpoint.workspace.store import ContentStore

    folder = path.with_name(f"{path.name}-files")
    if not folder.exists():
        return {}
    facts: dict[str, Any] = {"path": str(folder), "writable": os.access(folder, os.W_OK)}
    try:
        contents = ContentStore(folder)
    except ForkpointError as error:
        return {"files": facts | {"problem": f"{error.code}: {error}"}}
    facts |= {"bytes": contents.stored_bytes, "cap_bytes": contents.cap_bytes}
    contents.close()
    return {"files": facts}


def _agent_facts(given: str | None) -> dict[str, Any]:
    from forkpoint.agents.function import Function, name_of

    try:
        choice = chosen_app(given)
        if choice is None:
            return {"app": None, "chosen": "neither --app nor [tool.forkpoint] in a pyproject.toml names one"}
        facts = {"app": choice.name, "chosen": choice.chosen}
        app = loaded_app(choice)
    except ForkpointError as error:
        return {"problem": f"{error.code}: {error}"}
    return facts | {
        "agents": [
            {"name": one.name, "model": one.model_name, "tools": [tool.name for tool in one.tools]}
            for one in app.agents
        ],
        "functions": [name_of(one) if not isinstance(one, Function) else one.name for one in app.functions],
    }


def _fact_lines(facts: dict[str, Any]) -> Iterator[Any]:
    from rich.text import Text

    from forkpoint.cli.words import count, one_line, size

    yield f"forkpoint {facts['forkpoint']}, Python {facts['python']}, SQLite {facts['sqlite']}"
    store = facts["store"]
    yield Text.assemble(("store   ", "bold"), one_line(store["name"], 400), (f"  {store['chosen']}", "dim"))
    if not store["exists"]:
        yield "        not there yet; 'forkpoint start' makes it"
    if "runs" in store:
        said = ", ".join(f"{number} {status}" for status, number in sorted(store["statuses"].items()))
        access = "" if store["writable"] else ", can only be read"
        yield f"        {size(store['bytes'])}, {count(store['runs'], 'run')}{': ' if said else ''}{said}{access}"
    files = store.get("files", {})
    if "bytes" in files:
        access = "" if files["writable"] else ", can only be read"
        yield f"        {size(files['bytes'])} of at most {size(files['cap_bytes'])} in files of workspaces{access}"
    agents = facts["agents"]
    yield Text.assemble(("agents  ", "bold"), agents.get("app") or "", (f"  {agents.get('chosen', '')}", "dim"))
    for one in agents.get("agents", ()):
        yield f"        {one['name']}  {one_line(one['model'], 60)}  tools: {', '.join(one['tools']) or 'none'}"
    for name in agents.get("functions", ()):
        yield f"        {one_line(name, 60)}  a function"
    for part in (store, files, agents):
        if part.get("problem"):
            yield Text(f"        {one_line(part['problem'], 1000)}", style="red")
