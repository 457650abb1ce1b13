"""Lists of runs and trees of their forks: as plain data, and for a terminal. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from forkpoint.cli.words import ago, count, iso, one_line
from forkpoint.ports import RunRow

STYLES: Mapping[str, str] = {
    "running": "cyan",
    "waiting": "yellow",
    "paused": "magenta",
    "idle": "green",
    "failed": "red",
    "stopped": "dim",
    "deleted": "dim strike",
    "succeeded": "green",
    "occurred": "green",
    "unknown": "yellow",
    "held": "yellow",
    "needs approval": "yellow",
    "needs answer": "yellow",
    "denied": "red",
    "cancelled": "dim",
    "asking": "cyan",
    "not inherited": "dim",
}


def status_text(status: str) -> Text:
    """A status in its colour."""
    return Text(status, style=STYLES.get(status, ""))


def plain_table(*, fit: bool) -> Table:
    """An empty table without lines. ``fit`` makes it as wide as the terminal."""
    return Table(box=None, expand=fit, pad_edge=False, show_edge=False, header_style="bold dim", padding=(0, 2, 0, 0))


def of_row(row: RunRow) -> dict[str, Any]:
    """One run of a list."""
    told = row.summary
    return {
        "id": row.run,
        "title": told.title,
        "status": told.status,
        "agent": told.agent,
        "turns": told.turn,
        "steps": told.step,
        "events": row.head,
        "started": iso(row.started_at_ms),
        "updated": iso(row.updated_at_ms),
        "parent": row.parent,
        "at": row.at if row.parent else None,
        "labels": dict(told.labels),
        "waits": told.waits,
        "due": told.due,
        "owner": row.owner,
        "owner_alive": row.owner_alive,
        "tokens": told.tokens,
        "cost": told.cost,
        "cost_unknown": told.cost_unknown,
        "output": told.output,
        "error": told.error,
        "deleted": row.deleted,
    }


def runs_table(rows: Sequence[RunRow], *, now_ms: int, fit: bool) -> Table:
    """A page of runs, one a line."""
    table = plain_table(fit=fit)
    table.add_column("RUN", no_wrap=True, overflow="ellipsis")
    table.add_column("STATUS", no_wrap=True)
    table.add_column("STEPS", justify="right", no_wrap=True)
    table.add_column("TITLE", no_wrap=True, overflow="ellipsis", ratio=1 if fit else None)
    table.add_column("COST", justify="right", no_wrap=True)
    table.add_column("UPDATED", justify="right", no_wrap=True)
    for row in rows:
        told = row.summary
        table.add_row(
            Text(row.run),
            _standing(row),
            str(told.step),
            Text(one_line(told.title, 80)),
            _short_cost(told.cost, told.cost_unknown),
            ago(row.updated_at_ms, now_ms),
        )
    return table


def _standing(row: RunRow) -> Text:
    told = row.summary
    text = Text.assemble(status_text(told.status))
    if told.waits:
        text.append(f" ({told.waits})", style="yellow")
    if told.status == "running" and not owned(row):
        text.append(" (unowned)", style="dim")
    return text


def owned(row: RunRow) -> bool:
    """Whether somebody performs the run, as far as can be seen."""
    return row.owner is not None and row.owner_alive is not False


def _short_cost(known: float, unknown: int) -> str:
    words = f"${known:.4f}" if known else ""
    return f"{words}+{unknown}?" if unknown and known else f"{unknown}?" if unknown else words


class Family:
    """A run with its forks, each with theirs, and the step at which each left its parent."""

    def __init__(self, row: RunRow, step: int | None) -> None:
        self.row = row
        self.step = step
        self.forks: list[Family] = []

    def members(self) -> "Iterator[Family]":
        """This run, then every run that descends from it."""
        yield self
        for fork in self.forks:
            yield from fork.members()


def family_document(family: Family) -> list[dict[str, Any]]:
    """Every run of a family: its id, its parent, and where it left it."""
    return [
        {
            "id": one.row.run,
            "parent": one.row.parent,
            "at": one.row.at if one.row.parent else None,
            "step": one.step,
            "status": "deleted" if one.row.deleted else one.row.summary.status,
            "steps": one.row.summary.step,
            "title": one.row.summary.title,
        }
        for one in family.members()
    ]


def family_tree(family: Family, *, now_ms: int, mark: str = "") -> Tree:
    """A run and its forks as a tree; the run ``mark`` stands out."""
    tree = Tree(_node(family, now_ms, mark), guide_style="dim")
    _grow(tree, family, now_ms, mark)
    return tree


def _grow(tree: Tree, family: Family, now_ms: int, mark: str) -> None:
    for fork in family.forks:
        _grow(tree.add(_node(fork, now_ms, mark)), fork, now_ms, mark)


def _node(family: Family, now_ms: int, mark: str) -> Text:
    row = family.row
    text = Text.assemble((row.run, "bold" if row.run == mark else ""))
    if row.parent:
        step = f", step {family.step}" if family.step is not None else ""
        text.append(f"  @{row.at}{step}", style="cyan")
    text.append("  ")
    text.append_text(status_text("deleted" if row.deleted else row.summary.status))
    text.append(f"  {count(row.summary.step, 'step')}, {ago(row.updated_at_ms, now_ms)}", style="dim")
    return text
