"""Commands that perform runs, with the agents that --app names."""

from typing import Annotated

import typer

from forkpoint.cli.options import AcceptChanges, Actor, AppName, AsJson, RunName, Store, Workspace
from forkpoint.cli.output import carry_out

PANEL = "Perform"


def register(app: typer.Typer) -> None:
    """Add the commands that perform."""
    for command in (start, resume, recover):
        app.command(rich_help_panel=PANEL)(command)


def start(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.", show_default=False)],
    input: Annotated[
        str | None, typer.Argument(help="What to say first; @FILE reads it from a file.", show_default=False)
    ] = None,
    *,
    id: Annotated[
        str | None, typer.Option("--id", help="The run's id; else one is made of the agent's name.", show_default=False)
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A label of the run; may be repeated.")
    ] = None,
    workspace: Workspace = None,
    perform: Annotated[
        bool, typer.Option("--perform/--no-perform", help="Perform it here, or only record that it begins.")
    ] = True,
    actor: Actor = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Begin a run and perform it until it rests or waits. Makes the store if there is none.

    Exits with 1 if the turn failed. Starting a taken id with the same agent and input is the same run.
    """
    from forkpoint.cli.perform import start_run
    from forkpoint.cli.typed import labels_of, text_of

    work = start_run(
        agent,
        None if input is None else text_of(input),
        run_id=id,
        labels=labels_of(label),
        workspace=workspace,
        carry_on=perform,
        actor=actor,
        store=store,
        app=app,
        as_json=as_json,
    )
    carry_out(work, as_json=as_json)


def resume(
    run: RunName,
    *,
    accept_changes: AcceptChanges = False,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Perform what is due in a run until it rests or waits; a failed turn is tried again.

    Exits with 1 if the turn failed.
    """
    from forkpoint.cli.perform import resume_run

    work = resume_run(run, accept_changes=accept_changes, store=store, app=app, as_json=as_json)
    carry_out(work, as_json=as_json)


def recover(
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep watching, so that a decision made anywhere is acted on.")
    ] = False,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Perform what is due in every run that nobody owns: after a crash, or after decisions were made.

    Exits with 3 if some run could not be recovered. With --watch and --json, one document a line.
    """
    from forkpoint.cli.perform import recover_runs

    carry_out(recover_runs(watch=watch, store=store, app=app, as_json=as_json), as_json=as_json)
