"""The files of a folder as a value: entries, folders named by their content, and what differs.

1. Names and paths are bytes, as the kernel has them; nothing is ever decoded.
2. A folder's bytes are canonical: entries in order of their names, one spelling of each.
3. What a stored folder may say is checked whole when it is read: no name that climbs, no device.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from operator import lt
from typing import Annotated, Literal, NewType, TypeAlias

import msgspec

TreeId = NewType("TreeId", str)
"""A tree's name: ``sha256:`` and 64 hex digits."""

Mode = Annotated[int, msgspec.Meta(ge=0, le=0o7777)]
Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Target = Annotated[bytes, msgspec.Meta(min_length=1)]

Reason = Literal["bulk", "ignored", "too-large", "not-a-file", "unreadable", "git", "store", "mount", "changing"]
"""Why something is noted but not held."""


class File(msgspec.Struct, frozen=True, array_like=True, tag="f", forbid_unknown_fields=True):
    """A file: its permission bits, its size in bytes and the SHA-256 of its bytes."""

    mode: Mode
    size: Annotated[int, msgspec.Meta(ge=0)]
    digest: Digest


class Link(msgspec.Struct, frozen=True, array_like=True, tag="l", forbid_unknown_fields=True):
    """A symbolic link and what it says, unfollowed."""

    target: Target


class Folder(msgspec.Struct, frozen=True, array_like=True, tag="d", forbid_unknown_fields=True):
    """A folder: its permission bits and the SHA-256 of its entries as encoded."""

    mode: Mode
    digest: Digest


class Unheld(msgspec.Struct, frozen=True, array_like=True, tag="x", forbid_unknown_fields=True):
    """Something that is there and whose bytes are not held: why, and a mark that moves when it changes."""

    reason: Reason
    fingerprint: bytes = b""


Entry: TypeAlias = File | Link | Folder | Unheld
Entries: TypeAlias = Mapping[bytes, Entry]
Load: TypeAlias = Callable[[bytes], Entries]
"""Gives a folder's entries by its digest."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One path that differs between two trees; ``None`` is a side where it does not exist."""

    path: bytes
    before: Entry | None
    after: Entry | None

    @property
    def shown(self) -> str:
        """The path for a person's eyes."""
        return shown(self.path)

    @property
    def kind(self) -> Literal["created", "deleted", "mode", "modified", "swapped"]:
        """What became of the path, in one word."""
        match self.before, self.after:
            case None, _:
                return "created"
            case _, None:
                return "deleted"
            case File(digest=a), File(digest=b) if a == b:
                return "mode"
            case Folder(), Folder():
                return "mode"
            case a, b if type(a) is type(b):
                return "modified"
        return "swapped"


class TreeInvalid(ValueError):
    """Stored bytes say something that no tree may say."""


def shown(path: bytes) -> str:
    """A path for a person's eyes: bytes that are not printable UTF-8 are spelled as escapes."""
    text = path.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def digest_of(data: bytes) -> bytes:
    """The SHA-256 of ``data``, 32 bytes."""
    return hashlib.sha256(data).digest()


def join(folder: bytes, name: bytes) -> bytes:
    """The path of ``name`` in ``folder``; the root is the empty path."""
    return folder + b"/" + name if folder else name


def parent_of(path: bytes) -> bytes:
    """The path of the folder that ``path`` lies in."""
    return path.rpartition(b"/")[0]


def encode_folder(entries: Entries) -> bytes:
    """A folder's canonical bytes."""
    return _encoder.encode((_VERSION, sorted(entries.items())))


def decode_folder(data: bytes) -> dict[bytes, Entry]:
    """A folder's entries. Raises ``TreeInvalid`` for anything but what ``encode_folder`` may give."""
    try:
        version, pairs = _folders.decode(data)
    except msgspec.MsgspecError as error:
        raise TreeInvalid(f"is not a stored folder: {error}") from error
    if version != _VERSION:
        raise TreeInvalid(f"is a folder of version {version}, not {_VERSION}")
    entries = dict(pairs)
    # Over all names at once, because a folder may hold a hundred thousand.
    names = list(entries)
    joined = b"".join(names)
    if len(names) != len(pairs) or not all(map(lt, names, names[1:])):
        raise TreeInvalid("holds names out of order or twice")
    if b"/" in joined or b"\0" in joined or not entries.keys().isdisjoint(_NO_NAMES):
        raise TreeInvalid("holds a name that no folder can hold")
    if any(type(entry) is Link and b"\0" in entry.target for entry in entries.values()):
        raise TreeInvalid("holds a link that no system can make")
    return entries


def encode_tree(root: Folder) -> bytes:
    """The bytes that name a tree: its root folder with its mode."""
    return _encoder.encode((_VERSION, root))


def decode_tree(data: bytes) -> Folder:
    """The root folder of a tree. Raises ``TreeInvalid`` for anything else."""
    try:
        version, root = _trees.decode(data)
    except msgspec.MsgspecError as error:
        raise TreeInvalid(f"is not a stored tree: {error}") from error
    if version != _VERSION:
        raise TreeInvalid(f"is a tree of version {version}, not {_VERSION}")
    return root


def tree_id(digest: bytes) -> TreeId:
    """A tree's name from the digest of its bytes."""
    return TreeId("sha256:" + digest.hex())


def digest_in(tree: str) -> bytes:
    """The digest that a tree's name holds. Raises ``ValueError`` for anything that is no such name."""
    prefix, _, digits = tree.partition(":")
    if prefix != "sha256" or len(digits) != 64:
        raise ValueError(f"{tree!r} is not the name of a tree")
    return bytes.fromhex(digits)


def differences(load: Load, before: Folder, after: Folder) -> list[Change]:
    """Every path that differs between two trees, in order of paths, the root as the empty path.

    Only folders whose digests differ are read, so the cost follows what differs, not the trees.
    A folder is listed when it appears, goes, or changes its mode; where one side is not held,
    nothing below it is claimed to exist or to be gone.
    """
    found: list[Change] = []
    if before.mode != after.mode:
        found.append(Change(path=b"", before=before, after=after))
    todo: list[tuple[bytes, Folder | None, Folder | None]] = [(b"", before, after)]
    while todo:
        path, left, right = todo.pop()
        if left is not None and right is not None and left.digest == right.digest:
            continue
        olds = load(left.digest) if left is not None else _NOTHING
        news = load(right.digest) if right is not None else _NOTHING
        for name, old, new in _differing(olds, news):
            here = join(path, name)
            if not (type(old) is Folder and type(new) is Folder and old.mode == new.mode):
                found.append(Change(path=here, before=old, after=new))
            if type(old) is not Unheld and type(new) is not Unheld:
                inner = (old if type(old) is Folder else None, new if type(new) is Folder else None)
                if inner != (None, None):
                    todo.append((here, *inner))
    found.sort(key=_by_path)
    return found


def walk(load: Load, root: Folder) -> Iterator[tuple[bytes, Entry]]:
    """Every path of a tree with its entry, folders before what they hold; the root is the empty path."""
    todo: list[tuple[bytes, Entry]] = [(b"", root)]
    while todo:
        path, entry = todo.pop()
        yield path, entry
        if type(entry) is Folder:
            entries = load(entry.digest)
            todo.extend((join(path, name), entries[name]) for name in sorted(entries, reverse=True))


def lookup(load: Load, root: Folder, path: bytes) -> Entry | None:
    """The entry at ``path``, or ``None``."""
    entry: Entry | None = root
    for name in path.split(b"/") if path else ():
        if type(entry) is not Folder:
            return None
        entry = load(entry.digest).get(name)
    return entry


def changed(
    load: Load, keep: Callable[[bytes, bytes], None], root: Folder, changes: Mapping[bytes, Entry | None]
) -> Folder:
    """The tree that ``changes`` make of ``root``; new folders go to ``keep(digest, data)``.

    A folder in ``changes`` says that it exists with that mode; its digest is found, not believed.
    """
    below: dict[bytes, dict[bytes, Entry | None]] = {}
    for path, entry in changes.items():
        if path:
            below.setdefault(parent_of(path), {})[path.rpartition(b"/")[2]] = entry
    for path in list(below):
        above = path
        while above:
            above, name = parent_of(above), above.rpartition(b"/")[2]
            below.setdefault(above, {}).setdefault(name, _SAME)
    ready: dict[bytes, bytes] = {}
    for path in sorted(below, key=_deepest_first):
        old = lookup(load, root, path)
        entries = dict(load(old.digest)) if type(old) is Folder else {}
        for name, entry in below[path].items():
            _settle(entries, name, entry, ready.get(join(path, name)), keep)
        data = encode_folder(entries)
        ready[path] = digest_of(data)
        keep(ready[path], data)
    mode = changes.get(b"", root)
    return Folder(mode.mode if type(mode) is Folder else root.mode, ready.get(b"", root.digest))


def _settle(
    entries: dict[bytes, Entry],
    name: bytes,
    entry: Entry | None,
    digest: bytes | None,
    keep: Callable[[bytes, bytes], None],
) -> None:
    old = entries.get(name)
    if entry is _SAME:
        entry = old
    if entry is None:
        entries.pop(name, None)
        return
    if type(entry) is Folder:
        if digest is None and type(old) is Folder:
            digest = old.digest
        if digest is None:
            data = encode_folder({})
            digest = digest_of(data)
            keep(digest, data)
        entry = Folder(entry.mode, digest)
    entries[name] = entry


def _differing(olds: Entries, news: Entries) -> list[tuple[bytes, Entry | None, Entry | None]]:
    found: list[tuple[bytes, Entry | None, Entry | None]] = []
    for name, old in olds.items():
        new = news.get(name)
        if old != new:
            found.append((name, old, new))
    found.extend((name, None, new) for name, new in news.items() if name not in olds)
    return found


def _by_path(change: Change) -> bytes:
    return change.path


def _deepest_first(path: bytes) -> tuple[int, bytes]:
    return (-path.count(b"/") if path else 1, path)


_VERSION = 1
_NO_NAMES = (b"", b".", b"..")
_NOTHING: Entries = {}
_SAME = Unheld("store", b"\0same")
_encoder = msgspec.msgpack.Encoder()
_folders = msgspec.msgpack.Decoder(tuple[int, list[tuple[bytes, Entry]]])
_trees = msgspec.msgpack.Decoder(tuple[int, Folder])
