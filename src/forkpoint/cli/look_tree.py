"""The work of ``forkpoint tree``: runs and their forks, found without reading an event."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from forkpoint.cli.look import every_row, note_line
from forkpoint.cli.opening import Shelf, now_ms, reading
from forkpoint.cli.output import Told

if TYPE_CHECKING:
    from forkpoint.cli.rows import Family
    from forkpoint.ports import RunRow


async def show_tree(store: str | None, given: str | None, *, limit: int) -> Told:
    """The family of one run, or every family of the store, newest first."""
    from forkpoint.cli.rows import family_document

    async with reading(store) as shelf:
        marked = (await shelf.row(given)).run if given else ""
        if given:
            roots: Sequence[RunRow] = [await _root(shelf, marked)]
        else:
            roots = await _roots(shelf, await every_row(shelf))
        families = [await _family(shelf, row) for row in roots[:limit]]

    def view(terminal: bool) -> Iterator[Any]:
        from forkpoint.cli.rows import family_tree

        for family in families:
            yield family_tree(family, now_ms=now_ms(), mark=marked)
        if len(roots) > limit:
            yield note_line(f"\nThe newest {limit} of {len(roots)} families; more with --limit {len(roots)}")
        if not roots:
            yield note_line("No runs yet.")

    document = {"runs": [one for family in families for one in family_document(family)], "families": len(roots)}
    return Told(document=document, view=view)


async def _root(shelf: Shelf, run: str) -> "RunRow":
    """The oldest ancestor of a run, also one that is deleted but shared."""
    row = await shelf.reader.row(run)
    while row.parent is not None:
        above = await shelf.journal.row(row.parent)
        if above is None:
            break
        row = above
    return row


async def _roots(shelf: Shelf, rows: "Sequence[RunRow]") -> "list[RunRow]":
    """The first of every family, in the order of their newest member; deleted ones are not among ``rows``."""
    here = {row.run: row for row in rows}
    found: dict[str, RunRow] = {}
    for row in rows:
        root = row
        while root.parent is not None:
            above = here.get(root.parent) or await shelf.journal.row(root.parent)
            if above is None:
                break
            here[above.run] = root = above
        found.setdefault(root.run, root)
    return list(found.values())


async def _family(shelf: Shelf, row: "RunRow") -> "Family":
    from forkpoint.cli.rows import Family

    top = Family(row, None)
    open_ends = [top]
    while open_ends:
        family = open_ends.pop()
        for child in await shelf.journal.children(family.row.run):
            fork = Family(child, await _step(shelf, child))
            family.forks.append(fork)
            open_ends.append(fork)
    return top


async def _step(shelf: Shelf, row: "RunRow") -> int | None:
    """The step that a fork left its parent at: the counter after its own first event."""
    first = await shelf.journal.outlines(row.run, after=row.at, upto=row.at + 1)
    return first[0].step if first else None
