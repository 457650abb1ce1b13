"""Adding to runs, inside a transaction that somebody else began and ends.

The usual addition is one UPDATE and one INSERT. The UPDATE names everything that must still be so (head,
digest, lease) and all that indexes look at; only if it finds nothing is the run looked at to see why.
"""

import sqlite3

import msgspec

from forkpoint.errors import BlobMissing, JournalConflict, RunExists, RunNotFound
from forkpoint.ports import Append
from forkpoint.stores.rules import Standing, refusal

_summary = msgspec.json.Encoder().encode

_ADVANCE = "UPDATE runs SET head = ?, digest = ?, updated_at_ms = ?, summary = ?"
_RENEW = ", lease_until_ms = max(lease_until_ms, ?)"
_MOVE = ", status = ?, agent = ?, due = ?"
_STANDS = " WHERE number = ? AND run = ? AND head = ? AND digest = ? AND deleted = 0"
_HELD = " AND epoch = ? AND owner = ?"
_SAME = " AND status = ? AND agent = ? AND due = ?"

_FREELY = _ADVANCE + _STANDS + _SAME
_FREELY_MOVED = _ADVANCE + _MOVE + _STANDS
_LEASED = _ADVANCE + _RENEW + _STANDS + _HELD + _SAME
_LEASED_MOVED = _ADVANCE + _RENEW + _MOVE + _STANDS + _HELD

_COMMIT = "INSERT INTO commits (id, at_ms, kinds, marks, step, turn, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
_CALL = "INSERT OR IGNORE INTO calls (run, call, effect) VALUES (?, ?, ?)"
_BLOB = "INSERT OR IGNORE INTO blobs (digest, body) VALUES (?, ?)"
_REF = "INSERT OR IGNORE INTO refs (run, blob, seq) SELECT ?, number, ? FROM blobs WHERE digest = ?"
_LABEL = "INSERT OR IGNORE INTO labels (name, value, run) VALUES (?, ?, ?)"
_CHECKPOINT = "INSERT OR REPLACE INTO checkpoints (id, digest, body) VALUES (?, ?, ?)"
_BIRTH = (
    "INSERT INTO runs (run, parent, at, started_at_ms, updated_at_ms, head, digest, status, agent, due, summary)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

_MAX_REMEMBERED = 10_000

_bound = bytearray
"""Bytes as they are given to ``sqlite3``, which asks every ``bytes`` anew how it adapts itself to a database."""


class Writer:
    """Adds to the runs of one connection, and remembers their numbers."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        # For what gives no rows: a cursor each would cost as much as some of these statements.
        self._change = connection.cursor().execute
        # A number that is no longer the run's does no harm: the UPDATE names both.
        self._numbers: dict[str, int] = {}

    def add(self, append: Append) -> None:
        """Write ``append`` into the open transaction, or raise why it is refused."""
        commit = append.commit
        number = self._born(append) if append.born else self._advanced(append)
        place = number << 32 | commit.last
        kinds, marks, body = _bound(commit.kinds), _bound(commit.marks), _bound(commit.body)
        self._change(_COMMIT, (place, commit.at_ms, kinds, marks, commit.step, commit.turn, body))
        for call, effect in append.calls:
            self._change(_CALL, (number, call, effect))
        if append.blobs or append.refs:
            self._refer(append, number)
        if append.checkpoint is not None:
            self._change(_CHECKPOINT, (place, commit.digest, append.checkpoint))

    def _advanced(self, append: Append) -> int:
        number = self._numbers.get(append.run)
        if number is not None and self._advance(append, number):
            return number
        number = self._looked_up(append)
        if not self._advance(append, number):
            raise refusal(append, self._standing(append.run))
        return number

    def _advance(self, append: Append, number: int) -> bool:
        commit, summary, lease = append.commit, append.summary, append.lease
        new = (commit.last, _bound(commit.digest), commit.at_ms, _bound(_summary(summary)))
        old = (number, append.run, append.after, _bound(append.before))
        listed = (summary.status, summary.agent, int(summary.due))
        change = self._change
        if lease is None:
            if change(_FREELY, (*new, *old, *listed)).rowcount:
                return True
            return change(_FREELY_MOVED, (*new, *listed, *old)).rowcount == 1
        held = (lease.epoch, lease.owner)
        if change(_LEASED, (*new, lease.until_ms, *old, *held, *listed)).rowcount:
            return True
        return change(_LEASED_MOVED, (*new, lease.until_ms, *listed, *old, *held)).rowcount == 1

    def _born(self, append: Append) -> int:
        commit, summary, run = append.commit, append.summary, append.run
        if self._standing(run) is not None:
            raise RunExists(run=run)
        parent = None if append.parent is None else self._parent(append.parent, append.after)
        when = (commit.at_ms, commit.at_ms)
        listed = (summary.status, summary.agent, summary.due, _summary(summary))
        values = (run, parent, append.after, *when, commit.last, commit.digest, *listed)
        number = self._execute(_BIRTH, values).lastrowid
        assert number is not None
        for name, value in summary.labels.items():
            self._execute(_LABEL, (name, value, number))
        self._remember(run, number)
        return number

    def _parent(self, run: str, at: int) -> int:
        found = self._execute("SELECT number, head FROM runs WHERE run = ?", (run,)).fetchone()
        if found is None:
            raise RunNotFound(run=run)
        number, head = found
        if head < at:
            raise JournalConflict(run=run, expected=at, actual=head)
        return int(number)

    def _refer(self, append: Append, number: int) -> None:
        execute, seq = self._execute, append.commit.last
        for digest, body in append.blobs.items():
            execute(_BLOB, (digest, body))
        for digest in {**append.blobs, **dict.fromkeys(append.refs)}:
            if execute(_REF, (number, seq, digest)).rowcount == 0 and not self._has_blob(digest):
                raise BlobMissing(digest=digest)

    def _has_blob(self, digest: str) -> bool:
        return self._execute("SELECT 1 FROM blobs WHERE digest = ?", (digest,)).fetchone() is not None

    def _looked_up(self, append: Append) -> int:
        found = self._execute("SELECT number FROM runs WHERE run = ?", (append.run,)).fetchone()
        if found is None:
            raise refusal(append, None)
        self._remember(append.run, found[0])
        return int(found[0])

    def _remember(self, run: str, number: int) -> None:
        if len(self._numbers) >= _MAX_REMEMBERED:
            self._numbers.clear()
        self._numbers[run] = number

    def _standing(self, run: str) -> Standing | None:
        found = self._execute("SELECT head, digest, epoch, owner, deleted FROM runs WHERE run = ?", (run,)).fetchone()
        if found is None:
            return None
        head, digest, epoch, owner, deleted = found
        return Standing(head=head, digest=digest, epoch=epoch, owner=owner, deleted=bool(deleted))
