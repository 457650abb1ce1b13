"""An error as people read it: what happened, why, and what to do."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from forkpoint.cli.words import paragraph
from forkpoint.errors import ForkpointError


def error_lines(error: ForkpointError) -> Iterator[RenderableType]:
    """What happened with its values, why that is so, what to do, and the code to look it up by."""
    yield Text(paragraph(str(error), 2000), style="bold red")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_row("  why:", error.why)
    table.add_row("  fix:", Text(error.fix, style="green"))
    table.add_row("  code:", Text(error.code, style="dim"))
    yield table
