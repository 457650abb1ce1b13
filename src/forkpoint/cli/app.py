"""The command line as one value: every command, in the order in which help shows them."""

from typing import Annotated

import typer

from forkpoint.cli import asking, exchanging, filing, keeping, performing, reading, travelling

app = typer.Typer(
    name="forkpoint",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from forkpoint import __version__

        typer.echo(f"forkpoint {__version__}")
        raise typer.Exit


@app.callback()
def forkpoint(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Durable AI agents you can travel in time with: recover, resolve, replay, fork and compare their runs.

    A moment of a run is written RUN@12 (an event), RUN@step:3, RUN@turn:2 or RUN@before:CALL; of a run's id, enough
    of the beginning will do. --store, --app and --json may stand before the command as well.
    """


for group in (performing, reading, asking, travelling, filing, exchanging, keeping):
    group.register(app)
