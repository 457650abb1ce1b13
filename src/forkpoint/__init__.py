"""Durable AI agents you can travel in time with.

Reading order: ``events`` (what happens to a run), ``state`` and ``folding`` (where that leaves it), ``decide`` and
``recover`` (what may happen next), ``runtime`` (the only part that waits). Names load when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from forkpoint.agents.agent import Agent as Agent
    from forkpoint.agents.asking import EffectFailed as EffectFailed
    from forkpoint.agents.calling import NotOccurred as NotOccurred
    from forkpoint.agents.calling import Occurred as Occurred
    from forkpoint.agents.calling import OutcomeUnknown as OutcomeUnknown
    from forkpoint.agents.calling import StillUnknown as StillUnknown
    from forkpoint.agents.calling import ToolContext as ToolContext
    from forkpoint.agents.function import Function as Function
    from forkpoint.agents.function import Step as Step
    from forkpoint.agents.function import record as record
    from forkpoint.agents.function import step as step
    from forkpoint.agents.tool import Tool as Tool
    from forkpoint.agents.tool import tool as tool
    from forkpoint.apps import App as App
    from forkpoint.definition import Compaction as Compaction
    from forkpoint.definition import Limits as Limits
    from forkpoint.effects import Recovery as Recovery
    from forkpoint.errors import ForkpointError as ForkpointError
    from forkpoint.events import RecordedEvent as RecordedEvent
    from forkpoint.ids import ForkPoint as ForkPoint
    from forkpoint.messages import Message as Message
    from forkpoint.messages import Text as Text
    from forkpoint.outcomes import Cancelled as Cancelled
    from forkpoint.outcomes import Failed as Failed
    from forkpoint.outcomes import Succeeded as Succeeded
    from forkpoint.outcomes import Unknown as Unknown
    from forkpoint.ports import RunFilter as RunFilter
    from forkpoint.runtime.run import Run as Run
    from forkpoint.runtime.runtime import Runtime as Runtime
    from forkpoint.state import RunState as RunState
    from forkpoint.timetravel.comparing import Comparison as Comparison
    from forkpoint.timetravel.comparing import compare as compare
    from forkpoint.timetravel.comparing import compare_many as compare_many
    from forkpoint.timetravel.moments import replay as replay
    from forkpoint.timetravel.moments import state_at as state_at
    from forkpoint.timetravel.patches import Delete as Delete
    from forkpoint.timetravel.patches import Insert as Insert
    from forkpoint.timetravel.patches import Patch as Patch
    from forkpoint.timetravel.patches import Replace as Replace
    from forkpoint.timetravel.patches import ToolError as ToolError
    from forkpoint.transcript import validate_transcript as validate_transcript
    from forkpoint.wiring import connect as connect

_HOMES = {
    "Agent": "agents.agent",
    "App": "apps",
    "Cancelled": "outcomes",
    "Compaction": "definition",
    "Delete": "timetravel.patches",
    "EffectFailed": "agents.asking",
    "Failed": "outcomes",
    "ForkPoint": "ids",
    "ForkpointError": "errors",
    "Function": "agents.function",
    "Insert": "timetravel.patches",
    "Limits": "definition",
    "Message": "messages",
    "NotOccurred": "agents.calling",
    "Occurred": "agents.calling",
    "OutcomeUnknown": "agents.calling",
    "Patch": "timetravel.patches",
    "RecordedEvent": "events",
    "Recovery": "effects",
    "Replace": "timetravel.patches",
    "Run": "runtime.run",
    "RunFilter": "ports",
    "RunState": "state",
    "Runtime": "runtime.runtime",
    "Step": "agents.function",
    "StillUnknown": "agents.calling",
    "Succeeded": "outcomes",
    "Text": "messages",
    "Tool": "agents.tool",
    "ToolContext": "agents.calling",
    "ToolError": "timetravel.patches",
    "Unknown": "outcomes",
    "Comparison": "timetravel.comparing",
    "compare": "timetravel.comparing",
    "compare_many": "timetravel.comparing",
    "connect": "wiring",
    "record": "agents.function",
    "replay": "timetravel.moments",
    "state_at": "timetravel.moments",
    "step": "agents.function",
    "tool": "agents.tool",
    "validate_transcript": "transcript",
}

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'forkpoint' has no attribute {name!r}")
    value = getattr(import_module(f"forkpoint.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
