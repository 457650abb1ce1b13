"""``glob`` and ``grep``: what is where, up to a limit and for a limited time."""

import os
import stat
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from forkpoint.agents.tool import ToolContext
from forkpoint.errors import ForkpointError
from forkpoint.errors.tools import CallStopped, PatternRefused
from forkpoint.workspace.tooling.asking import Matcher, OutOfTime
from forkpoint.workspace.tooling.globs import Glob, glob_of
from forkpoint.workspace.tooling.paging import binary_kind
from forkpoint.workspace.tooling.reach import Reach, ReachOf, Spot, present
from forkpoint.workspace.tooling.repeats import repeats_a_repetition
from forkpoint.workspace.tooling.spelling import spelled
from forkpoint.workspace.tooling.walking import Walk

MAX_SEARCHED_BYTES = 16 << 20
MAX_PATTERN_CHARS = 1000
BATCH_BYTES = 256 << 10
BATCH_FILES = 200
TOLD = 10
"""How many folders that were passed over are named."""

Content: TypeAlias = tuple[bytes, bytes]
"""A file's path and its bytes."""

Check: TypeAlias = Callable[[], None]


@dataclass(slots=True, kw_only=True)
class _Tally:
    """What a search went through and what it left out."""

    binary: int = 0
    too_large: int = 0
    unreadable: int = 0
    passed_over: list[str] = field(default_factory=list)
    stopped: str = ""

    def notes(self) -> Iterator[str]:
        if self.stopped:
            yield f"[incomplete: {self.stopped}]"
        left_out = ((self.binary, "binary"), (self.too_large, "too large"), (self.unreadable, "unreadable"))
        if any(count for count, _ in left_out):
            yield f"[files not searched: {', '.join(f'{count} {what}' for count, what in left_out if count)}]"
        if self.passed_over:
            more = len(self.passed_over) - TOLD
            named = ", ".join(self.passed_over[:TOLD]) + (f" and {more} more" if more > 0 else "")
            yield f"[folders not entered: {named}; name one as path to search it]"


class SearchTools:
    """The tools that search. ``search_s`` bounds a search, in seconds."""

    def __init__(self, reach_of: ReachOf, *, search_s: float) -> None:
        self._reach_of, self._search_s = reach_of, search_s

    def glob(self, ctx: ToolContext, pattern: str, path: str = ".", limit: int = 1000) -> str:
        """Find paths by a pattern: a line for each, folders with a slash at the end. Links are not followed.

        Bulk folders such as node_modules, .venv and .git are not entered unless path names them.

        Args:
            pattern: * and ? within a name, ** for any folders, [abc], {a,b}. Without a slash: names at any depth.
            path: The folder to search in, relative to the folder of the tools.
            limit: How many paths to show at most.
        """
        glob, tally, limit = glob_of(pattern), _Tally(), max(limit, 1)
        check = _checker(ctx, time.monotonic() + self._search_s)
        shown: list[str] = []
        reach = self._reach_of(ctx)
        with reach.folder(path) as begin:
            walk = Walk(reach=reach, begin=begin, glob=glob, passed_over=tally.passed_over)
            try:
                with closing(_paths(walk, check)) as paths:
                    shown += islice(paths, limit + 1)
            except OutOfTime:
                tally.stopped = f"stopped after {self._search_s} s; narrow the pattern or name a folder"
        if len(shown) > limit:
            tally.stopped = f"stopped at {limit} paths; raise limit or narrow the pattern"
        return "\n".join([*(shown[:limit] or ["[no paths]"]), *tally.notes()])

    def grep(
        self,
        ctx: ToolContext,
        pattern: str,
        path: str = ".",
        glob: str = "**",
        ignore_case: bool = False,
        limit: int = 200,
    ) -> str:
        """Search the lines of text files: path, line number and line for each that matches. Links are not followed.

        Bulk folders such as node_modules, .venv and .git are not entered unless path names them. A search that
        takes too long stops and says so.

        Args:
            pattern: A regular expression, as Python's re has them. Repeating a repetition, as in (a+)*, is refused.
            path: The folder or file to search, relative to the folder of the tools.
            glob: Which files to search, as a pattern of the glob tool.
            ignore_case: Whether upper and lower case are the same.
            limit: How many lines to show at most.
        """
        _check_pattern(pattern)
        names, tally, limit = glob_of(glob), _Tally(), max(limit, 1)
        until = time.monotonic() + self._search_s
        shown: list[str] = []
        try:
            with (
                closing(_contents(self._reach_of(ctx), path, names, tally, _checker(ctx, until))) as contents,
                Matcher(
                    pattern, ignore_case=ignore_case, limit=limit + 1, until=until, is_cancelled=lambda: ctx.cancelled
                ) as matcher,
            ):
                for batch in _batches(contents):
                    shown += _lines(matcher, batch)
                    if len(shown) > limit:
                        break
        except OutOfTime:
            tally.stopped = f"stopped after {self._search_s} s; use a simpler pattern or a narrower path"
        if len(shown) > limit:
            tally.stopped = f"stopped at {limit} lines; raise limit or narrow the search"
        return "\n".join([*(shown[:limit] or ["[no lines]"]), *tally.notes()])


def _contents(reach: Reach, path: str, glob: Glob, tally: _Tally, check: Check) -> Generator[Content, None, None]:
    """Every text file at or below a path, with its bytes."""
    with reach.spot(path) as spot:
        if not stat.S_ISDIR(present(spot).st_mode):
            yield from _content(reach, spot, tally)
            return
    with reach.folder(path) as begin:
        walk = Walk(reach=reach, begin=begin, glob=glob, passed_over=tally.passed_over)
        for found in walk:
            check()
            if not found.matches or not found.is_file:
                continue
            try:
                yield from _content(reach, found.spot(reach), tally)
            except (OSError, ForkpointError):  # gone or swapped since it was listed, or not ours to read
                tally.unreadable += 1


def _content(reach: Reach, spot: Spot, tally: _Tally) -> Generator[Content, None, None]:
    with reach.file(spot) as handle:
        if os.fstat(handle).st_size > MAX_SEARCHED_BYTES:
            tally.too_large += 1
            return
        data = b"".join(iter(lambda: os.read(handle, 1 << 20), b""))
    if binary_kind(data):
        tally.binary += 1
    else:
        yield spot.path, data


def _checker(ctx: ToolContext, until: float) -> Check:
    """What raises when a search has to end: its time is up, or the call was asked to."""

    def check() -> None:
        if ctx.cancelled:
            raise CallStopped(what="The search")
        if time.monotonic() > until:
            raise OutOfTime

    return check


def _check_pattern(pattern: str) -> None:
    problem = ""
    if len(pattern) > MAX_PATTERN_CHARS:
        problem = f"it has {len(pattern)} characters, more than {MAX_PATTERN_CHARS}"
    elif repeats_a_repetition(pattern):
        problem = "it repeats a repetition"
    if problem:
        raise PatternRefused(pattern=pattern[:MAX_PATTERN_CHARS], problem=problem)


def _paths(walk: Walk, check: Check) -> Generator[str, None, None]:
    for found in walk:
        check()
        if found.matches:
            yield spelled(found.path) + ("/" if found.is_folder else "")


def _batches(contents: Iterator[Content]) -> Iterator[list[Content]]:
    """Files together, so that a question is worth its way."""
    batch: list[Content] = []
    size = 0
    for path, data in contents:
        batch.append((path, data))
        size += len(data)
        if size >= BATCH_BYTES or len(batch) == BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _lines(matcher: Matcher, batch: list[Content]) -> Iterator[str]:
    for file, line, text in matcher.found([data for _, data in batch]):
        shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        yield f"{spelled(batch[file][0])}:{line}:{shown}"
