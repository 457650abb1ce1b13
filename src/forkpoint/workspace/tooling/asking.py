"""Questions to the process that matches lines, with an end to the waiting."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from forkpoint.errors.tools import CallStopped, PatternRefused, SearchFailed
from forkpoint.workspace.tooling import matching

POLL_MS = 50
MARGIN_S = 5.0
"""How much later than us the process ends by itself."""


class OutOfTime(Exception):
    """The time of a search is up, and the process that matched is gone."""


class Matcher:
    """A process that matches lines against one pattern, until ``until`` (monotonic, in seconds) at most.

    Raises ``tool.pattern-refused`` for one that is not valid, ``tool.search-failed`` if the process ends by itself,
    ``tool.call-stopped`` when ``is_cancelled`` says so, and ``OutOfTime``.
    """

    def __init__(
        self, pattern: str, *, ignore_case: bool, limit: int, until: float, is_cancelled: Callable[[], bool]
    ) -> None:
        self._until, self._is_cancelled = until, is_cancelled
        self._process = _started()
        seconds = max(until - time.monotonic(), 0) + MARGIN_S
        asked = {"pattern": pattern, "ignore_case": ignore_case, "limit": limit, "seconds": seconds}
        try:
            answer = self._ask(json.dumps(asked).encode())
        except BaseException:
            self.close()
            raise
        if problem := answer.get("error"):
            self.close()
            raise PatternRefused(pattern=pattern, problem=problem)

    def __enter__(self) -> "Matcher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def found(self, files: Sequence[bytes]) -> list[tuple[int, int, str]]:
        """The lines of ``files`` that match: which file, which line from 1, and the line."""
        answer = self._ask(b"".join(map(matching.frame, files)))
        return [(file, line, text) for file, line, text in answer["found"]]

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _ask(self, data: bytes) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            left = memoryview(matching.frame(data))
            while left:
                # The process reads all of a question before it works on it, so this does not wait for long.
                left = left[os.write(self._process.stdin.fileno(), left) :]
        except BrokenPipeError as error:
            raise SearchFailed(reason=self._told_end()) from error
        size = matching.LENGTH.unpack(self._read(matching.LENGTH.size))[0]
        answer: dict[str, Any] = json.loads(self._read(size))
        return answer

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        ready = select.poll()
        ready.register(handle, select.POLLIN)
        data = b""
        while len(data) < size:
            if self._is_cancelled():
                raise CallStopped(what="The search")
            if time.monotonic() > self._until:
                raise OutOfTime
            if ready.poll(POLL_MS):
                piece = os.read(handle, size - len(data))
                if not piece:
                    raise SearchFailed(reason=self._told_end())
                data += piece
        return data

    def _told_end(self) -> str:
        return f"the process that matches ended with status {self._process.wait()}"


def _started() -> subprocess.Popen[bytes]:
    program = str(Path(matching.__file__))
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise SearchFailed(reason=error.strerror or str(error)) from error
