"""What a story happens on: a folder with the example in it, commands in processes, and the payment service."""

import json
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from forkpoint.cli.settings import PLACE, STORE_VARIABLE
from forkpoint.demo import payments
from forkpoint.errors import DemoDiffers, DemoFolderUsed
from forkpoint.stores.choosing import open_store

COMMAND_S = 60.0
"""How long a command may take before the demo gives it up."""

NOTICE_S = 0.1
"""How often it is looked whether a command that should be in the middle of something has ended."""
NOT_FOUND = 127
"""The status with which a shell says that there is no such command."""

_PROJECT = """\
[project]
name = "billing"
version = "0"

[tool.forkpoint]
app = "billing:agent"
"""

_INVOICES = {
    "17": {"customer": "Ada", "email": "ada@example.com", "due_cents": 4200},
    "18": {"customer": "Grace", "email": "grace@example.com", "due_cents": 0},
}


class Ended(Struct, frozen=True):
    """How a command ended, and what it printed where that was kept."""

    status: int
    output: str


def new_folder(wanted: Path | None) -> Path:
    """The folder of the billing story, with the example's files in it. Raises ``demo.folder-used``."""
    folder = empty_folder(wanted)
    shutil.copyfile(Path(__file__).with_name("billing.py"), folder / "billing.py")
    (folder / "pyproject.toml").write_text(_PROJECT, "utf-8")
    (folder / payments.INVOICES).write_text(json.dumps(_INVOICES, indent=2) + "\n", "utf-8")
    return folder


def empty_folder(wanted: Path | None) -> Path:
    """A folder with nothing in it: ``wanted``, or a temporary one. Raises ``demo.folder-used``."""
    folder = Path(tempfile.mkdtemp(prefix="forkpoint-demo-")) if wanted is None else wanted.absolute()
    if wanted is not None:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DemoFolderUsed(path=str(folder))
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _scripts() -> Path | None:
    """The folder of this installation's command line, where it has one."""
    scripts = Path(sysconfig.get_path("scripts"))
    return scripts if (scripts / "forkpoint").exists() else None


def _is_on_path(scripts: Path) -> bool:
    found = shutil.which("forkpoint")
    return found is not None and Path(found).absolute().parent == scripts


class Stage:
    """The folder, and the processes of the commands typed there. Close it, always."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._scripts = _scripts()
        self._environment = {name: value for name, value in os.environ.items() if name != STORE_VARIABLE}
        if self._scripts is not None:
            self._environment["PATH"] = os.pathsep.join((str(self._scripts), os.environ.get("PATH", os.defpath)))
        self._running: list[subprocess.Popen[str]] = []

    @property
    def store(self) -> Path:
        """The store's file."""
        return self.folder / PLACE

    @property
    def enter(self) -> str:
        """What to type to be where the commands work."""
        words = [f"cd {shlex.quote(str(self.folder))}"]
        if self._scripts is not None and not _is_on_path(self._scripts):
            words.append(f'export PATH={shlex.quote(str(self._scripts))}:"$PATH"')
        if STORE_VARIABLE in os.environ:
            words.append(f"unset {STORE_VARIABLE}")
        return " && ".join(words)

    def command(self, *words: str) -> list[str]:
        """A command of Forkpoint, as it is typed here."""
        program = ["forkpoint"] if self._scripts is not None else [sys.executable, "-m", "forkpoint"]
        return [*program, *words]

    def run(self, words: Sequence[str], *, keep: bool) -> Ended:
        """Run a command to its end. Its output is kept, or goes where the demo's own goes."""
        if shutil.which(words[0], path=self._environment.get("PATH")) is None:
            return Ended(NOT_FOUND, f"{words[0]}: command not found\n")
        return self._end(self._start(words, keep=keep))

    def close(self) -> None:
        """End every process that is still there."""
        for process in self._running:
            process.kill()
            process.wait()
        for process in self._running:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._running.clear()

    def _start(self, words: Sequence[str], *, keep: bool) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE if keep else None
        both = subprocess.STDOUT if keep else None
        process = subprocess.Popen(
            list(words),
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=both,
            text=True,
            encoding="utf-8",
        )
        self._running.append(process)
        return process

    def _end(self, process: "subprocess.Popen[str]") -> Ended:
        try:
            output, _ = process.communicate(timeout=COMMAND_S)
        except subprocess.TimeoutExpired as error:
            raise self.unlike(f"Every command ends within {COMMAND_S:.0f} s", "one that goes on") from error
        self._running.remove(process)
        return Ended(process.returncode, output or "")

    def unlike(self, claim: str, found: str) -> DemoDiffers:
        """The error that something is not as it is told."""
        return DemoDiffers(claim=claim, found=found, expected="just that", folder=str(self.folder))


class ServedStage(Stage):
    """A stage with a payment service that withholds its first ``withhold`` answers."""

    def __init__(self, folder: Path, *, withhold: int) -> None:
        super().__init__(folder)
        self._notices: queue.Queue[dict[str, Any]] = queue.Queue()
        service, _ = payments.start(folder, withhold=withhold, attended=True)
        self._running.append(service)
        self._listener = threading.Thread(target=self._listen, args=(service,), daemon=True)
        self._listener.start()

    def run_and_kill(self, words: Sequence[str], *, after: int, keep: bool) -> Ended:
        """Run a command, and kill it with SIGKILL once the service has withheld ``after`` answers."""
        process = self._start(words, keep=keep)
        for _ in range(after):
            self._next_notice(process)
        process.send_signal(signal.SIGKILL)
        return self._end(process)

    def close(self) -> None:
        """End every process that is still there, the service among them."""
        service = self._running[0]
        service.kill()
        service.wait()
        self._listener.join()
        super().close()

    def _listen(self, service: "subprocess.Popen[str]") -> None:
        assert service.stdout is not None
        for line in service.stdout:
            self._notices.put(json.loads(line))

    def _next_notice(self, process: "subprocess.Popen[str]") -> None:
        claim = "The command is killed while the service withholds its answer"
        for _ in range(int(COMMAND_S / NOTICE_S)):
            with suppress(queue.Empty):
                self._notices.get(timeout=NOTICE_S)
                return
            if process.poll() is not None:
                ended = self._end(process)
                raise self.unlike(claim, f"that it ended with status {ended.status}: {ended.output[-300:]}")
        raise self.unlike(claim, f"that nothing was asked of the service in {COMMAND_S:.0f} s")


async def make_store(folder: Path) -> None:
    """An empty store in ``folder``, so that no store of a folder above is taken for it."""
    await open_store(folder / PLACE).close()
