"""What two runs share, where they part, and what came of it. Pure: nothing is performed and nothing is read.

1. Steps are equal if their text, and the calls' names, arguments (canonical) and results (exact) are. Call ids, times
   and usage are no difference.
2. ``diverged_at`` pairs by position; ``aligned`` does not, so that an insertion leaves what follows it equal.
3. What is shared is known from lineage where both sides have one, and by content otherwise; it says which.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from forkpoint.events import RecordedEvent
from forkpoint.ids import ForkPoint
from forkpoint.timetravel.aligning import Kind, aligned_steps
from forkpoint.timetravel.facts import as_canonical
from forkpoint.timetravel.trajectory import Call, Step, Told, Trajectory, trajectory

Field: TypeAlias = Literal[
    "tools", "args", "results", "text", "steps", "finish_reason", "tokens", "cost", "state", "files", "own", "output"
]

Key: TypeAlias = tuple[str, tuple[tuple[str, str, str | None], ...]]
"""What of a step is compared: its text, and for each call its name, canonical arguments and result."""


class Shared(Struct, frozen=True, kw_only=True):
    """The common prefix: how many steps, and how that is known.

    By ``lineage``: both runs have the same events up to ``fork_point``. By ``content``: their first steps are equal.
    """

    steps: int
    by: Literal["lineage", "content"]
    fork_point: ForkPoint | None = None


class Drift(Struct, frozen=True, kw_only=True):
    """One difference. ``step_a`` and ``step_b`` are the steps it is in; ``call`` is the tool, for ``args`` and
    ``results``. Without them it is about the whole. ``own`` is what a function's code asked for itself, told as
    an object of its arguments, status and result, and ``output`` what it returned."""

    field: Field
    a: Any
    b: Any
    step_a: int | None = None
    step_b: int | None = None
    call: str | None = None


class Aligned(Struct, frozen=True):
    """One line of the alignment: a step of each side (from 1), or of only one."""

    kind: Kind
    a: int | None
    b: int | None


class Comparison(Struct, frozen=True, kw_only=True):
    """What ``compare`` gives. Printing it gives ``as_text``."""

    names: tuple[str, str]
    a: Trajectory
    b: Trajectory
    shared: Shared
    diverged_at: int | None
    drift: tuple[Drift, ...]
    aligned: tuple[Aligned, ...]

    def __str__(self) -> str:
        return self.as_text()

    def as_text(self) -> str:
        """The comparison for a terminal or a log; control characters in a run's data are shown, not obeyed."""
        from forkpoint.timetravel.rendering import comparison_text

        return comparison_text(self)

    def as_json(self) -> dict[str, Any]:
        """The comparison as plain data."""
        from forkpoint.timetravel.rendering import comparison_json

        return comparison_json(self)

    def as_html(self) -> str:
        """The comparison as one self-contained page; everything from the runs is escaped, and it runs no script."""
        from forkpoint.timetravel.pages import comparison_page

        return comparison_page(self)


class Row(Struct, frozen=True, kw_only=True):
    """One run of a table. ``diverged_at`` is its first step that differs from the reference's. ``outcome`` is the
    run's status, ``ms`` the time from its first event to its last. What is not known is ``None``."""

    name: str
    diverged_at: int | None
    shared: int
    outcome: str | None
    finish_reason: str | None
    steps: int
    tokens: int | None
    cost: float | None
    cost_unknown: int
    ms: int | None
    output: str


class Table(Struct, frozen=True, kw_only=True):
    """What ``compare_many`` gives: a row for each run, by name, and for each pair the first step that differs.

    ``reference`` names what the rows' ``diverged_at`` is against: the common ancestor, if there is one, or the first
    row.
    """

    reference: str
    rows: tuple[Row, ...]
    diverged: Mapping[str, Mapping[str, int | None]]

    def __str__(self) -> str:
        return self.as_text()

    def as_text(self) -> str:
        """The table for a terminal or a log."""
        from forkpoint.timetravel.rendering import table_text

        return table_text(self)

    def as_json(self) -> dict[str, Any]:
        """The table as plain data."""
        from forkpoint.timetravel.rendering import table_json

        return table_json(self)

    def as_html(self) -> str:
        """The table as one self-contained page."""
        from forkpoint.timetravel.pages import table_page

        return table_page(self)


def compare(
    a: Told,
    b: Told,
    *,
    usage: bool = False,
    names: tuple[str, str] | None = None,
    fork_point: ForkPoint | None = None,
) -> Comparison:
    """What ``a`` and ``b`` share and where they part. Each is a state, a whole history or a list of messages.

    ``usage`` also compares tokens and cost. ``fork_point`` is the last event that both are known to have; it is found
    by itself in two histories, and in states of a parent and its child or of two children. Raises
    ``compare.not-comparable``.
    """
    one, two = trajectory(a), trajectory(b)
    common = fork_point or _common(a, b, one, two)
    keys_a, keys_b = _keys(one), _keys(two)
    start = max(one.missing, two.missing)
    keys_a, keys_b = keys_a[start - one.missing :], keys_b[start - two.missing :]
    diverged_at = _diverged_at(keys_a, keys_b, start)
    lines = aligned_steps(keys_a, keys_b)
    aligned = tuple(Aligned(kind, _number(start, at_a), _number(start, at_b)) for kind, at_a, at_b in lines)
    return Comparison(
        names=names or _names(one, two),
        a=one,
        b=two,
        shared=_shared(one, two, common, diverged_at),
        diverged_at=diverged_at,
        drift=(*_step_drift(one, two, aligned), *_whole_drift(one, two, usage)),
        aligned=aligned,
    )


def compare_many(
    runs: Sequence[Told],
    *,
    names: Sequence[str] | None = None,
    ancestor: Told | None = None,
) -> Table:
    """A row for each of ``runs``, whatever their order, and for each pair the first step that differs.

    Rows are told against ``ancestor``, or else against the first of the runs by name.
    """
    told = [trajectory(run) for run in runs]
    called = _distinct(names or [one.run or str(place) for place, one in enumerate(told, 1)])
    by_name = dict(sorted(zip(called, told, strict=True)))
    keys = {name: _keys(one) for name, one in by_name.items()}
    first = next(iter(by_name), "")
    root = trajectory(ancestor) if ancestor is not None else by_name.get(first, Trajectory())
    root_keys = _keys(root)
    rows = [_row(name, one, _first_difference(root, root_keys, one, keys[name])) for name, one in by_name.items()]
    pairs = {
        name: {other: _first_difference(one, keys[name], two, keys[other]) for other, two in by_name.items()}
        for name, one in by_name.items()
    }
    return Table(
        reference=(root.run or "the ancestor") if ancestor is not None else first, rows=tuple(rows), diverged=pairs
    )


def _keys(told: Trajectory) -> list[Key]:
    return [_key(step) for step in told.steps]


def _key(step: Step) -> Key:
    return step.text, tuple(
        (call.name, call.canonical_arguments, as_canonical(call.result) if call.answered else None)
        for call in step.calls
    )


def _diverged_at(a: Sequence[Key], b: Sequence[Key], before: int) -> int | None:
    for number, (one, two) in enumerate(zip(a, b, strict=False), before + 1):
        if one != two:
            return number
    return None if len(a) == len(b) else before + min(len(a), len(b)) + 1


def _first_difference(one: Trajectory, a: Sequence[Key], two: Trajectory, b: Sequence[Key]) -> int | None:
    start = max(one.missing, two.missing)
    return _diverged_at(a[start - one.missing :], b[start - two.missing :], start)


def _number(before: int, place: int | None) -> int | None:
    return None if place is None else before + place + 1


def _names(one: Trajectory, two: Trajectory) -> tuple[str, str]:
    a, b = _distinct([one.run or "a", two.run or "b"])
    return a, b


def _distinct(names: Sequence[str]) -> list[str]:
    """Names that are all different: the second of a kind is numbered."""
    seen: dict[str, int] = {}
    made = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return made


def _common(a: Told, b: Told, one: Trajectory, two: Trajectory) -> ForkPoint | None:
    """The last event that both sides have, as far as that can be known from them."""
    events_a, events_b = _events(a), _events(b)
    if events_a and events_b:
        return _last_common(events_a, events_b)
    if one.run is None or two.run is None or one.head is None or two.head is None:
        return None
    if one.run == two.run:
        return ForkPoint(one.run, min(one.head, two.head))
    if two.parent is not None and two.parent.run == one.run:
        return ForkPoint(one.run, min(two.parent.seq, one.head))
    if one.parent is not None and one.parent.run == two.run:
        return ForkPoint(two.run, min(one.parent.seq, two.head))
    if one.parent is not None and two.parent is not None and one.parent.run == two.parent.run:
        return ForkPoint(one.parent.run, min(one.parent.seq, two.parent.seq))
    return None


def _events(side: Told) -> list[RecordedEvent]:
    if isinstance(side, Sequence):
        return [item for item in side if isinstance(item, RecordedEvent)]
    return []


def _last_common(a: Sequence[RecordedEvent], b: Sequence[RecordedEvent]) -> ForkPoint | None:
    """Digests cover everything before them, so the last pair of equal ones ends the shared stretch."""
    last = None
    for one, two in zip(a, b, strict=False):
        if (one.run, one.seq, one.digest) != (two.run, two.seq, two.digest) or not one.digest:
            break
        last = ForkPoint(one.run, one.seq)
    return last


def _shared(one: Trajectory, two: Trajectory, common: ForkPoint | None, diverged_at: int | None) -> Shared:
    equal = min(one.count, two.count) if diverged_at is None else diverged_at - 1
    if common is None:
        return Shared(steps=equal, by="content")
    of_lineage = min(_steps_upto(one, common.seq), _steps_upto(two, common.seq))
    return Shared(steps=min(of_lineage, equal), by="lineage", fork_point=common)


def _steps_upto(told: Trajectory, seq: int) -> int:
    """How many steps have their response at or before the event ``seq``. One that a fork put in counts as later."""
    count = told.missing
    for step in told.steps:
        if step.seq is None or step.seq > seq:
            break
        count += 1
    return count


def _step_drift(one: Trajectory, two: Trajectory, aligned: Sequence[Aligned]) -> list[Drift]:
    found: list[Drift] = []
    for line in aligned:
        if line.kind == "changed" and line.a is not None and line.b is not None:
            found += _between(one.steps[line.a - one.missing - 1], two.steps[line.b - two.missing - 1])
    return found


def _between(a: Step, b: Step) -> list[Drift]:
    """What differs between two steps. Arguments and results only where the same tools were asked for in order."""
    found = []
    if a.text != b.text:
        found.append(Drift(field="text", a=a.text, b=b.text, step_a=a.number, step_b=b.number))
    tools_a, tools_b = [call.name for call in a.calls], [call.name for call in b.calls]
    if tools_a != tools_b:
        return [*found, Drift(field="tools", a=tools_a, b=tools_b, step_a=a.number, step_b=b.number)]
    for one, two in zip(a.calls, b.calls, strict=True):
        places = {"step_a": a.number, "step_b": b.number, "call": one.name}
        if one.canonical_arguments != two.canonical_arguments:
            found.append(Drift(field="args", a=one.arguments, b=two.arguments, **places))  # type: ignore[arg-type]
        results = [as_canonical(call.result) if call.answered else None for call in (one, two)]
        if results[0] != results[1]:
            found.append(Drift(field="results", a=one.result, b=two.result, **places))  # type: ignore[arg-type]
    return found


def _whole_drift(one: Trajectory, two: Trajectory, usage: bool) -> list[Drift]:
    """What differs beyond the steps. What one side cannot know is no difference."""
    found = []
    if one.count != two.count:
        found.append(Drift(field="steps", a=one.count, b=two.count))
    reasons = one.finish_reason, two.finish_reason
    if None not in reasons and reasons[0] != reasons[1]:
        found.append(Drift(field="finish_reason", a=reasons[0], b=reasons[1]))
    if usage and _total(one) != _total(two):
        found.append(Drift(field="tokens", a=_total(one), b=_total(two)))
    if usage and one.cost != two.cost:
        found.append(Drift(field="cost", a=one.cost, b=two.cost))
    if one.function is not None and two.function is not None:
        found += _own_drift(one.own, two.own)
        if one.output != two.output:
            found.append(Drift(field="output", a=one.output, b=two.output))
    if one.has_run and two.has_run:
        if as_canonical(one.app) != as_canonical(two.app):
            found.append(Drift(field="state", a=one.app, b=two.app))
        if one.tree != two.tree:
            found.append(Drift(field="files", a=one.tree, b=two.tree))
    return found


def _own_drift(a: Sequence[Call], b: Sequence[Call]) -> list[Drift]:
    """What differs between the calls of two functions' own code: made by one side only, or ended otherwise.

    Equal calls are paired in order, as the code's own asks are matched with its record.
    """
    left: dict[tuple[str, str], list[Call]] = {}
    for call in b:
        left.setdefault((call.name, call.canonical_arguments), []).append(call)
    found = []
    for one in a:
        same = left.get((one.name, one.canonical_arguments))
        two = same.pop(0) if same else None
        if two is None or as_canonical(one.result) != as_canonical(two.result):
            found.append(Drift(field="own", a=_told(one), b=two and _told(two), call=one.name))
    rest = [call for calls in left.values() for call in calls]
    return found + [Drift(field="own", a=None, b=_told(call), call=call.name) for call in rest]


def _told(call: Call) -> dict[str, Any]:
    return {"arguments": call.arguments, "status": call.status, "result": call.result}


def _total(told: Trajectory) -> int | None:
    return None if told.usage is None else told.usage.total


def _row(name: str, told: Trajectory, diverged_at: int | None) -> Row:
    return Row(
        name=name,
        diverged_at=diverged_at,
        shared=told.count if diverged_at is None else diverged_at - 1,
        outcome=told.status,
        finish_reason=told.finish_reason,
        steps=told.count,
        tokens=told.tokens,
        cost=told.cost,
        cost_unknown=told.cost_unknown,
        ms=told.ms,
        output=told.output,
    )
