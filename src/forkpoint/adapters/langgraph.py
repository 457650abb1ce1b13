"""LangGraph: ``ForkpointSaver``, a checkpointer whose threads are runs, and the recorder for models, tools and nodes.

The extra ``langgraph`` has what this needs. The recorder's part is imported when it is asked for: a saver needs no
``langchain``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from forkpoint.errors import AdapterMissing

try:
    from forkpoint.adapters.langgraph_saver import ForkpointSaver
except ImportError as error:
    raise AdapterMissing(
        what="The LangGraph adapter", needs="the extra 'langgraph'", command="pip install 'forkpoint[langgraph]'"
    ) from error

if TYPE_CHECKING:
    from forkpoint.adapters.langgraph_middleware import ForkpointMiddleware, this_call
    from forkpoint.adapters.langgraph_models import recorded_model
    from forkpoint.adapters.langgraph_nodes import recorded_node

__all__ = ["ForkpointMiddleware", "ForkpointSaver", "recorded_model", "recorded_node", "this_call"]

_PLACES = {
    "ForkpointMiddleware": "langgraph_middleware",
    "this_call": "langgraph_middleware",
    "recorded_model": "langgraph_models",
    "recorded_node": "langgraph_nodes",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"forkpoint.adapters.{_PLACES[name]}"), name)
    except ImportError as error:
        raise AdapterMissing(
            what=name, needs="the extra 'langgraph'", command="pip install 'forkpoint[langgraph]'"
        ) from error
