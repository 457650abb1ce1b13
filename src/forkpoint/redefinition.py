"""What differs between an agent as a run recorded it and as it is now, in words."""

from collections.abc import Iterator
from typing import Any

from forkpoint.definition import AgentRecord, ToolRecord


def differences(recorded: AgentRecord, now: AgentRecord) -> tuple[str, ...]:
    """Every difference that a run would notice, a sentence each; empty if there is none.

    The order of tools is no difference, and neither are the functions behind them, which no record holds.
    """
    return tuple(_differences(recorded, now))


def _differences(recorded: AgentRecord, now: AgentRecord) -> Iterator[str]:
    if recorded.name != now.name:
        yield f"the agent is named {now.name!r}, not {recorded.name!r}"
    if recorded.model != now.model:
        yield f"the model is {now.model!r}, not {recorded.model!r}"
    if recorded.instructions != now.instructions:
        yield f"the instructions differ {_from(recorded.instructions, now.instructions)}"
    for change in _changes(recorded.settings or {}, now.settings or {}):
        yield f"the setting {change}"
    yield from _of_tools(recorded.tools, now.tools)
    if recorded.attempts != now.attempts:
        yield f"a model call is tried {now.attempts} times, not {recorded.attempts}"
    if recorded.compaction != now.compaction:
        yield "the compaction differs"


def _of_tools(recorded: tuple[ToolRecord, ...], now: tuple[ToolRecord, ...]) -> Iterator[str]:
    before = {tool.name: tool for tool in recorded}
    after = {tool.name: tool for tool in now}
    for name in sorted(before.keys() - after.keys()):
        yield f"the tool {name!r} is gone"
    for name in sorted(after.keys() - before.keys()):
        yield f"the tool {name!r} is new"
    for name, tool in before.items():
        if name in after:
            yield from (f"the tool {name!r} {change}" for change in _of_tool(tool, after[name]))


def _of_tool(before: ToolRecord, after: ToolRecord) -> Iterator[str]:
    if before.description != after.description:
        yield "is described in other words"
    yield from _of_parameters(before.parameters, after.parameters)
    if before.result != after.result:
        yield "returns another type"
    if before.recovery != after.recovery:
        yield f"is recovered by {after.recovery.value}, not {before.recovery.value}"
    if before.approval != after.approval:
        yield "needs approval now" if after.approval else "needs no approval any more"
    if before.external != after.external:
        yield "is external now" if after.external else "is not external any more"
    if before.attempts != after.attempts:
        yield f"is tried {after.attempts} times, not {before.attempts}"


def _of_parameters(before: Any, after: Any) -> Iterator[str]:
    if before == after:
        return
    old, new = _named(before), _named(after)
    told = [f"has a parameter {name!r} now" for name in new if name not in old]
    told += [f"has no parameter {name!r} any more" for name in old if name not in new]
    told += [f"takes another {name!r}" for name in old if name in new and old[name] != new[name]]
    required, before_required = _required(after), _required(before)
    told += [f"requires {name!r} now" for name in old if name in new and name in required - before_required]
    told += [
        f"does not require {name!r} any more" for name in new if name in old and name in before_required - required
    ]
    yield from told or ["takes parameters of another schema"]


def _named(schema: Any) -> dict[str, Any]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _required(schema: Any) -> set[str]:
    return set(schema.get("required", ())) if isinstance(schema, dict) else set()


def _changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    yield from (f"{name!r} is new" for name in after if name not in before)
    yield from (f"{name!r} is gone" for name in before if name not in after)
    yield from (f"{name!r} differs" for name in before if name in after and before[name] != after[name])


def _from(before: str, after: str) -> str:
    pairs = zip(before, after, strict=False)
    place = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(before), len(after)))
    return f"from character {place + 1} on"
