"""What the history of a function's run says to whoever calls the function again."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from forkpoint.agents.function import arguments_in
from forkpoint.events import InputReceived, RunForked
from forkpoint.folding import evolve
from forkpoint.messages import Part
from forkpoint.outcomes import Failed, Succeeded
from forkpoint.pieces import Lineage
from forkpoint.runtime.reading import Reader
from forkpoint.timetravel.asked import Record


class Past(Struct, frozen=True, kw_only=True):
    """What a run's history says to whoever calls its function again: the record, the arguments, and what a fork set."""

    record: Record
    arguments: Mapping[str, Any]
    overrides: Mapping[str, Any]


async def past_of(reader: Reader, run: str) -> Past:
    """What is on record of a function's run."""
    record, state = Record(), None
    overrides: dict[str, Any] = {}
    given: tuple[Part, ...] = ()
    for recorded in await reader.history(run):
        state, event = evolve(state, recorded), recorded.event
        record.note(recorded, state)
        if isinstance(event, InputReceived):
            given = event.parts
        elif isinstance(event, RunForked):
            given = event.input if isinstance(event.input, tuple) else given
            if event.agent is not None:
                agent = await reader.whole(event.agent)
                overrides |= {name: _overriding(agent, name) for name in event.changed}
    arguments = arguments_in(tuple([await reader.whole(part) for part in given]))
    return Past(record=record, arguments=arguments or {"args": [], "named": {}}, overrides=overrides)


def _overriding(agent: Any, name: str) -> Any:
    return agent.settings or {} if name == "settings" else getattr(agent, name)


async def ended_after(reader: Reader, lineage: Lineage) -> dict[str, list[tuple[int, Any]]]:
    """What the parent asked for after the fork point and had an outcome by the time of the fork, by identity."""
    record, state = Record(), None
    for recorded in await reader.history(lineage.parent, upto=lineage.parent_head):
        state = evolve(state, recorded)
        record.note(recorded, state)
    found: dict[str, list[tuple[int, Any]]] = {}
    for one in record.left():
        if one.effect > lineage.at and isinstance(one.outcome, Succeeded | Failed) and one.finding is None:
            found.setdefault(one.identity, []).append((one.effect, one.outcome))
    return found
