"""The page of every error, made from the registry: ``python -m forkpoint.errors.page`` writes ``docs/errors.md``."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from forkpoint.errors import KINDS, REGISTRY, ForkpointError

_HEAD = """\
# Errors

Every refusal of Forkpoint has a code that is never renamed and never used for anything else. An error says what
happened with the values and whether anything was written, why that is so, and what to do; its values are attributes
of the exception, and `as_json()` gives all of it as data. The command line ends with the status of the error's kind.

This page is made from the code by `python -m forkpoint.errors.page`.

| Kind | Means | Exit status | HTTP status |
| --- | --- | --- | --- |
"""

_MEANS = {
    "usage": "What was asked does not fit; ask for something else.",
    "conflict": "Somebody else was first, or is at it; look again, then decide again.",
    "data": "What is stored is not what was written, or is of another release.",
    "environment": "The machine, the disk or a service does not let it happen.",
    "bug": "The fault is Forkpoint's; please report it.",
}


def page() -> str:
    """The page as Markdown."""
    codes = sorted(REGISTRY)
    kinds = "".join(f"| {kind} | {_MEANS[kind]} | {leave} | {http} |\n" for kind, (leave, http) in KINDS.items())
    table = "".join(f"| {_row(REGISTRY[code])} |\n" for code in codes)
    sections = "\n".join("\n".join(_section(REGISTRY[code])) for code in codes)
    return f"{_HEAD}{kinds}\n| Code | Kind | Exit status | In short |\n| --- | --- | --- | --- |\n{table}\n{sections}"


def _row(kind: type[ForkpointError]) -> str:
    return f"[`{kind.code}`](#{kind.code}) | {kind.kind} | {KINDS[kind.kind][0]} | {_cell(_said(kind)[0])}"


def _section(kind: type[ForkpointError]) -> Iterator[str]:
    yield f'<a id="{kind.code}"></a>\n'
    yield f"## {kind.code}\n"
    yield "\n\n".join(_said(kind)) + "\n"
    yield f"- **Class**: `forkpoint.errors.{kind.__name__}` ({kind.kind}, exit status {KINDS[kind.kind][0]})"
    yield f"- **Says**: {_plain(kind.says)}"
    yield f"- **Why**: {kind.why}"
    yield f"- **Fix**: {kind.fix}\n"


def _said(kind: type[ForkpointError]) -> list[str]:
    """The paragraphs of the docstring, a line each."""
    return [" ".join(part.split()) for part in (kind.__doc__ or "").replace("``", "`").split("\n\n")]


def _plain(says: str) -> str:
    """A format string as a reader sees it: its values in italics."""
    return re.sub(r"\{(\w+)[^}]*\}", r"*\1*", says)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def main(path: str = "docs/errors.md") -> None:
    """Write the page to ``path``."""
    Path(path).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:2])
