"""``ForkpointMiddleware``: agents of LangChain in recorded functions, on a provider's real client."""

import asyncio
import inspect
import json
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("langchain", reason="the extra 'langgraph' is not installed")

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware, wrap_model_call
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from langsmith import tracing_context
from tests.adapters.langgraph_stage import KEY, at, model_at, pays

import forkpoint as fp
from forkpoint.adapters.langgraph import ForkpointMiddleware, ForkpointSaver, this_call
from forkpoint.errors import RunWaits, ToolBadDefinition
from forkpoint.events import EffectDispatched, EffectRequested, EffectSettled
from forkpoint.outcomes import Failed, Succeeded
from forkpoint.testing.fakes import call, calls
from forkpoint.testing.provider_server import Asked, Fault, ProviderServer, Told


class World:
    """What happened outside, and an agent that does it."""

    def __init__(self, script: Callable[[Asked], Told] = pays, **said: Any) -> None:
        self.counts: Counter[str] = Counter()
        self.keys: list[str] = []
        self.said = {"read_only": {"search"}} | said
        self.server = ProviderServer(script)
        self.hangs: asyncio.Event | None = None

    def __enter__(self) -> "World":
        self.server.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.close()

    def tools(self) -> list[Any]:
        @tool
        def search(q: str) -> dict[str, str]:
            """Search for something."""
            self.counts["search"] += 1
            return {"found": q}

        @tool
        async def mail(to: str) -> str:
            """Send a mail."""
            self.counts["mail"] += 1
            performed = this_call()
            self.keys.append(performed.idempotency_key if performed else "")
            if self.hangs is not None:
                self.hangs.set()
                await asyncio.Event().wait()
            return f"mailed {to}"

        return [search, mail]

    def agent(self, **more: Any) -> Any:
        middleware = [*more.pop("before", ()), ForkpointMiddleware(**self.said)]
        model = model_at(self.server, **more.pop("model", {}))
        given = {"tools": self.tools(), "system_prompt": "Be brief.", **more}
        return create_agent(model, middleware=middleware, **given)

    def function(self, agent: Any, thread: str = "t") -> Any:
        async def answer(question: str) -> str:
            found = await agent.ainvoke({"messages": [("user", question)]}, at(thread))
            return str(found["messages"][-1].text)

        return answer


DONE = 'done: {"found": "17"}; mailed bob'


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


async def history(runtime: fp.Runtime, name: str, kind: type[Any]) -> list[Any]:
    opened = await runtime.open(name)
    return [one.event for one in await opened.history() if isinstance(one.event, kind)]


# ── as it is without ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_outside_of_a_recorded_function_the_agent_is_as_it_is_without_the_middleware() -> None:
    with World() as world:
        plain = create_agent(model_at(world.server), tools=world.tools(), system_prompt="Be brief.")
        asyncio.run(plain.ainvoke({"messages": [("user", "17")]}))
        asyncio.run(world.agent().ainvoke({"messages": [("user", "17")]}))
        assert world.server.requests[0].body == world.server.requests[2].body
        assert world.server.requests[1].body == world.server.requests[3].body
        assert (world.counts, world.keys) == ({"search": 2, "mail": 2}, ["", ""])


# ── on record ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("saver", [None, InMemorySaver, ForkpointSaver], ids=["none", "LangGraph's", "ours"])
def test_models_and_tools_are_performed_once_and_the_record_answers_whoever_calls_again(saver: Any) -> None:
    async def scenario() -> None:
        with World() as world:
            async with fp.connect("memory:") as runtime:
                kept = None if saver is None else saver(runtime) if saver is ForkpointSaver else saver()
                function = world.function(world.agent(checkpointer=kept))
                assert await runtime.record("r", function, "17") == DONE
                assert await runtime.record("r", function, "17") == DONE
                child = await (await runtime.open("r")).fork(before="s1") if saver is None else None
                if child is not None:
                    assert await runtime.record(child.id, function) == DONE
            again = 1 if saver is None else 0
            assert world.counts == {"search": 1 + again, "mail": 1 + again}
            assert len(world.server.requests) == 2 + again
            assert world.keys[0] != ""
            assert len(set(world.keys)) == 1 + again

    run(scenario)


def test_a_sync_graph_works_in_a_plain_function() -> None:
    async def scenario() -> None:
        with World() as world:

            @tool
            def mail(to: str) -> str:
                """Send a mail."""
                world.counts["mail"] += 1
                return f"mailed {to}"

            async with fp.connect("memory:") as runtime:
                agent = world.agent(tools=[world.tools()[0], mail], checkpointer=ForkpointSaver(runtime))

                def answer(question: str) -> str:
                    return str(agent.invoke({"messages": [("user", question)]}, at("t"))["messages"][-1].text)

                assert await runtime.record("r", answer, "17") == DONE
                state = await (await runtime.open("r")).state()
                assert [message.role for message in state.messages] == [
                    "user",
                    "assistant",
                    "tool",
                    "tool",
                    "assistant",
                ]
                assert state.agent.instructions == "Be brief."
                assert world.counts == {"search": 1, "mail": 1}

    run(scenario)


@pytest.mark.parametrize("kept", [False, True], ids=["no checkpointer", "a thread in the store"])
def test_a_function_that_was_cut_off_goes_on_and_a_call_nobody_vouches_for_waits(kept: bool, tmp_path: Path) -> None:
    """C02: it is listed, and every decision ends it; what it says reaches the model as the tool's result."""

    async def scenario() -> None:
        with World() as world:
            world.hangs = asyncio.Event()
            first = fp.connect(tmp_path / "runs.db", grace_s=0.0)
            agent = world.agent(checkpointer=ForkpointSaver(first) if kept else None)
            cut = asyncio.create_task(first.record("r", world.function(agent), "17"))
            await world.hangs.wait()
            await first.edge.journal.abandon()  # type: ignore[attr-defined]
            cut.cancel()
            await asyncio.wait([cut])
            cut.exception() if not cut.cancelled() else None
            world.hangs = None
            asked = len(world.server.requests)
            async with fp.connect(tmp_path / "runs.db") as runtime:
                saver = ForkpointSaver(runtime) if kept else None
                function = world.function(world.agent(checkpointer=saver))
                with pytest.raises(RunWaits):
                    await runtime.record("r", function, "17")
                opened = await runtime.open("r")
                (wait,) = await opened.waits()
                assert (wait.kind, wait.name, wait.call) == ("unknown", "mail", "m1")
                await opened.resolve(wait.effect, "abandoned_unknown", note="nobody saw it")
                told = await runtime.record("r", function, "17")
                assert "abandoned_unknown" in told
                assert world.counts["mail"] == 1
                assert len(world.server.requests) == asked + 1
                if saver is not None:
                    newest = await saver.aget_tuple(at("t"))
                    assert newest is not None
                    kinds = [one.type for one in newest.checkpoint["channel_values"]["messages"]]
                    assert kinds == ["human", "ai", "tool", "tool", "ai"]

    run(scenario)


def test_every_attempt_is_on_record_and_the_client_repeats_nothing_by_itself() -> None:
    async def scenario() -> None:
        def script(asked: Asked) -> Told:
            return Fault(status=503, text="busy") if asked.number < 3 else "done"

        with World(script) as world:
            async with fp.connect("memory:") as runtime:
                assert await runtime.record("r", world.function(world.agent()), "17") == "done"
                settled = await history(runtime, "r", EffectSettled)
                assert [type(one.outcome) for one in settled] == [Failed, Failed, Succeeded]
                assert KEY not in str(settled)
            assert len(world.server.requests) == 3

    run(scenario)


def test_a_refusal_of_the_provider_ends_the_function_the_same_way_live_and_on_replay() -> None:
    async def scenario() -> None:
        def script(asked: Asked) -> Told:
            return Fault(status=400, text="no such model") if asked.number == 1 else "fine"

        with World(script) as world:
            async with fp.connect("memory:") as runtime:
                function = world.function(world.agent())
                with pytest.raises(fp.EffectFailed, match="no such model"):
                    await runtime.record("r", function, "17")
                assert await runtime.record("r", function, "17") == "fine"

    run(scenario)


def test_what_the_graph_sees_of_a_record_is_what_it_saw_live_to_the_last_field() -> None:
    """A21: ids, metadata, usage and artifacts survive; so does the class of a structured answer."""

    @dataclass
    class Verdict:
        good: bool

    @tool(response_format="content_and_artifact")
    def chart(n: int) -> tuple[str, dict[str, Any]]:
        """Draw."""
        return "drawn", {"kind": "chart", "data": [1, n], "raw": b"\x00"}

    seen: list[Any] = []

    def script(asked: Asked) -> Told:
        return calls(call("chart", id="c1", n=2)) if asked.number == 1 else calls(call("Verdict", id="v", good=True))

    async def scenario() -> None:
        with World(script) as world:
            agent = world.agent(tools=[chart], response_format=ToolStrategy(Verdict))

            async def answer(question: str) -> bool:
                found = await agent.ainvoke({"messages": [("user", question)]})
                seen.append(([one.model_dump() for one in found["messages"]], found["structured_response"]))
                raise ValueError("once more")

            async with fp.connect("memory:") as runtime:
                for _ in range(2):
                    with pytest.raises(ValueError, match="once more"):
                        await runtime.record("r", answer, "17")
            assert len(world.server.requests) == 2
        live, again = seen
        for message in (*live[0], *again[0]):
            if message["type"] != "ai":
                message["id"] = None  # LangGraph makes them up
        assert live == again
        assert live[1] == Verdict(good=True)
        ai, drawn = live[0][1], live[0][2]
        assert (ai["usage_metadata"] or {})["input_tokens"] > 0
        assert ai["response_metadata"]["model_name"] and ai["id"].startswith("lc_run--")
        assert drawn["artifact"] == {"kind": "chart", "data": [1, 2], "raw": b"\x00"}

    run(scenario)


def test_parallel_calls_that_end_in_another_order_than_before_are_answered_by_what_was_asked() -> None:
    """B06."""

    async def scenario() -> None:
        order = ["c", "a", "b"]
        performed: list[str] = []
        done = {name: asyncio.Event() for name in ("", *order)}
        done[""].set()

        @tool
        async def slow(name: str) -> str:
            """Take as long as the others let it."""
            await done[["", *order][order.index(name)]].wait()
            performed.append(name)
            done[name].set()
            return f"did {name}"

        def script(asked: Asked) -> Told:
            if asked.messages[-1].role == "user":
                return calls(*(call("slow", id=f"i{name}", name=name) for name in "abc"))
            return "; ".join(str(part.response) for one in asked.messages if one.role == "tool" for part in one.parts)

        with World(script) as world:
            agent = world.agent(tools=[slow])
            outcomes: list[Any] = []

            async def answer(question: str) -> str:
                found = await agent.ainvoke({"messages": [("user", question)]})
                outcomes.append([one.content for one in found["messages"]])
                raise ValueError("again")

            async with fp.connect("memory:") as runtime:
                for _ in range(2):
                    with pytest.raises(ValueError, match="again"):
                        await runtime.record("r", answer, "q")
            assert performed == ["c", "a", "b"]
            assert outcomes[0] == outcomes[1] == ["q", "", "did a", "did b", "did c", "did a; did b; did c"]

    run(scenario)


# ── approvals, errors, control flow ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("decision", ["allow", "deny", "edit"])
def test_a_tool_that_needs_approval_waits_and_the_decision_reaches_it_and_the_model(decision: str) -> None:
    """C21: a denial is a result for the model, beside the result of the call that was not gated."""

    async def scenario() -> None:
        with World(approval={"mail"}) as world:
            async with fp.connect("memory:") as runtime:
                function = world.function(world.agent())
                with pytest.raises(RunWaits):
                    await runtime.record("r", function, "17")
                assert world.counts == {"search": 1}
                opened = await runtime.open("r")
                match decision:
                    case "allow":
                        await opened.approve("m1")
                    case "deny":
                        await opened.deny("m1", "not to bob")
                    case _:
                        await opened.approve("m1", arguments={"to": "ann"})
                told = await runtime.record("r", function, "17")
                expected = {"allow": "mailed bob", "deny": "not to bob", "edit": "mailed ann"}[decision]
                assert expected in told
                assert '{"found": "17"}' in told
                assert world.counts == {"search": 1} | ({"mail": 1} if decision != "deny" else {})

    run(scenario)


def test_arguments_that_do_not_fit_go_to_the_model_and_no_body_runs() -> None:
    """B10."""

    async def scenario() -> None:
        def script(asked: Asked) -> Told:
            if asked.number == 1:
                return calls(call("count", id="c1", n="abc"))
            return str(asked.messages[-1].parts[0].response)

        ran: list[int] = []

        @tool
        def count(n: int) -> int:
            """Count."""
            ran.append(n)
            return n

        with World(script) as world:
            async with fp.connect("memory:") as runtime:
                told = await runtime.record("r", world.function(world.agent(tools=[count])), "17")
                assert "Error invoking tool 'count'" in told
                assert ran == []
                (failed,) = [
                    one for one in await history(runtime, "r", EffectSettled) if isinstance(one.outcome, Failed)
                ]
                assert (failed.outcome.error, failed.attempt) == ("ToolError", 1)

    run(scenario)


def test_what_a_tool_raises_is_raised_as_without_and_the_graphs_own_repeats_are_calls_of_their_own() -> None:
    """B19: the text is the recorded one, with its address and all."""

    async def scenario() -> None:
        tried: list[int] = []
        raised: list[str] = []

        @tool
        def flaky(n: int) -> str:
            """Fail twice."""
            tried.append(n)
            if len(tried) < 3:
                raise ValueError(f"no luck at {object()!r}")
            return "luck"

        def script(asked: Asked) -> Told:
            if asked.messages[-1].role == "user":
                return calls(call("flaky", id="c1", n=1))
            return str(asked.messages[-1].parts[0].response)

        with World(script) as world:
            repeats = ToolRetryMiddleware(max_retries=1, initial_delay=0.0, jitter=False, on_failure="error")
            agent = world.agent(tools=[flaky], before=[repeats])

            async def answer(question: str) -> str:
                try:
                    found = await agent.ainvoke({"messages": [("user", question)]})
                except ValueError as error:
                    raised.append(str(error))
                    found = await agent.ainvoke({"messages": [("user", question)]})
                raise RuntimeError(found["messages"][-1].text)

            async with fp.connect("memory:") as runtime:
                for _ in range(2):
                    with pytest.raises(RuntimeError):
                        await runtime.record("r", answer, "17")
        assert len(raised) == 2 and raised[0] == raised[1] and "object at 0x" in raised[0]

    run(scenario)


def test_a_timeout_inside_a_tool_nobody_vouches_for_is_unknown_and_not_a_failure() -> None:
    async def scenario() -> None:
        @tool
        async def mail(to: str) -> str:
            """Send a mail."""
            raise TimeoutError("no answer")

        with World() as world:
            async with fp.connect("memory:") as runtime:
                with pytest.raises(RunWaits):
                    await runtime.record("r", world.function(world.agent(tools=[world.tools()[0], mail])), "17")

    run(scenario)


def test_a_tool_that_asks_somebody_is_no_failure_and_goes_on_with_the_answer_in_another_recording() -> None:
    """B09, B01: its sibling is not performed again."""

    async def scenario() -> None:
        with World() as world:

            @tool
            def mail(to: str) -> str:
                """Send a mail, once somebody agrees."""
                world.counts["asked"] += 1
                agreed = interrupt({"mail": to})
                world.counts["mail"] += 1
                return f"mailed {to}: {agreed}"

            async with fp.connect("memory:") as runtime, ForkpointSaver(runtime) as saver:
                agent = world.agent(tools=[world.tools()[0], mail], checkpointer=saver)

                async def begin(question: str) -> list[Any]:
                    found = await agent.ainvoke({"messages": [("user", question)]}, at("t"))
                    return [one.value for one in found["__interrupt__"]]

                async def go_on(answer: str) -> str:
                    found = await agent.ainvoke(Command(resume=answer), at("t"))
                    return str(found["messages"][-1].text)

                for _ in range(2):
                    assert await runtime.record("r1", begin, "17") == [{"mail": "bob"}]
                for _ in range(2):
                    assert await runtime.record("r2", go_on, "yes") == DONE + ": yes"
                failures = [
                    one for one in await history(runtime, "r1", EffectSettled) if isinstance(one.outcome, Failed)
                ]
                assert failures == []
            assert world.counts == {"search": 1, "asked": 2, "mail": 1}

    run(scenario)


def test_a_tool_may_give_a_command_and_what_it_changes_is_recorded() -> None:
    async def scenario() -> None:
        @tool
        def remember(what: str) -> Command[Any]:
            """Remember."""
            return Command(update={"messages": [ToolMessage(f"remembered {what}", tool_call_id="c1")]})

        def script(asked: Asked) -> Told:
            return calls(call("remember", id="c1", what="it")) if asked.number == 1 else "ok"

        with World(script) as world:
            agent, told = world.agent(tools=[remember]), []

            async def answer(question: str) -> str:
                found = await agent.ainvoke({"messages": [("user", question)]})
                told.append([one.content for one in found["messages"]])
                raise ValueError("again")

            async with fp.connect("memory:") as runtime:
                for _ in range(2):
                    with pytest.raises(ValueError, match="again"):
                        await runtime.record("r", answer, "17")
        assert told == [["17", "", "remembered it", "ok"]] * 2

    run(scenario)


def test_a_result_without_a_safe_form_is_one_that_happened_and_is_not_repeated() -> None:
    async def scenario() -> None:
        class Handle:
            pass

        @tool(response_format="content_and_artifact")
        def opened(n: int) -> tuple[str, Any]:
            """Open."""
            return "open", Handle()

        def script(asked: Asked) -> Told:
            return calls(call("opened", id="c1", n=1))

        with World(script) as world:
            async with fp.connect("memory:") as runtime:
                with pytest.raises(fp.EffectFailed):
                    await runtime.record("r", world.function(world.agent(tools=[opened])), "17")
                (failed,) = [
                    one for one in await history(runtime, "r", EffectSettled) if isinstance(one.outcome, Failed)
                ]
                assert failed.outcome.happened

    run(scenario)


def test_a_tool_says_of_itself_what_a_restart_may_do_and_a_contradiction_is_refused() -> None:
    async def scenario() -> None:
        with World(read_only=(), idempotent={"mail"}) as world:
            search, mail = world.tools()
            search.metadata = {"forkpoint": {"read_only": True}}
            async with fp.connect("memory:") as runtime:
                await runtime.record("r", world.function(world.agent(tools=[search, mail])), "17")
                state = await (await runtime.open("r")).state()
                assert {one.name: one.recovery.value for one in state.agent.tools} == {
                    "search": "repeat",
                    "mail": "retry",
                }
                mail.metadata = {"forkpoint": {"read_only": True}}
                with pytest.raises(ToolBadDefinition):
                    await runtime.record("r2", world.function(world.agent(tools=[search, mail])), "17")
                mail.metadata = {"forkpoint": {"readonly": True}}
                with pytest.raises(ToolBadDefinition, match="readonly"):
                    await runtime.record("r3", world.function(world.agent(tools=[search, mail])), "17")

    run(scenario)


def test_what_other_middleware_changes_is_what_is_recorded() -> None:
    @wrap_model_call
    async def polite(request: Any, handler: Any) -> Any:
        return await handler(request.override(system_message=SystemMessage("Be polite."), model_settings={"seed": 7}))

    async def scenario() -> None:
        with World() as world:
            async with fp.connect("memory:") as runtime:
                await runtime.record("r", world.function(world.agent(before=[polite])), "17")
                state = await (await runtime.open("r")).state()
                assert (state.agent.instructions, (state.agent.settings or {})["seed"]) == ("Be polite.", 7)
            assert world.server.requests[0].body["seed"] == 7
            assert world.server.requests[0].instructions == "Be polite."

    run(scenario)


def test_tokens_come_live_while_a_model_streams_and_a_replay_gives_the_whole() -> None:
    async def scenario() -> None:
        def script(asked: Asked) -> Told:
            return "one two three four five six seven eight nine ten"

        with World(script) as world:
            agent, told, notices = world.agent(), [], []

            async def answer(question: str) -> str:
                pieces = [
                    piece.content
                    async for piece, _ in agent.astream({"messages": [("user", question)]}, stream_mode="messages")
                ]
                told.append(pieces)
                raise ValueError("again")

            async with fp.connect("memory:") as runtime:
                leave = runtime.edge.bulletin.join("r", _Inbox(notices))
                for _ in range(2):
                    with pytest.raises(ValueError, match="again"):
                        await runtime.record("r", answer, "17")
                leave()
            assert "".join(told[0]) == "".join(told[1]) == script(None)  # type: ignore[arg-type]
            assert len(told[0]) > 1
            assert len(told[1]) == 1
            assert "".join(notices) == script(None)  # type: ignore[arg-type]
            assert len(world.server.requests) == 1

    run(scenario)


class _Inbox:
    """Takes notices."""

    def __init__(self, words: list[str]) -> None:
        self._words = words

    def __call__(self, *told: Any) -> None:
        self.put(*told)

    def put(self, *told: Any) -> None:
        self._words += [one.text for one in told if getattr(one, "text", "")]


# ── time travel ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_going_back_with_langgraph_does_not_repeat_what_is_not_safe_to_repeat() -> None:
    """The tools run again from an earlier checkpoint; the mail's record answers, and the search is made again."""

    async def scenario() -> None:
        with World() as world:
            async with fp.connect("memory:") as runtime, ForkpointSaver(runtime) as saver:
                agent = world.agent(checkpointer=saver)

                async def answer(question: str) -> str:
                    await agent.ainvoke({"messages": [("user", question)]}, at("t"))
                    states = [one async for one in agent.aget_state_history(at("t"))]
                    before = next(one for one in states if "tools" in one.next)
                    found = await agent.ainvoke(None, before.config)
                    return str(found["messages"][-1].text)

                for _ in range(2):
                    assert await runtime.record("r", answer, "17") == DONE
            assert world.counts == {"search": 2, "mail": 1}

    run(scenario)


def test_going_back_in_a_fork_with_recorded_effects_mails_nobody_twice() -> None:
    async def scenario() -> None:
        with World() as world:
            async with fp.connect("memory:") as runtime:
                function = world.function(world.agent())
                await runtime.record("r", function, "17")
                opened = await runtime.open("r")
                child = await opened.fork(step=0, effects="recorded")
                assert await runtime.record(child.id, function) == DONE
            assert world.counts == {"search": 1, "mail": 1}
            assert len(world.server.requests) == 4

    run(scenario)


def test_a_fork_with_another_result_goes_on_from_there_and_is_compared() -> None:
    async def scenario() -> None:
        def script(asked: Asked) -> Told:
            if asked.messages[-1].role == "user":
                return calls(call("search", id="s1", q="17"))
            return f"done: {json.dumps(asked.messages[-1].parts[0].response)}"

        with World(script) as world:
            async with fp.connect("memory:") as runtime:
                function = world.function(world.agent())
                await runtime.record("r", function, "17")
                patch = fp.Patch(tool_results={"s1": {"found": "nothing"}})
                child = await (await runtime.open("r")).fork(step=1, patch=patch)
                assert await runtime.record(child.id, function) == 'done: {"found": "nothing"}'
                compared = await runtime.compare("r", child.id)
                assert compared.diverged_at == 1
            assert world.counts == {"search": 1}
            assert len(world.server.requests) == 3

    run(scenario)


def test_a_fork_asks_exactly_what_was_put_in_the_place_of_what_the_code_asks() -> None:
    async def scenario() -> None:
        @fp.tool(read_only=True)
        def weigh(what: str) -> str:
            """Weigh it."""
            return what

        with World() as world:

            def found(name: str) -> Any:
                return model_at(world.server, model=name.partition(":")[2])

            world.said["models"] = found
            async with fp.connect("memory:") as runtime:
                function = world.function(world.agent())
                await runtime.record("r", function, "17")
                opened = await runtime.open("r")
                patch = fp.Patch(
                    model="openai:gpt-5-mini", instructions="Be rude.", settings={"temperature": 0.5}, tools=[weigh]
                )
                child = await opened.fork(step=1, patch=patch, effects="recorded")
                await runtime.record(child.id, function)
                body = world.server.requests[-1].body
                assert (body["model"], body["temperature"]) == ("gpt-5-mini", 0.5)
                assert world.server.requests[-1].instructions == "Be rude."
                assert [one["function"]["name"] for one in body["tools"]] == ["weigh"]
                assert len(world.server.requests) == 3

    run(scenario)


def test_an_idempotent_tool_is_tried_again_under_the_same_key_and_has_another_in_a_fork() -> None:
    async def scenario() -> None:
        keys: list[str] = []

        @tool
        async def mail(to: str) -> str:
            """Send a mail."""
            performed = this_call()
            assert performed is not None
            keys.append(performed.idempotency_key)
            if len(keys) == 1:
                raise ConnectionError("cut")
            return f"mailed {to}"

        with World(idempotent={"mail"}) as world:
            async with fp.connect("memory:") as runtime:
                function = world.function(world.agent(tools=[world.tools()[0], mail]))
                assert await runtime.record("r", function, "17") == DONE
                dispatched = await history(runtime, "r", EffectDispatched)
                assert max(one.attempt for one in dispatched) == 2
                child = await (await runtime.open("r")).fork(step=0)
                await runtime.record(child.id, function)
        assert keys[0] == keys[1] != keys[2]

    run(scenario)


def test_recording_an_awaited_agent_takes_no_more_turns_on_other_os_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        turns: list[Any] = []
        loop, in_thread = asyncio.get_running_loop(), asyncio.get_running_loop().run_in_executor

        def counted(executor: Any, function: Any, *args: Any) -> Any:
            turns.append(function)
            return in_thread(executor, function, *args)

        @tool
        async def search(q: str) -> dict[str, str]:
            """Search for something."""
            return {"found": q}

        with World() as world:
            tools = [search, world.tools()[1]]
            bare = create_agent(model_at(world.server), tools, system_prompt="Be brief.")
            async with fp.connect("memory:") as runtime:
                monkeypatch.setattr(loop, "run_in_executor", counted)
                assert await world.function(bare)("17") == DONE
                alone = len(turns)
                assert await runtime.record("r", world.function(world.agent(tools=tools)), "17") == DONE
                assert len(turns) == 2 * alone

    run(scenario)


def test_an_agent_that_is_made_while_langsmith_traces_has_its_hooks_traced() -> None:
    recorded = ForkpointMiddleware()
    with tracing_context(enabled=True):
        assert inspect.iscoroutinefunction(recorded.awrap_model_call)
        assert inspect.iscoroutinefunction(recorded.awrap_tool_call)


def test_growth_of_a_recorded_agent_is_that_of_what_is_new(tmp_path: Path) -> None:
    """Each request is told by what it adds: the tenth turn of a conversation costs what the second did."""

    async def scenario() -> None:
        def script(asked: Asked) -> Told:
            return "x" * 1000

        with World(script) as world:
            agent, turns = world.agent(), []

            async def talk(rounds: int) -> str:
                said: list[Any] = []
                for number in range(rounds):
                    found = await agent.ainvoke({"messages": [*said, HumanMessage(f"turn {number}")]})
                    said = found["messages"]
                return str(len(said))

            async with fp.connect("memory:") as runtime:
                assert await runtime.record("r", talk, 12) == "24"
                turns += [len(encoded(one)) for one in await history(runtime, "r", EffectRequested)]
            assert max(turns[2:]) <= turns[2] + 10

    run(scenario)


def encoded(event: Any) -> bytes:
    return msgspec.json.encode(event)


def test_threads_of_an_executor_are_no_obstacle() -> None:
    """LangGraph runs parallel sync tools on OS threads of its own."""

    async def scenario() -> None:
        names: set[str] = set()

        @tool
        def mail(to: str) -> str:
            """Send a mail."""
            names.add(threading.current_thread().name)
            return f"mailed {to}"

        with World() as world:
            async with fp.connect("memory:") as runtime:
                agent = world.agent(tools=[world.tools()[0], mail])

                def answer(question: str) -> str:
                    return str(agent.invoke({"messages": [("user", question)]})["messages"][-1].text)

                assert await runtime.record("r", answer, "17") == DONE
        assert threading.main_thread().name not in names

    run(scenario)
