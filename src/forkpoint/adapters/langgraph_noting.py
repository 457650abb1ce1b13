"""Putting on record, in a run that nobody performs, an effect that has taken place: requested and settled at once.

Everything else is ``Cell``'s: masked, appended under the lease, believed only then, decided again if the run moved on.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from forkpoint.commands import AnyCommand
from forkpoint.decide import decide
from forkpoint.effects import StepCall
from forkpoint.errors import RunIsPaused, RunIsStopped
from forkpoint.events import EffectRequested, EffectSettled, Event
from forkpoint.outcomes import Succeeded
from forkpoint.runtime.cell import Cell
from forkpoint.runtime.writing import Draft
from forkpoint.state import RunState


class Note(Struct, frozen=True, kw_only=True):
    """Record ``effect``, which has taken place and came to ``outcome``."""

    effect: StepCall
    outcome: Succeeded


def note(state: RunState, command: Note) -> tuple[Event, ...]:
    """What ``command`` brings about. Raises ``run.stopped`` or ``run.paused``."""
    if state.stopped:
        raise RunIsStopped(run=state.run)
    if state.paused is not None:
        raise RunIsPaused(run=state.run, reason=state.paused.reason or "by a person")
    settled = EffectSettled(effect=state.seq + 1, outcome=command.outcome, attempt=0)
    return EffectRequested(effect=command.effect), settled


class NotingCell(Cell):
    """A run's state in this process, to which effects that have taken place may be added."""

    async def note(self, command: Note, lease: Any) -> int:
        """Record ``command``: the number of its effect. Raises as ``note`` and ``Cell.submit`` do."""
        noted: Any = command
        try:
            events = await self.submit(noted, lease=lease)
        except (RunIsPaused, RunIsStopped):
            await self.refresh()  # a refusal must be of the run as it stands
            events = await self.submit(noted, lease=lease)
        return events[0].seq

    def _draft(self, commands: Sequence[AnyCommand | Note], *, careful: bool) -> Draft:
        state, writer = self.state, self.edge.writer
        draft = self._begun(careful)
        for command in commands:
            told = writer.from_outside(command) if careful else command
            events = note(state, told) if isinstance(told, Note) else decide(state, told, draft.at_ms)
            for event in events:
                state = writer.add(draft, event)
        return draft
