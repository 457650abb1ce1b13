"""How a snapshot is taken and put on record: capture, name, commit, and only then is it one."""

import contextlib
import os
from collections.abc import Callable, Iterator

from forkpoint.errors.files import RewindUnfinished, SnapshotNotFound, SnapshotPruned
from forkpoint.workspace.aim import listed
from forkpoint.workspace.live import LiveFolder
from forkpoint.workspace.plan import By
from forkpoint.workspace.port import NotHeld, NotKept, Snapshot, SnapshotEntry
from forkpoint.workspace.register import Register
from forkpoint.workspace.store import ContentStore
from forkpoint.workspace.tree import (
    Change,
    Folder,
    TreeId,
    Unheld,
    differences,
    digest_in,
    digest_of,
    encode_tree,
    tree_id,
)


class Taking:
    """Takes snapshots of one folder into one store for one owner."""

    def __init__(
        self,
        live: LiveFolder,
        store: ContentStore,
        register: Register,
        *,
        keep_turns: int | None,
        clock_ms: Callable[[], int],
    ) -> None:
        self.live, self.store, self.register, self.clock_ms = live, store, register, clock_ms
        self._keep_turns = keep_turns

    def take(self, root: int, *, by: By, turn: int | None, label: str) -> Snapshot:
        """Hold the folder and put it on record, or leave no record."""
        try:
            return self._take(root, by=by, turn=turn, label=label)
        except BaseException:
            # What the memo believes to be stored may have been rolled back.
            self.live.memo = None
            self.store.roll_back()
            raise

    def _take(self, root: int, *, by: By, turn: int | None, label: str) -> Snapshot:
        captured = self.live.hold(root, self.store)
        tree = self.keep_tree(captured.root)
        replaced = self.register.meet(os.fsencode(self.live.path), self.live.identity(root))
        last = self.register.last()
        at_turn = turn if turn is not None else (last.turn if last else 0)
        taken_ms = self.clock_ms()
        if last is not None and (last.tree, last.turn, label) == (tree, at_turn, ""):
            number = last.id
        else:
            number = self.register.add(tree, by=by, turn=at_turn, taken_ms=taken_ms, label=label)
            self._retain(last, at_turn)
        self.store.commit()
        self.live.save_memo(self.store)
        return Snapshot(
            id=number,
            tree=tree,
            by=by,
            turn=at_turn,
            taken_ms=taken_ms,
            changes=self._changes_since(last, captured.root, tree),
            not_held=tuple(NotHeld(path=path, reason=note.reason) for path, note in captured.unheld),
            not_kept=tuple(NotKept(path=path, what=what) for path, what in captured.lost),
            files=captured.files,
            size=captured.size,
            notices=self._notices(replaced),
        )

    def keep_tree(self, root: Folder) -> TreeId:
        """Store a tree's name for its root folder."""
        data = encode_tree(root)
        digest = digest_of(data)
        self.keep_folder(digest, data)
        return tree_id(digest)

    def keep_folder(self, digest: bytes, data: bytes) -> None:
        """Store a folder's entries."""
        if not self.store.has(digest):
            self.store.insert([(digest, 0, len(data), len(data), data)])

    def tree(self, tree: TreeId) -> Folder:
        """A tree's root folder. Raises ``snapshot.pruned`` or ``snapshot.not-found``."""
        try:
            digest = digest_in(tree)
        except ValueError as error:
            raise SnapshotNotFound(wanted=tree, kept="named sha256:…") from error
        if not self.store.has(digest):
            if self.register.floor:
                raise SnapshotPruned(wanted=tree, floor=self.register.floor)
            raise SnapshotNotFound(wanted=tree, kept=listed(self.register.snapshots()))
        return self.store.tree(digest)

    def refuse_unfinished(self) -> None:
        """Raises ``workspace.rewind-unfinished`` while a rewind that was cut off waits."""
        row = self.register.unfinished()
        if row is not None:
            raise RewindUnfinished(root=str(self.live.path), rewind_id=row.id, state=row.state)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Commit what is put on record inside, or none of it."""
        try:
            yield
            self.store.commit()
        except BaseException:
            self.store.roll_back()
            raise

    def _changes_since(self, last: SnapshotEntry | None, root: Folder, tree: TreeId) -> tuple[Change, ...]:
        if last is None or last.tree == tree:
            return ()
        found = differences(self.store.entries, self.tree(last.tree), root)
        return tuple(change for change in found if not _is_own(change))

    def _retain(self, last: SnapshotEntry | None, turn: int) -> None:
        if self._keep_turns is not None and last is not None and turn > last.turn:
            floor = turn - self._keep_turns + 1
            if floor > 0:
                self.register.drop_below(floor)

    def _notices(self, replaced: bool) -> tuple[str, ...]:
        notices = []
        if replaced:
            notices.append(f"{self.live.path} is another folder than at the last snapshot")
        stored, cap = self.store.stored_bytes, self.store.cap_bytes
        if stored * 5 >= cap * 4:
            notices.append(f"the store holds {stored} of at most {cap} bytes; prune, or raise the cap")
        return tuple(notices)


def _is_own(change: Change) -> bool:
    """Whether only our own store came or went: nobody changed anything."""
    return all(side is None or side == _OWN for side in (change.before, change.after))


_OWN = Unheld("store")
