"""What a command tells, on its way out: one JSON document, or something pleasant to read."""

import os
import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import Struct

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PIPE_COLUMNS = 400
"""How wide a table may get where no terminal cuts it."""


class Told(Struct, frozen=True, kw_only=True):
    """What a command has to tell: plain data, and a way to show the same to a person, who may be at a terminal or not.

    ``document`` is None where everything was told on the way. ``status`` is the exit status.
    """

    document: Any
    view: "Callable[[bool], Iterable[RenderableType]]"
    status: int = 0


TERMINATED = 143
"""The exit status after SIGTERM, as shells have it."""


def carry_out(work: Coroutine[Any, Any, Told], *, as_json: bool) -> None:
    """Do a command's work and tell what came of it. SIGTERM calls it off as Ctrl-C does: in order, with leases back."""
    import asyncio

    try:
        told = asyncio.run(_until_told_off(work))
    except asyncio.CancelledError:
        told = Told(document=None, view=lambda _: (), status=TERMINATED)
    tell(told, as_json=as_json)


async def _until_told_off(work: Coroutine[Any, Any, Told]) -> Told:
    import asyncio
    import signal
    from contextlib import suppress

    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError):  # where an event loop cannot hear signals, the default ends the process
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work


def tell(told: Told, *, as_json: bool) -> None:
    """Write what a command has to tell to standard output, and end with its status."""
    if as_json and told.document is not None:
        write_json(told.document)
    elif not as_json:
        console = console_of(sys.stdout)
        for part in told.view(console.is_terminal):
            console.print(part, soft_wrap=not console.is_terminal and isinstance(part, str))
    if told.status:
        import typer

        raise typer.Exit(told.status)


def write_json(document: Any) -> None:
    """One JSON document on standard output."""
    from forkpoint.cli.words import harmless_json

    sys.stdout.write(harmless_json(document) + "\n")


def console_of(stream: TextIO) -> "Console":
    """A console on which text is text: no markup, no emoji codes, no guessed highlights."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            """Tell whoever runs the command, instead of ending the process from here."""
            raise BrokenPipeError

    # A pipe has no width to keep to; a narrow guess would cut ids that somebody wants to read on.
    narrow = stream.isatty() or "COLUMNS" in os.environ
    width = None if narrow else PIPE_COLUMNS
    return Plain(file=stream, markup=False, emoji=False, highlight=False, width=width)
