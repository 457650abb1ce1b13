"""The command line's entry point: from what was typed to an exit status."""

import os
import sys
import traceback
from collections.abc import Sequence

from forkpoint.cli.output import TERMINATED
from forkpoint.errors import CommandCrashed, CommandUnfit, ForkpointError

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""

BROKEN_PIPE = 141
"""The exit status when whoever read our output went away, as shells have it."""

_VALUED = ("--store", "--app")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on ``arguments`` (``sys.argv`` if left out) and give its exit status.

    0: done. 1: a run's turn failed. 2 to 5 and 70: an error of the kind usage, conflict, data, environment or bug.
    130 and 143: interrupted by Ctrl-C or SIGTERM.
    """
    typed = forward(list(sys.argv[1:] if arguments is None else arguments))
    _print_whatever_comes()
    try:
        return _run(typed)
    except BrokenPipeError:
        # Python flushes standard output when it ends, and would complain about the same pipe once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except ForkpointError as error:
        _tell(error, as_json=wants_json(typed))
        return error.exit_status
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:
        crash = CommandCrashed(error=f"{type(error).__name__}: {error}", place=_place(error))
        _tell(crash, as_json=wants_json(typed), cause=error)
        return crash.exit_status


def _run(typed: list[str]) -> int:
    import typer

    from forkpoint.cli.app import app

    refused: type[Exception] = typer.BadParameter.__mro__[
        2
    ]  # the base of all that the parser refuses; unnamed by typer
    try:
        status = app(args=typed, prog_name="forkpoint", standalone_mode=False)
    except typer.Abort:
        return _interrupted()
    except refused as error:
        raise CommandUnfit(detail=_without_stop(error)) from error
    sys.stdout.flush()
    if status in (INTERRUPTED, TERMINATED):
        return _interrupted(status)
    return status if isinstance(status, int) else 0


def _without_stop(error: BaseException) -> str:
    words: str = getattr(error, "format_message", lambda: str(error))()
    return words.strip().rstrip(".").replace("\n", " ")


def forward(typed: list[str]) -> list[str]:
    """``typed`` with --store, --app and --json moved behind the command's name, where commands take them; nothing
    typed asks for help."""
    ahead: list[str] = []
    rest = list(typed)
    if not rest:
        return ["--help"]
    while rest and rest[0].startswith("-"):
        if rest[0] == "--json" or rest[0].startswith(tuple(f"{name}=" for name in _VALUED)):
            ahead.append(rest.pop(0))
        elif rest[0] in _VALUED and len(rest) > 1:
            ahead += [rest.pop(0), rest.pop(0)]
        else:
            return typed
    return [rest[0], *ahead, *rest[1:]] if rest else typed


def wants_json(typed: Sequence[str]) -> bool:
    """Whether errors are to be JSON as well."""
    options = typed[: typed.index("--")] if "--" in typed else typed
    return "--json" in options


def _print_whatever_comes() -> None:
    """A terminal that cannot show a character is shown an escape in its place, not an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _tell(error: ForkpointError, *, as_json: bool, cause: BaseException | None = None) -> None:
    if as_json:
        from forkpoint.cli.words import harmless_json

        sys.stderr.write(harmless_json(error.as_json()) + "\n")
        return
    from forkpoint.cli.output import console_of
    from forkpoint.cli.render_error import error_lines
    from forkpoint.cli.words import safe

    console = console_of(sys.stderr)
    for line in error_lines(error):
        console.print(line)
    if cause is not None:
        sys.stderr.write(safe("".join(traceback.format_exception(cause))))


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"


def _interrupted(status: int = INTERRUPTED) -> int:
    sys.stderr.write("Interrupted. What was recorded stays; a run goes on with 'forkpoint resume' or 'recover'.\n")
    return status
