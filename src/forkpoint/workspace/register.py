"""The rows of one owner in a store: its snapshots, its rewinds, and how far back they are kept."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from forkpoint.workspace.plan import By
from forkpoint.workspace.port import SnapshotEntry
from forkpoint.workspace.store import ContentStore
from forkpoint.workspace.tree import Change, Folder, TreeId, digest_in, tree_id


class StoredPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A rewind as it is stored before it acts: what it changes, and modes of folders it passes through."""

    changes: tuple[Change, ...]
    folder_modes: dict[bytes, int]


class RewindRow(msgspec.Struct, frozen=True, kw_only=True):
    """A rewind on record. States: ``started``, ``aborting``, ``done``, ``aborted``."""

    id: int
    state: str
    target: TreeId
    safety: TreeId
    after: TreeId | None
    plan: StoredPlan


class Register:
    """What a store has on record for one owner. Nothing lasts before the store commits."""

    def __init__(self, store: ContentStore, owner: str) -> None:
        self._store, self._owner = store, owner

    # -- snapshots -------------------------------------------------------------------------------

    def snapshots(self) -> tuple[SnapshotEntry, ...]:
        """The snapshots kept, oldest first."""
        rows = self._rows(
            "SELECT id, tree, by, turn, taken_ms, label, rewound_to FROM snapshots WHERE owner = ? ORDER BY id",
            self._owner,
        )
        return tuple(_entry(row) for row in rows)

    def last(self) -> SnapshotEntry | None:
        """The newest snapshot."""
        rows = self._rows(
            "SELECT id, tree, by, turn, taken_ms, label, rewound_to FROM snapshots WHERE owner = ?"
            " ORDER BY id DESC LIMIT 1",
            self._owner,
        )
        return _entry(rows[0]) if rows else None

    def add(
        self, tree: TreeId, *, by: By, turn: int, taken_ms: int, label: str, rewound_to: TreeId | None = None
    ) -> int:
        """Put a snapshot on record; its number."""
        with self._store.turn, self._store.failing():
            done = self._store.database.execute(
                "INSERT INTO snapshots (owner, tree, by, turn, taken_ms, label, rewound_to)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    self._owner,
                    digest_in(tree),
                    by,
                    turn,
                    taken_ms,
                    label,
                    digest_in(rewound_to) if rewound_to else None,
                ),
            )
        return int(done.lastrowid or 0)

    def drop_below(self, turn: int) -> int:
        """Give up snapshots of turns below ``turn``, but the newest of them; how many went.

        The newest of the older ones is the state before ``turn`` and stays.
        """
        with self._store.turn, self._store.failing():
            gone = self._store.database.execute(
                "DELETE FROM snapshots WHERE owner = ?1 AND turn < ?2 AND id < "
                "(SELECT max(id) FROM snapshots WHERE owner = ?1 AND turn < ?2)",
                (self._owner, turn),
            ).rowcount
            self._store.database.execute("UPDATE owners SET floor = max(floor, ?) WHERE owner = ?", (turn, self._owner))
            self._store.database.execute(
                "DELETE FROM rewinds WHERE owner = ?1 AND state IN ('done', 'aborted') AND id < "
                "(SELECT max(id) FROM rewinds WHERE owner = ?1 AND state = 'done')",
                (self._owner,),
            )
        return gone

    def forget(self) -> None:
        """Give up everything of this owner."""
        with self._store.turn, self._store.failing():
            for table in ("snapshots", "rewinds", "owners"):
                self._store.database.execute(f"DELETE FROM {table} WHERE owner = ?", (self._owner,))

    # -- the owner -------------------------------------------------------------------------------

    @property
    def floor(self) -> int:
        """The oldest turn that can still be rewound to."""
        rows = self._rows("SELECT floor FROM owners WHERE owner = ?", self._owner)
        return int(rows[0][0]) if rows else 0

    def meet(self, root: bytes, identity: tuple[int, int]) -> bool:
        """Note which folder the owner works in; whether the path now names another folder."""
        seen = msgspec.msgpack.encode(identity)
        rows = self._rows("SELECT root, identity FROM owners WHERE owner = ?", self._owner)
        if rows and rows[0] == (root, seen):
            return False
        with self._store.turn, self._store.failing():
            self._store.database.execute(
                "INSERT INTO owners (owner, root, identity) VALUES (?, ?, ?)"
                " ON CONFLICT (owner) DO UPDATE SET root = excluded.root, identity = excluded.identity",
                (self._owner, root, seen),
            )
        return bool(rows) and rows[0][0] == root

    # -- rewinds ---------------------------------------------------------------------------------

    def begin_rewind(self, *, target: TreeId, safety: TreeId, plan: StoredPlan, at_ms: int) -> int:
        """Put a rewind on record before it acts; its number."""
        with self._store.turn, self._store.failing():
            done = self._store.database.execute(
                "INSERT INTO rewinds (owner, state, target, safety, plan, at_ms) VALUES (?, 'started', ?, ?, ?, ?)",
                (self._owner, digest_in(target), digest_in(safety), msgspec.msgpack.encode(plan), at_ms),
            )
        return int(done.lastrowid or 0)

    def set_rewind(self, rewind_id: int, state: str, after: TreeId | None = None) -> None:
        """Say how far a rewind is."""
        with self._store.turn, self._store.failing():
            self._store.database.execute(
                "UPDATE rewinds SET state = ?, after = ? WHERE id = ?",
                (state, digest_in(after) if after else None, rewind_id),
            )

    def unfinished(self) -> RewindRow | None:
        """The rewind that was cut off."""
        return self._rewind("state IN ('started', 'aborting')")

    def last_rewind(self) -> RewindRow | None:
        """The newest rewind that was carried to its end."""
        return self._rewind("state = 'done'")

    def _rewind(self, where: str) -> RewindRow | None:
        rows = self._rows(
            f"SELECT id, state, target, safety, after, plan FROM rewinds WHERE owner = ? AND {where}"
            " ORDER BY id DESC LIMIT 1",
            self._owner,
        )
        if not rows:
            return None
        number, state, target, safety, after, plan = rows[0]
        return RewindRow(
            id=number,
            state=state,
            target=tree_id(target),
            safety=tree_id(safety),
            after=tree_id(after) if after else None,
            plan=msgspec.msgpack.decode(plan, type=StoredPlan),
        )

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._store.turn, self._store.failing():
            return self._store.database.execute(query, values).fetchall()


def needed_digests(store: ContentStore, extra: Sequence[TreeId] = ()) -> set[bytes]:
    """Every content that a snapshot, a rewind or one of ``extra`` still needs, of all owners."""
    with store.turn, store.failing():
        rows = store.database.execute(
            "SELECT tree FROM snapshots UNION SELECT target FROM rewinds UNION SELECT safety FROM rewinds"
            " UNION SELECT after FROM rewinds WHERE after IS NOT NULL"
        ).fetchall()
    needed: set[bytes] = set()
    for tree in [row[0] for row in rows] + [digest_in(t) for t in extra]:
        needed.add(tree)
        needed.update(_below(store, store.tree(tree), needed))
    return needed


def _below(store: ContentStore, root: Folder, known: set[bytes]) -> Iterator[bytes]:
    todo = [root.digest]
    seen: set[bytes] = set()
    while todo:
        digest = todo.pop()
        if digest in known or digest in seen:
            continue
        seen.add(digest)
        yield digest
        for entry in store.entries(digest).values():
            if isinstance(entry, Folder):
                todo.append(entry.digest)
            elif (file := getattr(entry, "digest", None)) is not None:
                yield file


def _entry(row: tuple[Any, ...]) -> SnapshotEntry:
    number, tree, by, turn, taken_ms, label, rewound_to = row
    return SnapshotEntry(
        id=number,
        tree=tree_id(tree),
        by=by,
        turn=turn,
        taken_ms=taken_ms,
        label=label,
        rewound_to=tree_id(rewound_to) if rewound_to else None,
    )
