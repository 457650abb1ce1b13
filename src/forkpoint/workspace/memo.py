"""What a capture remembers of the last one, so that what did not change is not read again.

A stamp is what the kernel says of a file without opening it. A stamp younger than the clock's tick
proves nothing: the file may change again without moving it. Such a stamp is not kept (the rule
known from git as "racily clean"), so the file is read again by the next capture.
"""

import os
from typing import Annotated, Final

import msgspec

from forkpoint.workspace.tree import Digest, Entry, Unheld

Stamp = tuple[int, int, int, int, int]
"""Size, mtime and ctime in ns, inode, mode: moves whenever the file's bytes or bits do."""

FINE_WINDOW_NS: Final = 50_000_000
"""How young a stamp proves nothing where the file system counts parts of a second."""

COARSE_WINDOW_NS: Final = 2_100_000_000
"""The same where stamps are whole seconds (FAT counts in twos)."""


class Leaf(msgspec.Struct, array_like=True):
    """A file, link or other thing as last seen; ``stored`` if its bytes are in the store."""

    stamp: Stamp | None
    entry: Entry
    stored: bool
    lost: tuple[str, ...] = ()


class FolderMemo(msgspec.Struct, array_like=True):
    """A folder as last seen. ``stamp`` is ``None`` if it must be listed again."""

    stamp: Stamp | None = None
    mode: int = 0
    leaves: dict[bytes, Leaf] = {}
    folders: dict[bytes, "FolderMemo"] = {}
    digest: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    stored: bool = False
    files: int = 0
    size: int = 0
    unheld: list[tuple[bytes, Unheld]] = []
    lost: list[tuple[bytes, tuple[str, ...]]] = []


class RootMemo(msgspec.Struct, array_like=True):
    """A whole tree as last seen, and what it was seen under: other rules make it worthless."""

    rules: Digest
    generation: int
    root: FolderMemo


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file."""
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)


def is_young(stamp: Stamp, now_ns: int) -> bool:
    """Whether a stamp proves nothing yet at ``now_ns`` (and when it lies in the future)."""
    _, mtime_ns, ctime_ns, _, _ = stamp
    coarse = ctime_ns % 1_000_000_000 == 0
    return max(mtime_ns, ctime_ns) >= now_ns - (COARSE_WINDOW_NS if coarse else FINE_WINDOW_NS)


def forget_unstored(memo: FolderMemo, stored: set[bytes]) -> None:
    """Take back what the memo believes to be stored and is not, after a sweep."""
    todo = [memo]
    while todo:
        folder = todo.pop()
        folder.stored = folder.stored and folder.digest in stored
        for leaf in folder.leaves.values():
            digest = getattr(leaf.entry, "digest", None)
            if leaf.stored and digest is not None and digest not in stored:
                leaf.stored = False
        todo.extend(folder.folders.values())


def encode_memo(memo: RootMemo) -> bytes:
    """The memo as bytes, for the next process; none for a tree too deep to be encoded."""
    try:
        return _encoder.encode(memo)
    except RecursionError:
        return b""


def decode_memo(data: bytes) -> RootMemo | None:
    """The memo again, or ``None`` if the bytes are of no use: it costs time, never truth."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None


def fingerprint(status: os.stat_result) -> bytes:
    """A mark that moves when an unread file changes."""
    return msgspec.msgpack.encode(stamp_of(status))


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(RootMemo)
