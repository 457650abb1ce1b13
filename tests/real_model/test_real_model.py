"""A real model, asked by the real client: SmolLM2-135M on this machine. Slow, and left out unless asked for.

The model decides the words, so nothing here says what they are; what must hold, must hold whatever they are.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import forkpoint as fp
from forkpoint.adapters.provider_models import ProviderModel
from forkpoint.effects import ModelCall
from forkpoint.events import EffectDispatched, EffectRequested, EffectSettled, RecordedEvent
from forkpoint.messages import Usage
from forkpoint.outcomes import Succeeded, Unknown
from forkpoint.runtime.progress import Progress
from given import state_digest

from .kit import PATIENCE_S, NotToBeHad, Server, next_line
from .shop import ASKED, MODEL, RUN, orders, shop

pytest.importorskip("pydantic_ai", reason="the extra 'models' is not installed")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The model's server. What it is made of is kept in pytest's cache, which git does not see."""
    cache = getattr(request.config, "cache", None)
    folder = cache.mkdir("real-model") if cache is not None else tmp_path_factory.mktemp("real-model")
    try:
        server = Server(folder)
    except NotToBeHad as why:
        pytest.skip(f"no real model: {why}")
    yield server
    server.close()


@pytest.fixture
def server(served: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, found by the environment."""
    for name in [*os.environ]:
        if name.lower().endswith("_proxy") or name.startswith("OPENAI_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_BASE_URL", served.openai_url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return served


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def settled(history: Sequence[RecordedEvent]) -> list[EffectSettled]:
    """How each attempt at a model call ended."""
    calls = {one.seq for one in history if _asks_a_model(one.event)}
    return [one.event for one in history if isinstance(one.event, EffectSettled) and one.event.effect in calls]


def _asks_a_model(event: object) -> bool:
    return isinstance(event, EffectRequested) and isinstance(event.effect, ModelCall)


def used(requests: Sequence[dict[str, Any]]) -> Usage:
    """The tokens that the server counted."""
    each = (
        Usage(input_tokens=one["usage"]["prompt_tokens"], output_tokens=one["usage"]["completion_tokens"])
        for one in requests
    )
    return reduce(Usage.plus, each, Usage())


@contextlib.contextmanager
def process(do: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own that works at the shop; it does not outlive the test."""
    command = [sys.executable, "-W", "error", "-m", "tests.real_model.shop", do, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as started:
        try:
            yield started
        finally:
            started.kill()


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_run_with_a_real_model_ends_idle_with_its_tokens_counted_and_its_cost_unknown(
    server: Server, tmp_path: Path, stream: bool
) -> None:
    async def scenario() -> None:
        model = MODEL if stream else ProviderModel(MODEL, stream=False)
        async with fp.connect(tmp_path / "runs.db", agents=[shop(tmp_path, model)]) as runtime:
            run = await runtime.start("shop", ASKED)
            state = await run.wait()
            history = await run.history()
        first, second = server.requests[before:]
        assert (state.status, state.step, state.output) == ("idle", 2, second["said"])
        assert state.output
        assert [message.role for message in state.messages] == ["user", "assistant", "tool", "assistant"]
        (asked,) = state.messages[1].calls
        assert orders(tmp_path) == [f"{asked.arguments['crates']} {asked.arguments['item']}"]
        assert (state.spent.usage, state.spent.cost, state.spent.cost_unknown) == (used([first, second]), 0.0, 2)
        assert [(one.usage, one.cost) for one in settled(history)] == [(used([first]), None), (used([second]), None)]
        for one in (first, second):
            assert (one["body"]["temperature"], one["body"]["seed"], bool(one["body"].get("stream"))) == (0, 7, stream)

    before = len(server.requests)
    run(scenario)


def test_what_a_real_model_streams_arrives_as_progress_and_is_the_text_on_record(
    server: Server, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with fp.connect(tmp_path / "runs.db", agents=[shop(tmp_path)]) as runtime:
            run = await runtime.start("shop", ASKED)
            pieces: dict[int, list[str]] = {}
            recorded = None
            async for one in run.watch(after=0):
                if isinstance(one, Progress):
                    assert recorded is None, "progress came after the answer was on record"
                    pieces.setdefault(one.effect, []).append(one.text)
                elif isinstance(one.event, EffectSettled) and one.event.effect in pieces:
                    recorded = one.event
                    break
            state = await run.wait()
        assert recorded is not None
        assert isinstance(recorded.outcome, Succeeded)
        assert recorded.outcome.message is not None
        (heard,) = pieces.values()
        assert len(heard) > 1
        assert "".join(heard) == recorded.outcome.message.text == state.output == server.requests[-1]["said"]

    run(scenario)


def test_a_run_killed_while_a_real_model_answers_is_ended_by_another_process_and_acts_once(
    server: Server, tmp_path: Path
) -> None:
    async def look() -> None:
        async with fp.connect(tmp_path / "runs.db", agents=[shop(tmp_path)]) as runtime:
            run = await runtime.open(RUN)
            histories.append(await run.history())
            states.append(await run.state())

    histories: list[list[RecordedEvent]] = []
    states: list[fp.RunState] = []
    before = len(server.requests)
    with server.holding(), process("work", tmp_path) as worker:
        assert worker.stdout is not None
        assert next_line(worker.stdout)["heard"]
        worker.kill()
        assert worker.wait(PATIENCE_S) == -signal.SIGKILL
    run(look)
    asking = histories[0][-1].event
    assert isinstance(asking, EffectDispatched), "it was killed in the call"
    assert len(orders(tmp_path)) == 1

    with process("recover", tmp_path) as other:
        assert other.stdout is not None
        told = next_line(other.stdout)
        assert other.wait(PATIENCE_S) == 0
    run(look)
    first, lost, again = server.requests[before:]
    assert told == {"runs": [RUN], "failed": {}, "status": "idle", "output": again["said"]}
    assert len(orders(tmp_path)) == 1
    assert (first["left"], lost["left"], again["left"]) == (False, True, False)
    assert again["body"] == lost["body"], "what is asked again is what was asked"
    assert histories[1][: len(histories[0])] == histories[0]
    _, gone, answered = settled(histories[1])
    assert isinstance(gone.outcome, Unknown)
    assert gone.outcome.because == "lost"
    assert isinstance(answered.outcome, Succeeded)
    assert [(one.effect, one.attempt) for one in (gone, answered)] == [(asking.effect, 1), (asking.effect, 2)]
    # What was lost told nobody its tokens: they are not in the sum, and the sum says that it is not all.
    assert (states[1].spent.usage, states[1].spent.cost_unknown) == (used([first, again]), 3)


def test_a_replay_asks_a_real_model_nothing_and_ends_in_the_same_state(server: Server, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with fp.connect(tmp_path / "runs.db", agents=[shop(tmp_path)]) as runtime:
            lived = await (await runtime.start("shop", ASKED, run_id=RUN)).wait()
        asked = len(server.requests)
        assert asked == before + 2
        async with fp.connect(tmp_path / "runs.db") as runtime:
            history = await (await runtime.open(RUN)).history()
        assert state_digest(fp.replay(history)) == state_digest(lived)
        assert [fp.state_at(history, step=step).step for step in (0, 1, 2)] == [0, 1, 2]
        assert len(server.requests) == asked
        assert len(orders(tmp_path)) == 1

    before = len(server.requests)
    run(scenario)


def test_a_fork_with_another_result_goes_on_with_a_real_model_and_a_comparison_names_the_step_where_they_part(
    server: Server, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with fp.connect(tmp_path / "runs.db", agents=[shop(tmp_path)]) as runtime:
            run = await runtime.start("shop", ASKED, run_id=RUN)
            parent = await run.wait()
            (call,) = parent.messages[1].calls
            child = await run.fork(
                step=1, patch=fp.Patch(tool_results={call.id: {"error": "sold out"}}), run_id="sold-out"
            )
            assert len(server.requests) == before + 2
            await child.resume()
            state = await child.wait()
            found = await runtime.compare(run, child)
            assert state_digest(await run.state()) == state_digest(parent)
        *_, shown, shown_instead = server.requests
        assert len(server.requests) == before + 3
        assert (state.status, state.step, state.output) == ("idle", 2, shown_instead["said"])
        assert shown_instead["body"]["messages"][:-1] == shown["body"]["messages"][:-1]
        assert shown["body"]["messages"][-1]["content"] != shown_instead["body"]["messages"][-1]["content"]
        assert "sold out" in shown_instead["body"]["messages"][-1]["content"]
        assert len(orders(tmp_path)) == 1
        assert (found.names, found.diverged_at) == ((RUN, "sold-out"), 1)
        assert "diverged at step 1" in str(found)
        assert found.drift[0].field == "results"
        assert found.drift[0].b == {"error": "sold out"}
        assert [step.text for step in found.b.steps][-1] == state.output

    before = len(server.requests)
    run(scenario)
