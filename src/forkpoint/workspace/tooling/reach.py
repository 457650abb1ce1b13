"""The folder that tools may reach: every path is opened name by name, and nothing leads out.

1. A name is opened in the open folder above it, with no link followed by the kernel.
2. A link is read and walked here, name by name, from where it lies; a step above the root is an escape.
3. What is found is a name in an open folder. Whatever is swapped afterwards, the folder is the one that was checked.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from forkpoint.agents.tool import ToolContext
from forkpoint.errors.runs import WorkspaceNone
from forkpoint.errors.tools import (
    FileUnusable,
    PathClosed,
    PathEscapes,
    PathNotFound,
    PathWrongKind,
)
from forkpoint.workspace.disk import Disk
from forkpoint.workspace.live import LiveFolder
from forkpoint.workspace.tooling.spelling import names_of, spelled
from forkpoint.workspace.tree import join

MAX_LINKS = 40
"""Links on one path before it counts as a circle; the kernel's own number."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A name in an open folder, and what is there: ``None`` for nothing. Never a link.

    ``asked`` is the path as it was given, ``path`` where its links led. ``name`` is empty if the spot is the open
    folder itself.
    """

    folder: int
    name: bytes
    path: bytes
    asked: str
    status: os.stat_result | None

    @property
    def shown(self) -> str:
        """The path for a model's eyes."""
        return spelled(self.path) or "."


class Reach:
    """A folder by its resolved path, and the ways into it.

    ``closed`` are paths below it that no tool opens, in any case of their letters. Raises ``workspace.refused``
    for ``/``, a home folder or no folder, and ``workspace.unsupported`` without folder handles.
    """

    def __init__(self, root: str | os.PathLike[str], *, closed: Sequence[str] = ()) -> None:
        self.disk = Disk()
        self._live = LiveFolder(root, disk=self.disk, bulk=frozenset(), max_file_bytes=0, own=(), threads=0)
        self._closed = tuple(_folded(b"/".join(names_of(path))) for path in closed)
        self.writing = Lock()

    @property
    def root(self) -> Path:
        """The folder's resolved path."""
        return self._live.path

    @contextmanager
    def opened(self) -> Iterator[int]:
        """A handle on the folder."""
        with self._live.opened() as handle:
            yield handle

    @contextmanager
    def spot(self, path: str, *, make_folders: bool = False) -> Iterator[Spot]:
        """What a path names, in a folder that is open for as long as this lasts.

        With ``make_folders`` the folders on the way are made where they are missing, and removed again if what
        is done there fails.
        """
        names = names_of(path)
        with ExitStack() as until, _told(path):
            way = _Way(self, path, until.enter_context(self.opened()), make_folders=make_folders)
            until.callback(way.close)
            try:
                yield way.walk(names)
            except BaseException:
                way.unmake()
                raise

    @contextmanager
    def folder(self, path: str) -> Iterator[Spot]:
        """A folder, open: ``folder`` is its own handle, ``path`` where it is."""
        with self.spot(path) as spot:
            status = present(spot)
            if not stat.S_ISDIR(status.st_mode):
                raise PathWrongKind(path=path, found=kind_of(status.st_mode), wanted="a folder")
            if not spot.name:
                yield spot
                return
            handle = self.disk.open_folder(spot.name, spot.folder)
            try:
                yield Spot(folder=handle, name=b"", path=spot.path, asked=path, status=status)
            finally:
                os.close(handle)

    @contextmanager
    def file(self, spot: Spot) -> Iterator[int]:
        """A handle to read a file that was found; nothing but a file is ever opened."""
        if not stat.S_ISREG(present(spot).st_mode):
            raise PathWrongKind(path=spot.asked, found=kind_of(present(spot).st_mode), wanted="a file")
        handle = self.disk.open_file(spot.name, spot.folder)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise PathEscapes(path=spot.asked, problem="was swapped while it was opened")
            yield handle
        finally:
            os.close(handle)

    def create(self, name: bytes, at: int, mode: int) -> int:
        """A handle to write a new file, its permissions ``mode`` less what the process's umask takes away."""
        return os.open(name, _NEW, mode, dir_fd=at)

    def is_closed(self, path: bytes) -> bool:
        """Whether a path from the root lies in what is closed to tools."""
        folded = _folded(path)
        return any(folded == closed or folded.startswith(closed + b"/") for closed in self._closed)


ReachOf: TypeAlias = Callable[[ToolContext], Reach]
"""From a call to the folder that it may reach."""


def reach_of(root: str | os.PathLike[str] | None, *, closed: Sequence[str]) -> ReachOf:
    """The folder ``root`` for every call; with ``None`` the workspace of the run that a call belongs to.

    A call in a run without a workspace raises ``workspace.none``.
    """
    if root is not None:
        fixed = Reach(root, closed=closed)
        return lambda _: fixed
    known: dict[str, Reach] = {}
    turn = Lock()

    def of_run(ctx: ToolContext) -> Reach:
        if ctx.workspace is None:
            raise WorkspaceNone(run=ctx.run_id)
        with turn:
            if ctx.workspace not in known:
                known[ctx.workspace] = Reach(ctx.workspace, closed=closed)
            return known[ctx.workspace]

    return of_run


def present(spot: Spot) -> os.stat_result:
    """The status of what is at a spot. Raises ``tool.path-not-found``."""
    if spot.status is None:
        raise PathNotFound(path=spot.asked)
    return spot.status


def kind_of(mode: int) -> str:
    """What something is, in words, from its mode."""
    kinds = (
        (stat.S_ISREG, "a file"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((word for is_kind, word in kinds if is_kind(mode)), "a device")


class _Way:
    """A walk from the root: the folders open on the way to where it stands, and those it made."""

    def __init__(self, reach: Reach, asked: str, root: int, *, make_folders: bool) -> None:
        self._reach, self._asked, self._make_folders = reach, asked, make_folders
        self._root = root
        self._open: list[tuple[bytes, int]] = []
        self._made: list[tuple[bytes, int]] = []
        self._links = 0

    def walk(self, names: Sequence[bytes]) -> Spot:
        """Where the names lead, every link on the way walked from where it lies."""
        pending = deque(names)
        own = len(pending)
        while pending:
            name = pending.popleft()
            is_linked = len(pending) >= own
            own = min(own, len(pending))
            if name == b"..":
                self._climb()
                continue
            self._refuse_closed(name)
            status = self._status(name)
            if status is not None and stat.S_ISLNK(status.st_mode):
                pending.extendleft(reversed(self._target(name)))
            elif status is None and is_linked:
                raise self._escapes("goes through a link that leads to nothing")
            elif not pending:
                return self._spot(name, status)
            else:
                self._enter(name, status)
        return self._spot(b"", os.fstat(self._at))

    def close(self) -> None:
        for _, handle in self._open + self._made:
            os.close(handle)
        self._open.clear()
        self._made.clear()

    def unmake(self) -> None:
        """Remove the folders that were made here, as far as nobody has put anything into them."""
        for name, above in reversed(self._made):
            with suppress(OSError):  # no longer empty: it is someone's now
                os.rmdir(name, dir_fd=above)

    @property
    def _at(self) -> int:
        return self._open[-1][1] if self._open else self._root

    def _path(self, name: bytes) -> bytes:
        here = b"/".join(above for above, _ in self._open)
        return join(here, name) if name else here

    def _spot(self, name: bytes, status: os.stat_result | None) -> Spot:
        return Spot(folder=self._at, name=name, path=self._path(name), asked=self._asked, status=status)

    def _status(self, name: bytes) -> os.stat_result | None:
        try:
            return self._reach.disk.stat(name, dir_fd=self._at)
        except FileNotFoundError:
            return None

    def _refuse_closed(self, name: bytes) -> None:
        if self._reach.is_closed(self._path(name)):
            raise PathClosed(path=self._asked)

    def _target(self, name: bytes) -> list[bytes]:
        self._links += 1
        if self._links > MAX_LINKS:
            raise self._escapes("goes through links in a circle")
        target = self._reach.disk.readlink(name, self._at)
        if target.startswith(b"/"):
            target = self._below_root(target)
            self._leave_all()
        return [part for part in target.split(b"/") if part not in (b"", b".")]

    def _below_root(self, target: bytes) -> bytes:
        root = os.fsencode(self._reach.root)
        if target != root and not target.startswith(root + b"/"):
            raise self._escapes("goes through a link that leads out of the folder")
        return target[len(root) :]

    def _climb(self) -> None:
        if not self._open:
            raise self._escapes("goes through a link that leads out of the folder")
        os.close(self._open.pop()[1])

    def _leave_all(self) -> None:
        while self._open:
            os.close(self._open.pop()[1])

    def _enter(self, name: bytes, status: os.stat_result | None) -> None:
        if status is None:
            if not self._make_folders:
                raise PathNotFound(path=self._asked)
            self._make(name)
        elif not stat.S_ISDIR(status.st_mode):
            raise PathWrongKind(path=spelled(self._path(name)), found=kind_of(status.st_mode), wanted="a folder")
        self._open.append((name, self._reach.disk.open_folder(name, self._at)))

    def _make(self, name: bytes) -> None:
        try:
            os.mkdir(name, 0o777, dir_fd=self._at)
        except FileExistsError:
            return  # another call made it just now, and it is theirs
        self._made.append((name, os.dup(self._at)))

    def _escapes(self, problem: str) -> PathEscapes:
        return PathEscapes(path=self._asked, problem=problem)


@contextmanager
def _told(path: str) -> Iterator[None]:
    """What the system refuses, told as an error of the path that was asked for."""
    try:
        yield
    except FileNotFoundError as error:
        raise PathNotFound(path=path) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise PathEscapes(path=path, problem="was swapped while it was opened") from error
        raise FileUnusable(path=path, reason=error.strerror or str(error)) from error


def _folded(path: bytes) -> bytes:
    return path.decode("utf-8", "surrogateescape").casefold().encode("utf-8", "surrogateescape")
