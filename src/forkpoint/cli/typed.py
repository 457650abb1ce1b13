"""What people type, turned into values: labels, statuses, JSON, patches. Pure but for reading a named file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from forkpoint.errors import CommandFileUnusable, CommandUnfit
from forkpoint.ports import Status

if TYPE_CHECKING:
    from forkpoint.timetravel.patches import Patch


def status_of(given: str | None) -> Status | None:
    """A run's status. Raises ``cli.unfit``."""
    known = get_args(Status)
    if given is not None and given not in known:
        raise CommandUnfit(detail=f"--status {given} is none of {', '.join(known)}")
    return given  # type: ignore[return-value]


def labels_of(given: Sequence[str] | None) -> Mapping[str, str]:
    """``NAME=VALUE`` each. Raises ``cli.unfit``."""
    labels = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise CommandUnfit(detail=f"--label {one} is not of the form NAME=VALUE")
        labels[name] = value
    return labels


def text_of(given: str) -> str:
    """A text, or with ``@`` before it the content of that file; ``@@`` is a text that begins with one ``@``."""
    if given.startswith("@@"):
        return given[1:]
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise CommandFileUnusable(path=given[1:], detail=str(error)) from error


def json_of(given: str, option: str) -> Any:
    """A JSON value, or with ``@`` before it that in a file. Raises ``cli.unfit``."""
    text = text_of(given) if given.startswith("@") else given
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError) as error:
        hint = "; a text needs quotes: '\"…\"'" if _is_word(text) else ""
        raise CommandUnfit(detail=f"{option} is not JSON ({error}){hint}") from error


def _is_word(text: str) -> bool:
    return bool(text) and text[0] not in '[{"'


def results_of(results: Sequence[str] | None, errors: Sequence[str] | None) -> dict[str | int, Any]:
    """``CALL=JSON`` and ``CALL=TEXT`` each, by call: digits are an effect's number, anything else a call id."""
    from forkpoint.timetravel.patches import ToolError

    found: dict[str | int, Any] = {}
    for option, given in (("--result", results), ("--error", errors)):
        for one in given or ():
            call, equals, value = one.partition("=")
            if not equals or not call:
                raise CommandUnfit(detail=f"{option} {one[:80]} is not of the form CALL=VALUE")
            name = int(call) if call.isascii() and call.isdigit() else call
            if name in found:
                raise CommandUnfit(detail=f"the call {call} is given two results")
            found[name] = json_of(value, f"{option} {call}") if option == "--result" else ToolError(text_of(value))
    return found


def patch_of(
    *,
    results: Sequence[str] | None,
    errors: Sequence[str] | None,
    state: str | None,
    model: str | None,
    instructions: str | None,
    input: str | None,
    arguments: str | None = None,
) -> "Patch":
    """The patch that a fork's options make. Raises ``cli.unfit``."""
    from forkpoint.timetravel.patches import Patch

    parts: dict[str, Any] = {"tool_results": results_of(results, errors)}
    if state is not None:
        parts["state"] = _object_of(state)
    if model is not None:
        parts["model"] = model
    if instructions is not None:
        parts["instructions"] = text_of(instructions)
    if input is not None:
        parts["input"] = text_of(input)
    if arguments is not None:
        parts["arguments"] = json_of(arguments, "--arguments")
    return Patch(**parts)


def _object_of(given: str) -> Mapping[str, Any] | None:
    value = json_of(given, "--state")
    if value is not None and not isinstance(value, dict):
        raise CommandUnfit(detail="--state is neither a JSON object nor null")
    return value


def seconds_of(given: str, option: str) -> float:
    """A duration: ``90s``, ``15min``, ``12h``, ``30d``, ``4w``. Raises ``cli.unfit``."""
    units = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
    number = given.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = units.get(given[len(number) :].strip())
    try:
        amount = float(number)
    except ValueError:
        amount = -1.0
    if unit is None or not 0 <= amount < 1e9:
        raise CommandUnfit(detail=f"{option} {given} is no duration like 90s, 15min, 12h, 30d or 4w")
    return amount * unit
