"""Reading files so that what is stored was really there: twice where a stamp proves nothing.

``fstat`` before and after a read notices few torn reads, because a stamp moves only with the
clock's tick. A file whose stamp is young is therefore read twice, and counts only if both agree.
"""

import hashlib
import os
import stat
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Protocol

from forkpoint.workspace import packing
from forkpoint.workspace.disk import Disk
from forkpoint.workspace.memo import Leaf, fingerprint, is_young, stamp_of
from forkpoint.workspace.store import LARGE, ContentStore, Row
from forkpoint.workspace.tree import File, Unheld, digest_of

ATTEMPTS = 4
FLUSH_BYTES = 16 << 20
PIECE = 1 << 20


class Sink(Protocol):
    """Where a capture puts the bytes it finds."""

    stores: bool

    def content(self, data: bytes) -> bytes:
        """Keep a content; its digest."""
        ...

    def folder(self, data: bytes) -> bytes:
        """Keep a folder's encoded entries; their digest."""
        ...

    def large(self, pieces: Callable[[], bytes]) -> tuple[bytes, int]:
        """Keep a content that comes in pieces until an empty one; its digest and size."""
        ...

    def flush(self) -> None:
        """Hand over what piled up; only called by the thread that owns the capture."""
        ...


class Storing:
    """Keeps everything in a store; contents already there are not packed again."""

    stores = True

    def __init__(self, store: ContentStore) -> None:
        self._store = store
        self._known: set[bytes] | None = None
        self._seen: set[bytes] = set()
        self._rows: list[Row] = []
        self._waiting = 0
        self._mine = Lock()

    def expect_many(self) -> None:
        """Learn at once what is stored, instead of asking for each content."""
        self._known = self._store.digests()

    def content(self, data: bytes) -> bytes:
        digest = digest_of(data)
        if self._is_new(digest):
            how, packed = packing.pack(self._store.packing, data)
            self._pile((digest, how, len(data), len(packed), packed))
        return digest

    def folder(self, data: bytes) -> bytes:
        return self.content(data)

    def large(self, pieces: Callable[[], bytes]) -> tuple[bytes, int]:
        writing = self._store.begin_large()
        try:
            while piece := pieces():
                writing.add(piece)
            digest, size = writing.named()
            if self._is_new(digest):
                self._pile(writing.finish())
            else:
                writing.forget()
        except BaseException:
            writing.forget()
            raise
        finally:
            writing.close()
        return digest, size

    def flush(self) -> None:
        with self._mine:
            rows, self._rows, self._waiting = self._rows, [], 0
        if rows:
            self._store.insert(rows)

    def flush_if_full(self) -> None:
        """Keep the pile small while other threads add to it."""
        if self._waiting >= FLUSH_BYTES:
            self.flush()
            self._store.commit()

    def _is_new(self, digest: bytes) -> bool:
        with self._mine:
            if digest in self._seen:
                return False
            self._seen.add(digest)
        return not (self._store.has(digest) if self._known is None else digest in self._known)

    def _pile(self, row: Row) -> None:
        with self._mine:
            self._rows.append(row)
            self._waiting += row[3] if row[4] is not None else 0


class Measuring:
    """Keeps nothing but folders, in memory: what a dry run looks at."""

    stores = False

    def __init__(self) -> None:
        self.folders: dict[bytes, bytes] = {}

    def content(self, data: bytes) -> bytes:
        return digest_of(data)

    def folder(self, data: bytes) -> bytes:
        digest = digest_of(data)
        self.folders[digest] = data
        return digest

    def large(self, pieces: Callable[[], bytes]) -> tuple[bytes, int]:
        return digest_of_pieces(pieces)

    def flush(self) -> None:
        pass


def digest_of_pieces(pieces: Callable[[], bytes]) -> tuple[bytes, int]:
    """The digest and size of a content that comes in pieces until an empty one."""
    sha, size = hashlib.sha256(), 0
    while piece := pieces():
        sha.update(piece)
        size += len(piece)
    return sha.digest(), size


class Changed(Exception):
    """The file was another one after it was read."""


def read_leaf(disk: Disk, sink: Sink, name: bytes, at: int, *, max_bytes: int, now_ns: int) -> Leaf:
    """A regular file, read and kept.

    A file that changes under every attempt is noted as ``changing``, one that can't be opened as
    ``unreadable``. The stamp is left out while it proves nothing.
    """
    for _ in range(ATTEMPTS):
        try:
            handle = disk.open_file(name, at)
        except PermissionError:
            status = disk.stat(name, dir_fd=at)
            return Leaf(None, Unheld("unreadable", fingerprint(status)), True)
        try:
            return _read_open(disk, sink, handle, max_bytes=max_bytes, now_ns=now_ns)
        except Changed:
            continue
        finally:
            disk.close(handle)
    return Leaf(None, Unheld("changing", fingerprint(disk.stat(name, dir_fd=at))), True)


def _read_open(disk: Disk, sink: Sink, handle: int, *, max_bytes: int, now_ns: int) -> Leaf:
    before = disk.fstat(handle)
    if not stat.S_ISREG(before.st_mode):
        raise Changed
    if before.st_size > max_bytes:
        return Leaf(stamp_of(before), Unheld("too-large", fingerprint(before)), True)
    young = is_young(stamp_of(before), now_ns)
    pieces = _pieces(disk, handle)
    if before.st_size >= LARGE:
        if young:
            first, _ = digest_of_pieces(pieces)
            disk.rewind_to_start(handle)
        digest, size = sink.large(pieces)
        torn = young and first != digest
    else:
        data = _whole(disk, handle, before.st_size)
        size = len(data)
        torn = young and _again(disk, handle, size) != data
        digest = b"" if torn else sink.content(data)
    after = disk.fstat(handle)
    if torn or size != after.st_size or stamp_of(before) != stamp_of(after):
        raise Changed
    entry = File(stat.S_IMODE(after.st_mode), size, digest)
    stamp = None if young else stamp_of(after)
    return Leaf(stamp, entry, sink.stores, _lost(disk, handle, after))


def _lost(disk: Disk, handle: int, status: os.stat_result) -> tuple[str, ...]:
    named = tuple(a for a in disk.attributes(handle) if a not in ("security.selinux", "system.nfs4_acl"))
    return ("hard link",) * (status.st_nlink > 1) + named


def _whole(disk: Disk, handle: int, size: int) -> bytes:
    data = disk.read(handle, size + 1)
    if len(data) == size or not data:
        return data
    parts = [data]
    while len(data) and sum(map(len, parts)) <= size:
        data = disk.read(handle, PIECE)
        parts.append(data)
    return b"".join(parts)


def _again(disk: Disk, handle: int, size: int) -> bytes:
    disk.rewind_to_start(handle)
    return _whole(disk, handle, size)


def _pieces(disk: Disk, handle: int) -> Callable[[], bytes]:
    return lambda: disk.read(handle, PIECE)


class Readers:
    """Reads many files over a few Python threads, or one by one if there are few.

    Reading, hashing and packing release the interpreter, so two threads use two cores; more only
    wait for each other.
    """

    def __init__(self, disk: Disk, *, threads: int = 2, in_flight: int = 64) -> None:
        self._disk = disk
        self._pool = ThreadPoolExecutor(threads) if threads else None
        self._in_flight = in_flight
        self._waiting: deque[tuple[Future[None], int]] = deque()

    def submit(self, read: Callable[[int], None], at: int, between: Callable[[], None]) -> None:
        """Call ``read`` with a folder handle of its own; ``between`` runs while this one waits."""
        if self._pool is None:
            read(at)
            return
        own = os.dup(at)
        self._waiting.append((self._pool.submit(self._run, read, own), own))
        while len(self._waiting) >= self._in_flight:
            self._waiting.popleft()[0].result()
            between()

    def finish(self, between: Callable[[], None]) -> None:
        """Return when everything is read. Raises what a reading raised."""
        while self._waiting:
            self._waiting.popleft()[0].result()
            between()

    def close(self) -> None:
        """Stop; what was not begun is not read."""
        if self._pool is None:
            return
        for future, own in self._waiting:
            if future.cancel():
                os.close(own)
        self._pool.shutdown(wait=True)

    def _run(self, read: Callable[[int], None], own: int) -> None:
        try:
            read(own)
        finally:
            os.close(own)
