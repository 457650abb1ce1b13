"""Commands about the files of a run: as they were at any moment, and back to it."""

from typing import Annotated

import typer

from forkpoint.cli.options import Actor, AppName, AsJson, Place, RunName, Store
from forkpoint.cli.output import carry_out
from forkpoint.errors import CommandUnfit

PANEL = "Files"


def register(app: typer.Typer) -> None:
    """Add the commands about files."""
    for command in (files, rewind):
        app.command(rich_help_panel=PANEL)(command)


def files(
    run: Place,
    *,
    changes: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B", help="What differs between two moments (12, step:3, turn:1), as a diff for each file."
        ),
    ] = None,
    cat: Annotated[
        str | None, typer.Option(metavar="PATH", help="One file's content; byte for byte in a pipe.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option(metavar="PATH", help="What is known of a path: who changed it, and when.")
    ] = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """List a run's files, now or as they were at a moment: kind, mode, size, and what is not held and why.

    They are told from snapshots; the live folder is not looked at, and need not be there any more.
    """
    from forkpoint.cli import files as work

    if sum(one is not None for one in (changes, cat, explain)) > 1:
        raise CommandUnfit(detail="One of --changes, --cat and --explain is enough")
    if "@" in run and (changes is not None or explain is not None):
        raise CommandUnfit(detail=f"{run} names a moment; --changes and --explain take the run alone")
    if changes is not None:
        told = work.show_changes(store, app, run, *changes)
    elif cat is not None:
        told = work.show_content(store, app, run, cat)
    elif explain is not None:
        told = work.explain_path(store, app, run, explain)
    else:
        told = work.list_files(store, app, run)
    carry_out(told, as_json=as_json)


def rewind(
    run: RunName,
    *,
    turn: Annotated[int | None, typer.Option(metavar="N", help="To before the run changed files in turn N.")] = None,
    step: Annotated[int | None, typer.Option(metavar="N", help="To right after step N.")] = None,
    at: Annotated[int | None, typer.Option(metavar="SEQ", help="To as it was at this event.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Put back what the last rewind changed.")] = False,
    finish: Annotated[bool, typer.Option("--continue", help="Carry a rewind that was cut off to its end.")] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Take back what a rewind that was cut off had done.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what it would do, as a diff for each file.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Also what somebody else changed as well since.")] = False,
    git: Annotated[bool, typer.Option("--git", help="Also what is held of a .git.")] = False,
    path: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Only this path and what lies below; may be repeated.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask, even if it deletes more than half of the files.")
    ] = False,
    actor: Actor = None,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Put a run's files back as they were, and say which: what the run created goes, what it deleted returns.

    What others changed is kept, with the reason. The state before is held first, so that --undo brings back every byte.
    Refused while somebody performs the run.
    """
    from forkpoint.cli.files import Wanted, rewind_run

    wanted = Wanted(
        turn=turn,
        step=step,
        at=at,
        undo=undo,
        finish=finish,
        abort=abort,
        dry_run=dry_run,
        force=force,
        git=git,
        paths=tuple(path) if path else None,
        yes=yes,
        actor=actor,
    )
    carry_out(rewind_run(run, wanted.checked(), store=store, app=app, ask=not as_json), as_json=as_json)
