"""A folder captured whole: what every path is, with only what changed read again.

1. Folders are walked by handle, one at a time, links unfollowed; no stack of the interpreter and
   no more than a few handles are used, however deep the tree.
2. A folder whose stamp did not move is not listed again; its known files are still looked at.
3. Anything that can't be captured is an error or a note, never a gap.
"""

import errno
import os
import stat
from collections.abc import Iterator
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from forkpoint.workspace.disk import Disk
from forkpoint.workspace.ignore import BULK_FOLDERS, IGNORE_FILE, Ignore
from forkpoint.workspace.memo import FolderMemo, Leaf, fingerprint, is_young, stamp_of
from forkpoint.workspace.reading import Readers, Sink, Storing, read_leaf
from forkpoint.workspace.tree import (
    Entry,
    File,
    Folder,
    Link,
    Unheld,
    digest_of,
    encode_folder,
    join,
    shown,
)

DEFAULT_MAX_FILE_BYTES = 50 << 20

OPEN_FOLDERS = 96
"""How many folders above the present one keep their handles."""

MANY = 48
"""From this many files to read on, more than one thread reads."""

GROUP = 32

Kind: TypeAlias = Literal["held", "bulk", "git"]

_GIT_HELD = frozenset({b"HEAD", b"index", b"config", b"packed-refs", b"refs"})


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What a capture holds: the ignore rules, bulk folders, the size limit, and what is our own.

    ``own`` are folders by device and inode, ``own_paths`` paths below the root: a journal's files come and go.
    """

    ignore: Ignore = Ignore()
    ignore_source: bytes = b""
    bulk: frozenset[bytes] = BULK_FOLDERS
    max_file_bytes: int = DEFAULT_MAX_FILE_BYTES
    own: frozenset[tuple[int, int]] = frozenset()
    own_paths: frozenset[bytes] = frozenset()

    def digest(self) -> bytes:
        """Names these rules; a memo made under others is of no use."""
        own = (sorted(self.own), sorted(self.own_paths))
        return digest_of(msgspec.msgpack.encode((self.ignore_source, sorted(self.bulk), self.max_file_bytes, own)))

    def is_own(self, folder: bytes, name: bytes, status: os.stat_result) -> bool:
        """Whether a name in a folder is the caller's own."""
        if (status.st_dev, status.st_ino) in self.own:
            return True
        return bool(self.own_paths) and join(folder, name) in self.own_paths


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """A folder as it is: its root, what is noted but not held, and what a restore can't bring back."""

    root: Folder
    unheld: tuple[tuple[bytes, Unheld], ...]
    lost: tuple[tuple[bytes, tuple[str, ...]], ...]
    files: int
    size: int
    read: int


class CaptureStopped(Exception):
    """A path could not be captured."""

    def __init__(self, path: bytes, reason: OSError) -> None:
        super().__init__(f"{shown(path)}: {reason}")
        self.path, self.reason = path, reason


class _Frame:
    """A folder that is being walked."""

    __slots__ = ("above", "children", "handle", "kind", "memo", "name", "path")

    def __init__(self, handle: int, name: bytes, memo: FolderMemo, kind: Kind, above: "_Frame | None") -> None:
        self.handle, self.name, self.memo, self.kind, self.above = handle, name, memo, kind, above
        self.path: bytes = name if above is None else join(above.path, name)
        self.children: Iterator[tuple[bytes, FolderMemo]] = iter(())


class Capture:
    """One pass over a folder. ``memo`` is what the last pass remembers, and is brought up to date."""

    def __init__(
        self, disk: Disk, root: int, memo: FolderMemo, rules: Rules, sink: Sink, *, now_ns: int, threads: int = 2
    ) -> None:
        self._disk, self._root, self._memo, self._rules, self._sink = disk, root, memo, rules, sink
        self._now_ns, self._parallel = now_ns, threads
        self._device = 0
        self._stack: list[_Frame] = []
        self._finished: list[_Frame] = []
        self._reads: list[tuple[_Frame, list[bytes]]] = []
        self._pending = 0
        self._readers: Readers | None = None
        self._unheld: list[tuple[bytes, Unheld]] = []
        self._lost: list[tuple[bytes, tuple[str, ...]]] = []
        self._read = self._files = self._size = 0

    def run(self) -> Captured:
        """Walk, read and encode. Raises ``CaptureStopped`` with the path that could not be captured."""
        try:
            self._walk()
            if self._readers is not None:
                self._readers.finish(self._between)
        finally:
            if self._readers is not None:
                self._readers.close()
            for frame in self._stack:
                if frame.handle >= 0:
                    self._disk.close(frame.handle)
        self._encode()
        self._sink.flush()
        return Captured(
            root=Folder(self._memo.mode, self._memo.digest),
            unheld=tuple(sorted(self._unheld, key=_first)),
            lost=tuple(sorted(self._lost, key=_first)),
            files=self._files,
            size=self._size,
            read=self._read,
        )

    # -- walking ---------------------------------------------------------------------------------

    def _walk(self) -> None:
        root = os.dup(self._root)
        frame = _Frame(root, b"", self._memo, "held", None)
        self._device = self._disk.fstat(root).st_dev
        self._stack.append(frame)
        self._look(frame)
        while self._stack:
            frame = self._stack[-1]
            for name, memo in frame.children:
                self._enter(frame, name, memo)
                entered = self._stack[-1]
                if entered is frame:
                    continue
                if memo.folders:
                    break
                self._leave(entered)
            else:
                self._leave(frame)

    def _enter(self, above: _Frame, name: bytes, memo: FolderMemo) -> None:
        path = join(above.path, name)
        try:
            handle = self._disk.open_folder(name, self._handle(above))
        except FileNotFoundError:
            self._gone(above, name)
            return
        except PermissionError:
            self._unreadable_folder(above, name)
            return
        except OSError as error:
            self._gone(above, name)
            raise CaptureStopped(path, error) from error
        if len(self._stack) >= OPEN_FOLDERS:
            self._close(self._stack[len(self._stack) - OPEN_FOLDERS + 1])
        frame = _Frame(handle, name, memo, _kind_below(above.kind, name, self._rules), above)
        self._stack.append(frame)
        self._look(frame)

    def _leave(self, frame: _Frame) -> None:
        self._close(frame)
        self._stack.pop()
        self._finished.append(frame)

    def _handle(self, frame: _Frame) -> int:
        """The frame's handle, opened again from the root if it was given back."""
        if frame.handle < 0:
            names = [f.name for f in self._stack[1 : self._stack.index(frame) + 1]]
            frame.handle = self._disk.open_path(names, self._root)
        return frame.handle

    def _close(self, frame: _Frame) -> None:
        if frame.handle >= 0:
            self._disk.close(frame.handle)
            frame.handle = -1

    def _gone(self, above: _Frame, name: bytes) -> None:
        above.memo.folders.pop(name, None)
        above.memo.stamp = None
        above.memo.digest = b""

    def _unreadable_folder(self, above: _Frame, name: bytes) -> None:
        status = self._disk.stat(name, dir_fd=self._handle(above))
        self._gone(above, name)
        above.memo.leaves[name] = Leaf(None, Unheld("unreadable", fingerprint(status)), True)

    # -- one folder ------------------------------------------------------------------------------

    def _look(self, frame: _Frame) -> None:
        """See what changed in a folder, and read it."""
        memo = frame.memo
        status = self._disk.fstat(frame.handle)
        stamp = stamp_of(status)
        try:
            moved = self._moved(frame) if stamp == memo.stamp else None
            if moved is None:
                memo.digest = b""
                moved = self._listed(frame)
                memo.mode = stat.S_IMODE(status.st_mode)
                memo.stamp = None if is_young(stamp, self._now_ns) else stamp
            self._read_moved(frame, moved)
        except OSError as error:
            raise CaptureStopped(frame.path, error) from error
        if memo.folders:
            frame.children = iter(sorted(memo.folders.items()))

    def _moved(self, frame: _Frame) -> list[tuple[bytes, os.stat_result]] | None:
        """The known files whose stamps moved, or ``None`` if one went: the hot path of every capture."""
        look, at = self._disk.stat, frame.handle
        moved = []
        try:
            for name, leaf in frame.memo.leaves.items():
                st = look(name, dir_fd=at)
                if leaf.stamp != (st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino, st.st_mode):
                    moved.append((name, st))
        except FileNotFoundError:
            return None
        return moved

    def _listed(self, frame: _Frame) -> list[tuple[bytes, os.stat_result]]:
        """List a folder again; what it holds that is new or moved."""
        memo, look, at = frame.memo, self._disk.stat, frame.handle
        leaves: dict[bytes, Leaf] = {}
        folders: dict[bytes, FolderMemo] = {}
        moved = []
        for name in self._disk.names(at):
            try:
                st = look(name, dir_fd=at)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(st.st_mode) and self._walks(frame, name, st):
                folders[name] = memo.folders.get(name) or FolderMemo()
                continue
            known = memo.leaves.get(name)
            leaves[name] = known or _UNSEEN
            if known is None or known.stamp != stamp_of(st):
                moved.append((name, st))
        memo.leaves, memo.folders = leaves, folders
        return moved

    def _walks(self, frame: _Frame, name: bytes, status: os.stat_result) -> bool:
        return self._passed_over(frame, name, status) is None

    def _passed_over(self, frame: _Frame, name: bytes, status: os.stat_result) -> Entry | None:
        """The note for what is not looked into at all, or ``None``."""
        is_folder = stat.S_ISDIR(status.st_mode)
        if self._rules.is_own(frame.path, name, status) or (is_folder and name == b".forkpoint"):
            return Unheld("store")
        if is_folder and status.st_dev != self._device:
            return Unheld("mount")
        if frame.kind == "git" and name not in _GIT_HELD:
            return Unheld("git")
        if frame.kind != "held" or not self._rules.ignore.rules:
            return None
        if self._rules.ignore.names(join(frame.path, name), is_folder=is_folder) and (
            frame.path or name != IGNORE_FILE
        ):
            return Unheld("ignored", b"" if is_folder else fingerprint(status))
        return None

    def _read_moved(self, frame: _Frame, moved: list[tuple[bytes, os.stat_result]]) -> None:
        memo, files = frame.memo, []
        for name, status in moved:
            is_read = stat.S_ISREG(status.st_mode) and frame.kind != "bulk"
            if is_read and self._passed_over(frame, name, status) is None:
                files.append(name)
                continue
            memo.digest = b""
            memo.leaves[name] = self._unread(frame, name, status)
        if self._sink.stores and not memo.stored:
            known = set(files)
            files += [name for name, leaf in memo.leaves.items() if not leaf.stored and name not in known]
        if files:
            memo.digest = b""
            self._read += len(files)
            self._read_files(frame, files)

    def _unread(self, frame: _Frame, name: bytes, status: os.stat_result) -> Leaf:
        """What needs no reading: links, devices, and what is noted only."""
        stamp = None if is_young(stamp_of(status), self._now_ns) else stamp_of(status)
        passed = self._passed_over(frame, name, status)
        if passed is not None:
            return Leaf(stamp, passed, True)
        if frame.kind == "bulk":
            return Leaf(stamp, Unheld("bulk", fingerprint(status)), True)
        if stat.S_ISLNK(status.st_mode):
            return Leaf(stamp, Link(self._disk.readlink(name, frame.handle)), True)
        if stat.S_ISDIR(status.st_mode):
            became = NotADirectoryError(errno.ENOTDIR, "became a folder while it was looked at")
            raise CaptureStopped(join(frame.path, name), became)
        mark = msgspec.msgpack.encode((stat.S_IFMT(status.st_mode), status.st_rdev))
        return Leaf(stamp, Unheld("not-a-file", mark), True)

    def _read_files(self, frame: _Frame, names: list[bytes]) -> None:
        self._pending += len(names)
        if self._readers is None and self._parallel and self._pending >= MANY:
            self._readers = Readers(self._disk, threads=self._parallel)
            if isinstance(self._sink, Storing):
                self._sink.expect_many()
        if self._readers is None:
            self._read_group(frame.memo, frame.path, names, frame.handle)
            return
        for i in range(0, len(names), GROUP):
            group = partial(self._read_group, frame.memo, frame.path, names[i : i + GROUP])
            self._readers.submit(group, frame.handle, self._between)

    def _read_group(self, memo: FolderMemo, path: bytes, names: list[bytes], at: int) -> None:
        for name in names:
            try:
                memo.leaves[name] = read_leaf(
                    self._disk, self._sink, name, at, max_bytes=self._rules.max_file_bytes, now_ns=self._now_ns
                )
            except FileNotFoundError:
                # Gone since it was listed: as if it had gone before.
                memo.leaves[name] = _GONE
            except OSError as error:
                raise CaptureStopped(join(path, name), error) from error

    def _between(self) -> None:
        if isinstance(self._sink, Storing):
            self._sink.flush_if_full()

    # -- encoding --------------------------------------------------------------------------------

    def _encode(self) -> None:
        """Name every folder by its content, the deepest first; count and note on the way."""
        for frame in self._finished:
            memo = frame.memo
            if not (memo.digest and memo.stored):
                self._encode_one(frame)
                if frame.above is not None:
                    frame.above.memo.digest = b""
            self._files += memo.files
            self._size += memo.size
            if memo.unheld and frame.kind != "bulk":
                self._unheld.extend((join(frame.path, name), note) for name, note in memo.unheld)
            if memo.lost:
                self._lost.extend((join(frame.path, name), what) for name, what in memo.lost)

    def _encode_one(self, frame: _Frame) -> None:
        memo = frame.memo
        for name in [n for n, leaf in memo.leaves.items() if leaf is _GONE]:
            del memo.leaves[name]
            memo.stamp = None
        entries: dict[bytes, Entry] = {name: leaf.entry for name, leaf in memo.leaves.items()}
        for name, inner in memo.folders.items():
            kind = _kind_below(frame.kind, name, self._rules)
            entries[name] = Unheld("bulk", inner.digest) if kind == "bulk" else Folder(inner.mode, inner.digest)
        data = encode_folder(entries)
        memo.digest = digest_of(data) if frame.kind == "bulk" else self._sink.folder(data)
        memo.stored = self._sink.stores
        held = [e.size if type(e) is File else 0 for e in entries.values() if type(e) in (File, Link)]
        memo.files, memo.size = len(held), sum(held)
        memo.unheld = [(name, e) for name, e in entries.items() if type(e) is Unheld]
        memo.lost = [(name, leaf.lost) for name, leaf in memo.leaves.items() if leaf.lost]


def _kind_below(above: Kind, name: bytes, rules: Rules) -> Kind:
    if above == "bulk" or name in rules.bulk:
        return "bulk"
    return "git" if name == b".git" else "held"


def _first(pair: tuple[bytes, object]) -> bytes:
    return pair[0]


_UNSEEN = Leaf(None, Unheld("changing"), False)
_GONE = Leaf(None, Unheld("changing"), True)
