"""Functions whose runs are recorded, and steps: pieces of somebody's own code that are performed once."""

import contextlib
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar, overload

import msgspec

from forkpoint._canon import canonical
from forkpoint.agents import annotations
from forkpoint.agents.asking import ASKER
from forkpoint.agents.calling import ToolContext
from forkpoint.effects import ATTEMPTS, Recovery
from forkpoint.errors import FunctionUnfit, PatchBad, ValueNotJson
from forkpoint.messages import Part, Text
from forkpoint.values import to_json

P = ParamSpec("P")
R = TypeVar("R")

_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

_ARGUMENTS = "arguments"
"""Under which name an input's ``extra`` holds the arguments of a function."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Function(Generic[P, R]):
    """A function whose runs can be recorded. Calling it calls the function, with nothing recorded."""

    name: str
    function: Callable[P, R]
    is_async: bool = field(init=False)
    _signature: inspect.Signature = field(init=False, repr=False)
    _converters: Mapping[str, Callable[[Any], Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.function) or not self.name or "<" in self.name:
            raise FunctionUnfit(function=self.name or repr(self.function), problem="it has no name to be known by")
        set_field = functools.partial(object.__setattr__, self)
        set_field("is_async", _is_async(self.function))
        set_field("_signature", inspect.signature(self.function))
        set_field("_converters", _converters(self.function))
        set_field("__wrapped__", self.function)
        set_field("__doc__", self.function.__doc__)
        set_field("__name__", self.name)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def written(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call as JSON. Raises ``function.unfit``."""
        try:
            bound = self._signature.bind(*args, **named)
            return {"args": to_json(list(bound.args)), "named": to_json(dict(bound.kwargs))}
        except (TypeError, ValueNotJson) as error:
            raise FunctionUnfit(function=self.name, problem=f"its arguments: {error}") from error

    def bound(self, written: Mapping[str, Any]) -> inspect.BoundArguments:
        """The call that ``written`` is, with each argument as its annotation asks. Raises ``function.unfit``."""
        try:
            bound = self._signature.bind(*written["args"], **written["named"])
            for name, value in bound.arguments.items():
                kind = self._signature.parameters[name].kind
                convert = self._converters.get(name)
                if convert is not None and kind not in _MANY:
                    bound.arguments[name] = convert(value)
        except (TypeError, ValueError, msgspec.ValidationError) as error:
            raise FunctionUnfit(function=self.name, problem=f"its recorded arguments: {error}") from error
        return bound

    def result(self, value: Any) -> Any:
        """A recorded result as the function's annotation says. Raises ``function.unfit``."""
        return converted(self._converters.get("return"), value, self.name)


@dataclass(frozen=True, kw_only=True, eq=False)
class Step(Generic[P, R]):
    """A piece of somebody's own code whose outcome is recorded. Made by ``step``.

    Calling it in a recorded function makes it an effect; anywhere else it calls the function.
    """

    name: str
    function: Callable[P, R]
    recovery: Recovery = Recovery.HOLD
    approval: bool = False
    timeout_s: float | None = None
    attempts: int = ATTEMPTS
    is_async: bool = field(init=False)
    takes_context: bool = field(init=False)
    _signature: inspect.Signature = field(init=False, repr=False)
    _converters: Mapping[str, Callable[[Any], Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        set_field = functools.partial(object.__setattr__, self)
        signature, hints = inspect.signature(self.function), _hints(self.function)
        first = next(iter(signature.parameters), "")
        takes_context = hints.get(first) is ToolContext
        if takes_context:
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        set_field("is_async", _is_async(self.function))
        set_field("takes_context", takes_context)
        set_field("_signature", signature)
        set_field("_converters", _converters(self.function))
        set_field("__wrapped__", self.function)
        set_field("__doc__", self.function.__doc__)
        set_field("__name__", self.name)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        asker = ASKER.get()
        if asker is None:
            return self.function(*args, **kwargs)
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        result: R = asker.step_called(self, bound.arguments)
        return result

    def edited(self, arguments: Any) -> dict[str, Any]:
        """The arguments that a person set, as the function's annotations ask. Raises ``function.unfit``."""
        try:
            bound = self._signature.bind(**arguments)
        except TypeError as error:
            raise FunctionUnfit(function=self.name, problem=f"the arguments that a person set: {error}") from error
        bound.apply_defaults()
        return {
            name: converted(self._converters.get(name), value, self.name) for name, value in bound.arguments.items()
        }

    def call(self, ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        """Call the function with bound arguments: its result, or what to await if it is async."""
        bound = inspect.BoundArguments(self._signature, dict(arguments))
        function: Callable[..., Any] = self.function
        given = (ctx, *bound.args) if self.takes_context else bound.args
        return function(*given, **bound.kwargs)

    def result(self, value: Any) -> Any:
        """A recorded result as the function's annotation says. Raises ``function.unfit``."""
        return converted(self._converters.get("return"), value, self.name)


@overload
def step(function: Callable[P, R], /) -> Step[P, R]: ...


@overload
def step(
    *,
    name: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    approval: bool = False,
    timeout_s: float | None = None,
    attempts: int | None = None,
) -> Callable[[Callable[P, R]], Step[P, R]]: ...


def step(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a step of recorded functions: ``@step``, or ``@step(idempotent=True, …)``.

    Its outcome is recorded once; on replay it is given from the record, converted as the function's return
    annotation says. ``read_only`` and ``idempotent`` say what a restart may do about one that was lost, as for a
    tool; without them a person is asked. Its first parameter may be a ``ToolContext``, which no caller gives.
    Raises ``function.unfit``.
    """
    if function is not None:
        return _step(function, **options)
    return lambda decorated: _step(decorated, **options)


def _step(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    approval: bool = False,
    timeout_s: float | None = None,
    attempts: int | None = None,
) -> Step[..., Any]:
    called = name or name_of(function)
    if read_only and idempotent:
        raise FunctionUnfit(function=called, problem="read_only and idempotent say different things; keep one")
    if (attempts is not None and attempts < 1) or (timeout_s is not None and not timeout_s > 0):
        raise FunctionUnfit(function=called, problem="attempts is 1 or more, timeout_s above 0")
    recovery = Recovery.REPEAT if read_only else Recovery.RETRY if idempotent else Recovery.HOLD
    return Step(
        name=called,
        function=function,
        recovery=recovery,
        approval=approval,
        timeout_s=timeout_s,
        attempts=ATTEMPTS if attempts is None else attempts,
    )


@overload
def record(function: Callable[P, R], /) -> Function[P, R]: ...


@overload
def record(*, name: str | None = None) -> Callable[[Callable[P, R]], Function[P, R]]: ...


def record(function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """Make a function one whose runs can be recorded: ``@record``, or ``@record(name="…")``.

    ``runtime.record(run_id, function, *args)`` takes any function; with this it has a name of its choice, and
    ``connect(functions=[…])`` can resume and recover its runs. Raises ``function.unfit``.
    """
    if function is not None:
        return function_of(function, name=name)
    return lambda decorated: function_of(decorated, name=name)


def function_of(function: Callable[..., Any], *, name: str | None = None) -> Function[..., Any]:
    """``function`` as one that can be recorded. Raises ``function.unfit``."""
    if isinstance(function, Function):
        return function
    if not callable(function):
        raise FunctionUnfit(function=repr(function)[:80], problem="it is no function")
    return Function(name=name or name_of(function), function=function)


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function without the places it is defined in."""
    found = function.func if isinstance(function, functools.partial) else function
    name = getattr(found, "__qualname__", None) or type(found).__qualname__
    return str(name).rpartition("<locals>.")[2]


def parts_of_arguments(written: Mapping[str, Any]) -> tuple[Part, ...]:
    """A function's arguments as a run's input."""
    args, named = written["args"], written["named"]
    if len(args) == 1 and not named and isinstance(args[0], str):
        words = args[0]
    else:
        words = ", ".join([_short(one) for one in args] + [f"{name}={_short(one)}" for name, one in named.items()])
    return (Text(content=words, extra={_ARGUMENTS: dict(written)}),)


def _short(value: Any) -> str:
    text = canonical(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"


def written_arguments(given: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """A patch's arguments as those of a call. Raises ``patch.bad`` or ``value.not-json``."""
    if isinstance(given, str) or not isinstance(given, Sequence | Mapping):
        raise PatchBad(part="arguments", detail="they are neither a sequence nor a mapping of names")
    named = given if isinstance(given, Mapping) else {}
    args = () if isinstance(given, Mapping) else given
    return {"args": to_json(list(args)), "named": to_json(dict(named))}


def arguments_in(parts: tuple[Part, ...]) -> dict[str, Any] | None:
    """The arguments that an input holds, if it holds any; large ones must have been read in."""
    for part in parts:
        if isinstance(part, Text) and part.extra is not None and _ARGUMENTS in part.extra:
            found: dict[str, Any] = part.extra[_ARGUMENTS]
            return found
    return None


def converted(convert: Callable[[Any], Any] | None, value: Any, name: str) -> Any:
    """``value`` as ``convert`` makes it. Raises ``function.unfit``."""
    if convert is None:
        return value
    try:
        return convert(value)
    except (ValueError, msgspec.ValidationError) as error:
        raise FunctionUnfit(function=name, problem=f"a value is not what its annotation says: {error}") from error


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function.func if isinstance(function, functools.partial) else function
    target = target if inspect.isroutine(target) else type(target).__call__
    try:
        return typing.get_type_hints(target, localns=_locals_of(target), include_extras=True)
    except NameError:
        # A name that cannot be found from here is of no type that a value could be converted to.
        return {}


def _locals_of(target: Any) -> dict[str, Any]:
    found = _nonlocals(target) if inspect.isfunction(target) else {}
    module = sys.modules.get(getattr(target, "__module__", ""))
    return {**vars(module), **found} if module is not None else dict(found)


def _nonlocals(function: Any) -> dict[str, Any]:
    """The names of places around the function that it refers to, as far as they have been set by now."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a name that is defined further down
            found[name] = cell.cell_contents
    return found


def _converters(function: Callable[..., Any]) -> dict[str, Callable[[Any], Any]]:
    made: dict[str, Callable[[Any], Any]] = {}
    for name, hint in _hints(function).items():
        convert = _converter(hint)
        if convert is not None:
            made[name] = convert
    return made


_AS_IT_IS = (Any, object, inspect.Parameter.empty, str, int, float, bool, dict, list, None, type(None))


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    """What makes a JSON value one of the annotated type; ``None`` where it is that already, or the type has no form."""
    if any(hint is plain for plain in _AS_IT_IS) or isinstance(hint, TypeVar):
        return None
    if annotations.is_foreign(hint):
        return annotations.foreign_converter(annotations.adapter_of(hint))
    try:
        msgspec.json.schema(hint)
    except TypeError:
        return None
    return annotations.plain_converter(hint)


def _is_async(function: Callable[..., Any]) -> bool:
    target = function.func if isinstance(function, functools.partial) else function
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(type(target).__call__)
