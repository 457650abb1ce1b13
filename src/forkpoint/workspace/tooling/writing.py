"""Writes that are whole or not at all, one after the other for one path.

A new file is written beside the old one, made lasting, and renamed over it. Killed before the rename: the file is as
it was, and the next write to it removes what was left beside it. Killed after it: the file is the new one.
"""

import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from forkpoint.agents.tool import OutcomeUnknown, ToolContext
from forkpoint.errors.tools import FileBusy, FileChanged, FileReadOnly, PathEscapes, PathWrongKind
from forkpoint.workspace.tooling.reach import Reach, Spot, kind_of

WAIT_S = 10.0
"""How long a write waits for another one into the same folder."""

POLL_S = 0.005


@contextmanager
def writing(ctx: ToolContext, reach: Reach, spot: Spot) -> Iterator[None]:
    """Only one writes here at a time: of these tools, and of other processes' where the file system can lock.

    Raises ``tool.file-busy`` if it does not come free.
    """
    busy = FileBusy(path=spot.asked, waited_s=WAIT_S)
    if not reach.writing.acquire(timeout=WAIT_S):
        raise busy
    try:
        # The lock is the open folder's, so it goes with the handle, also if the process dies.
        until = time.monotonic() + WAIT_S
        while not _locked(spot.folder):
            if ctx.cancelled or time.monotonic() > until:
                raise busy
            time.sleep(POLL_S)
        yield
    finally:
        reach.writing.release()


def put(reach: Reach, spot: Spot, data: bytes, *, seen: tuple[int, ...] | None = None) -> None:
    """Make ``data`` the content of the file at ``spot``, with the permissions it had.

    With ``seen``, the stamp of the file whose content ``data`` was made from, raises ``tool.file-changed`` if it
    is another one by now. A set-id bit goes, as with any write.
    """
    now = _now(reach, spot)
    beside = b".forkpoint-" + hashlib.sha256(spot.name).hexdigest()[:16].encode()
    with suppress(FileNotFoundError):  # left by a write that was killed
        os.unlink(beside, dir_fd=spot.folder)
    handle = reach.create(beside, spot.folder, 0o666 if now is None else 0o600)
    try:
        try:
            if now is not None:
                _like(handle, now)
            reach.disk.write(handle, data)
            reach.disk.sync(handle)
        finally:
            os.close(handle)
        before = _now(reach, spot)
        if seen is not None and (before is None or stamp(before) != seen):
            raise FileChanged(path=spot.asked)
        reach.disk.rename(beside, spot.folder, spot.name, spot.folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=spot.folder)
        raise
    _sync_folder(reach, spot)


def stamp(status: os.stat_result) -> tuple[int, ...]:
    """What moves when a file is written: which file it is, its size and its times in ns."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _now(reach: Reach, spot: Spot) -> os.stat_result | None:
    """What is at the spot now: a file that may be written, or nothing."""
    if not spot.name:
        raise PathWrongKind(path=spot.asked, found="a folder", wanted="a file")
    try:
        status = reach.disk.stat(spot.name, dir_fd=spot.folder)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise PathEscapes(path=spot.asked, problem="was swapped for a link")
    if not stat.S_ISREG(status.st_mode):
        raise PathWrongKind(path=spot.asked, found=kind_of(status.st_mode), wanted="a file")
    effective = os.access in os.supports_effective_ids
    if not status.st_mode & 0o222 or not os.access(spot.name, os.W_OK, dir_fd=spot.folder, effective_ids=effective):
        raise FileReadOnly(path=spot.asked)
    return status


def _like(handle: int, old: os.stat_result) -> None:
    new = os.fstat(handle)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(PermissionError):  # not ours to give away: the file becomes ours, as in any editor
            os.fchown(handle, old.st_uid, old.st_gid)
    os.fchmod(handle, stat.S_IMODE(old.st_mode) & 0o777)


def _sync_folder(reach: Reach, spot: Spot) -> None:
    try:
        reach.disk.sync(spot.folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has no such thing for folders
            raise OutcomeUnknown(f"{spot.shown!r} was written, but may not last: {error.strerror}") from error


def _locked(folder: int) -> bool:
    """Whether the lock of a folder was got; also where the file system has none to give."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN)
    return True
