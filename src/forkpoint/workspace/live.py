"""The folder that is captured: where it is, what is left out, and what the last look remembers."""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from forkpoint.errors.files import (
    SnapshotIncomplete,
    WorkspaceBadIgnore,
    WorkspaceRefused,
)
from forkpoint.workspace.capture import Capture, Captured, CaptureStopped, Rules
from forkpoint.workspace.disk import Disk, require_folder_handles
from forkpoint.workspace.ignore import IGNORE_FILE, Ignore, IgnoreInvalid, parse_ignore
from forkpoint.workspace.looking import look_at
from forkpoint.workspace.memo import FolderMemo, RootMemo, decode_memo, encode_memo, forget_unstored
from forkpoint.workspace.reading import PIECE, Measuring, Sink, Storing
from forkpoint.workspace.store import ContentStore
from forkpoint.workspace.tree import File, digest_of, shown

_ATTEMPTS = 4
_WORTH_SAVING = 256
_RACES = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class LiveFolder:
    """A workspace's own folder. Checked when it is named; opened afresh for every look."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        disk: Disk,
        bulk: frozenset[bytes],
        max_file_bytes: int,
        own: Sequence[str | os.PathLike[str]],
        threads: int,
        may_be_gone: bool = False,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        require_folder_handles()
        self.path = _checked_root(root, may_be_gone=may_be_gone)
        self.disk, self._bulk, self._max, self._parallel = disk, bulk, max_file_bytes, threads
        self._own = tuple(Path(path).parent.resolve() / Path(path).name for path in own)
        if any(path == self.path or path in self.path.parents for path in self._own):
            raise WorkspaceRefused(root=str(self.path), problem="it is the store of snapshots, or lies in it")
        self._clock_ns = clock_ns
        self.memo: RootMemo | None = None
        self._memo_tried = False
        self._read_since_saved = 0

    @contextmanager
    def opened(self) -> Iterator[int]:
        """A handle on the folder. Raises ``WorkspaceRefused`` if it is gone."""
        try:
            handle = self.disk.open_root(os.fsencode(self.path))
        except OSError as error:
            raise WorkspaceRefused(root=str(self.path), problem=error.strerror or str(error)) from error
        try:
            yield handle
        finally:
            self.disk.close(handle)

    @contextmanager
    def opened_if_there(self) -> Iterator[int | None]:
        """A handle on the folder, or ``None`` if it is gone."""
        try:
            handle = self.disk.open_root(os.fsencode(self.path))
        except OSError:
            yield None
            return
        try:
            yield handle
        finally:
            self.disk.close(handle)

    def identity(self, handle: int) -> tuple[int, int]:
        """What tells the folder from another one at the same path."""
        status = self.disk.fstat(handle)
        return status.st_dev, status.st_ino

    def read_if(self, handle: int, path: bytes, entry: File) -> bytes | None:
        """A live file's bytes if it is still ``entry``, else ``None``."""
        *folders, name = path.split(b"/")
        try:
            at = self.disk.open_path(folders, handle)
        except OSError:
            return None
        try:
            if look_at(self.disk, name, at, entry) != entry:
                return None
            file = self.disk.open_file(name, at)
            try:
                data = b"".join(iter(lambda: self.disk.read(file, PIECE), b""))
            finally:
                self.disk.close(file)
            return data if digest_of(data) == entry.digest else None
        except OSError:
            return None
        finally:
            self.disk.close(at)

    def hold(self, handle: int, store: ContentStore) -> Captured:
        """Capture the folder into a store. Raises ``SnapshotIncomplete``; what was put in is not named."""
        try:
            return self._look(handle, lambda: Storing(store), store)
        except BaseException:
            # What the memo believes to be stored may not be: forget all of it.
            self.memo = None
            raise

    def measure(self, handle: int, store: ContentStore) -> tuple[Captured, Measuring]:
        """Look at the folder without storing anything."""
        last: list[Measuring] = []

        def sink() -> Measuring:
            last.append(Measuring())
            return last[-1]

        captured = self._look(handle, sink, store)
        return captured, last[-1]

    def _look(self, handle: int, sink: Callable[[], Sink], store: ContentStore) -> Captured:
        for attempt in range(_ATTEMPTS):
            rules = self._rules(handle)
            memo = self._memo_for(rules, store)
            capture = Capture(
                self.disk, handle, memo.root, rules, sink(), now_ns=self._clock_ns(), threads=self._parallel
            )
            try:
                captured = capture.run()
            except CaptureStopped as error:
                self.memo = None
                if error.reason.errno in _RACES and attempt < _ATTEMPTS - 1:
                    continue
                reason = error.reason.strerror or str(error.reason)
                raise SnapshotIncomplete(path=shown(error.path), reason=reason) from error
            self.memo = memo
            self._read_since_saved += captured.read
            return captured
        raise AssertionError("the last attempt returns or raises")

    def save_memo(self, store: ContentStore, *, always: bool = False) -> None:
        """Keep what is remembered for the next process, once enough was learned."""
        if self.memo is None or not (self._read_since_saved >= _WORTH_SAVING or (always and self._read_since_saved)):
            return
        self._read_since_saved = 0
        store.keep_memo(self._name(), encode_memo(self.memo))

    def _name(self) -> str:
        return hashlib.sha256(os.fsencode(self.path)).hexdigest()[:32]

    def _recalled(self, store: ContentStore) -> RootMemo | None:
        """What an earlier process kept; believed only as far as its contents are still stored."""
        if self._memo_tried:
            return None
        self._memo_tried = True
        data = store.kept_memo(self._name())
        memo = decode_memo(data) if data else None
        if memo is not None:
            forget_unstored(memo.root, store.digests())
        return memo

    def _memo_for(self, rules: Rules, store: ContentStore) -> RootMemo:
        generation, named = store.generation, rules.digest()
        memo = self.memo or self._recalled(store)
        if memo is None or memo.rules != named:
            return RootMemo(named, generation, FolderMemo())
        if memo.generation != generation:
            forget_unstored(memo.root, store.digests())
            memo.generation = generation
        return memo

    def _rules(self, handle: int) -> Rules:
        source = self._ignore_source(handle)
        try:
            ignore = parse_ignore(source) if source else Ignore()
        except IgnoreInvalid as error:
            raise WorkspaceBadIgnore(path=IGNORE_FILE.decode(), line=error.line, problem=error.problem) from error
        own = set()
        for path in self._own:
            try:
                status = path.stat()
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                own.add((status.st_dev, status.st_ino))
        return Rules(
            ignore=ignore,
            ignore_source=source,
            bulk=self._bulk,
            max_file_bytes=self._max,
            own=frozenset(own),
            own_paths=frozenset(
                os.fsencode(path.relative_to(self.path)) for path in self._own if path.is_relative_to(self.path)
            ),
        )

    def _ignore_source(self, handle: int) -> bytes:
        """The ignore file's bytes. One that can't be read fails the capture: it may name secrets."""
        try:
            file = self.disk.open_file(IGNORE_FILE, handle)
        except FileNotFoundError:
            return b""
        except OSError as error:
            problem = error.strerror or str(error)
            raise WorkspaceBadIgnore(path=IGNORE_FILE.decode(), line=0, problem=problem) from error
        try:
            if not stat.S_ISREG(self.disk.fstat(file).st_mode):
                raise WorkspaceBadIgnore(path=IGNORE_FILE.decode(), line=0, problem="it is no file")
            return self.disk.read(file, 1 << 20)
        except OSError as error:
            problem = error.strerror or str(error)
            raise WorkspaceBadIgnore(path=IGNORE_FILE.decode(), line=0, problem=problem) from error
        finally:
            self.disk.close(file)


def _checked_root(root: str | os.PathLike[str], *, may_be_gone: bool) -> Path:
    """The folder by its resolved path, or ``WorkspaceRefused``."""
    named = os.fspath(root)
    if not named or "\0" in named:
        raise WorkspaceRefused(root=named, problem="it names no folder")
    path = Path(named).resolve()
    if not path.is_dir() and not (may_be_gone and not path.exists()):
        raise WorkspaceRefused(root=str(path), problem="it is not an existing folder")
    homes = {Path(home).resolve() for home in (Path("~").expanduser(), os.environ.get("HOME")) if home}
    if path == Path(path.anchor):
        raise WorkspaceRefused(root=str(path), problem="it is the root of the file system")
    if any(path == home or path in home.parents for home in homes):
        raise WorkspaceRefused(root=str(path), problem="it is a home folder, or holds one")
    return path
