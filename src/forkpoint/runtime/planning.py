"""What is to become of each call that a model asked for, decided once, when it is asked, and put on record."""

from collections.abc import Sequence
from typing import Any

from forkpoint._canon import value_digest
from forkpoint.agents.tool import Tool
from forkpoint.commands import CallPlan
from forkpoint.effects import Recovery, ToolCall
from forkpoint.errors import ForkpointError
from forkpoint.events import EffectRequested, EffectSettled, RecordedEvent
from forkpoint.messages import CallPart
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded
from forkpoint.pieces import Lineage
from forkpoint.runtime.edges import Equipment
from forkpoint.runtime.reading import Reader
from forkpoint.state import RunState

ERROR_CHARS = 2000
"""How much of an error's text a model is told."""


class Planner:
    """Plans calls for one run, with the tools this process has for it."""

    def __init__(self, equipment: Equipment, reader: Reader) -> None:
        self._equipment = equipment
        self._reader = reader
        self._recorded: dict[tuple[str, str], list[tuple[int, Outcome]]] | None = None

    async def plans(self, state: RunState, calls: Sequence[CallPart]) -> tuple[CallPlan, ...]:
        """One plan a call, in order."""
        planned: list[CallPlan] = []
        taken: set[int] = set(state.sources)
        for part in calls:
            whole = await self._reader.whole(part) if part.aside else part
            plan = await self._plan(state, whole)
            if state.lineage is not None and plan.refused is None:
                plan = await self._from_parent(state.lineage, whole, plan, taken)
            planned.append(plan)
        return tuple(planned)

    async def _plan(self, state: RunState, part: CallPart) -> CallPlan:
        tool = self._equipment.tool(part.name)
        if tool is None:
            known = ", ".join(sorted(record.name for record in state.agent.tools)) or "none"
            refused = Failed(error="UnknownTool", text=f"there is no tool {part.name!r}; the tools are: {known}")
            return CallPlan(tool=part.name, recovery=Recovery.REPEAT, refused=refused)
        try:
            arguments = tool.convert(self._equipment.reveal(part.arguments))
        except ForkpointError as error:
            refused = Failed(error="InvalidArguments", text=self._equipment.mask_text(str(error))[:ERROR_CHARS])
            return CallPlan(tool=tool.name, recovery=tool.recovery, refused=refused)
        gated = await self.gated(tool, arguments)
        if not gated and not tool.external:
            self._equipment.make_ready(part, arguments)
        return CallPlan(
            tool=tool.name,
            recovery=tool.recovery,
            gated=gated,
            external=tool.external,
            attempts=tool.attempts,
            digest=_digest(part) if gated else "",
        )

    @staticmethod
    async def gated(tool: Tool[..., Any], arguments: dict[str, Any]) -> bool:
        """Whether a person must allow it. A predicate that fails has not said yes, so it means that too."""
        try:
            return await tool.needs_approval(arguments)
        except Exception:  # whatever a predicate raises, the call is not allowed by it
            return True

    async def _from_parent(self, lineage: Lineage, part: CallPart, plan: CallPlan, taken: set[int]) -> CallPlan:
        """The plan under the fork's policy: answered from the parent's record, or asked about first."""
        if lineage.effects == "live":
            return plan
        records = await self._records(lineage)
        for effect, outcome in records.get((plan.tool, value_digest(part.arguments)), ()):
            if effect not in taken:
                taken.add(effect)
                return CallPlan(tool=plan.tool, recovery=plan.recovery, recorded=(effect, outcome))
        if lineage.effects == "ask" and plan.recovery is not Recovery.REPEAT and not plan.external:
            return CallPlan(
                tool=plan.tool,
                recovery=plan.recovery,
                gated=True,
                attempts=plan.attempts,
                digest=_digest(part),
            )
        return plan

    async def _records(self, lineage: Lineage) -> dict[tuple[str, str], list[tuple[int, Outcome]]]:
        """What the parent's calls after the fork point came to by the time of the fork, by tool and arguments."""
        if self._recorded is None:
            events = await self._reader.history(lineage.parent, upto=lineage.parent_head)
            self._recorded = {}
            for tool, arguments, effect, outcome in answered_calls(events, after=lineage.at):
                part = await self._reader.whole(arguments)
                key = (tool, value_digest(part.arguments))
                self._recorded.setdefault(key, []).append((effect, await self._reader.whole(outcome)))
        return self._recorded


def _digest(part: CallPart) -> str:
    """What an approval is bound to: the tool and the arguments that are asked for."""
    return value_digest([part.name, part.arguments])


def answered_calls(
    events: Sequence[RecordedEvent], *, after: int
) -> list[tuple[str, CallPart | ToolCall, int, Outcome]]:
    """The tool calls among ``events`` that were asked for after ``after`` and have a known outcome, in order:
    (tool, what holds the arguments, effect, outcome)."""
    messages: dict[int, Sequence[CallPart]] = {}
    asked: dict[int, tuple[str, CallPart | ToolCall]] = {}
    found: dict[int, tuple[str, CallPart | ToolCall, int, Outcome]] = {}
    for recorded in events:
        event = recorded.event
        if isinstance(event, EffectSettled):
            if isinstance(event.outcome, Succeeded) and event.outcome.message is not None:
                messages[recorded.seq] = event.outcome.message.calls
            known = isinstance(event.outcome, Succeeded | Failed | Cancelled) and event.then == "final"
            if event.effect in asked and known and not isinstance(event.outcome, Cancelled):
                tool, holder = asked[event.effect]
                found[event.effect] = (tool, holder, event.effect, event.outcome)
        elif isinstance(event, EffectRequested) and isinstance(event.effect, ToolCall) and recorded.seq > after:
            call = event.effect
            held = messages.get(call.message, ())
            if call.arguments is not None or call.aside:
                asked[recorded.seq] = (call.tool, call)
            elif call.call < len(held):
                asked[recorded.seq] = (call.tool, held[call.call])
    return [found[effect] for effect in sorted(found)]
