"""Commands that travel in time: fork a run at a moment, compare runs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from forkpoint.cli.options import AcceptChanges, Actor, AppName, AsJson, Place, Store
from forkpoint.cli.output import carry_out

PANEL = "Travel in time"


class EffectsName(StrEnum):
    """What the tools of a fork do."""

    ASK = "ask"
    RECORDED = "recorded"
    LIVE = "live"


class PendingName(StrEnum):
    """What becomes of calls that the parent left open."""

    HOLD = "hold"
    RUN = "run"
    SKIP = "skip"


Result = Annotated[
    list[str] | None,
    typer.Option(metavar="CALL=JSON", help="Another result for this call, an effect's number or a call id."),
]
Error = Annotated[list[str] | None, typer.Option(metavar="CALL=TEXT", help="Let this call have failed with this text.")]
Input = Annotated[str | None, typer.Option(metavar="TEXT", help="What to say next; @FILE reads it.")]
Instructions = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Other instructions from here on; @FILE reads them.")
]
AppState = Annotated[str | None, typer.Option(metavar="JSON", help="Another application state; null clears it.")]
Arguments = Annotated[
    str | None,
    typer.Option(metavar="JSON", help="What a function is called with instead: an array or an object."),
]
Labels = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A label of the fork; may be repeated.")]
Effects = Annotated[
    EffectsName,
    typer.Option(
        metavar="ask|recorded|live",
        help="What its tools do. 'recorded': a call equal to one that the parent made after the fork point takes "
        "its outcome, the rest is live; 'ask': the same, and what is not read-only waits for a person; 'live'.",
    ),
]
PendingCalls = Annotated[
    PendingName,
    typer.Option(
        metavar="hold|run|skip",
        help="Calls that the parent left open: 'hold' asks a person, 'run' performs, 'skip' drops them.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands that travel."""
    for command in (fork, compare):
        app.command(rich_help_panel=PANEL)(command)


def fork(
    run: Place,
    *,
    result: Result = None,
    error: Error = None,
    input: Input = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Another model from here on.")] = None,
    instructions: Instructions = None,
    state: AppState = None,
    arguments: Arguments = None,
    id: Annotated[str | None, typer.Option("--id", help="The fork's id; else RUN.fork-N, the first free N.")] = None,
    label: Labels = None,
    workspace: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A new folder of its own, with the files as they were there.", show_default=False
        ),
    ] = None,
    effects: Effects = EffectsName.ASK,
    pending: PendingCalls = PendingName.HOLD,
    resume: Annotated[bool, typer.Option("--resume", help="Then perform the fork here.")] = False,
    accept_changes: AcceptChanges = False,
    actor: Actor = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Begin a new run that shares a run's past up to a moment, with a "what if" change.

    The parent stays as it is, and nothing is performed unless --resume is given. Without @AT it is the last event.
    """
    from forkpoint.cli.travel import fork_run
    from forkpoint.cli.typed import labels_of, patch_of

    patch = patch_of(
        results=result,
        errors=error,
        state=state,
        model=model,
        instructions=instructions,
        input=input,
        arguments=arguments,
    )
    work = fork_run(
        run,
        patch,
        run_id=id,
        effects=effects.value,
        pending=pending.value,
        labels=labels_of(label),
        workspace=workspace,
        carry_on=resume,
        accept_changes=accept_changes,
        actor=actor,
        store=store,
        app=app,
        as_json=as_json,
    )
    carry_out(work, as_json=as_json)


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="A[@AT] B[@AT] [C...]", help="Two runs in detail, or more as a table.", show_default=False
        ),
    ],
    *,
    usage: Annotated[bool, typer.Option("--usage", help="Compare tokens and cost as well.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write it as one page that needs no server.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs: what they share, the first step at which they differ, and how. Performs nothing."""
    from forkpoint.cli.travel import compare_runs

    work = compare_runs(runs, usage=usage, html=html, force=force, store=store, app=app)
    carry_out(work, as_json=as_json)
