"""One path of the live folder: what is there, whether that was expected, and a new file beside it."""

import errno
import stat

from forkpoint.workspace.disk import Disk
from forkpoint.workspace.reading import PIECE, digest_of_pieces
from forkpoint.workspace.tree import Entry, File, Folder, Link, Unheld


def write_file(disk: Disk, name: bytes, at: int, data: bytes, mode: int) -> None:
    """A new file with these bytes and exactly this mode."""
    handle = disk.create(name, at)
    try:
        for start in range(0, len(data), PIECE):
            disk.write(handle, data[start : start + PIECE])
        disk.chmod(handle, mode)
    finally:
        disk.close(handle)


def look_at(disk: Disk, name: bytes, at: int, *candidates: Entry | None) -> Entry | None:
    """What is at a name now. A file's bytes are only read if its size is that of a candidate."""
    try:
        status = disk.stat(name, dir_fd=at)
    except FileNotFoundError:
        return None
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return Link(disk.readlink(name, at))
    if stat.S_ISDIR(status.st_mode):
        return Folder(mode, bytes(32))
    if not stat.S_ISREG(status.st_mode) or not any(
        isinstance(c, File) and c.size == status.st_size for c in candidates
    ):
        return Unheld("not-a-file")
    try:
        handle = disk.open_file(name, at)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return Unheld("not-a-file")
    try:
        digest, size = digest_of_pieces(lambda: disk.read(handle, PIECE))
        return File(stat.S_IMODE(disk.fstat(handle).st_mode), size, digest)
    finally:
        disk.close(handle)


def is_as(seen: Entry | None, expected: Entry | None) -> bool:
    """Whether what is there is what was expected; a folder's entries speak for themselves."""
    if isinstance(seen, Folder) and isinstance(expected, Folder):
        return True
    return seen == expected
