"""A process that records a run of the Agents SDK is killed by the kernel; the next one repeats nothing."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra 'openai-agents' is not installed")

from agents import SQLiteSession
from tests.adapters.openai_agents_clerk import main
from tests.adapters.openai_agents_stage import each_way, shown

import forkpoint as fp
from forkpoint.testing.fakes import call, calls
from forkpoint.testing.provider_server import Asked, Fault, ProviderServer, Told

ROOT = Path(__file__).parents[2]
WORK = [call("search", number="17"), call("charge", number="17", cents=500), call("mail", to="ann")]


class Provider:
    """A model that hands over, and then has each tool called once. Request number ``stalls`` is never answered."""

    def __init__(self, stalls: int = 0) -> None:
        self.stalls = stalls
        self.stalled = threading.Event()

    def __call__(self, asked: Asked) -> Told:
        if asked.number == self.stalls:
            self.stalled.set()
            return Fault(stall=True)
        if asked.instructions == "Greet.":
            return calls(call("transfer_to_back"))
        done = len(shown(asked)) - 1
        return calls(WORK[done]) if done < len(WORK) else "paid"


def killed(tmp_path: Path, server: ProviderServer, provider: Provider, hangs: str, way: str) -> None:
    """Start a process, and kill it once ``hangs`` (or the model) hangs."""
    arguments = [str(tmp_path / "runs.db"), str(tmp_path / "witness"), server.openai_url, hangs, way]
    command = [sys.executable, "-m", "tests.adapters.openai_agents_clerk", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if hangs:
            assert process.stdout.readline().strip() == hangs
        else:
            assert provider.stalled.wait(60)
    finally:
        process.kill()
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()


def again(tmp_path: Path, server: ProviderServer, way: str) -> str:
    """What the run comes to in this process."""
    return asyncio.run(main(str(tmp_path / "runs.db"), str(tmp_path / "witness"), server.openai_url, "", way))


def witnessed(tmp_path: Path) -> tuple[Counter[str], list[str]]:
    lines = [line.split(" ") for line in (tmp_path / "witness").read_text().splitlines()]
    return Counter(what for what, _ in lines), [key for what, key in lines if what == "charge"]


def session_of(tmp_path: Path) -> list[Any]:
    async def items() -> list[Any]:
        session = SQLiteSession("s", str(tmp_path / "runs.db.session"))
        try:
            return list(await session.get_items())
        finally:
            session.close()

    return asyncio.run(items())


ONCE = {"search": 1, "charge": 1, "mail": 1}


@each_way
@pytest.mark.parametrize("hangs", ["search", "charge"])
def test_killed_in_a_tool_that_may_be_repeated_only_that_is_repeated(
    tmp_path: Path, hangs: str, streamed: bool
) -> None:
    way, provider = "streamed" if streamed else "whole", Provider()
    with ProviderServer(provider) as server:
        killed(tmp_path, server, provider, hangs, way)
        assert again(tmp_path, server, way) == "paid"
        assert len(server.requests) == 5
    done, keys = witnessed(tmp_path)
    assert done == {**ONCE, hangs: 2}
    assert len(set(keys)) == 1
    assert Counter(item.get("type", item.get("role")) for item in session_of(tmp_path))["function_call"] == 4


@each_way
def test_killed_in_a_tool_that_nobody_vouches_for_the_run_waits_and_is_resolved(tmp_path: Path, streamed: bool) -> None:
    way, provider = "streamed" if streamed else "whole", Provider()

    async def resolve() -> None:
        async with fp.connect(str(tmp_path / "runs.db")) as desk:
            run = await desk.open("r")
            await run.resolve((await run.waits())[0].effect, "occurred", output="sent to ann", actor="ann")

    with ProviderServer(provider) as server:
        killed(tmp_path, server, provider, "mail", way)
        for _ in range(2):
            assert again(tmp_path, server, way) == "waits for 1"
        asyncio.run(resolve())
        assert again(tmp_path, server, way) == "paid"
        assert again(tmp_path, server, way) == "paid"
        assert len(server.requests) == 5
        assert shown(server.requests[-1])[-1] == "sent to ann"
    assert witnessed(tmp_path)[0] == ONCE


@each_way
@pytest.mark.parametrize("stalls", [1, 2, 4])
def test_killed_while_a_model_answers_it_is_asked_again_and_no_tool_is_repeated(
    tmp_path: Path, stalls: int, streamed: bool
) -> None:
    way, provider = "streamed" if streamed else "whole", Provider(stalls)
    with ProviderServer(provider) as server:
        killed(tmp_path, server, provider, "", way)
        assert again(tmp_path, server, way) == "paid"
        assert len(server.requests) == 6
        server.release()
    assert witnessed(tmp_path)[0] == ONCE
