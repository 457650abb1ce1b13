"""Processes that run a Pydantic AI agent and are killed for real: an outside witness counts what happened."""

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra 'pydantic-ai' is not installed")

from tests.adapters.pydantic_ai_stage import PAYS, says, told

import forkpoint as fp
from forkpoint.testing.provider_server import ProviderServer

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60
"""How long a process may take before the test gives up; never a measure of anything."""


class Desk:
    """Starts clerks that share a store, a provider and a witness."""

    def __init__(self, folder: Path, server: ProviderServer) -> None:
        self.store, self.witness, self.server = str(folder / "runs.db"), folder / "witness", server
        self.witness.touch()

    def start(self, said: str, stop: str = "") -> "subprocess.Popen[str]":
        told = [self.store, self.server.openai_url, str(self.witness), said, *([stop] if stop else [])]
        command = [sys.executable, "-m", "tests.adapters.pydantic_ai_clerk", *told]
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


def test_killed_while_the_model_answers_the_second_time_nothing_is_done_twice(tmp_path: Path) -> None:
    asked, answers = threading.Event(), threading.Event()

    def script(request: Any) -> Any:
        if request.number == 2:
            asked.set()
            answers.wait(PATIENCE_S)
        return says(*PAYS)(request)

    with ProviderServer(script) as server:
        desk = Desk(tmp_path, server)
        with desk.start("hold") as clerk:
            assert asked.wait(PATIENCE_S)
            clerk.kill()
        answers.set()
        assert clerk.returncode == -signal.SIGKILL
        assert desk.said_by("hold") == "paid"
        assert desk.said_by("hold") == "paid"
        assert len(server.requests) == 4
        assert server.requests[1].body == server.requests[2].body
    assert [what for what, _ in desk.noted] == ["search", "charge"]


def test_killed_while_a_tool_runs_that_nobody_vouches_for_a_person_decides(tmp_path: Path) -> None:
    async def resolved(store: str) -> None:
        async with fp.connect(store) as runtime:
            run = await runtime.open("r")
            (wait,) = await run.waits()
            assert (wait.kind, wait.name) == ("unknown", "charge")
            await run.resolve(wait.effect, "occurred", output="charged 500", actor="ann")

    with ProviderServer(says(*PAYS)) as server:
        desk = Desk(tmp_path, server)
        desk.killed_in("charge", "hold")
        assert desk.said_by("hold") == "run.waits"
        asyncio.run(resolved(desk.store))
        assert desk.said_by("hold") == "paid"
        assert told(server.requests[-1].messages[-1]) == "charged 500"
    assert [what for what, _ in desk.noted] == ["search", "charge"]


def test_killed_while_an_idempotent_tool_runs_it_is_performed_again_under_its_key(tmp_path: Path) -> None:
    with ProviderServer(says(*PAYS)) as server:
        desk = Desk(tmp_path, server)
        desk.killed_in("charge", "idempotent")
        assert desk.said_by("idempotent") == "paid"
        assert len(server.requests) == 3
    assert [what for what, _ in desk.noted] == ["search", "charge", "charge"]
    assert desk.noted[1] == desk.noted[2]


@pytest.mark.parametrize("stop", ["search", "charge"])
def test_killed_while_a_tool_runs_that_changes_nothing_it_is_performed_again(tmp_path: Path, stop: str) -> None:
    with ProviderServer(says(*PAYS)) as server:
        desk = Desk(tmp_path, server)
        desk.killed_in(stop, "read_only")
        assert desk.said_by("read_only") == "paid"
        assert len(server.requests) == 3
    assert sorted(what for what, _ in desk.noted) == sorted(["search", "charge", stop])
