"""How a tool or a step that is called by a function's own code becomes an effect of the run being performed.

Outside of a recorded function nothing is: a call is a plain call.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from forkpoint.agents.function import Step
    from forkpoint.agents.tool import Tool


class Asker(Protocol):
    """Whoever performs the function: asks for an effect, and gives what its record says came of it."""

    def tool_called(self, tool: "Tool[..., Any]", arguments: Mapping[str, Any]) -> Any:
        """The tool's result; what to await for it if the tool is async."""
        ...

    def step_called(self, step: "Step[..., Any]", arguments: Mapping[str, Any]) -> Any:
        """The step's result; what to await for it if the step is async."""
        ...


ASKER: ContextVar[Asker | None] = ContextVar("forkpoint_asker", default=None)
"""Who performs the function that this code belongs to; ``None`` where nothing is recorded."""


class EffectFailed(Exception):
    """What a tool, step or model call raises in a recorded function, live and on replay alike: its text as recorded.

    ``error`` is the name of the exception that was raised, ``effect`` the effect. Where that name is a built-in
    exception's, what is raised is an instance of it as well, so that ``except ValueError`` works.
    """

    def __init__(self, text: str = "", *, error: str = "", effect: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.error = error
        self.effect = effect

    def __str__(self) -> str:
        return self.text


_BUILT_IN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ConnectionError,
    ConnectionRefusedError,
    ConnectionResetError,
    EOFError,
    FileExistsError,
    FileNotFoundError,
    IndexError,
    KeyError,
    LookupError,
    NotImplementedError,
    OSError,
    OverflowError,
    PermissionError,
    RuntimeError,
    TimeoutError,
    TypeError,
    ValueError,
    ZeroDivisionError,
)

_CLASSES: dict[str, type[EffectFailed]] = {
    kind.__name__: type(kind.__name__, (EffectFailed, kind), {"__module__": __name__}) for kind in _BUILT_IN
}


def failed_as(error: str, text: str, effect: int) -> EffectFailed:
    """The exception for an effect that ended in ``error``."""
    return _CLASSES.get(error, EffectFailed)(text, error=error, effect=effect)
