"""What a tool's own code meets: its ``ToolContext``, and the words for what it or its probe found out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from forkpoint.values import to_json


class OutcomeUnknown(Exception):
    """A tool raises this to say that it does not know whether its work was done.

    The call is recorded as unknown with ``text``, and recovered as the tool's class says: by its probe, or by
    a person. It is not shown to the model as a failure.
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True, slots=True)
class Occurred:
    """A probe found that the work was done; ``output`` is what the tool would have returned."""

    output: Any = None


@dataclass(frozen=True, slots=True)
class NotOccurred:
    """A probe found that the work was not done, and will not be done later: it is safe to do it now."""


@dataclass(frozen=True, slots=True)
class StillUnknown:
    """A probe could not find out; ``text`` says why. The run waits for a person."""

    text: str = ""


Finding: TypeAlias = Occurred | NotOccurred | StillUnknown
"""What a probe returns: exactly one of three."""


class ToolContext:
    """What a call knows of itself. A tool gets it when its first parameter is annotated with this type.

    ``idempotency_key`` is the same in every attempt of one call, and different in every fork: hand it to the
    service that does the work. ``attempt`` counts from 1. ``workspace`` is the folder that this run's files are
    in, ``None`` if it has none. In a test, make one with what the tool looks at:
    ``await charge(ToolContext(idempotency_key="k"), "17", 500)``.
    """

    __slots__ = (
        "_changed",
        "_is_cancelled",
        "_report",
        "_state",
        "attempt",
        "effect_id",
        "idempotency_key",
        "run_id",
        "workspace",
    )

    run_id: str
    effect_id: int
    idempotency_key: str
    attempt: int
    workspace: str | None
    _state: Mapping[str, Any]
    _report: Callable[[str], None] | None
    _is_cancelled: Callable[[], bool] | None
    _changed: dict[str, Any]

    def __init__(
        self,
        *,
        run_id: str = "",
        effect_id: int = 0,
        idempotency_key: str = "",
        attempt: int = 1,
        state: Mapping[str, Any] | None = None,
        report: Callable[[str], None] | None = None,
        is_cancelled: Callable[[], bool] | None = None,
        workspace: str | None = None,
    ) -> None:
        set_once = super().__setattr__
        set_once("run_id", run_id)
        set_once("effect_id", effect_id)
        set_once("idempotency_key", idempotency_key)
        set_once("attempt", attempt)
        set_once("workspace", workspace)
        set_once("_state", state or {})
        set_once("_report", report)
        set_once("_is_cancelled", is_cancelled)
        set_once("_changed", {})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a ToolContext cannot be changed ({name}); set_state changes the state")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a ToolContext cannot be changed ({name})")

    def __repr__(self) -> str:
        return f"ToolContext(run_id={self.run_id!r}, effect_id={self.effect_id}, attempt={self.attempt})"

    @property
    def state(self) -> Mapping[str, Any]:
        """The application's state as of the call, with this call's own changes. A copy that cannot be set."""
        now = {**self._state, **self._changed}
        return MappingProxyType({name: to_json(value) for name, value in now.items() if value is not _GONE})

    @property
    def cancelled(self) -> bool:
        """Whether the call should come to an end: it ran out of time, or a person interrupted the run.

        A tool that runs in a thread looks here from time to time; one that ends soon reports its true outcome.
        """
        return self._is_cancelled is not None and self._is_cancelled()

    @property
    def changes(self) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The keys this call has set with their values, and those it has removed."""
        changed = dict(self._changed)
        if not changed:
            return {}, ()
        gone = tuple(name for name, value in changed.items() if value is _GONE)
        return {name: value for name, value in changed.items() if value is not _GONE}, gone

    def set_state(self, **values: Any) -> None:
        """Set keys of the application's state. Recorded with the call's outcome, if it succeeds.

        Raises ``value.not-json``; then nothing is set.
        """
        self._changed.update({name: to_json(value) for name, value in values.items()})

    def unset_state(self, *names: str) -> None:
        """Remove keys of the application's state; one that is not there is no error."""
        self._changed.update(dict.fromkeys(names, _GONE))

    def progress(self, text: str) -> None:
        """Tell watchers something now. It is not recorded, and the model does not see it."""
        if self._report is not None:
            self._report(text)


_GONE: Any = object()
