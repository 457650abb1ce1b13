"""Who is alive: every owner of leases holds a kernel lock on a file of its own.

1. An owner's file is made and locked before its first lease is written, and stays locked until its store
   is closed. The kernel lets go when the process ends, however it ends; a process id is never asked.
2. The file is locked, as seen from here: its owner is alive. A stopped process (SIGSTOP) is alive too;
   only expiry takes its lease away.
3. The file is free, and names the boot of this very machine: its owner is dead. Its runs are taken over
   at once.
4. The file is free, but names another machine or an earlier boot: nobody can tell from here, because
   not every file system carries locks between machines. Expiry decides.
5. The file is missing or unreadable: the store was copied, or somebody cleaned up. Expiry decides.
6. A forked child must not keep its parent's locks alive: it closes them before it does anything else.
   Programs that are started do not inherit them.
7. A file is removed only by its own owner as it closes, or by someone who holds its lock and found no
   lease of that owner. Whoever has locked a file makes sure that it is still the one of that name.
8. Windows has no such lock: life cannot be seen there, and expiry decides.
"""

import hashlib
import os
import platform
import sys
import weakref
from contextlib import suppress
from pathlib import Path

import msgspec

from forkpoint.errors import OwnerTaken

if sys.platform != "win32":
    import fcntl

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class OwnerFile(msgspec.Struct, frozen=True, kw_only=True):
    """What an owner's file says: for people, and to know whether its lock can be judged from here."""

    owner: str
    host: str
    boot: str
    pid: int


class Owners:
    """The owners that live in one open store, and how to ask after those of others.

    ``folder`` is made when the first owner needs it, readable by its user only.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}
        _OPEN.add(self)

    @property
    def names(self) -> tuple[str, ...]:
        """The owners that live in this open store."""
        return tuple(self._held)

    def enter(self, owner: str) -> None:
        """Make ``owner`` alive until ``leave``. Raises ``lease.owner-taken``, or ``OSError``."""
        if owner in self._held:
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = self._locked(owner)
        try:
            said = OwnerFile(owner=owner, host=platform.node(), boot=this_boot(), pid=os.getpid())
            os.truncate(descriptor, 0)
            os.write(descriptor, msgspec.json.encode(said) + b"\n")
        except BaseException:
            os.close(descriptor)
            raise
        self._held[owner] = descriptor

    def _locked(self, owner: str) -> int:
        path = self._path(owner)
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            if not _lock(descriptor, alone=True):
                os.close(descriptor)
                raise OwnerTaken(owner=owner)
            if _is_at(descriptor, path):
                return descriptor
            # Swept away between opening and locking: what is locked has no name any more.
            os.close(descriptor)

    def alive(self, owner: str) -> bool | None:
        """Whether ``owner`` is alive; ``None`` where that cannot be seen from here."""
        if owner in self._held:
            return True
        try:
            descriptor = os.open(self._path(owner), os.O_RDWR)
        except OSError:
            return None
        try:
            if not _can_lock():
                return None
            if not _lock(descriptor, alone=False):
                return True
            return False if _boot_in(descriptor) == this_boot() else None
        finally:
            os.close(descriptor)

    def sweep(self, leased: frozenset[str]) -> None:
        """Remove the files of dead owners, without those in ``leased``. Call it where no lease can be taken."""
        keep = {self._path(owner).name for owner in leased}
        for path in self._folder.glob("*.owner"):
            if path.name not in keep:
                with suppress(OSError):
                    _remove_if_free(path)

    def leave(self) -> None:
        """End the life of every owner here and remove their files."""
        for owner in self._held:
            with suppress(OSError):
                self._path(owner).unlink()
        self.drop()

    def drop(self) -> None:
        """Let go of the locks and leave the files, as the kernel does for a process that was killed."""
        held, self._held = self._held, {}
        for descriptor in held.values():
            os.close(descriptor)

    def _path(self, owner: str) -> Path:
        # Hashed, because a name that someone chose must never become a path.
        return self._folder / (hashlib.sha256(owner.encode()).hexdigest()[:32] + ".owner")


def this_boot() -> str:
    """A name of this machine since it was started; where the kernel gives none, of this machine."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return f"host:{platform.node()}"


def _boot_in(descriptor: int) -> str | None:
    try:
        return msgspec.json.decode(os.read(descriptor, 1 << 16), type=OwnerFile).boot
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _remove_if_free(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        if _can_lock() and _lock(descriptor, alone=True) and _is_at(descriptor, path):
            path.unlink()
    finally:
        os.close(descriptor)


if sys.platform == "win32":

    def _can_lock() -> bool:
        return False

    def _lock(descriptor: int, *, alone: bool) -> bool:
        return True

else:

    def _can_lock() -> bool:
        return True

    def _lock(descriptor: int, *, alone: bool) -> bool:
        """Lock the open file if its owner has not. Who only asks shares: two who ask must not see each other."""
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_OPEN: "weakref.WeakSet[Owners]" = weakref.WeakSet()


def _close_in_child() -> None:
    for owners in _OPEN:
        owners.drop()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_close_in_child)
