"""Which files changed in a step, and which differ between two runs: read from snapshots, as far as they are kept."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from forkpoint.errors import ForkpointError
from forkpoint.workspace.tree import Change, Folder, TreeId, parent_of

if TYPE_CHECKING:
    from forkpoint.cli.opening import Shelf
    from forkpoint.cli.told import StepTold
    from forkpoint.state import RunState
    from forkpoint.timetravel.comparing import Comparison
    from forkpoint.workspace.port import Workspace

NAMED = 20
"""How many paths are named to a person; the rest are counted."""

LISTED = 1000
"""How many paths a document lists; the rest are counted."""


class FilesBetween(Struct, frozen=True, kw_only=True):
    """What differs between two trees; ``lost`` says why that can't be told any more."""

    changes: tuple[Change, ...] = ()
    lost: str = ""

    def as_json(self) -> dict[str, Any]:
        """The same as plain data."""
        from forkpoint.cli.files_told import of_change

        told: dict[str, Any] = {"changed": len(self.changes)}
        told["changes"] = [of_change(change) for change in self.changes[:LISTED]]
        return told | ({"lost": self.lost} if self.lost else {})

    @property
    def nothing(self) -> bool:
        """Whether it is known that nothing differs."""
        return not self.changes and not self.lost

    @property
    def words(self) -> str:
        """The same on one line."""
        from forkpoint.cli.files_told import MARKS
        from forkpoint.cli.words import one_line

        if self.lost:
            return self.lost
        named = " ".join(f"{MARKS[change.kind]}{change.shown}" for change in self.changes[:NAMED])
        more = len(self.changes) - NAMED
        return one_line(named, 400) + (f" and {more:,} more" if more > 0 else "")

    def lines(self, title: str = "files that differ") -> Iterator[Any]:
        """The same for a person."""
        from rich.padding import Padding
        from rich.text import Text

        from forkpoint.cli.files_told import change_line
        from forkpoint.cli.words import one_line

        if self.lost:
            yield Text(f"{title}: {one_line(self.lost, 400)}", style="yellow")
            return
        yield Text(f"{title}: {len(self.changes):,}", style="dim")
        for change in self.changes[:NAMED]:
            yield Padding(change_line(change), (0, 0, 0, 2), expand=False)
        if len(self.changes) > NAMED:
            yield Text(f"  and {len(self.changes) - NAMED:,} more", style="dim")


def between(workspace: "Workspace", before: str, after: str) -> FilesBetween:
    """What differs between two trees of a store, folders that merely appear or go with what they hold aside."""
    try:
        changes = workspace.changes(TreeId(before), TreeId(after))
    except ForkpointError as error:
        return FilesBetween(lost=f"{error.code}: {error}")
    return FilesBetween(changes=tuple(_without_full_folders(changes)))


def _without_full_folders(changes: Sequence[Change]) -> Iterator[Change]:
    """A folder that appears or goes says nothing more than what it holds; an empty one is all there is to say."""
    full = {parent_of(change.path) for change in changes}
    for change in changes:
        side = change.after if change.before is None else change.before if change.after is None else None
        if not isinstance(side, Folder) or change.path not in full:
            yield change


async def files_of_steps(shelf: "Shelf", state: "RunState", steps: Iterable["StepTold"]) -> dict[int, FilesBetween]:
    """The files that steps changed, by the event that tells of it."""
    pairs = [one for step in steps for one in step.files if one.before is not None and one.after is not None]
    if state.workspace is None or not pairs:
        return {}
    try:
        workspace = shelf.files_of(state.run, state.workspace)
    except ForkpointError as error:
        return {one.seq: FilesBetween(lost=f"{error.code}: {error}") for one in pairs}
    return {one.seq: between(workspace, one.before or "", one.after or "") for one in pairs}


async def files_between(shelf: "Shelf", found: "Comparison") -> FilesBetween | None:
    """The files that two compared runs differ in; ``None`` where they are equal or one has no files."""
    drift = next((one for one in found.drift if one.field == "files"), None)
    if drift is None or drift.a is None or drift.b is None:
        return None
    for told in (found.a, found.b):
        state = None if told.run is None else (await shelf.reader.load(told.run)).state
        if state is not None and state.workspace is not None:
            return between(shelf.files_of(state.run, state.workspace), drift.a, drift.b)
    return None
