"""Commands that bring runs in from files, and write runs to files."""

from pathlib import Path
from typing import Annotated

import typer

from forkpoint.cli.options import AppName, AsJson, Place, Store
from forkpoint.cli.output import carry_out

PANEL = "Exchange"


def register(app: typer.Typer) -> None:
    """Add the commands that exchange."""
    app.command(name="import", rich_help_panel=PANEL)(bring_in)
    app.command(rich_help_panel=PANEL)(export)


def bring_in(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to read.", show_default=False)],
    *,
    format: Annotated[
        str,
        typer.Option(
            metavar="FORMAT", help="What the file is: openai-chat, tau-bench, or forkpoint (an exact export)."
        ),
    ] = "openai-chat",
    agent: Annotated[
        str, typer.Option(help="The agent that the runs record; one of that name can go on with their forks.")
    ] = "imported",
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A label of every run; may be repeated.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Make new runs of conversations that were imported before.")
    ] = False,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Turn recorded conversations into runs, and report what had to be repaired. Makes the store if there is none.

    Importing a file again changes nothing. What is not such a file is refused, with the line or path that shows it.
    """
    from forkpoint.cli.exchange import import_runs
    from forkpoint.cli.typed import labels_of

    labels = labels_of(label)
    work = import_runs(file, format=format, agent=agent, labels=labels, again=again, store=store, app=app)
    carry_out(work, as_json=as_json)


def export(
    run: Place,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file to write, or - for standard output.", show_default=False)
    ],
    *,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="openai-chat, forkpoint (every event exactly; can be imported again), html (one page that needs no "
            "server) or otel (OpenTelemetry spans as OTLP/JSON, for any collector). Else by the file's ending: .html, "
            ".jsonl for forkpoint, anything else openai-chat.",
            show_default=False,
        ),
    ] = None,
    content: Annotated[
        bool, typer.Option("--content", help="With otel: also what people, models and tools said.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    store: Store = None,
    app: AppName = None,
    as_json: AsJson = False,
) -> None:
    """Write a run, now or as it stood at a moment, to a file of its user's only.

    The file is written whole or not at all; a link is never followed, and no file replaced without --force.
    """
    from forkpoint.cli.exchange import export_to

    work = export_to(run, file, format=format, content=content, force=force, store=store, app=app, as_json=as_json)
    carry_out(work, as_json=as_json)
