"""What may be asked for again is put on record with what the code asks for next; anything else before it is seen."""

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.runtime.functions import World, ask, asks, clerk, live, model_of

import forkpoint as fp
from forkpoint.errors import LeaseLost, RunIsPaused
from forkpoint.events import EffectRequested, EffectSettled, RecordedEvent, RunContinued, RunPaused
from forkpoint.messages import answer, user
from forkpoint.runtime.runtime import Runtime
from forkpoint.testing.fakes import FakeClock, ScriptedModel, call

STEPS = 6


@fp.tool(read_only=True)
async def look(number: int) -> int:
    return number * 100


def looking(steps: int) -> ScriptedModel:
    return model_of(*(asks(call("look", number=number)) for number in range(steps)))


def one_step(model: ScriptedModel, between: Callable[[], Awaitable[None]]) -> fp.Function[..., Any]:
    """A function that asks the model, does something of its own, and asks for what the model called."""

    @fp.record(name="one-step")
    async def loop() -> str:
        said = (await ask(model, [user("go")])).message
        await between()
        part = said.calls[0]
        came = answer(part.id, await look(**part.arguments))
        return (await ask(model, [user("go"), said, came])).message.text

    return loop


async def settled(runtime: Runtime) -> list[int]:
    """The effects whose outcome is on record, as another process sees it."""
    return [one.event.effect for one in await history(runtime) if isinstance(one.event, EffectSettled)]


async def history(runtime: Runtime) -> list[RecordedEvent]:
    return await (await runtime.open("r")).history()


@live
async def test_a_step_of_a_model_and_a_tool_is_two_commits(store: str) -> None:
    async with fp.connect(store, clock=FakeClock()) as runtime:
        loop = clerk(looking(STEPS), look)
        assert await runtime.record("short", clerk(looking(0), look)) == "done"
        around = runtime.edge.journal.commits_made  # type: ignore[attr-defined]
        assert await runtime.record("r", loop) == "done"
        assert runtime.edge.journal.commits_made - 2 * around == 2 * STEPS  # type: ignore[attr-defined]


@live
async def test_nothing_is_performed_before_all_that_the_code_saw_is_on_record(store: str) -> None:
    seen: list[list[int]] = []

    async with fp.connect(store, clock=FakeClock()) as runtime, fp.connect(store) as other:

        @fp.tool(read_only=True)
        async def witness(number: int) -> int:
            seen.append(await settled(other))
            return number

        model = model_of(*(asks(call("witness", number=number)) for number in range(STEPS)))
        assert await runtime.record("r", clerk(model, witness)) == "done"
        whole = await settled(other)
    assert seen == [whole[: 2 * number + 1] for number in range(STEPS)]


@live
async def test_what_may_not_be_repeated_is_on_record_before_the_code_sees_it(store: str) -> None:
    clock, counts = FakeClock(), []

    @fp.tool
    async def charge(cents: int) -> int:
        return cents

    @fp.tool(idempotent=True)
    async def mail(to: str) -> str:
        return to

    async with fp.connect(store, clock=clock) as runtime, fp.connect(store) as other:

        async def loop() -> None:
            for asked in (look(1), charge(5), mail("ada")):
                await asked
                counts.append(len(await settled(other)))
            await look(2)
            counts.append(len(await settled(other)))
            await clock.advance(0.005)
            counts.append(len(await settled(other)))

        await runtime.record("r", loop)
        assert len(await settled(other)) == 4
    assert counts == [0, 2, 3, 3, 4]


@live
async def test_what_another_process_writes_in_between_comes_first_and_all_is_told_by_the_right_numbers(
    store: str,
) -> None:
    async with fp.connect(store, clock=FakeClock()) as runtime, fp.connect(store) as other:

        async def between() -> None:
            run = await other.open("r")
            await run.pause(reason="a look")
            await run.unpause()

        model = looking(1)
        assert await runtime.record("r", one_step(model, between)) == "done"
        found = await history(other)
        kinds = [type(one.event) for one in found]
        first = kinds.index(EffectSettled)
        assert kinds[first - 2 : first] == [RunPaused, RunContinued]
        asked = next(one.event for one in found[first:] if isinstance(one.event, EffectRequested))
        assert asked.effect.message == found[first].seq  # type: ignore[union-attr]
        assert len(model.requests) == 2
        async with fp.connect(store) as later:
            assert await later.record("r", one_step(model, between)) == "done"
        assert not (await other.verify("r", fold=True)).findings


@live
async def test_who_loses_the_run_performs_nothing_more_and_the_next_asks_again(store: str) -> None:
    world, model = World(), looking(1)

    async def taken_over() -> None:
        with sqlite3.connect(store) as connection:
            connection.execute("UPDATE runs SET epoch = epoch + 1, owner = NULL, lease_until_ms = 0")

    async def nothing() -> None:
        await world.do("again")

    async with fp.connect(store, clock=FakeClock()) as runtime:
        with pytest.raises(LeaseLost):
            await runtime.record("r", one_step(model, taken_over))
        assert await settled(runtime) == []
        assert await runtime.record("r", one_step(model, nothing)) == "done"
    assert world.done == {"again": 1}
    assert len(model.requests) == 3


@live
async def test_an_outcome_too_large_for_its_event_is_whole_for_the_code(store: str) -> None:
    words = "long " * 100_000

    @fp.tool(read_only=True)
    async def read() -> str:
        return words

    async def loop() -> int:
        return len(await read()) + len(await read())

    async with fp.connect(store, clock=FakeClock()) as runtime:
        assert await runtime.record("r", loop) == 2 * len(words)


@live
async def test_a_command_is_not_refused_for_the_lease_that_a_performer_lost(store: str) -> None:
    async with fp.connect(store, clock=FakeClock()) as runtime:

        async def taken_over_and_paused() -> None:
            with sqlite3.connect(store) as connection:
                connection.execute("UPDATE runs SET epoch = epoch + 1, owner = NULL, lease_until_ms = 0")
            await (await runtime.open("r")).pause(reason="enough")

        with pytest.raises((LeaseLost, RunIsPaused)):
            await runtime.record("r", one_step(looking(1), taken_over_and_paused))
        assert await settled(runtime) == []
        assert (await (await runtime.open("r")).state()).paused is not None


@live
async def test_what_the_parent_has_answers_once_also_where_another_process_writes_in_between(store: str) -> None:
    world, model = World(), model_of(asks(call("charge", cents=5)))

    @fp.tool
    async def charge(cents: int) -> int:
        await world.do("charge")
        return cents

    async with fp.connect(store, clock=FakeClock()) as runtime, fp.connect(store) as other:

        @fp.record(name="paying")
        async def paying() -> str:
            said = (await ask(model, [user("go")])).message
            if await other.edge.journal.row("child") is not None:
                run = await other.open("child")
                await run.pause(reason="a look")
                await run.unpause()
            part = said.calls[0]
            came = answer(part.id, await charge(**part.arguments))
            return (await ask(model, [user("go"), said, came])).message.text

        assert await runtime.record("r", paying) == "done"
        await (await runtime.open("r")).fork(step=0, effects="recorded", run_id="child")
        assert await runtime.record("child", paying) == "done"
    assert world.done == {"charge": 1}


@live
async def test_whoever_reads_a_run_in_the_process_that_performs_it_finds_what_its_code_has_seen(store: str) -> None:
    heads: list[int] = []
    reads: list[Callable[[fp.Run], Awaitable[Any]]] = [
        lambda run: run.history(),
        lambda run: run.outline(),
        lambda run: run.trajectory(),
        lambda run: run.row(),
        lambda run: run.state(1),
        lambda run: run.fork(),
        lambda run: runtime.compare(run, run),
    ]

    async def loop() -> str:
        run = await runtime.open("r")
        for number, read in enumerate(reads):
            await look(number)
            assert run._cell.deferred_at_ms is not None
            await read(run)
            heads.append((await other.edge.reader.row("r")).head)
            assert run._cell.deferred_at_ms is None
        return "done"

    async with fp.connect(store, clock=FakeClock()) as runtime, fp.connect(store) as other:
        assert await runtime.record("r", loop) == "done"
        outcomes = [one.seq for one in await history(other) if isinstance(one.event, EffectSettled)]
    assert heads == outcomes
