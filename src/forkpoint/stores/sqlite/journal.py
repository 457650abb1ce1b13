"""The journal over one SQLite file, for any number of processes of one machine.

1. Additions are committed on the event loop, in groups (see ``grouping``): an OS thread in between
   costs more than the commit.
2. A lease is checked in the transaction of the events written under it. One whose time is up counts as long
   as nobody has taken it over: refusing would lose an outcome that did happen. That its holder performs
   nothing more is the performer's to see, just before it performs.
3. Commands carry no lease and are checked against the head alone.
4. While another process writes we wait without blocking the event loop, up to ``busy_s``.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from forkpoint.errors import BlobMissing, LeaseLost, RunBusy, RunNotFound, StoreClosed, StoreReadOnly
from forkpoint.errors._base import ForkpointError
from forkpoint.ids import check_run_id
from forkpoint.ports import Append, Commit, Lease, Page, RunFilter, RunRow, StoredCheckpoint
from forkpoint.stores.grouping import Grouping
from forkpoint.stores.owners import Owners
from forkpoint.stores.rules import check_append, check_filter, is_free, is_text
from forkpoint.stores.sqlite import files, reading, removal
from forkpoint.stores.sqlite.files import Synchronous
from forkpoint.stores.sqlite.writing import Writer

T = TypeVar("T")

_PAUSE_S = 0.005


class SqliteJournal:
    """The journal in the file ``path``, which is made if it is not there.

    ``synchronous`` says what survives a loss of power: ``full`` everything that was acknowledged, ``normal``
    all but the last moments (a crash of the process alone loses nothing either way). ``busy_s`` is how long
    to wait while another process writes. One OS thread uses it, any number of processes may have the file
    open. ``commits_made`` counts the transactions that appended events.

    Raises the ``store.*`` errors.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "full",
        busy_s: float = 5.0,
        read_only: bool = False,
    ) -> None:
        # One name for one file, so that all who open it look for owners in the same place.
        self.path = Path(os.path.realpath(path))
        self.read_only = read_only or not files.may_write(self.path)
        self.commits_made = 0
        self._busy_s = busy_s
        self._pid = os.getpid()
        self._connection = files.opened(self.path, synchronous=synchronous, read_only=self.read_only, busy_s=busy_s)
        self._owners = Owners(self.path.with_name(self.path.name + "-owners"))
        self._change = self._connection.cursor().execute
        self._writer = Writer(self._connection)
        self._performed: set[str] = set()
        self._group = Grouping[Append](self._begin, self._write, alone=self._is_alone)

    async def append(self, append: Append) -> None:
        """See ``Journal.append``."""
        check_append(append)
        await self._group.add(append)

    def _is_alone(self, append: Append) -> bool:
        """Whether this is the one run that is performed here: nothing else is about to be added."""
        return append.lease is not None and len(self._performed) == 1

    def _begin(self, since_s: float) -> float:
        self._check_here()
        try:
            self._change("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            return self._pause(error, since_s)
        return 0.0

    def _write(self, appends: Sequence[Append]) -> Sequence[Exception | None]:
        refusals: Sequence[Exception | None] = (None,)
        try:
            if len(appends) == 1:
                self._writer.add(appends[0])
            else:
                refusals = [self._added_apart(append) for append in appends]
            self._change("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise self._told(error) from error
        except BaseException:
            self._roll_back()
            raise
        self.commits_made += 1
        return refusals

    def _added_apart(self, append: Append) -> Exception | None:
        """Add one of several, so that its refusal leaves the others alone."""
        execute = self._connection.execute
        execute("SAVEPOINT apart")
        try:
            self._writer.add(append)
        except Exception as error:
            if not self._connection.in_transaction:
                # The fault took the whole transaction along.
                raise
            execute("ROLLBACK TO apart")
            execute("RELEASE apart")
            return self._told(error) if isinstance(error, sqlite3.Error) else error
        execute("RELEASE apart")
        return None

    async def row(self, run: str) -> RunRow | None:
        """See ``Journal.row``."""
        check_run_id(run)
        return await self._patiently(lambda on: reading.row(on, run, self._owners.alive))

    async def rows(self, which: RunFilter, *, after: int | None = None, limit: int = 50) -> Page:
        """See ``Journal.rows``."""
        check_filter(which, after, limit)
        alive = self._owners.alive
        return Page(*await self._patiently(lambda on: reading.rows(on, which, after, limit, alive)))

    async def children(self, run: str) -> tuple[RunRow, ...]:
        """See ``Journal.children``."""
        check_run_id(run)
        return await self._patiently(lambda on: reading.children(on, run, self._owners.alive))

    async def commits(self, run: str, *, after: int = 0, upto: int | None = None) -> list[Commit]:
        """See ``Journal.commits``."""
        check_run_id(run)
        return await self._patiently(lambda on: reading.commits(on, run, after=after, upto=upto, bodies=True))

    async def outlines(self, run: str, *, after: int = 0, upto: int | None = None) -> list[Commit]:
        """See ``Journal.outlines``."""
        check_run_id(run)
        return await self._patiently(lambda on: reading.commits(on, run, after=after, upto=upto, bodies=False))

    async def commit_reaching(self, run: str, *, step: int | None = None, turn: int | None = None) -> Commit | None:
        """See ``Journal.commit_reaching``."""
        check_run_id(run)
        column, reach = ("step", step) if step is not None else ("turn", turn or 0)
        return await self._patiently(lambda on: reading.commit_reaching(on, run, column, reach))

    async def effects_of_call(self, run: str, call: str) -> tuple[int, ...]:
        """See ``Journal.effects_of_call``."""
        check_run_id(run)
        if not is_text(call):
            return ()
        return await self._patiently(lambda on: reading.effects_of_call(on, run, call))

    async def checkpoint(self, run: str, *, upto: int) -> StoredCheckpoint | None:
        """See ``Journal.checkpoint``."""
        check_run_id(run)
        return await self._patiently(lambda on: reading.checkpoint(on, run, upto))

    async def blob(self, digest: str) -> bytes:
        """See ``Journal.blob``."""
        if not is_text(digest):
            raise BlobMissing(digest=repr(digest)[:200])
        return await self._patiently(lambda on: reading.blob(on, digest))

    async def take_lease(self, run: str, *, owner: str, now_ms: int, until_ms: int) -> Lease:
        """See ``Journal.take_lease``. Raises ``lease.owner-taken`` as well."""
        check_run_id(run)
        self._enter(owner)

        def take(on: sqlite3.Connection) -> Lease:
            found = on.execute(
                "SELECT number, owner, epoch, lease_until_ms FROM runs WHERE run = ? AND deleted = 0", (run,)
            ).fetchone()
            if found is None:
                raise RunNotFound(run=run)
            number, holder, epoch, held_until_ms = found
            alive = None if holder is None else self._owners.alive(holder)
            mine = holder == owner
            if not is_free(holder, mine=mine, alive=alive, until_ms=held_until_ms, now_ms=now_ms):
                raise RunBusy(run=run, owner=holder)
            on.execute(
                "UPDATE runs SET epoch = ?, owner = ?, lease_until_ms = ? WHERE number = ?",
                (epoch + 1, owner, until_ms, number),
            )
            return Lease(run=run, owner=owner, epoch=epoch + 1, until_ms=until_ms)

        lease = await self._writing(take)
        self._performed.add(run)
        return lease

    def _enter(self, owner: str) -> None:
        self._check_here()
        if self.read_only:
            raise StoreReadOnly(path=str(self.path))
        try:
            self._owners.enter(owner)
        except OSError as error:
            raise files.told(self.path, error) from error

    async def renew_lease(self, lease: Lease) -> None:
        """See ``Journal.renew_lease``."""
        text = (
            "UPDATE runs SET lease_until_ms = max(lease_until_ms, ?)"
            " WHERE run = ? AND owner = ? AND epoch = ? AND deleted = 0"
        )
        values = (lease.until_ms, lease.run, lease.owner, lease.epoch)
        if not await self._writing(lambda on: on.execute(text, values).rowcount):
            raise LeaseLost(run=lease.run, owner=lease.owner, epoch=lease.epoch)

    async def release_lease(self, lease: Lease) -> None:
        """See ``Journal.release_lease``."""
        text = "UPDATE runs SET owner = NULL, lease_until_ms = 0 WHERE run = ? AND owner = ? AND epoch = ?"
        values = (lease.run, lease.owner, lease.epoch)
        self._performed.discard(lease.run)
        await self._writing(lambda on: on.execute(text, values).rowcount)

    async def version(self) -> int:
        """See ``Journal.version``."""

        def counted(on: sqlite3.Connection) -> int:
            # The first counts what other connections committed, the second what this one wrote.
            theirs: int = on.execute("PRAGMA data_version").fetchone()[0]
            return theirs << 40 | on.total_changes

        return await self._patiently(counted)

    async def delete(self, run: str) -> None:
        """See ``Journal.delete``."""
        check_run_id(run)
        await self._writing(lambda on: removal.remove(on, reading.number_of(on, run)))

    async def collect(self) -> int:
        """See ``Journal.collect``."""
        if self.read_only:
            raise StoreReadOnly(path=str(self.path))
        await self._patiently(removal.write_back)  # else what lies in the log would count as freed
        before = files.bytes_on_disk(self.path)

        def drop(on: sqlite3.Connection) -> None:
            removal.drop_loose(on)
            leased = on.execute("SELECT DISTINCT owner FROM runs WHERE owner IS NOT NULL").fetchall()
            self._owners.sweep(frozenset(owner for (owner,) in leased))

        await self._writing(drop)
        await self._patiently(removal.give_back)
        return max(0, before - files.bytes_on_disk(self.path))

    async def close(self) -> None:
        """See ``Journal.close``."""
        if self._pid == os.getpid() and self._owners.names:
            try:
                await self._writing(self._release_all)
            except BaseException:
                # Their files stay, unlocked: that says at once that these owners are gone.
                await self.abandon()
                raise
            self._owners.leave()
        await self.abandon()

    def _release_all(self, on: sqlite3.Connection) -> None:
        text = "UPDATE runs SET owner = NULL, lease_until_ms = 0 WHERE owner = ?"
        on.executemany(text, [(owner,) for owner in self._owners.names])

    async def abandon(self) -> None:
        """Let go as a killed process does: leases stay on record, and their owner is known to be dead."""
        self._owners.drop()
        if self._pid == os.getpid():
            self._connection.close()

    async def _writing(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What ``work`` gives, done in a transaction of its own."""
        if self.read_only:
            raise StoreReadOnly(path=str(self.path))

        def whole(on: sqlite3.Connection) -> T:
            on.execute("BEGIN IMMEDIATE")
            try:
                given = work(on)
                on.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
            return given

        return await self._patiently(whole)

    async def _patiently(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What ``work`` gives, tried again while another process is in the way."""
        self._check_here()
        since_s = time.monotonic()
        while True:
            try:
                return work(self._connection)
            except sqlite3.Error as error:
                pause_s = self._pause(error, since_s)
            await asyncio.sleep(pause_s)

    def _pause(self, error: sqlite3.Error, since_s: float) -> float:
        """How long to wait before trying again; raises if there is no use or no time left."""
        if files.is_busy(error) and time.monotonic() - since_s < self._busy_s:
            return _PAUSE_S
        raise self._told(error) from error

    def _told(self, error: sqlite3.Error) -> ForkpointError:
        return files.told(self.path, error, waited_s=self._busy_s)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _check_here(self) -> None:
        if os.getpid() != self._pid:
            raise StoreClosed(path=str(self.path))
