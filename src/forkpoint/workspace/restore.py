"""Files put back by a plan, through folder handles, so that a crash or a full disk loses nothing.

1. New contents are first written whole into a staging folder under the root, and only then renamed
   into place: a disk that fills up does so before anything changed.
2. Just before a path is overwritten or removed it is looked at again. What is there must be what the
   plan saw (its safety snapshot holds that) or what the plan wants; anything else is left alone.
3. Every part can be done again: after a crash the same plan is carried on, or turned round.
4. A read-only folder is opened for the time of the work and closed again at the end.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence

from forkpoint.workspace.disk import Disk
from forkpoint.workspace.looking import is_as, look_at, write_file
from forkpoint.workspace.plan import Kept
from forkpoint.workspace.tree import Change, Entry, File, Folder, Link, parent_of


class PutBackStopped(Exception):
    """The disk refused in the middle; ``done`` are the paths that are already as they should be."""

    def __init__(self, path: bytes, reason: OSError, done: Sequence[Change]) -> None:
        super().__init__(str(reason))
        self.path, self.reason, self.done = path, reason, tuple(done)


class Escaped(Exception):
    """A folder on the way to a path is a link now, or no folder."""

    def __init__(self, path: bytes, problem: str) -> None:
        super().__init__(problem)
        self.path, self.problem = path, problem


def passing_modes(changes: Sequence[Change], mode_of: Callable[[bytes], int | None]) -> dict[bytes, int]:
    """The modes of read-only folders that a plan must open on its way, to be set again at the end."""
    changed = {c.path for c in changes}
    parents = {b""}.union(parent_of(c.path) for c in changes if c.path) - changed
    modes = {path: mode_of(path) for path in parents}
    return {path: mode for path, mode in modes.items() if mode is not None and mode & 0o300 != 0o300}


def turned_round(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The plan that takes another back."""
    return tuple(Change(path=c.path, before=c.after, after=c.before) for c in changes)


class PutBack:
    """Carries out one plan under one root."""

    def __init__(
        self,
        disk: Disk,
        root: int,
        changes: Sequence[Change],
        *,
        content: Callable[[bytes], bytes],
        staging: bytes,
        folder_modes: Mapping[bytes, int],
    ) -> None:
        self._disk, self._root, self._content, self._staging = disk, root, content, staging
        self._changes = sorted(changes, key=lambda c: c.path)
        self._folder_modes = folder_modes
        self._going = {c.path for c in changes if type(c.before) is Folder and type(c.after) is not Folder}
        self._handle: tuple[bytes, int] | None = None
        self._opened: dict[bytes, int] = {}
        self._staged: dict[bytes, bytes] = {}
        self._done: dict[bytes, Change] = {}
        self._raced: dict[bytes, Kept] = {}

    @property
    def done(self) -> tuple[Change, ...]:
        """What is as the plan wants it, by path."""
        return tuple(self._done[path] for path in sorted(self._done))

    @property
    def raced(self) -> tuple[Kept, ...]:
        """What changed between plan and write and was left alone, by path."""
        return tuple(self._raced[path] for path in sorted(self._raced))

    def check_ways(self) -> None:
        """See that every folder that is there now is reached without a link.

        Raises ``Escaped``, and ``PutBackStopped`` for a folder that can't be opened. One that went in
        the meantime is no concern: what was in it is looked at again before it is touched.
        """
        made = {c.path for c in self._changes if type(c.before) is not Folder}
        try:
            for change in self._changes:
                above = parent_of(change.path)
                if change.path and not _any_above(change.path, made):
                    self._check_way(above)
        finally:
            self._release()

    def _check_way(self, path: bytes) -> None:
        try:
            if self._disk.can_change(self._folder(path)):
                return
        except FileNotFoundError:
            return
        except OSError as error:
            raise PutBackStopped(path, error, ()) from error
        raise PutBackStopped(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)), ())

    def stage(self) -> None:
        """Write new contents beside. Raises ``PutBackStopped``; nothing is changed yet."""
        with self._stopping(b""):
            self.clear_staging()
            todo = [c for c in self._changes if self._is_staged(c)]
            if not todo:
                return
            self._widen(b"", self._root)
            self._disk.mkdir(self._staging, self._root)
            at = self._disk.open_folder(self._staging, self._root)
        try:
            for number, change in enumerate(todo):
                name = b"%d" % number
                with self._stopping(change.path):
                    self._stage_one(change, name, at)
                self._staged[change.path] = name
        finally:
            self._disk.close(at)

    def act(self) -> None:
        """Remove, make, place and set modes. Raises ``PutBackStopped`` with what is done."""
        try:
            for change in reversed(self._changes):
                if _goes_first(change):
                    self._each(change, self._remove)
            for change in self._changes:
                if type(change.after) is Folder and type(change.before) is not Folder:
                    self._each(change, self._make_folder)
            for change in self._changes:
                if type(change.after) in (File, Link):
                    self._each(change, self._place)
            with self._stopping(b""):
                self.clear_staging()
            for change in reversed(self._changes):
                if type(change.after) is Folder:
                    self._each(change, self._set_folder_mode)
            self._close_opened()
        finally:
            self._release()

    def give_up(self) -> None:
        """Leave no trace of staging. Only before ``act``: nothing else was changed yet."""
        self.clear_staging()
        self._close_opened()
        self._release()

    def clear_staging(self) -> None:
        """Remove the staging folder and all in it, also what an earlier try left."""
        try:
            at = self._disk.open_folder(self._staging, self._root)
        except FileNotFoundError:
            return
        try:
            for name in self._disk.names(at):
                self._disk.unlink(name, at)
        finally:
            self._disk.close(at)
        self._disk.rmdir(self._staging, self._root)

    # -- one change ------------------------------------------------------------------------------

    def _each(self, change: Change, act: Callable[[Change, bytes, int], None]) -> None:
        if change.path in self._raced:
            return
        blocked = next((p for p in _above(change.path) if p in self._raced), None)
        if blocked is not None:
            self._raced[change.path] = Kept(path=change.path, reason="blocked", because_of=blocked)
            self._done.pop(change.path, None)
            return
        with self._stopping(change.path):
            if not change.path:
                self._disk.chmod(self._root, _mode(change.after))
                self._done[b""] = change
                return
            try:
                at = self._folder(parent_of(change.path))
            except (FileNotFoundError, Escaped):
                self._no_way(change)
                return
            act(change, change.path.rpartition(b"/")[2], at)

    def _no_way(self, change: Change) -> None:
        """The folder above is gone: an earlier try removed it with all it held, or someone else did."""
        if change.after is None and any(path in self._going for path in _above(change.path)):
            self._done[change.path] = change
        else:
            self._leave(change)

    def _remove(self, change: Change, name: bytes, at: int) -> None:
        seen = look_at(self._disk, name, at, change.before, change.after)
        if seen is None:
            self._done_if_gone(change)
        elif is_as(seen, change.after):
            self._done[change.path] = change
        elif not is_as(seen, change.before):
            self._leave(change)
        else:
            self._widen(parent_of(change.path), at)
            self._remove_one(change, name, at)

    def _remove_one(self, change: Change, name: bytes, at: int) -> None:
        if type(change.before) is not Folder:
            self._disk.unlink(name, at)
            self._done_if_gone(change)
            return
        self._release()
        try:
            self._disk.rmdir(name, self._folder(parent_of(change.path)))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            self._leave(change, "not-empty")
            return
        self._done_if_gone(change)

    def _done_if_gone(self, change: Change) -> None:
        if change.after is None:
            self._done[change.path] = change

    def _make_folder(self, change: Change, name: bytes, at: int) -> None:
        seen = look_at(self._disk, name, at, change.before, change.after)
        if type(seen) is Folder:
            return
        if seen is not None:
            self._leave(change)
            return
        self._widen(parent_of(change.path), at)
        self._disk.mkdir(name, at)

    def _place(self, change: Change, name: bytes, at: int) -> None:
        seen = look_at(self._disk, name, at, change.before, change.after)
        if is_as(seen, change.after):
            self._done[change.path] = change
            return
        if not (is_as(seen, change.before) or (seen is None and _goes_first(change))):
            self._leave(change)
            return
        if change.path not in self._staged:
            self._set_file_mode(change, name, at)
        else:
            self._widen(parent_of(change.path), at)
            staging = self._disk.open_folder(self._staging, self._root)
            try:
                self._disk.rename(self._staged[change.path], staging, name, at)
            finally:
                self._disk.close(staging)
        self._done[change.path] = change

    def _set_file_mode(self, change: Change, name: bytes, at: int) -> None:
        handle = self._disk.open_file(name, at)
        try:
            if stat.S_ISREG(self._disk.fstat(handle).st_mode):
                self._disk.chmod(handle, _mode(change.after))
        finally:
            self._disk.close(handle)

    def _set_folder_mode(self, change: Change, name: bytes, at: int) -> None:
        self._release()
        handle = self._disk.open_folder(name, self._folder(parent_of(change.path)))
        try:
            if stat.S_IMODE(self._disk.fstat(handle).st_mode) != _mode(change.after):
                self._disk.chmod(handle, _mode(change.after))
        finally:
            self._disk.close(handle)
        self._done[change.path] = change

    def _leave(self, change: Change, reason: str = "changed-since") -> None:
        kept = Kept(path=change.path, reason="not-empty" if reason == "not-empty" else "changed-since")
        self._raced[change.path] = kept
        self._done.pop(change.path, None)

    # -- staging and folders ---------------------------------------------------------------------

    def _stage_one(self, change: Change, name: bytes, at: int) -> None:
        entry = change.after
        if isinstance(entry, Link):
            self._disk.symlink(entry.target, name, at)
            return
        assert isinstance(entry, File)
        write_file(self._disk, name, at, self._content(entry.digest), entry.mode)

    def _is_staged(self, change: Change) -> bool:
        """Whether new bytes are needed. A mode alone is set in place, unless other names share the file."""
        before, after = change.before, change.after
        if not isinstance(after, File):
            return isinstance(after, Link)
        if not isinstance(before, File) or (before.digest, before.size) != (after.digest, after.size):
            return True
        name = change.path.rpartition(b"/")[2]
        try:
            return self._disk.stat(name, dir_fd=self._folder(parent_of(change.path))).st_nlink > 1
        except (FileNotFoundError, Escaped):
            return True

    def _folder(self, path: bytes) -> int:
        """A handle on a folder under the root; the last one is kept at hand."""
        if self._handle is not None and self._handle[0] == path:
            return self._handle[1]
        self._release()
        try:
            handle = self._disk.open_path(path.split(b"/") if path else [], self._root)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise Escaped(path, "leads through a link or something that is no folder") from error
            raise
        self._handle = (path, handle)
        return handle

    def _release(self) -> None:
        if self._handle is not None:
            self._disk.close(self._handle[1])
            self._handle = None

    def _widen(self, path: bytes, handle: int) -> None:
        """Let us write into a read-only folder until the end."""
        if path in self._opened:
            return
        mode = stat.S_IMODE(self._disk.fstat(handle).st_mode)
        self._opened[path] = mode
        if mode & 0o300 != 0o300:
            self._disk.chmod(handle, mode | 0o700)

    def _close_opened(self) -> None:
        for path, mode in sorted(self._folder_modes.items(), reverse=True):
            with self._stopping(path):
                handle = self._folder(path)
                if stat.S_IMODE(self._disk.fstat(handle).st_mode) != mode:
                    self._disk.chmod(handle, mode)

    @contextlib.contextmanager
    def _stopping(self, path: bytes) -> Iterator[None]:
        try:
            yield
        except Escaped as error:
            refused = OSError(errno.ELOOP, error.problem)
            raise PutBackStopped(path, refused, self.done) from error
        except OSError as error:
            raise PutBackStopped(path, error, self.done) from error


def _goes_first(change: Change) -> bool:
    """Whether what is there must be removed before the new can take its place."""
    if change.before is None:
        return False
    return change.after is None or (isinstance(change.before, Folder) != isinstance(change.after, Folder))


def _mode(entry: Entry | None) -> int:
    assert isinstance(entry, File | Folder)
    return entry.mode


def _above(path: bytes) -> list[bytes]:
    names = path.split(b"/")[:-1]
    return [b"/".join(names[: i + 1]) for i in range(len(names))]


def _any_above(path: bytes, paths: set[bytes]) -> bool:
    return any(above in paths for above in _above(path))
