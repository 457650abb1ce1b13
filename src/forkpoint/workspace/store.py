"""Where the bytes of snapshots lie: small contents in SQLite rows, large ones as files beside it.

1. A content is named by its SHA-256 and is checked against it whenever it is read.
2. A large content's file is whole and named before its row exists; a row is the truth, a file
   without one is swept.
3. Whoever stores holds the guard shared, whoever sweeps holds it alone: reuse and collection of
   the same content never meet.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import TypeAlias

from forkpoint.errors.files import (
    SnapshotCorrupt,
    SnapshotStoreFailed,
    SnapshotStoreForeign,
    SnapshotStoreFull,
)
from forkpoint.workspace import packing
from forkpoint.workspace.disk import Disk
from forkpoint.workspace.tree import Entries, Folder, TreeInvalid, decode_folder, decode_tree, digest_of

LARGE = 1 << 20
"""Contents of this many bytes or more are files, smaller ones rows."""

DEFAULT_CAP = 5 << 30

Row: TypeAlias = tuple[bytes, int, int, int, bytes | None]
"""A content as a row: digest, packing, size, bytes it takes, and the packed bytes if not in a file."""

_APPLICATION = 0x46505753
_VERSION = 1
_SCHEMA = """
CREATE TABLE contents (
  digest BLOB PRIMARY KEY, packing INTEGER NOT NULL, size INTEGER NOT NULL, stored INTEGER NOT NULL, data BLOB
);
CREATE TABLE owners (
  owner TEXT PRIMARY KEY, root BLOB NOT NULL, identity BLOB NOT NULL, floor INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE snapshots (
  id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, tree BLOB NOT NULL, by TEXT NOT NULL,
  turn INTEGER NOT NULL, taken_ms INTEGER NOT NULL, label TEXT NOT NULL, rewound_to BLOB
);
CREATE INDEX snapshots_by_owner ON snapshots (owner, id);
CREATE TABLE rewinds (
  id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, state TEXT NOT NULL, target BLOB NOT NULL,
  safety BLOB NOT NULL, after BLOB, plan BLOB NOT NULL, at_ms INTEGER NOT NULL
);
CREATE INDEX rewinds_by_owner ON rewinds (owner, id);
CREATE TABLE numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO numbers VALUES ('stored_bytes', 0), ('generation', 0);
"""


class ContentStore:
    """A folder (0700) that holds contents by digest, and the database of what refers to them.

    ``cap_bytes`` bounds what contents may take; reaching it refuses new snapshots and deletes
    nothing. ``compression`` is ``auto`` (zstd where installed, else zlib), ``zlib`` or ``none``.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        cap_bytes: int = DEFAULT_CAP,
        compression: str = "auto",
        disk: Disk | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.cap_bytes = cap_bytes
        self.disk = disk or Disk()
        self.packing = {"auto": packing.best_packing(), "zlib": packing.ZLIB, "none": packing.RAW}[compression]
        self.turn = RLock()
        self._folders: OrderedDict[bytes, Entries] = OrderedDict()
        self._large = self.folder / "large"
        self._tmp = self.folder / "tmp"
        try:
            for needed in (self.folder, self._large, self._tmp):
                needed.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.chmod(0o700)
        except OSError as error:
            raise SnapshotStoreFailed(path=str(self.folder), reason=str(error)) from error
        self.database = self._open(self.folder / "files.db")
        self._clear_leftovers()

    def close(self) -> None:
        """Give the database back."""
        with self.turn:
            self.database.close()

    # -- reading ---------------------------------------------------------------------------------

    def has(self, digest: bytes) -> bool:
        """Whether the content is stored."""
        with self.turn, self.failing():
            row = self.database.execute("SELECT 1 FROM contents WHERE digest = ?", (digest,)).fetchone()
        return row is not None

    def digests(self) -> set[bytes]:
        """The digests of everything stored."""
        with self.turn, self.failing():
            return {row[0] for row in self.database.execute("SELECT digest FROM contents")}

    def content(self, digest: bytes) -> bytes:
        """The bytes named ``digest``. Raises ``SnapshotCorrupt`` if they are missing or changed."""
        with self.turn, self.failing():
            row = self.database.execute(
                "SELECT packing, size, data FROM contents WHERE digest = ?", (digest,)
            ).fetchone()
        if row is None:
            raise SnapshotCorrupt(digest=digest.hex(), problem="is missing")
        how, size, data = row
        try:
            packed = data if data is not None else self._path(digest, how).read_bytes()
            content = packing.unpack(how, packed, size)
        except (packing.PackingInvalid, OSError) as error:
            raise SnapshotCorrupt(digest=digest.hex(), problem=str(error)) from error
        if digest_of(content) != digest:
            raise SnapshotCorrupt(digest=digest.hex(), problem="has other bytes than its name says")
        return content

    def entries(self, digest: bytes) -> Entries:
        """A stored folder's entries, the latest read kept at hand."""
        with self.turn:
            known = self._folders.get(digest)
            if known is not None:
                self._folders.move_to_end(digest)
                return known
            try:
                entries = decode_folder(self.content(digest))
            except TreeInvalid as error:
                raise SnapshotCorrupt(digest=digest.hex(), problem=str(error)) from error
            self._folders[digest] = entries
            while len(self._folders) > 4096:
                self._folders.popitem(last=False)
            return entries

    def forget_read(self) -> None:
        """Let go of the folders kept at hand."""
        with self.turn:
            self._folders.clear()

    def tree(self, digest: bytes) -> Folder:
        """A stored tree's root folder."""
        try:
            return decode_tree(self.content(digest))
        except TreeInvalid as error:
            raise SnapshotCorrupt(digest=digest.hex(), problem=str(error)) from error

    # -- counting --------------------------------------------------------------------------------

    @property
    def stored_bytes(self) -> int:
        """Bytes that contents take as packed, files and rows together."""
        return self._number("stored_bytes")

    @property
    def generation(self) -> int:
        """A number that grows with every sweep: what was known to be stored may be gone."""
        return self._number("generation")

    def _number(self, name: str) -> int:
        with self.turn, self.failing():
            row = self.database.execute("SELECT value FROM numbers WHERE name = ?", (name,)).fetchone()
        return int(row[0])

    # -- writing ---------------------------------------------------------------------------------

    @contextmanager
    def guard(self, *, alone: bool = False) -> Iterator[None]:
        """Hold off sweeps (shared), or everyone (``alone``), in any process."""
        handle = os.open(self.folder / "guard", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield
        finally:
            os.close(handle)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Say in our words what the database or the disk below it refused."""
        try:
            yield
        except sqlite3.Error as error:
            raise SnapshotStoreFailed(path=str(self.folder), reason=str(error)) from error

    def insert(self, rows: Sequence[Row]) -> None:
        """Add contents that are not stored yet. Raises ``SnapshotStoreFull`` at the cap."""
        with self.turn, self.failing():
            grown = 0
            for row in rows:
                added = self.database.execute("INSERT OR IGNORE INTO contents VALUES (?, ?, ?, ?, ?)", row)
                grown += row[3] if added.rowcount == 1 else 0
            if grown:
                self._grow(grown)
            stored = self.stored_bytes
        if grown and stored > self.cap_bytes:
            raise SnapshotStoreFull(stored_bytes=stored, cap_bytes=self.cap_bytes)

    def commit(self) -> None:
        """Make what was inserted last."""
        with self.turn, self.failing():
            self.disk.commit(self.database)

    def roll_back(self) -> None:
        """Forget what was inserted since the last commit."""
        with self.turn, self.failing():
            self.database.rollback()

    def begin_large(self) -> "LargeContent":
        """A large content to be written piece by piece."""
        return LargeContent(disk=self.disk, folder=self.folder, how=self.packing)

    def keep_memo(self, name: str, data: bytes) -> None:
        """Keep what a capture remembers. It costs time to lose, never truth: a refusal is let be."""
        temporary = self._tmp / secrets.token_hex(16)
        with contextlib.suppress(OSError):
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                self.disk.write(handle, data)
            finally:
                os.close(handle)
            temporary.replace(self.folder / f"memo-{name}")

    def kept_memo(self, name: str) -> bytes:
        """What a capture remembers, or nothing."""
        try:
            return (self.folder / f"memo-{name}").read_bytes()
        except OSError:
            return b""

    def sweep(self, needed: Set[bytes]) -> tuple[int, int]:
        """Delete contents that are not ``needed``; their number and bytes. Ask with the guard alone."""
        with self.turn, self.failing():
            stored = self.database.execute("SELECT digest, stored FROM contents").fetchall()
            gone = [(digest, size) for digest, size in stored if digest not in needed]
            freed = sum(size for _, size in gone)
            self.database.executemany("DELETE FROM contents WHERE digest = ?", [(d,) for d, _ in gone])
            if gone:
                self._grow(-freed)
                self.database.execute("UPDATE numbers SET value = value + 1 WHERE name = 'generation'")
            self.disk.commit(self.database)
            self._folders.clear()
            rows = self.database.execute("SELECT digest, packing FROM contents WHERE data IS NULL")
            in_files = {self._path(digest, how) for digest, how in rows}
        for file in self._large.glob("*/*"):
            if file not in in_files:
                self.disk.discard(file)
        self._shrink()
        return len(gone), freed

    def _shrink(self) -> None:
        """Give room in the database's file back, if half of it is free. Room is all that a refusal costs."""
        with self.turn, contextlib.suppress(sqlite3.OperationalError):
            free, pages = (self.database.execute(f"PRAGMA {n}").fetchone()[0] for n in ("freelist_count", "page_count"))
            if free * 2 >= pages:
                self.database.execute("VACUUM")
                self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _grow(self, by: int) -> None:
        self.database.execute("UPDATE numbers SET value = value + ? WHERE name = 'stored_bytes'", (by,))

    def _path(self, digest: bytes, how: int) -> Path:
        # The packing is part of the name: two writers with different ones don't spoil each other's row.
        return self._large / digest.hex()[:2] / f"{digest.hex()}.{how}"

    def _clear_leftovers(self) -> None:
        """Remove what writers that died left behind, unless someone is writing now."""
        handle = os.open(self.folder / "guard", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        else:
            for file in self._tmp.iterdir():
                self.disk.discard(file)
        finally:
            os.close(handle)

    def _open(self, path: Path) -> sqlite3.Connection:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            database = sqlite3.connect(path, timeout=30, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise SnapshotStoreFailed(path=str(path), reason=str(error)) from error
        try:
            _prepare(database, str(path))
        except BaseException:
            database.close()
            raise
        return database


class LargeContent:
    """A content on its way into a file of its own: hashed and packed as it is written."""

    def __init__(self, *, disk: Disk, folder: Path, how: int) -> None:
        self._disk, self._folder, self._how = disk, folder, how
        self._hash = hashlib.sha256()
        self._size = self._stored = 0
        self._name = secrets.token_hex(16).encode()
        self._tmp = os.open(folder / "tmp", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._piece, self._end = packing.packer(how)
        try:
            self._handle = disk.create(self._name, self._tmp)
        except BaseException:
            os.close(self._tmp)
            raise

    def add(self, piece: bytes) -> None:
        """The next bytes."""
        self._hash.update(piece)
        self._size += len(piece)
        self._write(self._piece(piece))

    def named(self) -> tuple[bytes, int]:
        """The digest and size of what was added."""
        return self._hash.digest(), self._size

    def finish(self) -> Row:
        """Make the file last under its name; the row that will refer to it."""
        self._write(self._end())
        self._disk.sync(self._handle)
        digest = self._hash.digest()
        into = self._folder / "large" / digest.hex()[:2]
        into.mkdir(mode=0o700, exist_ok=True)
        to = os.open(into, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._disk.rename(self._name, self._tmp, f"{digest.hex()}.{self._how}".encode(), to)
            self._disk.sync(to)
        finally:
            os.close(to)
        return digest, self._how, self._size, self._stored, None

    def forget(self) -> None:
        """Remove the unfinished file, if it is still there."""
        with contextlib.suppress(FileNotFoundError):
            self._disk.unlink(self._name, self._tmp)

    def close(self) -> None:
        """Give the handles back."""
        os.close(self._handle)
        os.close(self._tmp)

    def _write(self, data: bytes) -> None:
        self._stored += len(data)
        self._disk.write(self._handle, data)


def _prepare(database: sqlite3.Connection, path: str) -> None:
    """Set up a new database, or refuse one that is not ours."""
    try:
        application = database.execute("PRAGMA application_id").fetchone()[0]
        version = database.execute("PRAGMA user_version").fetchone()[0]
        tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and application != _APPLICATION:
            raise SnapshotStoreForeign(path=path, problem="it belongs to another program")
        if tables and version != _VERSION:
            raise SnapshotStoreForeign(path=path, problem=f"it has version {version}, not {_VERSION}")
        if not tables:
            database.execute("PRAGMA page_size = 16384")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        if not tables:
            _create(database)
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error):
            raise SnapshotStoreForeign(path=path, problem=str(error)) from error
        raise SnapshotStoreFailed(path=path, reason=str(error)) from error


def _create(database: sqlite3.Connection) -> None:
    """Make the tables in one transaction, unless another process was faster."""
    database.execute("BEGIN IMMEDIATE")
    if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        for statement in _SCHEMA.split(";"):
            database.execute(statement)
        database.execute(f"PRAGMA application_id = {_APPLICATION}")
        database.execute(f"PRAGMA user_version = {_VERSION}")
    database.commit()
