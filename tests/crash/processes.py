"""The test's end of processes that are killed: start one, hear what it says, kill it, and know that it is gone."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from .child import Work

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30.0
"""How long a process may say nothing before the test gives up; never a measure of anything."""


class Process:
    """A process that works on an errand."""

    def __init__(self, nursery: "Nursery", pid: int, line: socket.socket) -> None:
        self.pid = pid
        self.acked: list[tuple[int, str]] = []
        self._nursery, self._line = nursery, line
        self._unread = b""
        self._status: int | None = None

    def hear(self) -> dict[str, Any] | None:
        """The next thing it says, leaving out what it acknowledged; ``None`` once it is silent for ever."""
        while True:
            line, found, rest = self._unread.partition(b"\n")
            if found:
                self._unread = rest
                said: dict[str, Any] = json.loads(line)
                if "acked" not in said:
                    return said
                self.acked.append((said["acked"], said["digest"]))
                continue
            _wait_for(self._line)
            more = self._line.recv(1 << 16)
            if not more:
                return None
            self._unread += more

    def hear_ack(self) -> bool:
        """Wait until it acknowledged one thing more; false if it ends before."""
        known = len(self.acked)
        while len(self.acked) == known:
            line, found, rest = self._unread.partition(b"\n")
            if not found:
                _wait_for(self._line)
                more = self._line.recv(256)
                if not more:
                    return False
                self._unread += more
                continue
            said = json.loads(line)
            if "acked" not in said:
                return False
            self._unread = rest
            self.acked.append((said["acked"], said["digest"]))
        return True

    def go_on(self) -> None:
        """Let it go on from where it waits."""
        self._line.sendall(b"g")

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._nursery.signal(self.pid, number)

    def kill(self) -> bool:
        """Kill it, and return once it is gone with everything it held; false if it had come to its end before."""
        self.signal(signal.SIGKILL)
        while self.hear() is not None:
            pass
        return self.end() == -signal.SIGKILL

    def end(self) -> int:
        """Wait for its end: its exit status, or the signal that killed it as a negative number."""
        if self._status is None:
            self._status = self._nursery.reap(self.pid)
            self._line.close()
        return self._status


class Nursery:
    """Starts processes by forking one that has everything loaded."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        command = [sys.executable, "-W", "error", "-m", "tests.crash.child", str(theirs.fileno())]
        self._parent = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
        theirs.close()
        self._living: dict[int, Process] = {}

    def start(self, work: Work) -> Process:
        """A new process that does ``work``."""
        ours, theirs = socket.socketpair()
        if work.waits:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the kernel makes it the least that it has
        socket.send_fds(self._control, [msgspec.json.encode(work)], [theirs.fileno()])
        theirs.close()
        pid = int(self._answer()["pid"])
        self._living[pid] = Process(self, pid, ours)
        return self._living[pid]

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a process that was started here and has not been reaped, and to no other."""
        assert pid in self._living
        os.kill(pid, number)

    def reap(self, pid: int) -> int:
        """Wait for the end of a process."""
        self._control.sendall(json.dumps({"reap": pid}).encode())
        status = int(self._answer()["status"])
        del self._living[pid]
        return status

    def close(self) -> None:
        """End what is left."""
        for process in tuple(self._living.values()):
            process.kill()
        self._control.close()
        self._parent.wait(PATIENCE_S)

    def _answer(self) -> dict[str, Any]:
        data = b""
        while not data.endswith(b"\n"):
            _wait_for(self._control)
            more = self._control.recv(1 << 12)
            assert more, "the nursery is gone"
            data += more
        answer: dict[str, Any] = json.loads(data)
        return answer


def _wait_for(line: socket.socket) -> None:
    ready, _, _ = select.select([line], [], [], PATIENCE_S)
    assert ready, f"nothing was heard for {PATIENCE_S} s"
