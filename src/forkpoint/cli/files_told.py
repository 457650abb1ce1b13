"""Files, changes and rewinds: as plain data, and for a terminal. Pure."""

from collections.abc import Iterator, Sequence
from stat import filemode
from typing import Any, assert_never

from rich.text import Text

from forkpoint.cli.words import count, local, paragraph, safe, size
from forkpoint.workspace.plan import Kept
from forkpoint.workspace.port import Explained, Rewound
from forkpoint.workspace.tree import Change, Entry, File, Folder, Link, Unheld, shown

MARKS = {"created": "+", "deleted": "-", "modified": "~", "mode": "~", "swapped": "~"}
STYLES = {"created": "green", "deleted": "red", "modified": "yellow", "mode": "yellow", "swapped": "yellow"}

WHY_UNHELD = {
    "bulk": "a bulk folder, such as node_modules or .venv",
    "ignored": "named in .forkpointignore",
    "too-large": "over the limit of a file's size",
    "not-a-file": "no file, folder or link",
    "unreadable": "it could not be read",
    "git": "contents of a .git",
    "store": "a store of snapshots",
    "mount": "another file system",
    "changing": "it never rested while it was read",
}
"""Why something is noted without its bytes, in words."""

WHY_KEPT = {
    **{reason: f"not held: {words}" for reason, words in WHY_UNHELD.items()},
    "git": "part of a .git: only with --git",
    "changed-since": "also changed by somebody else: only with --force",
    "kept-not-ours": "changed by somebody else, not by this run",
    "not-empty": "still holds what is kept",
    "blocked": "what is kept stands in the way",
}
"""Why a rewind leaves a path as it is, in words."""

_KINDS = {File: (0o100000, "file"), Folder: (0o040000, "folder"), Link: (0o120000, "link")}


def path_told(path: bytes) -> dict[str, str]:
    """A path for reading; one that does not read as it is spelled is given in hexadecimal digits as well."""
    spelled = shown(path)
    return {"path": spelled} if spelled.encode() == path else {"path": spelled, "path_hex": path.hex()}


def kind_of(entry: Entry | None) -> str:
    """``file``, ``folder``, ``link``, ``not held`` or ``nothing``."""
    if entry is None:
        return "nothing"
    return "not held" if isinstance(entry, Unheld) else _KINDS[type(entry)][1]


def of_entry(entry: Entry | None) -> dict[str, Any] | None:
    """What is at a path."""
    match entry:
        case None:
            return None
        case File():
            told = {"mode": f"{entry.mode:04o}", "size": entry.size, "sha256": entry.digest.hex()}
        case Folder():
            told = {"mode": f"{entry.mode:04o}"}
        case Link():
            told = {"target": shown(entry.target)}
        case Unheld():
            told = {"reason": entry.reason}
        case _:
            assert_never(entry)
    return {"kind": kind_of(entry), **told}


def of_change(change: Change) -> dict[str, Any]:
    """One path that differs."""
    sides = {"before": of_entry(change.before), "after": of_entry(change.after)}
    return {**path_told(change.path), "kind": change.kind, **sides}


def of_kept(kept: Kept) -> dict[str, Any]:
    """One path that a rewind leaves as it is."""
    because = {} if kept.because_of is None else {"because_of": shown(kept.because_of)}
    return {**path_told(kept.path), "reason": kept.reason, **because}


def of_rewound(run: str, done: Rewound) -> dict[str, Any]:
    """What a rewind did, or would do."""
    return {
        "run": run,
        "dry_run": done.dry_run,
        "target": done.target,
        "put_back": [of_change(change) for change in done.put_back],
        "kept": [of_kept(kept) for kept in done.kept],
        "asks": done.asks,
        "rewind": done.rewind_id,
        "before": done.safety,
        "after": done.after,
    }


def of_explained(explained: Explained) -> dict[str, Any]:
    """What is known of a path."""
    changed = [
        {"snapshot": row.id, "turn": row.turn, "by": row.by, "time_ms": row.taken_ms, **of_change(change)}
        for row, change in explained.changed
    ]
    return {**path_told(explained.path), "entry": of_entry(explained.entry), "changed": changed}


# ── for a person ─────────────────────────────────────────────────────────────────────────────────────────────────


def entry_line(path: bytes, entry: Entry) -> Text:
    """A path of a tree on one line: kind and mode, size, name; and why it is not held."""
    name = safe(shown(path))
    match entry:
        case File():
            return Text.assemble((filemode(0o100000 | entry.mode), "dim"), f"  {size(entry.size):>9}  {name}")
        case Folder():
            return Text.assemble((filemode(0o040000 | entry.mode), "dim"), f"  {'':>9}  ", (f"{name}/", "bold"))
        case Link():
            return Text.assemble(("lrwxrwxrwx", "dim"), f"  {'':>9}  {name} -> {safe(shown(entry.target))}")
        case Unheld():
            return Text.assemble(f"{'':>10}  {'':>9}  {name}", (f"  not held: {WHY_UNHELD[entry.reason]}", "yellow"))
        case _:
            assert_never(entry)


def entries_line(entries: Sequence[tuple[bytes, Entry]]) -> Text:
    """How much a tree holds, and how much not."""
    held = [entry for _, entry in entries if isinstance(entry, File)]
    links = sum(isinstance(entry, Link) for _, entry in entries)
    folders = sum(isinstance(entry, Folder) for path, entry in entries if path)
    unheld = sum(isinstance(entry, Unheld) for _, entry in entries)
    parts = [f"{count(len(held), 'file')} ({size(sum(entry.size for entry in held))})", count(folders, "folder")]
    parts += [count(links, "link")] if links else []
    parts += [f"{count(unheld, 'path')} not held"] if unheld else []
    return Text(", ".join(parts), style="dim")


def change_line(change: Change) -> Text:
    """A path that differs, and how."""
    style = STYLES[change.kind]
    text = Text.assemble((f"{MARKS[change.kind]} {change.kind:<9}", style), safe(change.shown))
    if isinstance(change.after if change.after is not None else change.before, Folder):
        text.append("/")
    for word in _between(change):
        text.append(f"  {word}", style="dim")
    return text


def _between(change: Change) -> Iterator[str]:
    before, after = change.before, change.after
    if change.kind == "swapped":
        yield f"{kind_of(before)}, then {kind_of(after)}"
    if isinstance(before, File | Folder) and type(before) is type(after) and before.mode != after.mode:
        yield f"mode {before.mode:04o}, then {after.mode:04o}"
    if isinstance(before, Unheld) or isinstance(after, Unheld):
        yield "not held: only that it changed is known"


def diff_lines(text: str) -> Iterator[Text]:
    """A unified diff with its colours; what a file holds is text, whatever it says."""
    for line in text.splitlines():
        style = ""
        if line.startswith(("+++", "---")):
            style = "bold"
        elif line[:1] in ("+", "-", "@"):
            style = {"+": "green", "-": "red", "@": "cyan"}[line[0]]
        yield Text(safe(line), style=style)


def kept_line(kept: Kept) -> Text:
    """A path that a rewind leaves as it is, and why."""
    text = Text.assemble(("· kept     ", "yellow"), safe(kept.shown), (f"  {WHY_KEPT[kept.reason]}", "dim"))
    if kept.because_of is not None:
        text.append(f" ({safe(shown(kept.because_of))})", style="dim")
    return text


def explained_lines(explained: Explained) -> Iterator[Text]:
    """What a path is in the last snapshot, and who changed it when, oldest first."""
    if explained.entry is None:
        yield Text(f"{safe(shown(explained.path))} is not in the last snapshot", style="dim")
    else:
        yield entry_line(explained.path, explained.entry)
    for row, change in explained.changed:
        by = {"run": "the run", "outside": "somebody else", "mixed": "the run or somebody else", "rewind": "a rewind"}
        text = Text.assemble((f"{local(row.taken_ms)}  turn {row.turn}  ", "dim"), f"{by[row.by]}: ")
        text.append_text(change_line(change))
        yield text
    if not explained.changed:
        yield Text("Nothing changed it since the first snapshot that is kept.", style="dim")


def content_lines(data: bytes) -> Iterator[Text]:
    """A file's content for a terminal."""
    yield Text(paragraph(data.decode("utf-8", "backslashreplace"), None).rstrip("\n"))
