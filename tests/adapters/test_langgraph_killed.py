"""Processes that run an agent of LangChain's and are killed for real: an outside witness counts what happened."""

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain", reason="the extra 'langgraph' is not installed")


import forkpoint as fp
from forkpoint.testing.fakes import call, calls
from forkpoint.testing.provider_server import Asked, ProviderServer, Told

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60
"""How long a process may take before the test gives up; never a measure of anything."""

each_keeping = pytest.mark.parametrize("kept", ["nowhere", "store"])


def script(asked: Asked) -> Told:
    match sum(message.role == "tool" for message in asked.messages):
        case 0:
            return calls(call("search", id="s", number="17"))
        case 1:
            return calls(call("charge", id="c", number="17", cents=500))
        case _:
            return "paid"


class Desk:
    """Starts clerks that share a store, a provider and a witness."""

    def __init__(self, folder: Path, server: ProviderServer, kept: str) -> None:
        self.store, self.witness, self.server, self.kept = str(folder / "runs.db"), folder / "witness", server, kept
        self.witness.touch()

    def start(self, said: str, stop: str = "") -> "subprocess.Popen[str]":
        told = [self.store, self.server.openai_url, str(self.witness), said, self.kept, *([stop] if stop else [])]
        command = [sys.executable, "-m", "tests.adapters.langgraph_clerk", *told]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def said_by(self, said: str) -> str:
        """What a clerk that is left alone has to say at the end."""
        with self.start(said) as clerk:
            words, _ = clerk.communicate(timeout=PATIENCE_S)
        assert clerk.returncode == 0
        return words.strip()

    def killed_in(self, tool: str, said: str) -> None:
        with self.start(said, tool) as clerk:
            assert clerk.stdout is not None
            assert clerk.stdout.readline() == "here\n"
            clerk.kill()
        assert clerk.returncode == -signal.SIGKILL

    @property
    def noted(self) -> list[list[str]]:
        return [line.split() for line in self.witness.read_text().splitlines()]


@each_keeping
def test_killed_while_the_model_answers_the_second_time_nothing_is_done_twice(kept: str, tmp_path: Path) -> None:
    asked, answers = threading.Event(), threading.Event()

    def slowly(request: Any) -> Told:
        if request.number == 2:
            asked.set()
            answers.wait(PATIENCE_S)
        return script(request)

    with ProviderServer(slowly) as server:
        desk = Desk(tmp_path, server, kept)
        with desk.start("hold") as clerk:
            assert asked.wait(PATIENCE_S)
            clerk.kill()
        answers.set()
        assert clerk.returncode == -signal.SIGKILL
        assert desk.said_by("hold") == "paid after 6"
        assert desk.said_by("hold") == "paid after 6"
        assert len(server.requests) == 4
        assert server.requests[1].body == server.requests[2].body
    assert [what for what, _ in desk.noted] == ["search", "charge"]


@each_keeping
def test_killed_while_a_tool_runs_that_nobody_vouches_for_a_person_decides(kept: str, tmp_path: Path) -> None:
    async def resolved(store: str) -> None:
        async with fp.connect(store) as runtime:
            run = await runtime.open("r")
            (wait,) = await run.waits()
            assert (wait.kind, wait.name) == ("unknown", "charge")
            await run.resolve(wait.effect, "occurred", output="charged 500", actor="ann")

    with ProviderServer(script) as server:
        desk = Desk(tmp_path, server, kept)
        desk.killed_in("charge", "hold")
        assert desk.said_by("hold") == "run.waits"
        asyncio.run(resolved(desk.store))
        assert desk.said_by("hold") == "paid after 6"
    assert [what for what, _ in desk.noted] == ["search", "charge"]


@pytest.mark.parametrize("said", ["read_only", "idempotent"])
def test_killed_while_a_safe_tool_runs_it_is_performed_again_under_the_same_key(said: str, tmp_path: Path) -> None:
    with ProviderServer(script) as server:
        desk = Desk(tmp_path, server, "store")
        desk.killed_in("charge", said)
        assert desk.said_by(said) == "paid after 6"
        assert len(server.requests) == 3
    (_, first), (_, second) = desk.noted[1:]
    assert [what for what, _ in desk.noted] == ["search", "charge", "charge"]
    assert first == second
