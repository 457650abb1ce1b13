"""Arguments as callers give them, checked once where they enter: what does not fit is refused with a code."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import asdict

from forkpoint.definition import Limits
from forkpoint.errors import ArgumentUnfit


def one_of(argument: str, given: object, choices: Iterable[str]) -> None:
    """Raises ``argument.unfit`` unless ``given`` is one of ``choices``."""
    known = tuple(choices)
    if given not in known:
        raise unfit(argument, given, f"one of {', '.join(known)}")


def labels_of(given: Mapping[str, str] | None) -> dict[str, str] | None:
    """Labels as a run records them: texts by name, or none. Raises ``argument.unfit``."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise unfit("labels", given, "a mapping of texts to texts")
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise unfit("labels", {name: value}, "texts by name")
    return dict(given) or None


def checked_limits(given: Limits | None) -> Limits | None:
    """``given``, if each of its limits is a number above 0. Raises ``argument.unfit``."""
    if given is None:
        return None
    if not isinstance(given, Limits):
        raise unfit("limits", given, "a Limits")
    for name, value in asdict(given).items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (number and value > 0):
            raise unfit(f"limits.{name}", value, "a number above 0")
    return given


def unfit(argument: str, given: Any, takes: str) -> ArgumentUnfit:
    """The refusal of one argument."""
    return ArgumentUnfit(argument=argument, given=repr(given)[:80], takes=takes)
