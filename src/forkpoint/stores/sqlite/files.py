"""The store's file: made whole or not at all, opened only if it is ours, its faults told in our words.

1. A new store is built under another name and linked into place, so that nobody ever sees half of one
   and of two who make it at once the first wins.
2. What is there already is judged by its first bytes, before SQLite sees it: a file that is not ours, or
   newer than we are, is not touched.
3. The file, and the folder if we make it, can be read by their user only; SQLite gives its side files
   the same rights.
"""

import errno
import os
import secrets
import sqlite3
from contextlib import closing, suppress
from importlib.resources import files
from pathlib import Path
from typing import Literal, TypeAlias

from forkpoint.errors import (
    StoreClosed,
    StoreDamaged,
    StoreForeign,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    StoreUnwritable,
)
from forkpoint.errors._base import ForkpointError

Synchronous: TypeAlias = Literal["full", "normal"]

APPLICATION_ID = 0x46524B50
"""What the header of a store says it is: ``FRKP``."""

VERSION = 1
"""The newest version of the store that this release knows."""

# Measured with commits of 700 and 1500 bytes: smaller pages leave more room unused (1.36x and 1.8x the bodies
# against 1.21x), larger ones cost more CPU a commit and save no room.
_PAGE_BYTES = 4096
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_SYNCHRONOUS: dict[Synchronous, str] = {"full": "FULL", "normal": "NORMAL"}
# How long SQLite itself waits, blocking the event loop, before we wait without blocking it.
_BLOCKING_MS = 20


def opened(path: Path, *, synchronous: Synchronous, read_only: bool, busy_s: float) -> sqlite3.Connection:
    """A connection to the store at ``path``, which is made if nothing is there. Raises the ``store.*`` errors."""
    try:
        if not read_only and not path.exists():
            _create(path)
        _judge(path)
    except OSError as error:
        raise told(path, error) from error
    try:
        return _connected(path, synchronous=synchronous, read_only=read_only, busy_s=busy_s)
    except sqlite3.Error as error:
        raise told(path, error, waited_s=busy_s) from error


def may_write(path: Path) -> bool:
    """Whether the operating system lets this process write ``path`` and beside it, or make it."""
    folder = path.parent
    return os.access(folder, os.W_OK) and os.access(path, os.W_OK) if path.exists() else True


def bytes_on_disk(path: Path) -> int:
    """The size of the store's file and of its write-ahead log."""
    total = 0
    for name in (path, _beside(path, "-wal")):
        with suppress(FileNotFoundError):
            total += name.stat().st_size
    return total


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection was in the way, so that the same may work in a moment."""
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def told(path: Path, error: OSError | sqlite3.Error, *, waited_s: float = 0.0) -> ForkpointError:
    """A fault below, as one of our errors."""
    name = str(path)
    if isinstance(error, OSError):
        return _told_of_os(name, error)
    match _primary_code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreLocked(path=name, waited_s=waited_s)
        case sqlite3.SQLITE_FULL:
            return StoreFull(path=name)
        case sqlite3.SQLITE_READONLY:
            return StoreReadOnly(path=name)
        case sqlite3.SQLITE_CORRUPT:
            return StoreDamaged(path=name, detail=str(error))
        case sqlite3.SQLITE_NOTADB:
            return StoreForeign(path=name, detail=str(error))
        case None if isinstance(error, sqlite3.ProgrammingError):
            return StoreClosed(path=name)
        case _:
            return StoreUnwritable(path=name, detail=str(error))


def _told_of_os(name: str, error: OSError) -> ForkpointError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreFull(path=name)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StoreReadOnly(path=name)
    return StoreUnwritable(path=name, detail=error.strerror or type(error).__name__)


def _primary_code(error: sqlite3.Error) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _judge(path: Path) -> None:
    if not path.is_file():
        raise StoreForeign(path=str(path), detail="it is missing" if not path.exists() else "it is not a file")
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    size = path.stat().st_size
    if not header:
        raise StoreForeign(path=str(path), detail="it is empty")
    if not header.startswith(_MAGIC):
        raise StoreForeign(path=str(path), detail="it is no SQLite file")
    if len(header) < _HEADER_BYTES:
        raise StoreDamaged(path=str(path), detail=f"only {size} bytes are left of it")
    if _number(header, 68) != APPLICATION_ID:
        raise StoreForeign(path=str(path), detail="it is the database of another program")
    _check_version(path, _number(header, 60))


def _check_version(path: Path, found: int) -> None:
    if found > VERSION:
        raise StoreTooNew(path=str(path), found=found, known=VERSION)
    if found < 1:
        raise StoreDamaged(path=str(path), detail=f"it says that its version is {found}")


def _number(header: bytes, offset: int) -> int:
    return int.from_bytes(header[offset : offset + 4], "big")


def _has_log(path: Path) -> bool:
    log = _beside(path, "-wal")
    return log.exists() and log.stat().st_size > 0


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.new")
    os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        try:
            with closing(sqlite3.connect(new, isolation_level=None)) as connection:
                _lay_out(connection)
        except sqlite3.Error as error:
            raise told(path, error) from error
        with suppress(FileExistsError):
            os.link(new, path)
        _flush_folder(path.parent)
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            _beside(new, suffix).unlink(missing_ok=True)


def _lay_out(connection: sqlite3.Connection) -> None:
    schema = files("forkpoint.stores").joinpath("sql/0001.sql").read_text("utf-8")
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.executescript(
        f"BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; {schema} COMMIT;"
    )
    connection.execute("PRAGMA journal_mode = WAL")


def _flush_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _connected(path: Path, *, synchronous: Synchronous, read_only: bool, busy_s: float) -> sqlite3.Connection:
    connection = _attached(path, "ro" if read_only else "rw", busy_s)
    try:
        if read_only:
            connection = _readable(path, connection, busy_s)
        else:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[synchronous]}")
            # Elsewhere than on macOS this does nothing: there alone fsync leaves data in the drive's cache.
            connection.execute(f"PRAGMA fullfsync = {int(synchronous == 'full')}")
        connection.execute("PRAGMA trusted_schema = OFF")
        # Asked again through SQLite: a change may lie in the log and not yet in the file.
        _check_version(path, connection.execute("PRAGMA user_version").fetchone()[0])
        connection.execute(f"PRAGMA busy_timeout = {min(_BLOCKING_MS, int(busy_s * 1000))}")
    except BaseException:
        connection.close()
        raise
    return connection


def _readable(path: Path, connection: sqlite3.Connection, busy_s: float) -> sqlite3.Connection:
    """``connection``, or one that needs no side files where they can be neither found nor made."""
    try:
        connection.execute("SELECT 1 FROM runs LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        if _primary_code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or _has_log(path):
            raise
        connection.close()
        return _attached(path, "ro&immutable=1", busy_s)
    return connection


def _attached(path: Path, mode: str, busy_s: float) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=busy_s, cached_statements=128)
