"""A tree written out as a folder of its own, for a fork: whole under its name, or not there.

Files that the live folder still holds unchanged are shared where the file system can (no bytes are
copied then) or copied by the kernel; the rest comes from the store.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock

import msgspec

from forkpoint.errors.files import WorkspaceFolderTaken, WorkspaceUnreachable
from forkpoint.workspace.disk import Disk
from forkpoint.workspace.looking import write_file
from forkpoint.workspace.memo import FolderMemo, Leaf, stamp_of
from forkpoint.workspace.reading import Readers
from forkpoint.workspace.tree import Entries, File, Folder, Link, Load, Unheld, join


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What a copy holds; ``shared`` and ``copied`` files came from the live folder, the rest was stored."""

    files: int
    size: int
    shared: int
    copied: int
    not_held: tuple[bytes, ...]


class Copying:
    """Writes one tree into one new folder."""

    def __init__(
        self,
        disk: Disk,
        load: Load,
        content: Callable[[bytes], bytes],
        *,
        source: int | None = None,
        memo: FolderMemo | None = None,
    ) -> None:
        self._disk, self._load, self._content = disk, load, content
        self._source, self._memo = source, memo
        self._files = self._size = self._shared = self._copied = 0
        self._not_held: list[bytes] = []
        self._may_share = True
        self._counting = Lock()

    def write(self, root: Folder, folder: Path) -> Copied:
        """Make ``folder``. Raises ``workspace.folder-taken``, ``workspace.unreachable``."""
        if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
            raise WorkspaceFolderTaken(path=str(folder))
        unfinished = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            unfinished.mkdir(mode=0o700)
            self._write_all(root, unfinished)
            unfinished.rename(folder)
        except OSError as error:
            _remove(unfinished)
            raise WorkspaceUnreachable(path=str(folder), reason=str(error)) from error
        except BaseException:
            _remove(unfinished)
            raise
        return Copied(
            files=self._files,
            size=self._size,
            shared=self._shared,
            copied=self._copied,
            not_held=tuple(sorted(self._not_held)),
        )

    def _write_all(self, root: Folder, unfinished: Path) -> None:
        base = self._disk.open_root(os.fsencode(unfinished))
        modes: list[tuple[bytes, int]] = []
        readers = Readers(self._disk)
        try:
            todo: list[tuple[bytes, Folder, FolderMemo | None]] = [(b"", root, self._memo)]
            while todo:
                path, folder, memo = todo.pop()
                modes.append((path, folder.mode))
                entries = self._load(folder.digest)
                at = self._disk.open_path(path.split(b"/") if path else [], base)
                try:
                    self._write_others(at, path, entries)
                    readers.submit(partial(self._write_files, path, entries, memo), at, _nothing)
                finally:
                    self._disk.close(at)
                for name, entry in entries.items():
                    if type(entry) is Folder:
                        inner = memo.folders.get(name) if memo is not None else None
                        todo.append((join(path, name), entry, inner))
            readers.finish(_nothing)
            for path, mode in sorted(modes, reverse=True):
                self._set_mode(base, path, mode)
        finally:
            readers.close()
            self._disk.close(base)

    def _write_others(self, at: int, path: bytes, entries: Entries) -> None:
        """Make the folders and links in a folder."""
        for name, entry in entries.items():
            match entry:
                case Folder():
                    self._disk.mkdir(name, at)
                case Link(target=target):
                    self._disk.symlink(target, name, at)
                case Unheld():
                    self._not_held.append(join(path, name))
                case File():
                    continue

    def _write_files(self, path: bytes, entries: Entries, memo: FolderMemo | None, at: int) -> None:
        """Write the files in a folder; two folders at once, because the kernel does most of it."""
        source = self._open_source(path.split(b"/") if path else []) if memo is not None else None
        try:
            for name, entry in entries.items():
                if not isinstance(entry, File):
                    continue
                leaf = memo.leaves.get(name) if memo is not None else None
                if source is None or leaf is None or not self._from_live(at, name, entry, source, leaf):
                    write_file(self._disk, name, at, self._content(entry.digest), entry.mode)
                with self._counting:
                    self._files += 1
                    self._size += entry.size
        finally:
            if source is not None:
                self._disk.close(source)

    def _open_source(self, names: list[bytes]) -> int | None:
        if self._source is None:
            return None
        try:
            return self._disk.open_path(names, self._source)
        except OSError:
            return None

    def _from_live(self, at: int, name: bytes, entry: File, source: int, leaf: Leaf) -> bool:
        """Copy the live file if it is still the one that the memo knows; whether that was done."""
        known = leaf.entry
        if type(known) is not File or known.digest != entry.digest or leaf.stamp is None:
            return False
        try:
            handle = self._disk.open_file(name, source)
        except OSError:
            return False
        try:
            if stamp_of(self._disk.fstat(handle)) != leaf.stamp:
                return False
            new = self._disk.create(name, at)
            try:
                self._transfer(handle, new, entry.size)
                self._disk.chmod(new, entry.mode)
                unchanged = stamp_of(self._disk.fstat(handle)) == leaf.stamp
                whole = unchanged and self._disk.fstat(new).st_size == entry.size
            finally:
                self._disk.close(new)
        finally:
            self._disk.close(handle)
        if not whole:
            self._disk.unlink(name, at)
        return whole

    def _transfer(self, handle: int, new: int, size: int) -> None:
        if self._may_share and size:
            try:
                self._disk.share(handle, new)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.EXDEV, errno.ENOSYS):
                    raise
                self._may_share = False
            else:
                with self._counting:
                    self._shared += 1
                return
        self._disk.copy_bytes(handle, new, size)
        with self._counting:
            self._copied += 1

    def _set_mode(self, base: int, path: bytes, mode: int) -> None:
        at = self._disk.open_path(path.split(b"/") if path else [], base)
        try:
            self._disk.chmod(at, mode)
        finally:
            self._disk.close(at)


def _nothing() -> None:
    """There is nothing to do while a copy waits."""


def _remove(folder: Path) -> None:
    """Remove an unfinished copy of our own; what can't be removed is hidden and named after us."""
    shutil.rmtree(folder, ignore_errors=True)
