"""Reading a store. Every value that a caller gives is bound; no text of theirs becomes part of a statement."""

import sqlite3
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from forkpoint.errors import BlobMissing, RunNotFound
from forkpoint.ports import Commit, RunFilter, RunRow, RunSummary, StoredCheckpoint

Alive: TypeAlias = Callable[[str], bool | None]

_ROW = (
    "SELECT r.number, r.run, r.head, r.digest, r.started_at_ms, r.updated_at_ms, r.summary, p.run, r.at,"
    " r.epoch, r.owner, r.lease_until_ms, r.deleted FROM runs r LEFT JOIN runs p ON p.number = r.parent"
)
_STRETCH = " FROM commits WHERE id > ? AND id <= ? ORDER BY id"
_WHOLE = "SELECT id, at_ms, kinds, marks, step, turn, body" + _STRETCH
_OUTLINE = "SELECT id, at_ms, kinds, marks, step, turn, x''" + _STRETCH
_SEQ = (1 << 32) - 1

_summary = msgspec.json.Decoder(RunSummary).decode


def row(connection: sqlite3.Connection, run: str, alive: Alive) -> RunRow | None:
    """The run's row, if there is one."""
    found = connection.execute(_ROW + " WHERE r.run = ?", (run,)).fetchone()
    return None if found is None else _row(found, alive)


def children(connection: sqlite3.Connection, run: str, alive: Alive) -> tuple[RunRow, ...]:
    """The rows of the run's forks, oldest first."""
    found = connection.execute(_ROW + " WHERE p.run = ? ORDER BY r.number", (run,)).fetchall()
    return tuple(_row(values, alive) for values in found)


def rows(
    connection: sqlite3.Connection, which: RunFilter, after: int | None, limit: int, alive: Alive
) -> tuple[tuple[RunRow, ...], int | None]:
    """A page of rows, newest first, and where the next one begins."""
    clauses, values = ["r.deleted = 0"], []
    for clause, value in _asked(which, after):
        clauses.append(clause)
        values += value
    text = f"{_ROW} WHERE {' AND '.join(clauses)} ORDER BY r.number DESC LIMIT ?"
    found = connection.execute(text, (*values, limit + 1)).fetchall()
    shown = found[:limit]
    more = len(found) > len(shown) > 0
    return tuple(_row(values, alive) for values in shown), shown[-1][0] if more else None


def _asked(which: RunFilter, after: int | None) -> list[tuple[str, list[Any]]]:
    asked: list[tuple[str, list[Any]]] = [
        ("r.number IN (SELECT run FROM labels WHERE name = ? AND value = ?)", [name, value])
        for name, value in which.labels.items()
    ]
    if after is not None:
        asked.append(("r.number < ?", [after]))
    if which.status is not None:
        asked.append(("r.status = ?", [which.status]))
    if which.agent is not None:
        asked.append(("r.agent = ?", [which.agent]))
    if which.due is not None:
        asked.append(("r.due = 1" if which.due else "r.due = 0", []))
    if which.parent is not None:
        asked.append(("p.run = ?", [which.parent]))
    if which.prefix is not None:
        # Ids are ASCII, so everything that begins with the prefix sorts before the prefix and a character above.
        asked.append(("r.run >= ? AND r.run < ?", [which.prefix, which.prefix + "\x7f"]))
    return asked


def _row(values: tuple[Any, ...], alive: Alive) -> RunRow:
    _, run, head, digest, started, updated, summary, parent, at, epoch, owner, until, deleted = values
    return RunRow(
        run=run,
        head=head,
        digest=digest,
        started_at_ms=started,
        updated_at_ms=updated,
        summary=_summary(summary),
        parent=parent,
        at=at,
        epoch=epoch,
        owner=owner,
        lease_until_ms=until,
        owner_alive=None if owner is None else alive(owner),
        deleted=bool(deleted),
    )


def number_of(connection: sqlite3.Connection, run: str) -> int:
    """The run's number. Raises ``run.not-found``."""
    found = connection.execute("SELECT number FROM runs WHERE run = ?", (run,)).fetchone()
    if found is None:
        raise RunNotFound(run=run)
    return int(found[0])


def commits(connection: sqlite3.Connection, run: str, *, after: int, upto: int | None, bodies: bool) -> list[Commit]:
    """The run's commits that hold an event over ``after`` and up to ``upto``; bodies empty if not wanted."""
    base = number_of(connection, run) << 32
    last = base | _SEQ
    if upto is not None and upto < _SEQ:
        last = _ending(connection, base | max(upto, 0), last)
    found = connection.execute(_WHOLE if bodies else _OUTLINE, (base | min(max(after, 0), _SEQ), last))
    stretch = [_commit(values) for values in found.fetchall()]
    if upto is not None and stretch and stretch[-1].first > upto:
        stretch.pop()
    return stretch


def _ending(connection: sqlite3.Connection, place: int, last: int) -> int:
    """Where the commit ends that holds the event at ``place``; ``last`` if there is none."""
    found = connection.execute("SELECT min(id) FROM commits WHERE id >= ? AND id <= ?", (place, last)).fetchone()
    return last if found[0] is None else int(found[0])


def _commit(values: tuple[Any, ...]) -> Commit:
    place, at_ms, kinds, marks, step, turn, body = values
    first = (place & _SEQ) - len(kinds) + 1
    return Commit(first=first, at_ms=at_ms, kinds=kinds, marks=marks, body=body, step=step, turn=turn)


def commit_reaching(connection: sqlite3.Connection, run: str, column: str, reach: int) -> Commit | None:
    """The run's first commit whose ``step`` or ``turn`` is at least ``reach``; both only grow."""
    assert column in ("step", "turn")
    probe = f"SELECT id, {column} FROM commits WHERE id >= ? AND id <= ? ORDER BY id LIMIT 1"
    low = number_of(connection, run) << 32
    high, found = low | _SEQ, None
    while low <= high:
        middle = (low + high) // 2
        seen = connection.execute(probe, (middle, high)).fetchone()
        if seen is None:
            high = middle - 1
        elif seen[1] >= reach:
            found, high = seen[0], middle - 1
        else:
            low = seen[0] + 1
    if found is None:
        return None
    return _commit(connection.execute(_WHOLE, (found - 1, found)).fetchone())


def effects_of_call(connection: sqlite3.Connection, run: str, call: str) -> tuple[int, ...]:
    """The effects that asked for the provider's call id, in order."""
    number = number_of(connection, run)
    found = connection.execute("SELECT effect FROM calls WHERE run = ? AND call = ? ORDER BY effect", (number, call))
    return tuple(effect for (effect,) in found.fetchall())


def checkpoint(connection: sqlite3.Connection, run: str, upto: int) -> StoredCheckpoint | None:
    """The newest of the run's checkpoints at or before ``upto``."""
    base = number_of(connection, run) << 32
    found = connection.execute(
        "SELECT id, digest, body FROM checkpoints WHERE id > ? AND id <= ? ORDER BY id DESC LIMIT 1",
        (base, base | min(max(upto, 0), _SEQ)),
    ).fetchone()
    return None if found is None else StoredCheckpoint(seq=found[0] & _SEQ, digest=found[1], body=found[2])


def blob(connection: sqlite3.Connection, digest: str) -> bytes:
    """A blob's bytes. Raises ``blob.missing``."""
    found = connection.execute("SELECT body FROM blobs WHERE digest = ?", (digest,)).fetchone()
    if found is None:
        raise BlobMissing(digest=digest)
    return bytes(found[0])
