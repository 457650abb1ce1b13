"""The options that many commands share, each with one name and one meaning."""

from pathlib import Path
from typing import Annotated

import typer

Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="STORE",
        help="The store; else FORKPOINT_STORE, else .forkpoint/runs.db here or in the nearest folder above.",
        show_default=False,
        rich_help_panel="Everywhere",
    ),
]
AppName = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:NAME",
        help="Where the agents are; else 'app' in the table tool.forkpoint of the nearest pyproject.toml.",
        show_default=False,
        rich_help_panel="Everywhere",
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document instead.", rich_help_panel="Everywhere"),
]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id, or enough of its beginning.", show_default=False)
]
Place = Annotated[
    str,
    typer.Argument(
        metavar="RUN[@AT]",
        help="A run, or a moment of it: RUN@12, RUN@step:3, RUN@turn:2, RUN@before:CALL.",
        show_default=False,
    ),
]
EffectName = Annotated[
    str,
    typer.Argument(
        metavar="EFFECT", help="The effect's number, or the call id ('forkpoint waits').", show_default=False
    ),
]
Actor = Annotated[
    str | None,
    typer.Option("--actor", metavar="WHO", help="Who asks this; it is recorded.", show_default=False),
]
Workspace = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The folder whose files belong to the run.", show_default=False),
]
Resume = Annotated[bool, typer.Option("--resume", help="Then perform the run here, until it rests or waits.")]
AcceptChanges = Annotated[
    bool,
    typer.Option("--accept-changes", help="Go on under a changed definition of the agent, and record that."),
]
