"""An error as people read it: what happened, why, and what to do."""

from collections.abc import Iterator

from rich.text import Text

from forkpoint.cli.words import paragraph
from forkpoint.errors import ForkpointError


def error_lines(error: ForkpointError) -> Iterator[Text]:
    """What happened with its values, why that is so, what to do, and the code to look it up by."""
    yield Text(paragraph(str(error), 2000), style="bold red")
    yield Text.assemble(("  why:  ", "dim"), error.why)
    yield Text.assemble(("  fix:  ", "dim"), (error.fix, "green"))
    yield Text.assemble(("  code: ", "dim"), (error.code, "dim"))
