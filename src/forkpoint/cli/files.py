"""The work of the commands about a run's files: what they read, and what they put back."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from forkpoint.cli.keep import confirmed
from forkpoint.cli.opening import full_address, full_id, runtime_for
from forkpoint.cli.output import Told, console_of
from forkpoint.errors import CommandUnfit, RewindAsks
from forkpoint.ids import AtSeq, parse_where

if TYPE_CHECKING:
    from forkpoint.runtime.files import RunFiles, Seen
    from forkpoint.workspace.port import Rewound
    from forkpoint.workspace.textdiff import FileDiff
    from forkpoint.workspace.tree import Change

BINARY_WITHIN = 8000
"""A NUL in this many first bytes keeps a file off a terminal."""


async def list_files(store: str | None, app: str | None, given: str) -> Told:
    """Every path of a run's files at a moment, with what is not held and why."""
    async with runtime_for(store, app=app, read_only=True) as runtime:
        address = await full_address(runtime.edge.journal, given)
        files = (await runtime.open(address.run)).workspace
        seen = await files.seen(address.where)
        entries = await files.files(AtSeq(seen.seq))

    def view(terminal: bool) -> Iterator[Any]:
        from forkpoint.cli.files_told import entries_line, entry_line

        for path, entry in entries:
            if path:
                yield entry_line(path, entry)
        yield entries_line(entries)
        yield _as_of(address.run, seen)

    from forkpoint.cli.files_told import of_entry, path_told

    told = [{**path_told(path), **(of_entry(entry) or {})} for path, entry in entries if path]
    return Told(document={"run": address.run, **_moment(seen), "entries": told}, view=view)


def _moment(seen: "Seen") -> dict[str, Any]:
    return {"at": seen.seq, "tree": seen.tree, "snapshot": seen.taken, "behind": seen.behind or None}


def _as_of(run: str, seen: "Seen") -> Any:
    from rich.text import Text

    from forkpoint.cli.words import one_line

    if seen.behind:
        return Text(f"As of the snapshot at {run}@{seen.taken}; since then {one_line(seen.behind, 400)}", "yellow")
    return Text(f"As of the snapshot at {run}@{seen.taken}", "dim")


async def show_changes(store: str | None, app: str | None, given: str, before: str, after: str) -> Told:
    """What differs between the files at two moments of a run, file by file."""
    async with runtime_for(store, app=app, read_only=True) as runtime:
        run = await full_id(runtime.edge.journal, given)
        files = (await runtime.open(run)).workspace
        old, new = [await files.seen(parse_where(one)) for one in (before, after)]
        changes = await files.changes(AtSeq(old.seq), AtSeq(new.seq))
        diffs = [await files.diff(change) for change in changes]

    from forkpoint.cli.files_told import of_change

    told = [{**of_change(change), "diff": diff.text} for change, diff in zip(changes, diffs, strict=True)]
    document = {"run": run, "before": _moment(old), "after": _moment(new), "changes": told}

    def view(terminal: bool) -> Iterator[Any]:
        from rich.text import Text

        yield from _diffs(diffs)
        if not changes:
            yield Text(f"No file differs between {run}@{before} and {run}@{after}.", style="dim")
        for seen in (old, new):
            if seen.behind:
                yield _as_of(run, seen)

    return Told(document=document, view=view)


def _diffs(diffs: "Sequence[FileDiff]") -> Iterator[Any]:
    from forkpoint.cli.files_told import diff_lines

    for diff in diffs:
        yield from diff_lines(diff.text)


async def show_content(store: str | None, app: str | None, given: str, path: str) -> Told:
    """One file's bytes at a moment: as they are, but for a terminal."""
    async with runtime_for(store, app=app, read_only=True) as runtime:
        address = await full_address(runtime.edge.journal, given)
        files = (await runtime.open(address.run)).workspace
        seen = await files.seen(address.where)
        data = await files.read(os.fsencode(path), AtSeq(seen.seq))

    from forkpoint.cli.files_told import path_told

    binary = b"\0" in data[:BINARY_WITHIN]
    document = {"run": address.run, **_moment(seen), **path_told(os.fsencode(path)), "size": len(data), **_data(data)}

    def view(terminal: bool) -> Iterator[Any]:
        if not terminal:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        if binary:
            raise CommandUnfit(detail=f"{path} is binary, {len(data)} bytes, and goes to no terminal: add '> FILE'")
        from forkpoint.cli.files_told import content_lines

        yield from content_lines(data)

    return Told(document=document, view=view)


def _data(data: bytes) -> dict[str, str]:
    import base64

    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


async def explain_path(store: str | None, app: str | None, given: str, path: str) -> Told:
    """What is known of one path: what it is in the last snapshot, and who changed it when."""
    async with runtime_for(store, app=app, read_only=True) as runtime:
        run = await full_id(runtime.edge.journal, given)
        explained = await (await runtime.open(run)).workspace.explain(os.fsencode(path))

    from forkpoint.cli.files_told import explained_lines, of_explained

    return Told(document={"run": run, **of_explained(explained)}, view=lambda _: explained_lines(explained))


# ── putting back ─────────────────────────────────────────────────────────────────────────────────────────────────


class Wanted(Struct, frozen=True, kw_only=True):
    """What a rewind was asked to do: exactly one of the first six, and how."""

    turn: int | None = None
    step: int | None = None
    at: int | None = None
    undo: bool = False
    finish: bool = False
    abort: bool = False
    dry_run: bool = False
    force: bool = False
    git: bool = False
    paths: tuple[str, ...] | None = None
    yes: bool = False
    actor: str | None = None

    def checked(self) -> "Wanted":
        """Itself. Raises ``cli.unfit`` unless one thing is asked for, with what goes with it."""
        places = [one for one in (self.turn, self.step, self.at) if one is not None]
        if len(places) + self.undo + self.finish + self.abort != 1:
            raise CommandUnfit(
                detail="One of --turn, --step, --at, --undo, --continue and --abort is needed, and one only"
            )
        if (self.finish or self.abort) and (self.dry_run or self.force):
            raise CommandUnfit(detail="What was cut off is carried on as it was planned: no --dry-run and no --force")
        if not places and (self.paths or self.git):
            raise CommandUnfit(detail="--path and --git go with --turn, --step or --at")
        return self

    async def of(self, files: "RunFiles", *, dry_run: bool, confirm: bool) -> "Rewound":
        """Have it done."""
        if self.undo:
            return await files.undo(dry_run=dry_run, force=self.force, actor=self.actor)
        if self.finish:
            return await files.finish(actor=self.actor)
        if self.abort:
            return await files.abort(actor=self.actor)
        return await files.rewind(
            self.at,
            turn=self.turn,
            step=self.step,
            dry_run=dry_run,
            force=self.force,
            git=self.git,
            paths=self.paths,
            confirm_deletes=confirm,
            actor=self.actor,
        )

    @property
    def words(self) -> str:
        """What was typed to say where to."""
        for name in ("turn", "step", "at"):
            if getattr(self, name) is not None:
                return f"--{name} {getattr(self, name)}"
        return "--undo" if self.undo else "--continue" if self.finish else "--abort"


async def rewind_run(given: str, wanted: Wanted, *, store: str | None, app: str | None, ask: bool) -> Told:
    """Put a run's files back, or say what that would do, file by file."""
    from forkpoint.cli.files_told import of_rewound

    async with runtime_for(store, app=app, read_only=wanted.dry_run) as runtime:
        run = await full_id(runtime.edge.journal, given)
        files = (await runtime.open(run)).workspace
        done = await _confirmed(files, wanted, ask=ask)
        diffs = [await files.diff(change) for change in done.put_back] if wanted.dry_run else []

    document = of_rewound(run, done)
    for told, diff in zip(document["put_back"], diffs, strict=False):
        told["diff"] = diff.text
    return Told(document=document, view=lambda _: _rewound_lines(run, wanted, done, diffs))


async def _confirmed(files: "RunFiles", wanted: Wanted, *, ask: bool) -> "Rewound":
    """What came of it; a plan that deletes more than half of the files is shown first, and somebody is asked."""
    try:
        return await wanted.of(files, dry_run=wanted.dry_run, confirm=wanted.yes)
    except RewindAsks as asks:
        if not ask or not sys.stdin.isatty():
            raise
        planned = await wanted.of(files, dry_run=True, confirm=False)
        console = console_of(sys.stderr)
        for line in _list_lines(planned.put_back, planned):
            console.print(line)
        if not confirmed(f"Delete {asks.deletes} of {asks.files} files?", yes=False, ask=True):
            raise
        return await wanted.of(files, dry_run=False, confirm=True)


def _list_lines(put_back: "Sequence[Change]", done: "Rewound") -> Iterator[Any]:
    from forkpoint.cli.files_told import change_line, kept_line

    yield from map(change_line, put_back)
    yield from map(kept_line, done.kept)


def _rewound_lines(run: str, wanted: Wanted, done: "Rewound", diffs: "Sequence[FileDiff]") -> Iterator[Any]:
    from rich.text import Text

    from forkpoint.cli.words import count

    yield from _diffs(diffs)
    if diffs:
        yield Text("")
    yield from _list_lines(done.put_back, done)
    number, kept = count(len(done.put_back), "path"), len(done.kept)
    also = f", {count(kept, 'path')} kept" if kept else ""
    if done.dry_run:
        yield Text(f"{number} would be put back{also}; nothing was changed.", style="dim")
        if done.asks:
            yield Text("It deletes more than half of the files, so it asks first, or needs --yes.", style="yellow")
        if done.put_back:
            yield Text(f"Do it: forkpoint rewind {run} {wanted.words}{_options(wanted)}", style="dim")
        return
    yield Text(f"{number} put back{also}.", style="dim")
    if done.put_back and not wanted.abort:
        yield Text(f"Undo it: forkpoint rewind {run} --undo", style="dim")


def _options(wanted: Wanted) -> str:
    import shlex

    from forkpoint.cli.words import safe

    flags: list[tuple[bool, str]] = [(wanted.force, "--force"), (wanted.git, "--git"), (wanted.yes, "--yes")]
    words = [flag for given, flag in flags if given]
    words += [f"--path {shlex.quote(path)}" for path in wanted.paths or ()]
    return safe("".join(f" {word}" for word in words))
