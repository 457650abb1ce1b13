"""Edits that a clock hides: in the tick of a snapshot, while a file is read, with stamps put back."""

# ruff: noqa: PTH123, PTH116
# Names here are bytes, which pathlib does not take.

import os
import stat
from collections.abc import Callable

from workspace_hands import FolderHands, Place

from forkpoint.workspace.disk import Disk

TICK_NS = 1_000_000_000


class Frozen(Disk):
    """A file system whose clock stands still: every stamp is the same moment."""

    def __init__(self) -> None:
        self.now_ns = 0

    def _frozen(self, real: os.stat_result) -> os.stat_result:
        return Seen(real, self.now_ns)  # type: ignore[return-value]

    def stat(self, name: bytes, *, dir_fd: int) -> os.stat_result:  # type: ignore[override]
        return self._frozen(Disk.stat(name, dir_fd=dir_fd))

    def fstat(self, handle: int) -> os.stat_result:
        return self._frozen(super().fstat(handle))


class Seen:
    """A status whose times are all one moment."""

    def __init__(self, real: os.stat_result, now_ns: int) -> None:
        self._real = real
        self.st_mtime_ns = self.st_ctime_ns = now_ns

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


def test_every_edit_in_the_tick_of_a_snapshot_is_noticed(place: Place, hands: FolderHands) -> None:
    disk = Frozen()
    hands.write(b"f", b"0")
    with place.recorder(disk=disk, clock_ns=lambda: disk.now_ns) as recorder:
        trees = {recorder.snapshot(by="outside").tree}
        for number in range(20):
            hands.write(b"f", b"%d" % (number % 10))
            hands.write(b"n%d" % number, b"new in a folder whose stamp stands still")
            trees.add(recorder.snapshot().tree)
        assert len(trees) == 21


def test_edits_right_after_a_snapshot_are_noticed_by_the_real_clock(place: Place, hands: FolderHands) -> None:
    hands.write(b"sub/f", b"0000")
    with place.recorder() as recorder:
        recorder.snapshot(by="outside")
        for number in range(200):
            with open(hands.at(b"sub/f"), "r+b") as file:
                file.write(b"%04d" % (number + 1))
            assert [c.path for c in recorder.snapshot().changes] == [b"sub/f"]


def test_a_stamp_that_is_old_is_trusted_and_the_file_not_read_again(place: Place, hands: FolderHands) -> None:
    """Without this the tests above would hold for a capture that reads everything every time."""

    class Counting(Disk):
        opened = 0
        listed = 0

        def open_file(self, name: bytes, at: int) -> int:
            self.opened += name != b".forkpointignore"
            return super().open_file(name, at)

        def names(self, folder: int) -> list[bytes]:
            self.listed += 1
            return super().names(folder)

    disk = Counting()
    for number in range(20):
        hands.write(b"d/%d" % number, b"x")
    later = os.stat(place.root).st_ctime_ns + 60 * TICK_NS
    with place.recorder(disk=disk, clock_ns=lambda: later) as recorder:
        recorder.snapshot(by="outside")
        first = (disk.opened, disk.listed)
        recorder.snapshot()
        assert (disk.opened, disk.listed) == first == (20, 2)


def test_an_edit_whose_mtime_is_put_back_is_noticed(place: Place, hands: FolderHands) -> None:
    hands.write(b"f", b"1111")
    later = os.stat(place.root).st_ctime_ns + 60 * TICK_NS
    with place.recorder(clock_ns=lambda: later) as recorder:
        recorder.snapshot(by="outside")
        old = os.stat(hands.at(b"f"))
        with open(hands.at(b"f"), "r+b") as file:
            file.write(b"2222")
        os.utime(hands.at(b"f"), ns=(old.st_atime_ns, old.st_mtime_ns))
        assert [c.kind for c in recorder.snapshot().changes] == ["modified"]


class Meddling(Frozen):
    """Changes the file after each of its first reads, without moving any stamp."""

    def __init__(self, meddle: Callable[[int], None], times: int) -> None:
        super().__init__()
        self._meddle, self._times, self.reads = meddle, times, 0

    def read(self, handle: int, size: int) -> bytes:
        data = super().read(handle, size)
        if data and stat.S_ISREG(os.fstat(handle).st_mode) and self.reads < self._times:
            self.reads += 1
            self._meddle(self.reads)
        return data


def test_a_file_changed_while_it_is_read_is_read_again(place: Place, hands: FolderHands) -> None:
    hands.write(b"f", b"0")
    disk = Meddling(lambda number: hands.write(b"f", b"%d" % number), times=3)
    with place.recorder(disk=disk, clock_ns=lambda: disk.now_ns) as recorder:
        assert recorder.read(recorder.snapshot().tree, b"f") == b"3"


def test_a_file_that_never_rests_is_noted_and_not_held(place: Place, hands: FolderHands) -> None:
    hands.write(b"f", b"0")
    hands.write(b"calm", b"0")
    disk = Meddling(lambda number: hands.write(b"f", b"%d" % number), times=10_000)
    with place.recorder(disk=disk, clock_ns=lambda: disk.now_ns) as recorder:
        hands.remove(b"calm")
        taken = recorder.snapshot()
        assert [(n.path, n.reason) for n in taken.not_held] == [(b"f", "changing")]


def test_a_large_file_changed_while_it_is_read_is_read_again(place: Place, hands: FolderHands) -> None:
    size = 3 << 20
    hands.write(b"f", bytes(size))

    def meddle(number: int) -> None:
        with open(hands.at(b"f"), "r+b") as file:
            file.write(b"%d" % number)

    disk = Meddling(meddle, times=2)
    with place.recorder(disk=disk, clock_ns=lambda: disk.now_ns) as recorder:
        assert recorder.read(recorder.snapshot().tree, b"f") == b"2" + bytes(size - 1)
        assert len(list((place.store / "large").rglob("*.*"))) == 1
        assert list((place.store / "tmp").iterdir()) == []
