"""Runs, trees and waits as tables and trees for a terminal. Pure: data in, renderables out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from forkpoint.cli.documents import WaitTold, wait_commands
from forkpoint.cli.phrases import ending
from forkpoint.cli.words import ago, called, cost, count, lasting, one_line, size
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


def wait_lines(waits: Sequence[WaitTold], *, now_ms: int, runs: bool = True) -> Iterator[Text]:
    """Every decision that is needed: what it is about, why, and what to type."""
    for told in waits:
        yield _wait_head(told, now_ms, runs)
        for line in _wait_facts(told):
            yield Text(f"    {line}")
        for command in wait_commands(told.run, told.wait):
            yield Text(f"    {command}", style="cyan")


def _wait_head(told: WaitTold, now_ms: int, runs: bool) -> Text:
    text = Text.assemble((f"{told.run}  " if runs else "  ", "bold"), (f"effect {told.wait.effect}  ", "bold"))
    text.append(told.wait.kind, style="yellow")
    text.append(f"  {wait_call(told)}")
    text.append(f"  {ago(told.at_ms, now_ms)}", style="dim")
    return text


def wait_call(told: WaitTold) -> str:
    """The call that a wait is about, as people write one."""
    holder = told.opened.holder if told.opened else None
    aside = (getattr(holder, "aside", None) or {}).get("arguments")
    if aside is not None:
        return f"{one_line(told.wait.name, 60)}({size(aside.size)} of arguments)"
    return called(told.wait.name, getattr(holder, "arguments", None), 400)


def _wait_facts(told: WaitTold) -> list[str]:
    facts = [told.wait.says]
    opened = told.opened
    if opened is not None and opened.outcome is not None and told.wait.kind in ("unknown", "inherited"):
        facts.append(f"last attempt: {ending(opened.outcome)}")
    if opened is not None and opened.key and told.wait.kind != "approval":
        facts.append(f"idempotency key {one_line(opened.key)}, attempt {opened.attempt}")
    return facts


def spent_line(tokens: int, known: float, unknown: int) -> str:
    """Tokens and cost on one line; empty for none."""
    words = [f"{tokens:,} tokens"] if tokens else []
    paid = cost(known, unknown)
    return " · ".join([*words, paid] if paid else words)


def took(ms: int) -> str:
    """A duration, or nothing for none."""
    return lasting(ms) if ms else ""
