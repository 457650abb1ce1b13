"""Commands about the store as a whole: verify, remove, and say what is meant here."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from forkpoint.cli.options import AppName, AsJson, Store
from forkpoint.cli.output import Told, carry_out, console_of, tell

PANEL = "Keep"

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def register(app: typer.Typer) -> None:
    """Add the commands that keep."""
    for command in (verify, delete, prune, doctor, demo):
        app.command(rich_help_panel=PANEL)(command)


def verify(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Only this run and its past; all of them if left out.")
    ] = None,
    *,
    fold: Annotated[
        bool, typer.Option("--fold", help="Also rebuild every state, and hold caches and requests against it.")
    ] = False,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Check that what the store holds is what was written: every event, digest and blob. Writes nothing.

    Exits with 4 if something was altered. That the whole file was put back to an earlier moment cannot be seen.
    """
    from forkpoint.cli.keep import verify_store

    carry_out(verify_store(run, fold=fold, store=store, app=app), as_json=as_json)


def delete(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or enough of its beginning.")],
    *,
    yes: Yes = False,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Remove one run for good. What its forks share stays, unlisted, and its id stays taken."""
    from forkpoint.cli.keep import delete_run

    carry_out(delete_run(run, yes=yes, store=store, ask=not as_json), as_json=as_json)


def prune(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Remove these runs.", show_default=False)
    ] = None,
    *,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Remove runs that nothing was written to for so long: 30d, 12h, 90min."),
    ] = None,
    unused: Annotated[
        bool, typer.Option("--unused", help="Remove no run; only give back blobs and room that nothing needs.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    yes: Yes = False,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Remove whole runs, then give back the room that nothing needs any more.

    By age, a run that is performed stays, and so does one with an effect of which nobody knows whether it happened.
    """
    from forkpoint.cli.keep import prune_runs
    from forkpoint.cli.typed import seconds_of

    age_s = None if older_than is None else seconds_of(older_than, "--older-than")
    named = () if unused and not runs else tuple(runs) if runs else None
    work = prune_runs(named, older_than_s=age_s, dry_run=dry_run, yes=yes, store=store, ask=not as_json)
    carry_out(work, as_json=as_json)


def doctor(*, store: Store = None, app: AppName = None, as_json: AsJson = False) -> None:
    """Say which store and which agents are meant here, and why, and whether both can be used."""
    from forkpoint.cli.keep import diagnose

    carry_out(diagnose(store=store, app=app), as_json=as_json)


class StoryName(StrEnum):
    """What a demo is about."""

    BILLING = "billing"
    CODING = "coding"


def demo(
    story: Annotated[
        StoryName, typer.Argument(metavar="billing|coding", help="Which story.", show_default=False)
    ] = StoryName.BILLING,
    *,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="An empty or new folder for it; else a temporary one.", show_default=False),
    ] = None,
    pause: Annotated[bool, typer.Option("--pause", help="Wait for Enter before each command, to present it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Watch a whole story, offline: a crash, a recovery, a decision, a fork and a comparison.

    'billing', if none is named: real processes, really killed. 'coding': real files, edited, spoilt, rewound and
    forked. Both happen in a folder that is kept, so that what they show can be typed and looked at afterwards.
    What they tell is checked as they go; they end with 70 if anything is not so.
    """
    if story is StoryName.CODING:
        from forkpoint.demo.coding import run_coding as play
    else:
        from forkpoint.demo.story import run_demo as play
    account = play(folder, console=None if as_json else console_of(sys.stdout), pause=pause)
    tell(Told(document=account.as_json(), view=lambda _: ()), as_json=as_json)
