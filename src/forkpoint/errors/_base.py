"""What every error of Forkpoint has: a stable code, what happened, why, and what to do."""

import string
from typing import Any, ClassVar, dataclass_transform

KINDS: dict[str, tuple[int, int]] = {
    "usage": (2, 400),
    "conflict": (3, 409),
    "data": (4, 422),
    "environment": (5, 503),
    "bug": (70, 500),
}
"""Each kind of error, with the exit status and the HTTP status that follow from it."""

REGISTRY: dict[str, type["ForkpointError"]] = {}
"""Every error class by its code, in the order they are declared."""


@dataclass_transform(kw_only_default=True)
class ForkpointError(Exception):
    """The base of every error that Forkpoint raises on purpose; never raised itself.

    A subclass names its values as annotated fields and says what happened in ``says``, a format
    string over exactly those values. Values become attributes, so that nobody parses messages.
    """

    code: ClassVar[str]
    kind: ClassVar[str]
    says: ClassVar[str]
    why: ClassVar[str]
    fix: ClassVar[str]

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        if abstract:
            return
        _check_declaration(cls)
        REGISTRY[cls.code] = cls

    def __init__(self, **values: Any) -> None:
        fields = _fields(type(self))
        if set(values) != set(fields):
            raise TypeError(f"{type(self).__name__} takes {sorted(fields)}, not {sorted(values)}")
        for name, value in values.items():
            setattr(self, name, value)
        super().__init__(self.says.format_map(values))

    def __reduce__(self) -> tuple[Any, ...]:
        values = {name: getattr(self, name) for name in _fields(type(self))}
        return _rebuild, (type(self), values)

    @property
    def exit_status(self) -> int:
        """The status a command line ends with."""
        return KINDS[self.kind][0]

    @property
    def http_status(self) -> int:
        """The status an HTTP answer carries."""
        return KINDS[self.kind][1]

    def as_json(self) -> dict[str, Any]:
        """The error as plain data: code, kind, what, why, fix and its values."""
        values = {name: getattr(self, name) for name in _fields(type(self))}
        plain = {k: v if isinstance(v, str | int | float | bool | None) else str(v) for k, v in values.items()}
        return {
            "code": self.code,
            "kind": self.kind,
            "what": str(self),
            "why": self.why,
            "fix": self.fix,
            "values": plain,
        }


def _rebuild(cls: type[ForkpointError], values: dict[str, Any]) -> ForkpointError:
    return cls(**values)


def _fields(cls: type[ForkpointError]) -> tuple[str, ...]:
    return tuple(name for name in cls.__annotations__)


def _check_declaration(cls: type[ForkpointError]) -> None:
    for part in ("code", "kind", "says", "why", "fix"):
        if not isinstance(cls.__dict__.get(part), str) or not cls.__dict__[part]:
            raise TypeError(f"{cls.__name__} declares no {part}")
    if cls.kind not in KINDS:
        raise TypeError(f"{cls.__name__}: {cls.kind!r} is not one of {sorted(KINDS)}")
    if cls.code in REGISTRY:
        raise TypeError(f"{cls.__name__}: the code {cls.code!r} belongs to {REGISTRY[cls.code].__name__}")
    used = {name for _, name, _, _ in string.Formatter().parse(cls.says) if name is not None}
    if used - set(_fields(cls)):
        raise TypeError(f"{cls.__name__}: says {sorted(used - set(_fields(cls)))} but does not declare it")
    if not cls.__doc__:
        raise TypeError(f"{cls.__name__} has no docstring; the errors page is made from it")
