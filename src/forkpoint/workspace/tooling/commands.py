"""``shell``: a command in the folder, its output as it comes, and nothing of it left running.

1. The command leads a process group of its own. Whatever is in it is asked to end (TERM) and then ended (KILL).
2. Where ``/proc`` tells (Linux), processes that left the group are known by a mark in their environment.
3. The leader is not reaped before the group was ended, so its number can't have become another's.
"""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Literal, TypeAlias

from forkpoint.agents.tool import OutcomeUnknown, ToolContext
from forkpoint.errors.tools import CommandNotStarted
from forkpoint.workspace.tooling.keeping import Kept
from forkpoint.workspace.tooling.reach import ReachOf
from forkpoint.workspace.tooling.strays import end_strays

GRACE_S = 1.0
"""How long a command may take to end after TERM; less than an interrupted call has."""

DRAIN_S = 0.5
REAP_S = 2.0
POLL_MS = 50
PAUSE_S = 0.005
PIECE = 1 << 16
MARK = "FORKPOINT_COMMAND"

PASSED_ON = (
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV",
)  # fmt: skip
"""What of our own environment a command sees, beside ``LC_*``. Anything else may be a secret."""

Ended: TypeAlias = Literal["by itself", "timeout", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended: its exit status (minus a signal's number), and its output, stdout and stderr together.

    Of a long output the head and the tail are kept, and ``cut_bytes`` says how much is missing between them.
    ``ended`` is ``timeout`` or ``cancelled`` if it was stopped, with all that it had started.
    """

    exit_status: int
    output: str
    cut_bytes: int
    ended: Ended


class ShellTool:
    """The tool that runs commands. ``timeout_s`` is the most a command may take, in seconds."""

    def __init__(
        self, reach_of: ReachOf, *, timeout_s: float, max_output_bytes: int, env: Mapping[str, str] | None
    ) -> None:
        self._reach_of, self._timeout_s, self._max_output_bytes = reach_of, timeout_s, max_output_bytes
        self._env = dict(env or {})

    def shell(self, ctx: ToolContext, command: str, folder: str = ".", timeout_s: float | None = None) -> Ran:
        """Run a command with the system's shell (bash where there is one), without a terminal and without input.

        Everything it started is stopped when it ends, so it can't leave a server running.

        Args:
            command: The command.
            folder: Where to run it, relative to the folder of the tools.
            timeout_s: After how many seconds it is stopped, if that is sooner than the limit of the tools.
        """
        limit_s = self._timeout_s if timeout_s is None else min(max(timeout_s, 0.0), self._timeout_s)
        reach = self._reach_of(ctx)
        with reach.folder(folder) as spot:
            where = os.path.join(os.fsencode(reach.root), spot.path)  # noqa: PTH118  (bytes, as names are)
        mark = f"{MARK}={token_hex(8)}"
        process = _started(command, where, self._environment(mark))
        return _Attended(process, ctx, mark.encode(), self._max_output_bytes).until(time.monotonic() + limit_s)

    def _environment(self, mark: str) -> dict[str, str]:
        passed_on = {name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("LC_")}
        return {**passed_on, "TERM": "dumb", **self._env, MARK: mark.partition("=")[2]}


class _Attended:
    """A command that runs, watched from its start until nothing of it is left."""

    def __init__(self, process: subprocess.Popen[bytes], ctx: ToolContext, mark: bytes, max_output_bytes: int) -> None:
        assert process.stdout is not None
        self._process, self._ctx, self._mark = process, ctx, mark
        self._pipe = process.stdout
        self._kept = Kept(limit=max_output_bytes, tell=ctx.progress)
        self._at_end = False
        self._ready = select.poll()
        self._ready.register(self._pipe.fileno(), select.POLLIN)

    def until(self, deadline: float) -> Ran:
        """Wait for its end, or end it. Raises ``OutcomeUnknown`` if not even KILL ends it."""
        try:
            ended = self._wait(lambda: self._reason(deadline))
        finally:
            status = self._end()
        output, cut_bytes = self._kept.text()
        return Ran(exit_status=status, output=output, cut_bytes=cut_bytes, ended=ended)

    def _reason(self, deadline: float) -> Ended | None:
        if self._has_ended():
            return "by itself"
        if self._ctx.cancelled:
            return "cancelled"
        return "timeout" if time.monotonic() > deadline else None

    def _wait(self, reason: Callable[[], Ended | None]) -> Ended:
        while (why := reason()) is None:
            self._take()
        return why

    def _end(self) -> int:
        try:
            self._signal(signal.SIGTERM)
            self._take_until(lambda: self._at_end and self._has_ended(), GRACE_S)
        finally:
            status = self._kill()
        return status

    def _kill(self) -> int:
        try:
            self._signal(signal.SIGKILL)
            self._take_until(lambda: self._at_end, DRAIN_S)
        finally:
            self._pipe.close()
            status = self._reap()
        return status

    def _reap(self) -> int:
        try:
            return self._process.wait(REAP_S)
        except subprocess.TimeoutExpired as error:
            raise OutcomeUnknown("the command did not end when it was killed") from error

    def _take_until(self, is_over: Callable[[], bool], seconds: float) -> None:
        """Take output until it is over, but no longer than ``seconds``."""
        until = time.monotonic() + seconds
        while not is_over() and time.monotonic() < until:
            self._take()

    def _take(self) -> None:
        """Take what output there is, waiting a little for it."""
        if self._at_end:
            time.sleep(PAUSE_S)
        elif self._ready.poll(POLL_MS):
            data = os.read(self._pipe.fileno(), PIECE)
            self._at_end = not data
            self._kept.add(data)

    def _has_ended(self) -> bool:
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):  # reaped by the program we are part of
                return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return self._process.poll() is not None

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # nobody is left in the group but the dead
            os.killpg(self._process.pid, number)
        end_strays(self._mark, number)


def _started(command: str, where: bytes, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    program = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"
    try:
        return subprocess.Popen(
            [program, "-c", command],
            cwd=where,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )
    except ValueError as error:  # NUL or half a character in the command or the environment
        raise CommandNotStarted(reason=str(error)) from error
    except OSError as error:
        raise CommandNotStarted(reason=error.strerror or str(error)) from error
