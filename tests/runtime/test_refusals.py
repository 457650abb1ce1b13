"""What a run refuses, and that nothing is written by it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.runtime.stage import call, calls, live, played, runtime_on

import forkpoint as fp
from forkpoint.errors import (
    AgentToolGone,
    AnswerNotAwaited,
    ApprovalDecidedAlready,
    ApprovalOfOtherArguments,
    EffectAlreadyResolved,
    EffectNotFound,
    EffectNotUnknown,
    ForkAmbiguousCall,
    ForkBadPoint,
    ForkpointError,
    ToolGone,
    TranscriptInvalid,
)
from forkpoint.messages import answer, assistant, user


@fp.tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@fp.tool(external=True)
def ask(question: str) -> str: ...


@fp.tool
def doubt() -> str:
    """Doubt."""
    raise fp.OutcomeUnknown("cut off")


def clerk(*tools: fp.Tool[..., object]) -> fp.Agent:
    model = played(calls(call("pay", cents=5), call("ask", question="?"), call("doubt")))
    return fp.Agent("clerk", model=model, tools=tools)


@asynccontextmanager
async def waiting() -> AsyncIterator[tuple[fp.Run, dict[str, int]]]:
    """A run that waits for a person about each of its three calls: the effect of each, by its tool."""
    async with runtime_on(None, clerk(pay, ask, doubt)) as runtime:
        run = await runtime.start("clerk", "go")
        state = await run.wait()
        yield run, {wait.name: wait.effect for wait in state.waits}


@asynccontextmanager
async def refused(run: fp.Run, kind: type[ForkpointError]) -> AsyncIterator[None]:
    before = await run.digest()
    with pytest.raises(kind):
        yield
    assert await run.digest() == before


@live
async def test_an_effect_that_is_not_there_cannot_be_decided_about() -> None:
    async with waiting() as (run, effects):
        for odd in (0, 1, 999):
            async with refused(run, EffectNotFound):
                await run.resolve(odd, "occurred")
        async with refused(run, EffectNotUnknown):
            await run.resolve(effects["ask"], "occurred")
        for asked in (
            run.resolve("no-such-call", "occurred"),
            run.answer("no-such-call", 1),
            run.approve("no-such-call"),
        ):
            async with refused(run, EffectNotFound):
                await asked


@live
async def test_only_a_call_that_waits_for_its_answer_takes_one() -> None:
    async with waiting() as (run, effects):
        async with refused(run, AnswerNotAwaited):
            await run.answer(effects["doubt"], "yes")
        await run.answer(effects["ask"], "yes")
        async with refused(run, AnswerNotAwaited):
            await run.answer(effects["ask"], "no")


@live
async def test_an_approval_is_for_the_call_that_was_seen_and_decided_once() -> None:
    async with waiting() as (run, effects):
        async with refused(run, ApprovalOfOtherArguments):
            await run.approve(effects["pay"], digest="of another call")
        await run.deny(effects["pay"], "too much")
        await run.deny(effects["pay"], "too much")
        async with refused(run, ApprovalDecidedAlready):
            await run.approve(effects["pay"])


@live
async def test_a_call_id_that_two_open_calls_have_decides_about_neither() -> None:
    twice = fp.Agent("clerk", model=played(calls(call("doubt", id="c1"), call("doubt", id="c1"))), tools=[doubt])
    async with runtime_on(None, twice) as runtime:
        run = await runtime.start("clerk", "go")
        first, second = (wait.effect for wait in (await run.wait()).waits)
        async with refused(run, ForkAmbiguousCall):
            await run.resolve("c1", "occurred")
        await run.resolve(first, "not_occurred")
        async with refused(run, ForkAmbiguousCall):
            await run.resolve("c1", "occurred")
        await run.resolve(second, "occurred")
        assert (await run.wait()).status == "idle"


@live
async def test_a_call_is_named_by_its_id_before_and_after_it_was_decided_about() -> None:
    model = played(calls(call("pay", id="p1", cents=5), call("ask", id="q1", question="?"), call("doubt", id="d1")))
    async with runtime_on(None, fp.Agent("clerk", model=model, tools=[pay, ask, doubt])) as runtime:
        run = await runtime.start("clerk", "go")
        await run.wait()
        await run.deny("p1", "too much")
        await run.answer("q1", "yes")
        await run.resolve("d1", "occurred", output="done")
        assert (await run.wait()).status == "idle"
        head = await run.digest()
        await run.deny("p1", "too much")
        await run.resolve("d1", "occurred", output="done")
        assert await run.digest() == head
        async with refused(run, EffectAlreadyResolved):
            await run.resolve("d1", "not_occurred")


@live
async def test_one_moment_is_one_moment() -> None:
    async with waiting() as (run, _), refused(run, ForkBadPoint):
        await run.fork(3, step=1)


@live
async def test_a_run_does_not_go_on_without_the_tool_that_a_call_waits_for() -> None:
    async with waiting() as (run, _):
        journal = run._edge.journal
        async with runtime_on(journal, clerk(ask, doubt)) as other:
            handle = await other.open(run.id)
            async with refused(handle, AgentToolGone):
                await handle.resume(accept_changes=True)


def test_messages_that_no_provider_takes_are_told_with_their_place() -> None:
    asked = assistant("", call("pay", id="c1", cents=5))
    fp.validate_transcript([user("go"), asked, answer("c1", "paid")])
    with pytest.raises(TranscriptInvalid) as caught:
        fp.validate_transcript([user("go"), asked, user("well?")])
    assert caught.value.index == 2
    assert "c1" in caught.value.detail


def test_a_tool_that_is_gone_is_told_by_name() -> None:
    """The performer's own guard; resuming is refused before it comes to this (``agent.tool-gone``)."""
    assert "pay" in str(ToolGone(run="r", tool="pay", effect=4))
