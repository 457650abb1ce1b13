"""Tools: functions that a model may call, with what a restart may do about a call that was lost."""

import functools
import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, overload

from forkpoint.agents.asking import ASKER
from forkpoint.agents.calling import (
    Finding,
    NotOccurred,
    Occurred,
    OutcomeUnknown,
    StillUnknown,
    ToolContext,
)
from forkpoint.agents.docstrings import read_docstring
from forkpoint.agents.schema import Parameters, given_parameters, read_parameters, result_schema
from forkpoint.definition import ToolRecord
from forkpoint.effects import ATTEMPTS, Recovery
from forkpoint.errors.agents import ToolBadApproval, ToolBadDefinition, ToolBadFinding, ToolBadResult

__all__ = [
    "Approval",
    "Finding",
    "NotOccurred",
    "Occurred",
    "OutcomeUnknown",
    "Probe",
    "StillUnknown",
    "Tool",
    "ToolContext",
    "tool",
]

P = ParamSpec("P")
R = TypeVar("R")

Approval: TypeAlias = bool | Callable[[dict[str, Any]], bool | Awaitable[bool]]
"""Whether a person is asked first: always, never, or as a predicate on the checked arguments says."""

Probe: TypeAlias = Callable[..., Finding | Awaitable[Finding]]
"""Asks the outside what came of a call: ``probe(ctx, **arguments)``, with the arguments of the call."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool(Generic[P, R]):
    """A function that a model may call, and how its calls are treated. Made by ``tool``.

    Calling it calls the function, with nothing recorded or checked: that is for your own tests. In a recorded
    function it is an effect, and its ``ToolContext`` is not given by the caller. ``timeout_s`` is in seconds, ``None``
    for no limit. ``is_async`` says that the function is a coroutine function; one that is not runs in a thread of its
    own.
    """

    name: str
    description: str
    function: Callable[P, R]
    parameters: Parameters
    result: dict[str, Any] | None = None
    recovery: Recovery = Recovery.HOLD
    approval: Approval = False
    external: bool = False
    timeout_s: float | None = None
    attempts: int = ATTEMPTS
    probe: Probe | None = None
    validate: Callable[[Any], object] | None = None
    is_async: bool = field(init=False)
    _record: ToolRecord = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check(self)
        for name, value in _derived(self).items():
            object.__setattr__(self, name, value)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        asker = ASKER.get()
        if asker is None:
            return self.function(*args, **kwargs)
        result: R = asker.tool_called(self, self.given(args, kwargs))
        return result

    def given(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, as a model would give them. Raises TypeError as the call would."""
        signature = inspect.signature(self.function)
        if self.parameters.takes_context:
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        bound = signature.bind(*args, **named)
        found = dict(bound.arguments)
        for name, one in signature.parameters.items():
            if one.kind is one.VAR_KEYWORD:
                found.update(found.pop(name, {}))
        return found

    def record(self) -> ToolRecord:
        """The tool as a run records it: the same for the same declaration, whatever its body does."""
        return self._record

    def convert(self, arguments: Any) -> dict[str, Any]:
        """The arguments of a call (a JSON object or its text) as the function takes them.

        Raises ``tool.bad-arguments``, naming each argument that is wrong and what was expected.
        """
        return self.parameters.convert(self.name, arguments)

    def call(self, ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        """Call the function with converted arguments: its result, or what to await if ``is_async``."""
        function: Callable[..., Any] = self.function
        return function(ctx, **arguments) if self.parameters.takes_context else function(**arguments)

    def check_result(self, value: Any) -> None:
        """Hold what the function returned against ``validate``, which refuses by raising or returning ``False``.

        Raises ``tool.bad-result``: the work is done, its result is unusable.
        """
        if self.validate is None:
            return
        try:
            answer = self.validate(value)
        except Exception as error:
            raise ToolBadResult(tool=self.name, problem=f"{type(error).__name__}: {error}") from error
        if answer is False:
            raise ToolBadResult(tool=self.name, problem="its 'validate' said no")

    async def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a person must allow a call with these converted arguments. Defaults count as arguments.

        What a predicate raises comes through, and ``tool.bad-approval`` if it says neither yes nor no: both
        mean that the call is not allowed.
        """
        if isinstance(self.approval, bool):
            return self.approval
        answer: object = self.approval(self.parameters.filled(arguments))
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, bool):
            return answer
        raise ToolBadApproval(tool=self.name, given=repr(answer)[:80])

    async def find(self, ctx: ToolContext, arguments: Mapping[str, Any]) -> Finding:
        """What the probe finds out about a call with these converted arguments.

        A probe that is not async is called on the event loop; use ``ask_probe`` in a thread to avoid that.
        Raises ``tool.bad-finding`` if it returns anything but a finding; what the probe raises comes through.
        """
        answer = self.ask_probe(ctx, arguments)
        return self.check_finding(await answer if inspect.isawaitable(answer) else answer)

    def ask_probe(self, ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        """Call the probe: what it returns, unchecked, or what to await if ``probe_is_async``."""
        if self.probe is None:
            raise ToolBadFinding(tool=self.name, given="nothing, as it has none")
        return self.probe(ctx, **arguments)

    def check_finding(self, answer: object) -> Finding:
        """``answer`` if it is one of the three things a probe can say. Raises ``tool.bad-finding``."""
        if isinstance(answer, Occurred | NotOccurred | StillUnknown):
            return answer
        raise ToolBadFinding(tool=self.name, given=f"a {type(answer).__name__}")

    @property
    def probe_is_async(self) -> bool:
        """Whether the probe is a coroutine function."""
        return self.probe is not None and _is_async(self.probe)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    reconcile: Probe | None = None,
    approval: Approval = False,
    external: bool = False,
    timeout_s: float | None = None,
    attempts: int | None = None,
    validate: Callable[[Any], object] | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a tool: ``@tool``, or ``@tool(read_only=True, …)``.

    What a model is told comes from the function: its name, its docstring (description, and a text for each
    parameter), its parameters' types. What a restart may do about a call that was lost in flight is said by
    at most one of ``read_only=True`` (it changes nothing: performed again), ``idempotent=True`` (performed again
    under the same ``ctx.idempotency_key``) and ``reconcile=probe`` (``probe(ctx, **arguments)``, async or not,
    returns ``Occurred(output)``, ``NotOccurred()`` or ``StillUnknown(text)``). With none of them, a person is
    asked.

    ``approval`` is ``True``, or a predicate (async or not) on a dict of the arguments as the function would get
    them, defaults included. ``external=True`` has no body: the outcome comes by ``answer``. ``timeout_s`` bounds
    an attempt, ``attempts`` their number. ``validate`` is called with what the function returned, and refuses it
    by raising or by returning ``False``. ``parameters`` is a JSON Schema for a function that takes
    ``**arguments``, or ``(ctx: ToolContext, /, **arguments)``.

    Raises ``tool.bad-definition`` where that cannot work or contradicts itself.
    """
    # Types that are local to the place of the definition are found through its frame, as pydantic does it.
    place = sys._getframe(1)
    if function is not None:
        return _made(function, _local_names(function, place), **options)
    return lambda decorated: _made(decorated, _local_names(decorated, place), **options)


def _local_names(function: Callable[..., Any], place: FrameType) -> Mapping[str, Any]:
    # Only where the function itself is local: names of another place could mean other types.
    is_local = "<locals>" in getattr(function, "__qualname__", "")
    is_here = getattr(function, "__globals__", None) is place.f_globals
    return dict(place.f_locals) if is_local and is_here else {}


def _made(
    function: Callable[..., Any],
    names: Mapping[str, Any],
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    reconcile: Probe | None = None,
    approval: Approval = False,
    external: bool = False,
    timeout_s: float | None = None,
    attempts: int | None = None,
    validate: Callable[[Any], object] | None = None,
) -> Tool[..., Any]:
    called = str(name or getattr(function, "__name__", type(function).__name__))
    _check_target(function, called)
    told = read_docstring(inspect.getdoc(function.func if isinstance(function, functools.partial) else function))
    recovery = _recovery(called, read_only=read_only, idempotent=idempotent, reconcile=reconcile)
    _check_flags(called, recovery, external=external, approval=approval, attempts=attempts, timeout_s=timeout_s)
    if parameters is None:
        taken = read_parameters(function, tool=called, context=ToolContext, names=names, told=told.parameters)
    else:
        taken = given_parameters(function, parameters, tool=called, context=ToolContext, names=names)
    return Tool(
        name=called,
        description=told.description if description is None else description,
        function=function,
        parameters=taken,
        result=result_schema(function, tool=called, names=names, checked=external),
        recovery=recovery,
        approval=approval,
        external=external,
        timeout_s=timeout_s,
        attempts=ATTEMPTS if attempts is None else attempts,
        probe=reconcile,
        validate=validate,
    )


def _recovery(tool: str, *, read_only: bool, idempotent: bool, reconcile: Probe | None) -> Recovery:
    said = {
        "read_only": (read_only, Recovery.REPEAT),
        "idempotent": (idempotent, Recovery.RETRY),
        "reconcile": (reconcile is not None, Recovery.RECONCILE),
    }
    chosen = [name for name, (is_set, _) in said.items() if is_set]
    if len(chosen) > 1:
        problem = f"{' and '.join(chosen)} say different things about a lost call; keep one"
        raise ToolBadDefinition(tool=tool, problem=problem)
    return said[chosen[0]][1] if chosen else Recovery.HOLD


def _check_target(function: Callable[..., Any], tool: str) -> None:
    if isinstance(function, Tool):
        raise ToolBadDefinition(tool=tool, problem="it is a tool already")
    if not callable(function) or isinstance(function, type):
        raise ToolBadDefinition(tool=tool, problem="only a function can be a tool")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise ToolBadDefinition(tool=tool, problem="it yields; a tool returns one result, and reports progress")
    try:
        first = next(iter(inspect.signature(function).parameters), "")
    except ValueError as error:
        raise ToolBadDefinition(tool=tool, problem="it does not say what it takes") from error
    if first in ("self", "cls"):
        raise ToolBadDefinition(
            tool=tool, problem=f"it takes {first!r}; make a tool of the bound method: tool(it.method)"
        )


def _check_flags(
    tool: str, recovery: Recovery, *, external: bool, approval: Approval, attempts: int | None, timeout_s: float | None
) -> None:
    performed = {
        "a recovery class": recovery is not Recovery.HOLD,
        "approval": approval is not False,
        "attempts": attempts is not None,
        "timeout_s": timeout_s is not None,
    }
    if external and any(performed.values()):
        said = next(name for name, is_set in performed.items() if is_set)
        raise ToolBadDefinition(tool=tool, problem=f"external tools are never performed, so {said} means nothing")
    if attempts is not None and attempts > 1 and recovery is Recovery.HOLD:
        problem = "attempts means nothing for a tool that is not repeated; say read_only, idempotent or reconcile"
        raise ToolBadDefinition(tool=tool, problem=problem)


def _check(tool: Tool[..., Any]) -> None:
    problem = None
    if not _NAME.match(tool.name):
        problem = "a name has 1 to 64 letters, digits, '_' or '-'"
    elif not isinstance(tool.attempts, int) or tool.attempts < 1:
        problem = f"attempts is {tool.attempts!r}, not 1 or more"
    elif tool.timeout_s is not None and not tool.timeout_s > 0:
        problem = f"timeout_s is {tool.timeout_s!r}, not above 0"
    elif not isinstance(tool.approval, bool) and not callable(tool.approval):
        problem = "approval is neither a boolean nor a predicate"
    elif tool.validate is not None and (not callable(tool.validate) or _is_async(tool.validate)):
        problem = "validate is not a plain function"
    elif tool.probe is not None:
        problem = _probe_problem(tool.probe, tool.parameters)
    if problem:
        raise ToolBadDefinition(tool=tool.name, problem=problem)


def _probe_problem(probe: Probe, parameters: Parameters) -> str | None:
    if not callable(probe):
        return "reconcile is not a function"
    try:
        signature = inspect.signature(probe)
        # Where a schema is given, an argument may have any name, the context's own too.
        names = [*signature.parameters][:1] if parameters.given else [one.name for one in parameters.parameters]
        signature.bind(None, **dict.fromkeys(names))
    except TypeError as error:
        return f"its probe cannot be called as probe(ctx, **arguments): {error}"
    return None


def _derived(tool: Tool[..., Any]) -> dict[str, Any]:
    record = ToolRecord(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters.schema,
        result=tool.result,
        recovery=tool.recovery,
        approval=tool.approval is not False,
        external=tool.external,
        attempts=tool.attempts,
    )
    return {
        "is_async": _is_async(tool.function),
        "_record": record,
        # So that help(), inspect and type checkers see the function.
        "__wrapped__": tool.function,
        "__doc__": tool.function.__doc__,
        "__name__": getattr(tool.function, "__name__", tool.name),
    }


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
