"""What a program offers to the command line: its agents, and whatever else ``connect`` needs, found by name."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkpoint.errors import AppNotFound, AppUnfit

if TYPE_CHECKING:
    from forkpoint.agents.agent import Agent
    from forkpoint.ports import Model
    from forkpoint.runtime.writing import PayloadCodec


@dataclass(frozen=True, kw_only=True)
class App:
    """Everything that ``connect`` is given beside the store, as one value that ``--app module:name`` can name.

    A program without secrets, hooks or models by name needs none: an ``Agent``, a ``Function`` or a list of them does
    as well.
    """

    agents: "Sequence[Agent]" = ()
    functions: Sequence[Callable[..., Any]] = ()
    models: "Callable[[str], Model] | Mapping[str, Model] | None" = None
    secrets: Mapping[str, str] | None = field(default=None, repr=False)
    redact: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    codec: "PayloadCodec | None" = None


def load_app(name: str, *, folder: Path, chosen: str) -> App:
    """The app that ``module:name`` names, imported with ``folder`` first on the path.

    ``chosen`` says, for errors, who named it. Raises ``app.not-found`` or ``app.unfit``.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise AppNotFound(app=name, chosen=chosen, detail="it is not of the form module:name")
    from forkpoint.agents.function import Function, Step
    from forkpoint.agents.tool import Tool

    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
        made = callable(found) and not isinstance(found, type | Function | Step | Tool)
        found = found() if made else found
    except Exception as error:
        # Anything may go wrong in somebody's module; the cause is kept, and its last line told.
        detail = f"{type(error).__name__}: {error}"
        raise AppNotFound(app=name, chosen=chosen, detail=detail) from error
    return as_app(found, name)


def as_app(found: object, name: str) -> App:
    """``found`` as an app. Raises ``app.unfit``."""
    from forkpoint.agents.agent import Agent
    from forkpoint.agents.function import Function

    if isinstance(found, App):
        return found
    parts = found if isinstance(found, list | tuple) else (found,)
    strange = next((one for one in parts if not isinstance(one, Agent | Function)), None)
    if strange is not None or not parts:
        raise AppUnfit(app=name, found=f"a {type(found).__name__}" if parts else "empty")
    return App(
        agents=tuple(one for one in parts if isinstance(one, Agent)),
        functions=tuple(one for one in parts if isinstance(one, Function)),
    )
