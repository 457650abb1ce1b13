"""Moments of a run found in its journal without folding it from the start."""

from msgspec.structs import replace

from forkpoint.errors import EffectNotFound, ForkAmbiguousCall
from forkpoint.events import EffectRequested, RecordedEvent, RunStarted
from forkpoint.folding import evolve
from forkpoint.ids import AtSeq, AtStep, AtTurn, BeforeCall, Where
from forkpoint.ports import Commit
from forkpoint.runtime.reading import Loaded, Reader, Stretch
from forkpoint.state import RunState
from forkpoint.timetravel.moments import asks_model, missing_point, step_is_over, step_settles

AHEAD = 16
"""How many events are read at a time when looking ahead for the end of a step."""


async def locate(reader: Reader, run: str, where: Where | None) -> int:
    """The event after which ``where`` lies in ``run``; its head if ``where`` is None. Raises
    ``fork.no-such-point``, ``fork.ambiguous-call`` or ``run.not-found``."""
    if where is None:
        return (await reader.row(run)).head
    return (await stand(reader, run, where)).state.seq


async def stand(reader: Reader, run: str, where: Where | None) -> Loaded:
    """The state of ``run`` at ``where``, at its head if that is None. Raises as ``locate`` does."""
    head = (await reader.row(run)).head
    loaded: Loaded | None = None
    found: int | None = None
    match where:
        case None:
            return await reader.load(run)
        case AtSeq(seq):
            found = seq if 1 <= seq <= head else None
        case AtStep(step):
            loaded = await _end_of_step(reader, run, step)
        case AtTurn(turn):
            found = await _end_of_turn(reader, run, turn)
        case BeforeCall(call):
            found = await _before_call(reader, run, call)
    if found is not None:
        loaded = await reader.load(run, upto=found)
    if loaded is None:
        raise missing_point((await reader.load(run)).state, where)
    return loaded


async def calls_named(reader: Reader, run: str, call: str, *, upto: int) -> tuple[int, ...]:
    """The effects by which the provider's call id ``call`` was asked for in a run's history up to ``upto``."""
    effects: list[int] = []
    for stretch in await reader.lineage(run, upto=upto):
        own = await reader.journal.effects_of_call(stretch.run, call)
        effects += [effect for effect in own if stretch.after < effect <= stretch.upto]
    return tuple(effects)


async def effect_named(reader: Reader, state: RunState, name: int | str) -> int:
    """The effect that a number, its digits, or a provider's call id means in a run with that state.

    Of several calls of one id it is the one that is still open. Raises ``effect.not-found``, and
    ``fork.ambiguous-call`` where the id alone does not say which is meant: nobody decides about a guess.
    """
    if not isinstance(name, str):
        return name
    if name.isascii() and name.isdigit():
        return int(name)
    waiting = {effect for effect, opened in state.effects.items() if opened.call == name}
    found = waiting or set(await calls_named(reader, state.run, name, upto=state.seq))
    if not found:
        raise EffectNotFound(run=state.run, effect=name)
    if len(found) > 1:
        raise ForkAmbiguousCall(call=name, effects=", ".join(str(effect) for effect in sorted(found)))
    return found.pop()


async def _before_call(reader: Reader, run: str, call: str) -> int | None:
    head = (await reader.row(run)).head
    found = set(await calls_named(reader, run, call, upto=head))
    if call.isdigit() and 0 < int(call) <= head:
        state = (await reader.load(run, upto=int(call))).state
        opened = state.effects.get(int(call))
        if opened is not None and (opened.call or state.function is not None):
            found.add(int(call))
    if len(found) > 1:
        raise ForkAmbiguousCall(call=call, effects=", ".join(str(effect) for effect in sorted(found)))
    return found.pop() if found else None


async def settled_step(reader: Reader, run: str, step: int) -> int | None:
    """The event by which ``step`` (from 1) came to be, if the run has it."""
    for stretch in await reader.lineage(run):
        commit = await reader.journal.commit_reaching(stretch.run, step=step)
        if commit is None:
            continue
        settles = step_settles(reader.events(stretch.run, commit))
        place = step - (commit.step - len(settles)) - 1
        if 0 <= place < len(settles) and settles[place] <= stretch.upto:
            return settles[place]
    return None


async def _events(reader: Reader, stretch: Stretch, commit: Commit) -> list[RecordedEvent]:
    return await reader.history(stretch.run, after=commit.first - 1, upto=commit.last)


async def _end_of_step(reader: Reader, run: str, step: int) -> Loaded | None:
    if step == 0:
        before = await _before_first_step(reader, run)
        return None if before is None else await reader.load(run, upto=before)
    settled = await settled_step(reader, run, step)
    if settled is None:
        return None
    return await _look_ahead(reader, await reader.load(run, upto=settled))


async def _before_first_step(reader: Reader, run: str) -> int | None:
    after, function = 0, False
    while events := await reader.history(run, after=after, upto=after + AHEAD):
        for recorded in events:
            function = function or (isinstance(recorded.event, RunStarted) and recorded.event.function is not None)
            if asks_model(recorded) or (function and isinstance(recorded.event, EffectRequested)):
                return recorded.seq - 1 or None
        after = events[-1].seq
    return after or None


async def _look_ahead(reader: Reader, loaded: Loaded) -> Loaded:
    """The end of the step that ``loaded`` stands in."""
    events: list[RecordedEvent] = []
    while True:
        if not events:
            events = await reader.follow(loaded, count=AHEAD)
        if step_is_over(loaded.state, events[:1]):
            return loaded
        following = events.pop(0)
        loaded = replace(loaded, state=evolve(loaded.state, following), digest=following.digest)


async def _end_of_turn(reader: Reader, run: str, turn: int) -> int | None:
    for stretch in await reader.lineage(run):
        commit = await reader.journal.commit_reaching(stretch.run, turn=turn + 1)
        if commit is None:
            continue
        state = (await reader.load(stretch.run, upto=commit.first - 1)).state if commit.first > 1 else None
        for recorded in await _events(reader, stretch, commit):
            if recorded.seq > stretch.upto:
                break
            before, state = state, evolve(state, recorded)
            if state.turn > turn:
                if before is not None and before.turn == turn and not before.active:
                    return before.seq
                return recorded.seq
    state = (await reader.load(run)).state
    return state.seq if state.turn == turn and not state.active else None
