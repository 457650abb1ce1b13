"""Commands that only look: nothing is performed, no agent is loaded, no store is made."""

from typing import Annotated

import typer

from forkpoint.cli.options import AppName, AsJson, Place, RunName, Store
from forkpoint.cli.output import carry_out

PANEL = "Look"


def register(app: typer.Typer) -> None:
    """Add the commands that look."""
    for command in (runs, show, request, waits, tree, watch):
        app.command(rich_help_panel=PANEL)(command)


def runs(
    *,
    status: Annotated[
        str | None, typer.Option(help="Only runs that are running, waiting, paused, idle, failed or stopped.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only runs of this agent.")] = None,
    parent: Annotated[str | None, typer.Option(metavar="RUN", help="Only forks of this run.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Only runs whose id begins so.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only runs with this label; may be repeated.")
    ] = None,
    due: Annotated[bool, typer.Option("--due", help="Only runs for which there is something to perform.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many runs a page has.")] = 50,
    after: Annotated[
        int | None, typer.Option(metavar="CURSOR", help="The next page, as told by the one before.")
    ] = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first.

    The STATUS of a waiting run says how many decisions it needs; 'unowned' means that nobody performs a run that has
    something to do ('forkpoint recover' does). COST is what is known, and how many calls cost nobody knows what: 2?.
    """
    from forkpoint.cli.look import list_runs
    from forkpoint.cli.typed import labels_of, status_of
    from forkpoint.ports import RunFilter

    which = RunFilter(
        status=status_of(status), agent=agent, parent=parent, prefix=prefix, labels=labels_of(label), due=due or None
    )
    carry_out(list_runs(store, app, which, after=after, limit=limit), as_json=as_json)


def show(
    run: Place,
    *,
    step: Annotated[int | None, typer.Option(min=1, help="Only this step, with whole arguments and results.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Cut no value, however long.")] = False,
    events: Annotated[bool, typer.Option("--events", help="List the events instead of telling the story.")] = False,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only events of this kind (settled, resolved, ...); may be repeated.")
    ] = None,
    status: Annotated[
        str | None, typer.Option(help="Only outcomes that are succeeded, failed, cancelled or unknown, or a decision.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Only events in which this text occurs, in any case.")] = None,
    page: Annotated[int | None, typer.Option(min=1, help="This page, from 1; else the last stretch.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many steps or events a page has.")] = 100,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Tell a run, now or as it stood at a moment: turns, steps, calls and their outcomes, waits, forks.

    With --events, or any of --kind, --status and --text, its events are listed instead. A page keeps its events while
    the run goes on.
    """
    from forkpoint.cli.choosing import EventFilter
    from forkpoint.cli.look import show_events, show_step, show_story

    which = EventFilter(kinds=tuple(kind or ()), status=status, text=text)
    if events or which.restricts:
        work = show_events(store, app, run, which, page=page, limit=limit, full=full)
    elif step is not None:
        work = show_step(store, app, run, step, full=full)
    else:
        work = show_story(store, app, run, page=page, limit=limit, full=full)
    carry_out(work, as_json=as_json)


def request(
    run: Annotated[
        str, typer.Argument(metavar="RUN@step:N", help="A run and one of its steps; the last one if left out.")
    ],
    *,
    full: Annotated[bool, typer.Option("--full", help="Cut no value, however long.")] = False,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Show exactly what the model was shown for a step, checked against the digest on record.

    Inside a past that a fork shares, that is what the parent's model saw.
    """
    from forkpoint.cli.look import show_request

    carry_out(show_request(store, app, run, full=full), as_json=as_json)


def waits(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Only this run's; all of the store's if left out.")
    ] = None,
    *,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """List every decision that some run needs, oldest run first, with what to type."""
    from forkpoint.cli.look import list_waits

    carry_out(list_waits(store, app, run), as_json=as_json)


def tree(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Only the family of this run; all of them if left out.")
    ] = None,
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many families are shown, newest first.")] = 50,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Show runs and their forks as trees, with the place where each fork left its parent."""
    from forkpoint.cli.look_tree import show_tree

    carry_out(show_tree(store, run, limit=limit), as_json=as_json)


def watch(
    run: RunName,
    *,
    after: Annotated[
        int | None, typer.Option(metavar="SEQ", help="Begin after this event (0: the first); now, if left out.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Go on until interrupted, or end once the run is not running.")
    ] = True,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Print a run's events as they are recorded, by whichever process. With --json, one document a line.

    A stopped run has no more events, so watching it ends.
    """
    from forkpoint.cli.live import watch_run

    carry_out(watch_run(store, app, run, after=after, follow=follow, as_json=as_json), as_json=as_json)
