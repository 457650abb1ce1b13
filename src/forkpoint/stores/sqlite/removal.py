"""Taking out of a store, inside a transaction that somebody else began and ends."""

import sqlite3

_SEQ = (1 << 32) - 1


def remove(connection: sqlite3.Connection, number: int) -> None:
    """Delete a run as far as no fork shares it, then every deleted parent that nobody needs any more."""
    execute = connection.execute
    execute("UPDATE runs SET deleted = 1, owner = NULL, lease_until_ms = 0 WHERE number = ?", (number,))
    run: int | None = number
    while run is not None:
        parent, at, deleted = execute("SELECT parent, at, deleted FROM runs WHERE number = ?", (run,)).fetchone()
        if not deleted:
            return
        (point,) = execute("SELECT max(at) FROM runs WHERE parent = ?", (run,)).fetchone()
        if point is not None:
            _cut(connection, run, born_at=at, point=point)
            return
        _cut_after(connection, run, 0)
        execute("DELETE FROM labels WHERE run = ?", (run,))
        execute("DELETE FROM runs WHERE number = ?", (run,))
        run = parent


def _cut(connection: sqlite3.Connection, run: int, *, born_at: int, point: int) -> None:
    """Keep the commits up to the one that holds the event ``point``: a commit's body cannot be divided."""
    base = run << 32
    ((end, marks),) = connection.execute(
        "SELECT id, marks FROM commits WHERE id >= ? AND id <= ? ORDER BY id LIMIT 1", (base | point, base | _SEQ)
    ).fetchall() or [(None, None)]
    if end is None:
        return
    head = end & _SEQ
    if point <= born_at:
        head, marks = born_at, b""
    _cut_after(connection, run, head)
    connection.execute("UPDATE runs SET head = ?, digest = ? WHERE number = ?", (head, marks[-32:], run))


def _cut_after(connection: sqlite3.Connection, run: int, seq: int) -> None:
    execute, base = connection.execute, run << 32
    execute("DELETE FROM commits WHERE id > ? AND id <= ?", (base | seq, base | _SEQ))
    execute("DELETE FROM checkpoints WHERE id > ? AND id <= ?", (base | seq, base | _SEQ))
    execute("DELETE FROM calls WHERE run = ? AND effect > ?", (run, seq))
    execute("DELETE FROM refs WHERE run = ? AND seq > ?", (run, seq))


def drop_loose(connection: sqlite3.Connection) -> None:
    """Delete blobs that no run refers to, and checkpoints that stand after no commit."""
    connection.execute("DELETE FROM blobs WHERE number NOT IN (SELECT blob FROM refs)")
    connection.execute("DELETE FROM checkpoints WHERE id NOT IN (SELECT id FROM commits)")


def give_back(connection: sqlite3.Connection) -> None:
    """Shrink the file to what it holds. Needs that no transaction is open."""
    (unused,) = connection.execute("PRAGMA freelist_count").fetchone()
    if unused:
        connection.execute("VACUUM")
    write_back(connection)


def write_back(connection: sqlite3.Connection) -> None:
    """Move what lies in the log into the file, as far as no reader is in the way."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
