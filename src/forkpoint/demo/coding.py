"""The coding story: an agent mends a project, makes it worse, and is rewound; a fork in its own folder does better.

Nothing is told that was not checked: against the store, and against the files as they are on the disk.
"""

import asyncio
import hashlib
import shlex
import stat
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from forkpoint.demo.project import FOLDER, make_project
from forkpoint.demo.stage import Stage, empty_folder, make_store
from forkpoint.demo.telling import Account, Telling
from forkpoint.events import WorkspaceRewound
from forkpoint.ids import AtStep, AtTurn
from forkpoint.stores.choosing import open_store
from forkpoint.wiring import connect

if TYPE_CHECKING:
    from rich.console import Console

    from forkpoint.runtime.run import Run

T = TypeVar("T")

RUN = "prices"
FORK = f"{RUN}.fork-1"
OTHER = "project-b"
MEND = "Make the tests pass, then tidy up."
FASTER = "Make discounts faster."
BETTER = "Make discounts faster, but keep whole cents."
NOTES = "notes.md"
NOTE = "- ask Ada how she rounds"

Picture = dict[str, tuple[int, str]]
"""A folder's files, links and folders by path: mode, and the SHA-256 of the bytes, or where a link leads."""


def run_coding(folder: Path | None = None, *, console: "Console | None" = None, pause: bool = False) -> Account:
    """Play the coding story in ``folder`` (a new temporary one, if left out), which is kept, and give an account of it.

    It is told on ``console`` as it happens; ``pause`` waits for Enter before each command. Needs no network. Raises
    ``demo.folder-used`` for a folder with something in it, and ``demo.differs`` if anything that is told turns out
    not to be so.
    """
    began_s = time.monotonic()
    place = empty_folder(folder)
    make_project(place)
    stage = Stage(place)
    try:
        asyncio.run(make_store(place))
        account = Account(folder=str(place), enter=stage.enter)
        _Coding(stage, Telling(account, console, pause=pause)).tell()
    finally:
        stage.close()
    account.took_ms = int((time.monotonic() - began_s) * 1000)
    return account


class _Coding:
    def __init__(self, stage: Stage, telling: Telling) -> None:
        self._stage = stage
        self._telling = telling
        self._check = telling.check
        self._project = stage.folder / FOLDER
        self._mended: Picture = {}

    def tell(self) -> None:
        self._opening()
        self._mend()
        self._show()
        self._worsen()
        self._changes()
        self._person()
        self._dry_run()
        self._rewind()
        self._fork()
        self._compare()
        self._ending()

    # ── the scenes ───────────────────────────────────────────────────────────────────────────────────────────

    def _opening(self) -> None:
        self._telling.say("Forkpoint's coding story: real files, real commands, real tests, no network.", "bold")
        self._telling.explain(
            f"Everything happens in {self._stage.folder} and stays there. The agent is coder.py; it works on the "
            f"project in {FOLDER}, and its commands are allowed beforehand. To type along:"
        )
        self._telling.say(f"   {self._stage.enter}", "cyan")

    def _mend(self) -> None:
        self._telling.begin(
            "A test fails",
            "The agent looks, runs the tests, reads, edits, runs them again, and tidies up with a shell command: it "
            "makes a folder, moves a file, changes its mode and deletes another one.",
        )
        self._check("The project's tests fail", _tests_pass(self._project), False)
        self._type("start", "coder", MEND, "--id", RUN, "--workspace", FOLDER)
        self._mended = picture(self._project)
        self._check("The tests pass now", _tests_pass(self._project), True)
        self._check("The report was moved and made executable", self._mended["tools/report.py"][0], 0o100755)
        self._check("The scratch file is gone", "scratch.txt" in self._mended, False)

    def _show(self) -> None:
        self._telling.begin("Every step knows its files", "Whoever changed them: a file tool or a shell command.")
        self._type("show", RUN)
        kinds = _ask(self._stage, RUN, _kinds_of_first_turn)
        self._check("The edit and the shell command are both on record", kinds, _FIRST_TURN)

    def _worsen(self) -> None:
        self._telling.begin("The second turn makes it worse", "It is asked for speed, and takes what it can get.")
        self._type("send", RUN, FASTER, "--key", "faster", "--resume")
        now = picture(self._project)
        self._check("A test fails again", _tests_pass(self._project), False)
        self._check("Folders are gone, with what was in them", {"tools", "data"} & now.keys(), set())
        self._check("Another file's mode was changed", now["test_pricing.py"][0], 0o100600)

    def _changes(self) -> None:
        self._telling.begin("What that turn did to the files")
        self._type("files", RUN, "--changes", "turn:1", "turn:2")
        found = _ask(self._stage, RUN, _second_turn)
        self._check("Every file that differs on the disk is told", found, _differing(self._mended, self._project))

    def _person(self) -> None:
        self._telling.begin("Meanwhile a person writes something down", "In the same folder, with an editor of theirs.")
        self._type("sh", "-c", f"echo {shlex.quote(NOTE)} >> {FOLDER}/{NOTES}", of_forkpoint=False)
        self._check("The note is in the file", NOTE in (self._project / NOTES).read_text("utf-8"), True)

    def _dry_run(self) -> None:
        before = picture(self._project)
        self._telling.begin("What a rewind would do", "The plan, with reasons for what it keeps. Nothing is written.")
        self._type("rewind", RUN, "--turn", "2", "--dry-run")
        self._check("Nothing was changed", picture(self._project), before)

    def _rewind(self) -> None:
        self._telling.begin("Rewound", "To before the second turn. The state before is held, so --undo brings it back.")
        self._type("rewind", RUN, "--turn", "2")
        now = picture(self._project)
        note = now.pop(NOTES)
        mended = {path: seen for path, seen in self._mended.items() if path != NOTES}
        self._check("Every file, mode and folder is as it was after turn 1", _digest(now), _digest(mended))
        self._check("The person's note was kept", note != self._mended[NOTES], True)
        differs = _ask(self._stage, RUN, _since_first_turn)
        self._check("The store says the same: only the note differs from turn 1", differs, [("modified", NOTES)])
        self._check("The tests pass", _tests_pass(self._project), True)

    def _fork(self) -> None:
        before = picture(self._project)
        last = _ask(self._stage, RUN, _steps_of_first_turn)
        self._telling.begin(
            "Another way, in a folder of its own",
            f"A fork shares the run's past up to step {last}, and gets the files as they were there. What it does "
            "stays in its folder, so its tools are live.",
        )
        place = ("--workspace", OTHER, "--effects", "live")
        self._type("fork", f"{RUN}@step:{last}", "--input", BETTER, *place, "--resume")
        other = self._stage.folder / OTHER
        self._check("Its tests pass", _tests_pass(other), True)
        self._check("It went another way", "@cache" in (other / "pricing.py").read_text("utf-8"), True)
        self._check("It began without the person's note, as the files were then", NOTE in _text(other / NOTES), False)
        self._check("The run's own folder is as it was", picture(self._project), before)

    def _compare(self) -> None:
        self._telling.begin("Both ways side by side", "What was said and done, and the files that came of it.")
        self._type("compare", RUN, FORK)
        differing = _differing(picture(self._project), self._stage.folder / OTHER)
        self._check("On the disk, those two files differ and no other", differing, {NOTES, "pricing.py"})

    def _ending(self) -> None:
        more = [
            self._stage.command("files", f"{RUN}@step:4"),
            self._stage.command("files", RUN, "--explain", "pricing.py"),
            self._stage.command("rewind", RUN, "--undo", "--dry-run"),
            self._stage.command("tree"),
        ]
        self._telling.account.more += map(shlex.join, more)
        self._telling.say("")
        self._telling.say("All of that was real. It is still there to look at, and so is what was undone:", "bold")
        for line in (self._stage.enter, *self._telling.account.more):
            self._telling.say(f"   {line}", "cyan")

    # ── what the scenes are made of ──────────────────────────────────────────────────────────────────────────

    def _type(self, *words: str, of_forkpoint: bool = True) -> None:
        """Type a command and show what it prints; it ends with 0."""
        typed = self._stage.command(*words) if of_forkpoint else list(words)
        self._telling.typed(shlex.join(typed))
        ended = self._stage.run(typed, keep=not self._telling.on_terminal)
        self._telling.ended(ended.status, ended.output)
        if ended.status != 0:
            self._check(f"'{words[0]}' does what it should", f"exit status {ended.status}", "exit status 0")
        self._telling.account.commands.append(shlex.join(typed))


_FIRST_TURN = [
    [("modified", "pricing.py")],
    [
        ("deleted", "report.py"),
        ("deleted", "scratch.txt"),
        ("created", "tools"),
        ("created", "tools/report.py"),
    ],
]


def picture(folder: Path) -> Picture:
    """What is in ``folder``, looked at without Forkpoint."""
    seen: Picture = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            told = str(path.readlink())
        else:
            told = "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        seen[path.relative_to(folder).as_posix()] = (status.st_mode, told)
    return seen


def _digest(seen: Picture) -> str:
    return hashlib.sha256(repr(sorted(seen.items())).encode()).hexdigest()


def _differing(before: Picture, folder: Path) -> set[str]:
    now = picture(folder)
    return {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}


def _text(path: Path) -> str:
    return path.read_text("utf-8")


def _tests_pass(folder: Path) -> bool:
    """Whether the tests in ``folder`` pass, run here and now."""
    command = [sys.executable, "-B", "-m", "unittest", "-q"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def _ask(stage: Stage, run: str, look: "Callable[[Run], Awaitable[T]]") -> T:
    """What the store says of a run, read without performing anything."""

    async def looking() -> T:
        async with connect(open_store(stage.store, read_only=True)) as runtime:
            return await look(await runtime.open(run))

    return asyncio.run(looking())


async def _steps_of_first_turn(run: "Run") -> int:
    return (await run.state(AtTurn(1))).step


async def _kinds_of_first_turn(run: "Run") -> list[list[tuple[str, str]]]:
    """What each step of turn 1 changed: kinds and paths."""
    told: list[list[tuple[str, str]]] = []
    for step in range(3, (await _steps_of_first_turn(run)) + 1):
        changes = await run.workspace.changes(AtStep(step - 1), AtStep(step))
        if changes:
            told.append([(change.kind, change.shown) for change in changes])
    return told


async def _second_turn(run: "Run") -> set[str]:
    return {change.shown for change in await run.workspace.changes(AtTurn(1), AtTurn(2))}


async def _since_first_turn(run: "Run") -> list[tuple[str, str]]:
    """How the files that the rewind reached differ from those of turn 1."""
    rewound = [one.seq for one in await run.history() if isinstance(one.event, WorkspaceRewound)]
    changes = await run.workspace.changes(AtTurn(1), rewound[-1])
    return [(change.kind, change.shown) for change in changes]
