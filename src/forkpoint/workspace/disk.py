"""The file system as the workspace uses it: everything through folder handles, no link followed.

Every call that writes goes through one method here, so that a test can stop the world at each of
them. Folder handles are plain descriptors; whoever opens one closes it.
"""

import errno
import fcntl
import os
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from forkpoint.errors.files import WorkspaceUnsupported

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_SHARE = 0x40049409 if sys.platform == "linux" else None
"""FICLONE, from linux/fs.h."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def require_folder_handles() -> None:
    """Raises ``WorkspaceUnsupported`` where files can't be reached through folder handles."""
    missing = [f.__name__ for f in (os.open, os.stat, os.unlink, os.rename) if f not in os.supports_dir_fd]
    missing += [name for name in ("O_NOFOLLOW", "O_DIRECTORY") if not hasattr(os, name)]
    if os.listdir not in os.supports_fd:
        missing.append("listdir of a handle")
    if missing:
        raise WorkspaceUnsupported(system=os.name, missing=", ".join(missing))


class Disk:
    """The real file system. A test may stand between by overriding methods."""

    # The system's own function and no method around it: a capture calls it for every file.
    stat = staticmethod(os.lstat)
    """The status of ``name`` in the folder ``dir_fd``, links unfollowed."""

    def open_root(self, path: bytes) -> int:
        """A handle on a workspace's own folder, by its resolved path."""
        return os.open(path, _FOLDER)

    def open_folder(self, name: bytes, at: int) -> int:
        """A handle on a folder; ``OSError`` if it is a link or no folder."""
        return os.open(name, _FOLDER, dir_fd=at)

    def open_path(self, names: Sequence[bytes], root: int) -> int:
        """A handle on the folder that lies ``names`` below ``root``, one name at a time."""
        at = os.dup(root)
        try:
            for name in names:
                inner = self.open_folder(name, at)
                os.close(at)
                at = inner
        except BaseException:
            os.close(at)
            raise
        return at

    def names(self, folder: int) -> list[bytes]:
        """What a folder holds."""
        return [os.fsencode(name) for name in os.listdir(folder)]

    def fstat(self, handle: int) -> os.stat_result:
        """The status of an open file or folder."""
        return os.fstat(handle)

    def open_file(self, name: bytes, at: int) -> int:
        """A handle to read a file; never waits for a pipe, never follows a link."""
        return os.open(name, _READ, dir_fd=at)

    def read(self, handle: int, size: int) -> bytes:
        """Up to ``size`` bytes from where the handle stands."""
        return os.read(handle, size)

    def rewind_to_start(self, handle: int) -> None:
        """Read again from the first byte."""
        os.lseek(handle, 0, os.SEEK_SET)

    def readlink(self, name: bytes, at: int) -> bytes:
        """What a link says."""
        return os.readlink(name, dir_fd=at)

    def attributes(self, handle: int) -> list[str]:
        """The names of a file's extended attributes, where the system tells."""
        listed = getattr(os, "listxattr", None)
        if listed is None:
            return []
        try:
            return list(listed(handle))
        except OSError:
            return []

    def can_change(self, handle: int) -> bool:
        """Whether we may make and remove names in an open folder, or give ourselves the right to."""
        effective = os.access in os.supports_effective_ids
        return os.fstat(handle).st_uid == os.geteuid() or os.access(
            b".", os.W_OK | os.X_OK, dir_fd=handle, effective_ids=effective
        )

    def close(self, handle: int) -> None:
        """Give a handle back."""
        os.close(handle)

    def create(self, name: bytes, at: int) -> int:
        """A handle to write a new file, 0600; ``FileExistsError`` if the name is taken."""
        return os.open(name, _CREATE, 0o600, dir_fd=at)

    def write(self, handle: int, data: bytes) -> None:
        """Write all of ``data``."""
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]

    def sync(self, handle: int) -> None:
        """Return when the bytes are on the disk."""
        os.fsync(handle)

    def chmod(self, handle: int, mode: int) -> None:
        """Set the permission bits of an open file or folder."""
        os.fchmod(handle, mode)

    def rename(self, name: bytes, at: int, to: bytes, to_at: int) -> None:
        """Move a name over another, in one moment."""
        os.rename(name, to, src_dir_fd=at, dst_dir_fd=to_at)

    def unlink(self, name: bytes, at: int) -> None:
        """Remove a file or a link."""
        os.unlink(name, dir_fd=at)

    def mkdir(self, name: bytes, at: int) -> None:
        """Make a folder that only its owner may use."""
        os.mkdir(name, 0o700, dir_fd=at)

    def rmdir(self, name: bytes, at: int) -> None:
        """Remove an empty folder."""
        os.rmdir(name, dir_fd=at)

    def symlink(self, target: bytes, name: bytes, at: int) -> None:
        """Make a link that says ``target``."""
        os.symlink(target, name, dir_fd=at)

    def share(self, handle: int, new: int) -> None:
        """Share a file's bytes with a new file; ``OSError`` where the file system can't."""
        if _SHARE is None:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        fcntl.ioctl(new, _SHARE, handle)

    def copy_bytes(self, handle: int, new: int, size: int) -> None:
        """Copy a file's bytes into a new file, inside the kernel where it can."""
        left = size
        try:
            while left and (done := os.copy_file_range(handle, new, left)):
                left -= done
        except (AttributeError, OSError):
            left = size
            self.rewind_to_start(handle)
            os.ftruncate(new, 0)
            os.lseek(new, 0, os.SEEK_SET)
            while data := self.read(handle, 1 << 20):
                self.write(new, data)

    def discard(self, path: Path) -> None:
        """Remove a file of the store's own, if it is there."""
        path.unlink(missing_ok=True)

    def commit(self, database: sqlite3.Connection) -> None:
        """Make what was written to a database last."""
        database.commit()
