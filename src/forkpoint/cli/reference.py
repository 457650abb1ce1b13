"""``python -m forkpoint.cli.reference``: docs/command-line.md, made from the commands themselves."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OPENING = """\
# The command line

<!-- Made by `python -m forkpoint.cli.reference`; do not edit. -->

A moment of a run is written `RUN@12` (an event's number), `RUN@step:3`, `RUN@turn:2` or `RUN@before:CALL`. Instead of
a run's whole id, the beginning of just one will do (forks named after their parent aside).

**The store** is `--store`, else the variable `FORKPOINT_STORE`, else `.forkpoint/runs.db` in this folder or the nearest
one above it that has it. Only `start` and `import` make a store. Commands that look open it for reading.

**The agents** are what `--app module:name` names: an `Agent`, a list or tuple of them, a `forkpoint.App` (agents with
the models, secrets and hooks that `connect` takes), or a function that returns one of these. Without the option it is

```toml
[tool.forkpoint]
app = "module:name"
```

in the nearest `pyproject.toml`, whose folder is put on Python's path. Commands that look load no agents, unless `--app`
is given: a store whose payloads an app encodes is read with that app's codec.

**JSON.** With `--json` a command prints one JSON document on standard output, and an error as one on standard error.
`watch` and `recover --watch` print one document a line.

**Text from a run is text.** Control characters, escape sequences and direction marks in it are spelled out (`\\x1b`),
never obeyed. Long values are cut where nothing else is said; `show RUN --step N --full` shows them whole.

**Exit status:** 0 done; 1 the turn of a run that was performed failed; 2 usage; 3 conflict; 4 data that is not as it
should be; 5 the environment; 70 a fault of Forkpoint; 130 and 143 interrupted, by Ctrl-C or
SIGTERM: what was recorded stays, leases are given back, and the run can be resumed.
"""

_EVERYWHERE = ("store", "app", "as_json")
"""Options that most commands share; the opening tells of them."""


def reference() -> str:
    """The page: what holds for every command, then each with its arguments and options."""
    from typer.main import get_command

    from forkpoint.cli.app import app

    group: Any = get_command(app)
    lines = [_OPENING, *_index(group.commands)]
    for name, command in group.commands.items():
        lines += _command(name, command)
    return "\n".join(lines).rstrip() + "\n"


def _index(commands: dict[str, Any]) -> Iterator[str]:
    yield "| Command | |"
    yield "| --- | --- |"
    for name, command in commands.items():
        first = inspect.cleandoc(command.help).split("\n\n", 1)[0].replace("\n", " ")
        yield f"| [`{name}`](#{name}) | {_cell(first)} |"
    yield ""


def _command(name: str, command: Any) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    known = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    options = [one for one in known if one.name not in _EVERYWHERE]
    words = " ".join(_usage(one) for one in arguments)
    yield f"    forkpoint {name} {words}".rstrip() + " [OPTIONS]"
    yield ""
    yield inspect.cleandoc(command.help)
    yield ""
    if arguments or options:
        yield "| | |"
        yield "| --- | --- |"
        for one in arguments:
            yield f"| `{_metavar(one)}` | {_cell(one.help or '')} |"
        for one in options:
            yield f"| `{_cell(_option(one))}` | {_cell(_help(one))} |"
        yield ""
    shared = [f"`{one.opts[0]}`" for one in known if one.name in _EVERYWHERE]
    yield f"Also {', '.join(shared)}."
    yield ""


def _usage(argument: Any) -> str:
    return _metavar(argument) if argument.required else f"[{_metavar(argument).strip('[]')}]"


def _metavar(parameter: Any) -> str:
    named: str = parameter.metavar or parameter.name.upper()
    return named


def _option(option: Any) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    return names if option.is_flag else f"{names} {_metavar(option)}"


def _help(option: Any) -> str:
    words = option.help or ""
    default = getattr(option.default, "value", option.default)
    if default in (None, False, "", ()) or option.is_flag:
        return words
    return f"{words} Default: `{default}`."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write the page into the checkout that this module belongs to."""
    place = Path(__file__).parents[3] / "docs" / "command-line.md"
    place.write_text(reference(), "utf-8")
    sys.stdout.write(f"{place}\n")


if __name__ == "__main__":
    main()
