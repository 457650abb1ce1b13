"""Comparisons and trajectories as text and as plain data. Pure.

What a run holds was written by models and tools: control characters in it are shown, never obeyed.
"""

import re
import unicodedata
from typing import Any

import msgspec

from forkpoint.timetravel.comparing import Aligned, Comparison, Drift, Table
from forkpoint.timetravel.facts import as_canonical
from forkpoint.timetravel.trajectory import Call, Step, Trajectory
from forkpoint.values import to_json

WIDTH = 110
"""How long a line of text gets before a value in it is cut."""

LEAD = 20
"""How much of what two long texts share is shown before they differ."""

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_MARKS = {"same": "=", "changed": "~", "only_a": "<", "only_b": ">"}


def seen(text: str) -> str:
    """``text`` on one line with every control, direction and invisible character shown as its escape."""
    return _UNSEEN.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    code = ord(character)
    return short or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def cut(text: str, width: int = WIDTH) -> str:
    """``text`` as one seen line of at most ``width`` characters."""
    line = seen(text[: 4 * width])
    if len(line) <= width and len(text) <= 4 * width:
        return line
    return f"{line[: width - 1]}…"


def value_text(value: Any) -> str:
    """A value as it reads best on one line: a text as it is, everything else as JSON; ``-`` for nothing."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else as_canonical(value)


def call_text(call: Call) -> str:
    """A call as ``name(arguments)``."""
    return f"{call.name}({call.canonical_arguments})"


def step_text(step: Step) -> str:
    """A step in one line: its text and what it asked for."""
    asked = ", ".join(call_text(call) for call in step.calls)
    return " ".join(part for part in (step.text, f"→ {asked}" if asked else "") if part) or "(nothing)"


# ── comparisons ──────────────────────────────────────────────────────────────────────────────────────────────────


def comparison_text(found: Comparison) -> str:
    """A comparison for people."""
    lines = [
        f"a: {cut(found.names[0], 60)}  {side_text(found.a)}",
        f"b: {cut(found.names[1], 60)}  {side_text(found.b)}",
        f"shared: {shared_text(found)}",
        "no step differs" if found.diverged_at is None else f"diverged at step {found.diverged_at}",
    ]
    parted = [line for line in found.aligned if found.diverged_at and _number(line) >= found.diverged_at]
    if parted:
        lines += ["", *(_aligned_text(found, line) for line in parted)]
    if found.drift:
        lines.append("")
        for drift in found.drift:
            a, b = _from_difference(value_text(drift.a), value_text(drift.b))
            lines += [drift_title(drift), f"  a: {cut(a)}", f"  b: {cut(b)}"]
    return "\n".join(lines)


def _from_difference(a: str, b: str) -> tuple[str, str]:
    """Two texts from shortly before where they differ, if that lies beyond what a line shows."""
    equal = next((place for place, (one, two) in enumerate(zip(a, b, strict=False)) if one != two), min(len(a), len(b)))
    if equal < WIDTH - LEAD or (len(a) <= WIDTH and len(b) <= WIDTH):
        return a, b
    return f"…{a[equal - LEAD :]}", f"…{b[equal - LEAD :]}"


def side_text(side: Trajectory) -> str:
    """One side in a few words."""
    said = [f"{side.count} step{'' if side.count == 1 else 's'}"]
    said += [word for word in (side.status, side.finish_reason) if word]
    if side.tokens is not None:
        said.append(f"{side.tokens} tokens")
    if side.cost is not None and side.cost > 0:
        said.append(f"${side.cost:.4f}")
    return seen(", ".join(said))


def shared_text(found: Comparison) -> str:
    """What two sides share, and how that is known."""
    shared = found.shared
    steps = f"{shared.steps} step{'' if shared.steps == 1 else 's'}"
    if shared.by == "lineage":
        return f"{steps}, the same events up to {shared.fork_point}"
    return f"{steps}, equal in content"


def drift_title(drift: Drift) -> str:
    """What differs, and where."""
    where = ""
    if drift.step_a is not None:
        where = f" at step {drift.step_a}"
        if drift.step_b != drift.step_a:
            where += f" (b: {drift.step_b})"
    if drift.field == "own":
        return f"{seen(drift.call or '')}, asked by the function's own code"
    of = f" of {seen(drift.call)}" if drift.call is not None else ""
    return f"{drift.field}{of}{where}"


def step_of(side: Trajectory, number: int | None) -> Step | None:
    """The step of that number, if it is told."""
    place = -1 if number is None else number - side.missing - 1
    return side.steps[place] if 0 <= place < len(side.steps) else None


def _number(line: Aligned) -> int:
    return max(line.a or 0, line.b or 0)


def _aligned_text(found: Comparison, line: Aligned) -> str:
    step = step_of(found.a, line.a) or step_of(found.b, line.b)
    numbers = f"{line.a or '':>4} {_MARKS[line.kind]} {line.b or '':<4}"
    return f"{numbers} {cut(step_text(step)) if step else ''}"


def comparison_json(found: Comparison) -> dict[str, Any]:
    """A comparison as plain data."""
    return {
        "a": {"name": found.names[0], **trajectory_json(found.a)},
        "b": {"name": found.names[1], **trajectory_json(found.b)},
        "shared": {
            "steps": found.shared.steps,
            "by": found.shared.by,
            "fork_point": str(found.shared.fork_point) if found.shared.fork_point else None,
        },
        "diverged_at": found.diverged_at,
        "drift": [_plain(drift) for drift in found.drift],
        "aligned": [_plain(line) for line in found.aligned],
    }


def trajectory_json(told: Trajectory) -> dict[str, Any]:
    """A trajectory as plain data."""
    plain: dict[str, Any] = _plain(told)
    plain["parent"] = str(told.parent) if told.parent else None
    plain["finish_reason"], plain["count"], plain["ms"] = told.finish_reason, told.count, told.ms
    return plain


def _plain(value: Any) -> Any:
    return to_json(msgspec.to_builtins(value, enc_hook=to_json))


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────────

HEADS = ("run", "diverged", "outcome", "finish", "steps", "tokens", "cost", "duration", "output")
"""The columns of a table of runs."""


def table_text(table: Table) -> str:
    """A table of runs for people."""
    rows = [HEADS, *(tuple(cut(cell, 40) for cell in row) for row in table_cells(table))]
    widths = [max(_width(row[place]) for row in rows) for place in range(len(HEADS))]
    lines = ["  ".join(_pad(cell, widths[place]) for place, cell in enumerate(row)).rstrip() for row in rows]
    return "\n".join([f"against {cut(table.reference, 60)}", *lines])


def table_cells(table: Table) -> list[tuple[str, ...]]:
    """The cells of each row, as text."""
    return [
        (
            row.name,
            "never" if row.diverged_at is None else f"step {row.diverged_at}",
            row.outcome or "-",
            row.finish_reason or "-",
            str(row.steps),
            "-" if row.tokens is None else str(row.tokens),
            _cost(row.cost, row.cost_unknown),
            "-" if row.ms is None else f"{row.ms / 1000:.1f} s",
            row.output,
        )
        for row in table.rows
    ]


def _cost(cost: float | None, unknown: int) -> str:
    """A cost; with a plus sign where some calls' cost is not known."""
    if cost is None:
        return "-"
    return f"${cost:.4f}{'+' if unknown else ''}"


def table_json(table: Table) -> dict[str, Any]:
    """A table of runs as plain data."""
    return {
        "reference": table.reference,
        "rows": [_plain(row) for row in table.rows],
        "diverged": {name: dict(row) for name, row in table.diverged.items()},
    }


def _width(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


# ── trajectories ─────────────────────────────────────────────────────────────────────────────────────────────────
