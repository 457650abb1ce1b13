"""Runs of a store compared. What runs share is known from their lineage and not read; nothing is performed."""

from collections.abc import Sequence

from msgspec import UNSET, Struct
from msgspec.structs import replace

from forkpoint.effects import ModelCall
from forkpoint.events import EffectSettled, RecordedEvent, RunForked
from forkpoint.ids import ForkPoint, parse_address
from forkpoint.runtime.places import locate
from forkpoint.runtime.reading import Reader, Stretch
from forkpoint.state import RunState
from forkpoint.timetravel.comparing import Comparison, Table, compare, compare_many
from forkpoint.timetravel.trajectory import Trajectory, trajectory


class Side(Struct, frozen=True):
    """A run up to an event, and the stretches of journals that it is made of."""

    run: str
    upto: int
    lineage: Sequence[Stretch]


async def compare_runs(reader: Reader, a: str, b: str, *, usage: bool = False) -> Comparison:
    """Two runs compared, or two moments: each of ``a`` and ``b`` is a run's id or an address such as ``RUN@step:3``.

    Raises ``run.not-found``, ``run.bad-id``, ``fork.bad-address`` or ``fork.no-such-point``.
    """
    sides = [await _side(reader, text) for text in (a, b)]
    common = _common(sides)
    one, two = await _told(reader, sides, common)
    return compare(one, two, usage=usage, names=(a, b), fork_point=common)


async def compare_table(reader: Reader, texts: Sequence[str]) -> Table:
    """Any number of runs or moments in one table, told against their common ancestor if they have one."""
    sides = [await _side(reader, text) for text in texts]
    common = _common(sides)
    if common is None:
        return compare_many(await _told(reader, sides, None), names=texts)
    root = await _side(reader, common.run)
    root_told, *told = await _told(reader, [root, *sides], common)
    return compare_many(told, names=texts, ancestor=root_told)


async def run_trajectory(reader: Reader, run: str, *, upto: int | None = None) -> Trajectory:
    """A run's steps with every large value in place."""
    return trajectory(await _whole(reader, await reader.history(run, upto=upto)))


async def _side(reader: Reader, text: str) -> Side:
    address = parse_address(text)
    upto = await locate(reader, address.run, address.where)
    return Side(address.run, upto, await reader.lineage(address.run, upto=upto))


def _common(sides: Sequence[Side]) -> ForkPoint | None:
    """The last event that every side has, from their lineages alone."""
    common = None
    for stretches in zip(*(side.lineage for side in sides), strict=False):
        if any(stretch.run != stretches[0].run for stretch in stretches):
            break
        ends = {stretch.upto for stretch in stretches}
        common = ForkPoint(stretches[0].run, min(ends))
        if len(ends) > 1:
            break
    return common


async def _told(reader: Reader, sides: Sequence[Side], common: ForkPoint | None) -> list[Trajectory]:
    """Every side as steps: those after the step that is under way at ``common``, or all where a fork changed more."""
    base = await _before_parting(reader, common) if common is not None else None
    if base is not None:
        tails = [await reader.history(side.run, after=base.seq, upto=side.upto) for side in sides]
        if not any(_changes_past(tail, base.seq) for tail in tails):
            return [trajectory(await _whole(reader, tail), after=base) if tail else trajectory(base) for tail in tails]
    return [await run_trajectory(reader, side.run, upto=side.upto) for side in sides]


async def _before_parting(reader: Reader, common: ForkPoint) -> RunState | None:
    """The state before the last step that all sides share began; ``None`` if nothing comes before it."""
    state = (await reader.load(common.run, upto=common.seq)).state
    asked = next((key for key, one in state.effects.items() if isinstance(one.effect, ModelCall)), None)
    if asked is None and len(state.transcript.entries) and state.batch:
        asked = await _request_of(reader, common.run, state.transcript.entries[-1].seq)
    if asked is None and not state.batch:
        return state
    if asked is None or asked <= 1:
        return None
    return (await reader.load(common.run, upto=asked - 1)).state


async def _request_of(reader: Reader, run: str, seq: int) -> int | None:
    (recorded,) = await reader.history(run, after=seq - 1, upto=seq)
    return recorded.event.effect if isinstance(recorded.event, EffectSettled) else None


def _changes_past(tail: Sequence[RecordedEvent], before: int) -> bool:
    """Whether a fork in ``tail`` changed what lies at or before the event ``before``."""
    forks = [one.event for one in tail if isinstance(one.event, RunForked)]
    return any(fork.edits is not UNSET or any(patch.effect <= before for patch in fork.tool_results) for fork in forks)


async def _whole(reader: Reader, events: Sequence[RecordedEvent]) -> list[RecordedEvent]:
    whole = []
    for recorded in events:
        event = await reader.whole(recorded.event)
        whole.append(recorded if event is recorded.event else replace(recorded, event=event))
    return whole
