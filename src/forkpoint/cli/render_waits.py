"""Decisions that runs need, for a terminal. Pure: data in, renderables out."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from forkpoint.cli.documents import WaitTold, wait_commands
from forkpoint.cli.phrases import ending
from forkpoint.cli.words import ago, called, one_line, size


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
