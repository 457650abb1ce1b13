"""``read_file``, ``write_file``, ``edit_file`` and ``list_dir``: one path at a time, bytes in and bytes out."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from forkpoint.agents.tool import Finding, NotOccurred, Occurred, StillUnknown, ToolContext
from forkpoint.errors.tools import (
    CallStopped,
    EditEmpty,
    EditNotFound,
    EditNotUnique,
    FileNotText,
    FileTooLarge,
)
from forkpoint.workspace.tooling.edits import Edit, edited, judged, places
from forkpoint.workspace.tooling.paging import page_of
from forkpoint.workspace.tooling.reach import Reach, ReachOf, Spot, kind_of
from forkpoint.workspace.tooling.spelling import as_bytes, spelled
from forkpoint.workspace.tooling.writing import put, stamp, writing

MAX_EDIT_BYTES = 32 << 20
PIECE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file as it was written: its path from the folder, links resolved, and its size in bytes."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A file as it was edited: its path, its size in bytes, and how many places were replaced.

    ``replaced`` is ``None`` where only a look at the file told, after a crash, that the edit was made.
    """

    path: str
    bytes: int
    replaced: int | None


class FileTools:
    """The tools that read, write and list one path. ``max_read_bytes`` is the most that one read shows."""

    def __init__(self, reach_of: ReachOf, *, max_read_bytes: int) -> None:
        self._reach_of, self._max_read_bytes = reach_of, max_read_bytes

    def read_file(self, ctx: ToolContext, path: str, offset: int = 1, limit: int = 2000) -> str:
        r"""Read a text file. Each line is shown as its number, a tab and the line.

        A byte that is no UTF-8 is shown as \xNN. Binary files are refused.

        Args:
            path: The file, relative to the folder.
            offset: The first line to show, counted from 1.
            limit: How many lines to show at most.
        """
        reach = self._reach_of(ctx)
        with reach.spot(path) as spot, reach.file(spot) as handle:
            size = os.fstat(handle).st_size
            page = page_of(
                _pieces(ctx, handle),
                offset=max(offset, 1),
                limit=max(limit, 1),
                max_bytes=self._max_read_bytes,
            )
        if page.binary:
            raise FileNotText(path=path, size_bytes=size, problem=page.binary)
        return page.text

    def write_file(self, ctx: ToolContext, path: str, content: str) -> Written:
        """Write a whole text file, making it and the folders above it where they are missing.

        What was in the file is replaced; its permissions stay. Line endings are written as given.

        Args:
            path: The file, relative to the folder.
            content: All that the file is to hold.
        """
        data = as_bytes(content, name="content")
        reach = self._reach_of(ctx)
        with reach.spot(path, make_folders=True) as spot, writing(ctx, reach, spot):
            put(reach, spot, data)
            return Written(path=spot.shown, bytes=len(data))

    def edit_file(self, ctx: ToolContext, path: str, old_text: str, new_text: str, replace_all: bool = False) -> Edited:
        """Replace a text in a file by another. The old text must be in the file exactly once.

        Args:
            path: The file, relative to the folder.
            old_text: The text that is there, exactly, without line numbers.
            new_text: The text that takes its place, literally; empty to delete.
            replace_all: Replace the text wherever it is, instead of only where it is once.
        """
        edit = _edit(path, old_text, new_text, replace_all)
        reach = self._reach_of(ctx)
        with reach.spot(path) as spot, writing(ctx, reach, spot):
            data, seen = _whole(reach, spot)
            spans = places(data, edit)
            if not spans:
                raise EditNotFound(path=path)
            if len(spans) > 1 and not replace_all:
                raise EditNotUnique(path=path, count=len(spans))
            result = edited(data, edit, spans)
            put(reach, spot, result, seen=seen)
            return Edited(path=spot.shown, bytes=len(result), replaced=len(spans))

    def was_edited(
        self, ctx: ToolContext, path: str, old_text: str, new_text: str, replace_all: bool = False
    ) -> Finding:
        """Whether a lost ``edit_file`` was made, from the file as it is: a file is replaced whole or not at all.

        Only a file that can't be told either way leaves it unknown.
        """
        edit = _edit(path, old_text, new_text, replace_all)
        reach = self._reach_of(ctx)
        with reach.spot(path) as spot:
            data, _ = _whole(reach, spot)
            match judged(data, edit):
                case "before":
                    return NotOccurred()
                case "after":
                    replaced = None if replace_all else 1
                    return Occurred(Edited(path=spot.shown, bytes=len(data), replaced=replaced))
                case "either":
                    return StillUnknown(f"{spot.shown!r} may be from before the edit or after it")
                case "neither":
                    return StillUnknown(f"{spot.shown!r} holds neither text, so it shows nothing of the edit")

    def list_dir(self, ctx: ToolContext, path: str = ".", offset: int = 1, limit: int = 1000) -> str:
        """List a folder: a line for each name, folders with a slash, files with their size, links with their target.

        Args:
            path: The folder, relative to the folder of the tools.
            offset: The first entry to show, counted from 1.
            limit: How many entries to show at most.
        """
        begin, count = max(offset, 1), max(limit, 1)
        reach = self._reach_of(ctx)
        with reach.folder(path) as spot:
            names = sorted(reach.disk.names(spot.folder))
            shown = [_line(reach, name, spot) for name in names[begin - 1 : begin - 1 + count] if not ctx.cancelled]
        after = begin + len(shown)
        if after <= len(names):
            shown.append(f"[{len(names)} entries; go on with offset={after}]")
        return "\n".join(shown) or "[empty]"


def _line(reach: Reach, name: bytes, spot: Spot) -> str:
    try:
        status = reach.disk.stat(name, dir_fd=spot.folder)
        if stat.S_ISLNK(status.st_mode):
            return f"{spelled(name)} -> {spelled(reach.disk.readlink(name, spot.folder))}"
    except OSError as error:  # gone since it was listed, or not ours to look at: its name is still true
        return f"{spelled(name)}  ({error.strerror})"
    if stat.S_ISDIR(status.st_mode):
        return spelled(name) + "/"
    told = f"{status.st_size} bytes" if stat.S_ISREG(status.st_mode) else kind_of(status.st_mode)
    return f"{spelled(name)}  ({told})"


def _whole(reach: Reach, spot: Spot) -> tuple[bytes, tuple[int, ...]]:
    """A file's bytes, and the stamp it had before they were read."""
    with reach.file(spot) as handle:
        status = os.fstat(handle)
        if status.st_size > MAX_EDIT_BYTES:
            raise FileTooLarge(path=spot.asked, size_bytes=status.st_size, limit_bytes=MAX_EDIT_BYTES)
        seen = stamp(status)
        data = b"".join(iter(lambda: os.read(handle, 1 << 20), b""))
    return data, seen


def _pieces(ctx: ToolContext, handle: int) -> Iterator[bytes]:
    while data := os.read(handle, PIECE):
        if ctx.cancelled:
            raise CallStopped(what="Reading the file")
        yield data


def _edit(path: str, old_text: str, new_text: str, replace_all: bool) -> Edit:
    old, new = as_bytes(old_text, name="old_text"), as_bytes(new_text, name="new_text")
    if not old:
        raise EditEmpty(path=path, problem="the text to replace is empty")
    if old == new:
        raise EditEmpty(path=path, problem="both texts are the same")
    return Edit(old=old, new=new, everywhere=replace_all)
