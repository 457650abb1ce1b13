"""A function's own loop gets what Forkpoint's has: performed once, known after a death, forked and compared."""

import asyncio
import dataclasses
from typing import Any

import pytest
from tests.runtime.functions import World, ask, asks, clerk, killed_in, live, model_of

import forkpoint as fp
from forkpoint.errors import (
    AnswerUnfit,
    AskOutOfPlace,
    FunctionMissing,
    FunctionOtherArguments,
    FunctionUnfit,
    InputNotTaken,
    PatchBad,
    RecordingEnded,
    ReplayDiverged,
    RunCalledOff,
    RunIsOfAgent,
    RunIsPaused,
    RunWaits,
)
from forkpoint.messages import answer, user
from forkpoint.runtime.recorder import current
from forkpoint.testing.fakes import ScriptedModel, call


def tools_of(world: World, **options: Any) -> tuple[fp.Tool[..., Any], fp.Tool[..., Any]]:
    @fp.tool(read_only=True)
    async def look(number: str) -> dict[str, Any]:
        await world.do("look")
        return {"number": number, "due": 500}

    @fp.tool(**options)
    async def charge(ctx: fp.ToolContext, number: str, cents: int) -> str:
        world.keys.append(ctx.idempotency_key)
        await world.do("charge")
        return f"charged {cents}"

    return look, charge


def billing() -> ScriptedModel:
    return model_of(asks(call("look", number="17")), asks(call("charge", number="17", cents=500)), last="paid")


# ── performed once ───────────────────────────────────────────────────────────────────────────────────────────


@live
async def test_a_function_that_returned_is_never_called_again(store: str) -> None:
    world, model = World(), billing()
    loop = clerk(model, *tools_of(world))
    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop, "17") == "paid"
        assert await runtime.record("r", loop, "17") == "paid"
        assert await runtime.record("r", loop) == "paid"
    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop, "17") == "paid"
    assert world.done == {"look": 1, "charge": 1}
    assert len(model.requests) == 3


@live
async def test_the_next_process_repeats_nothing_that_is_on_record(store: str) -> None:
    world, model = World(), billing()
    loop = clerk(model, *tools_of(world, idempotent=True))
    async with fp.connect(store, grace_s=0) as runtime:
        await killed_in(world, "charge", runtime.record("r", loop, "17"))
    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop, "17") == "paid"
    assert world.done == {"look": 1, "charge": 2}
    assert world.keys[0] == world.keys[1]
    assert len(model.requests) == 3


@live
async def test_a_step_is_performed_once_and_gives_what_was_recorded_as_its_annotation_says(store: str) -> None:
    world = World()

    @dataclasses.dataclass
    class Invoice:
        number: str
        cents: int

    @fp.step(read_only=True)
    async def invoice(number: str) -> Invoice:
        await world.do("invoice")
        return Invoice(number, 500)

    async def total(number: str, times: int = 1) -> int:
        found = await invoice(number)
        assert isinstance(found, Invoice)
        return found.cents * times

    async with fp.connect(store) as runtime:
        assert await runtime.record("r", total, "17", times=2) == 1000
        assert await runtime.record("r", total, "17", times=2) == 1000
    assert world.done == {"invoice": 1}


@live
async def test_a_step_may_be_named_before_it_is_there(store: str) -> None:
    @fp.record
    async def loop() -> int:
        return await later()

    @fp.step(read_only=True)
    async def later() -> int:
        return 3

    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop) == 3


@live
async def test_the_arguments_that_a_person_sets_for_a_step_are_what_its_annotations_ask(store: str) -> None:
    @dataclasses.dataclass
    class Invoice:
        number: str
        cents: int = 0

    seen = []

    @fp.step(approval=True)
    async def pay(invoice: Invoice) -> int:
        seen.append(invoice)
        return invoice.cents

    async def loop() -> int:
        return await pay(Invoice("17", 500))

    async with fp.connect(store) as runtime:
        with pytest.raises(RunWaits):
            await runtime.record("r", loop)
        run = await runtime.open("r")
        await run.approve((await run.waits())[0].effect, arguments={"invoice": {"number": "17", "cents": 5}})
        assert await runtime.record("r", loop) == 5
    assert seen == [Invoice("17", 5)]


@live
async def test_outside_of_a_recorded_function_tools_and_steps_are_plain_functions(store: str) -> None:
    world = World()
    look, _ = tools_of(world)

    @fp.step
    def double(x: int) -> int:
        return 2 * x

    assert await look(number="1") == {"number": "1", "due": 500}
    assert double(4) == 8
    assert current() is None


@live
async def test_what_an_effect_does_itself_is_no_effect(store: str) -> None:
    world = World()
    look, _ = tools_of(world)

    @fp.tool(read_only=True)
    async def both() -> Any:
        assert current() is None
        return await look("1")

    async def loop() -> Any:
        return await both()

    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop) == {"number": "1", "due": 500}
        run = await runtime.open("r")
        assert [one.name for one in (await run.trajectory()).own] == ["both"]


@live
async def test_a_plain_function_asks_from_a_thread_of_its_own(store: str) -> None:
    world = World()

    @fp.tool(idempotent=True)
    def charge(cents: int) -> int:
        world.done["charge"] += 1
        return cents

    @fp.step(read_only=True)
    def double(x: int) -> int:
        world.done["double"] += 1
        return 2 * x

    def loop(cents: int) -> int:
        return charge(double(cents))

    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop, 4) == 8
        assert await runtime.record("r", loop, 4) == 8
    assert world.done == {"charge": 1, "double": 1}


@live
async def test_a_plain_tool_on_the_event_loop_of_an_async_function_is_refused(store: str) -> None:
    world = World()

    @fp.tool(read_only=True)
    def look() -> int:
        world.done["look"] += 1
        return 1

    async def loop() -> int:
        return look()

    async with fp.connect(store) as runtime:
        with pytest.raises(AskOutOfPlace):
            await runtime.record("r", loop)
    assert not world.done


# ── what nobody knows, and what a person is asked ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("verdict", "more", "told"),
    [
        ("occurred", {"output": "charged 500"}, "charged 500"),
        ("not_occurred", {}, "not_occurred"),
        ("abandoned_unknown", {}, "abandoned_unknown"),
    ],
)
def test_a_call_that_nobody_vouches_for_waits_when_it_was_lost_and_every_finding_leads_on(
    tmp_path: Any, verdict: Any, more: dict[str, Any], told: str
) -> None:
    async def test() -> None:
        store, world, model = str(tmp_path / "runs.db"), World(), billing()
        loop = clerk(model, *tools_of(world))
        async with fp.connect(store, grace_s=0) as runtime:
            await killed_in(world, "charge", runtime.record("r", loop, "17"))
        async with fp.connect(store, functions=[loop]) as runtime:
            for _ in range(2):
                with pytest.raises(RunWaits) as waits:
                    await runtime.record("r", loop, "17")
                assert "charge" in str(waits.value)
            (wait,) = await runtime.waits()
            assert (wait.run, wait.wait.kind, wait.wait.name) == ("r", "unknown", "charge")
        async with fp.connect(store) as clerks_desk:
            await (await clerks_desk.open("r")).resolve(wait.wait.effect, verdict, actor="ann", **more)
        async with fp.connect(store, functions=[loop]) as runtime:
            assert (await runtime.recover()).runs == ("r",)
            assert await runtime.record("r", loop, "17") == "paid"
        assert world.done == {"look": 1, "charge": 1}
        shown = model.requests[-1].messages[-1].parts[0].response  # type: ignore[union-attr]
        assert told in str(shown)

    asyncio.run(test())


@live
async def test_a_gated_call_waits_for_its_approval_from_any_process_and_then_runs_once(store: str) -> None:
    world = World()
    loop = clerk(billing(), *tools_of(world, approval=True))
    async with fp.connect(store) as runtime:
        with pytest.raises(RunWaits):
            await runtime.record("r", loop, "17")
        assert world.done == {"look": 1}
    async with fp.connect(store) as desk:
        await (await desk.open("r")).approve("call_charge", actor="ann")
    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop, "17") == "paid"
    assert world.done == {"look": 1, "charge": 1}


@live
async def test_edited_arguments_are_what_is_performed_and_what_was_asked_stays_on_record(store: str) -> None:
    seen: list[Any] = []

    @fp.tool(approval=True)
    async def charge(number: str, cents: int) -> str:
        seen.append((number, cents))
        return f"charged {cents}"

    loop = clerk(model_of(asks(call("charge", number="17", cents=500))), charge)
    async with fp.connect(store) as runtime:
        with pytest.raises(RunWaits):
            await runtime.record("r", loop, "17")
        run = await runtime.open("r")
        await run.approve("call_charge", arguments={"number": "17", "cents": 5})
        assert await runtime.record("r", loop, "17") == "done"
        (one,) = (await run.trajectory()).steps[0].calls
    assert seen == [("17", 5)]
    assert one.arguments == {"number": "17", "cents": 500}
    assert one.performed_with == {"number": "17", "cents": 5}


@live
async def test_a_denial_reaches_the_code_with_its_reason_and_nothing_runs(store: str) -> None:
    world, model = World(), billing()
    loop = clerk(model, *tools_of(world, approval=True))
    async with fp.connect(store) as runtime:
        with pytest.raises(RunWaits):
            await runtime.record("r", loop, "17")
        await (await runtime.open("r")).deny("call_charge", "too much")
        assert await runtime.record("r", loop, "17") == "paid"
    assert world.done == {"look": 1}
    assert "too much" in str(model.requests[-1].messages[-1])


@live
async def test_an_external_tool_is_answered_from_outside_and_never_performed(store: str) -> None:
    @fp.tool(external=True)
    async def age(name: str) -> int: ...  # type: ignore[empty-body]

    async def loop() -> int:
        return 2 * await age("ann")

    async with fp.connect(store) as runtime:
        with pytest.raises(RunWaits) as waits:
            await runtime.record("r", loop)
        assert waits.value.count == 1
        run = await runtime.open("r")
        with pytest.raises(AnswerUnfit):
            await run.answer((await run.waits())[0].effect, "three")
        await run.answer((await run.waits())[0].effect, 21)
        assert await runtime.record("r", loop) == 42


@live
async def test_three_gated_calls_at_once_are_three_waits_and_each_gets_its_own_answer(store: str) -> None:
    seen: list[str] = []

    @fp.tool(approval=True)
    async def mail(to: str) -> str:
        seen.append(to)
        return f"sent to {to}"

    parts = [call("mail", id=f"c{n}", to=name) for n, name in enumerate(("ann", "bob", "eve"))]
    model = model_of(asks(*parts))
    loop = clerk(model, mail, at_once=True)
    async with fp.connect(store) as runtime:
        with pytest.raises(RunWaits) as waits:
            await runtime.record("r", loop)
        assert waits.value.count == 3
        run = await runtime.open("r")
        await run.approve("c1")
        await run.deny("c2", "no")
        with pytest.raises(RunWaits):
            await runtime.record("r", loop)
        await run.approve("c0")
        assert await runtime.record("r", loop) == "done"
    assert sorted(seen) == ["ann", "bob"]
    told = [str(message.parts[0].response) for message in model.requests[-1].messages if message.role == "tool"]  # type: ignore[union-attr]
    assert told[:2] == ["sent to ann", "sent to bob"]
    assert "no" in told[2]


# ── the order of things ──────────────────────────────────────────────────────────────────────────────────────


@live
async def test_calls_made_at_once_may_come_and_end_in_any_order(store: str) -> None:
    world = World()
    order = ["a", "b", "c"]
    fail = [True]

    @fp.tool(read_only=True)
    async def look(name: str) -> str:
        world.done[name] += 1
        return name.upper()

    async def loop() -> list[str]:
        found = dict(zip(order, await asyncio.gather(*(look(name) for name in order)), strict=True))
        if fail[0]:
            raise RuntimeError("after them all")
        return [found[name] for name in "abc"]

    async with fp.connect(store) as runtime:
        with pytest.raises(RuntimeError, match="after them all"):
            await runtime.record("r", loop)
        order.reverse()
        fail[0] = False
        assert await runtime.record("r", loop) == ["A", "B", "C"]
    assert world.done == {"a": 1, "b": 1, "c": 1}


@live
async def test_one_of_many_that_fails_discards_none_of_the_others(store: str) -> None:
    world = World()

    @fp.tool(read_only=True)
    async def look(n: int) -> int:
        world.done[str(n)] += 1
        if n == 1:
            raise ValueError(f"no {n}")
        return n

    async def loop() -> list[str]:
        found = await asyncio.gather(*(look(n) for n in range(3)), return_exceptions=True)
        return [f"{type(one).__mro__[1].__name__}: {one}" if isinstance(one, Exception) else str(one) for one in found]

    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop) == ["0", "EffectFailed: no 1", "2"]
    assert world.done == {"0": 1, "1": 1, "2": 1}


@live
async def test_a_failure_is_raised_as_it_was_recorded_live_and_on_replay(store: str) -> None:
    world, seen = World(), []

    @fp.step(read_only=True)
    async def strange() -> None:
        world.done["strange"] += 1
        raise KeyError(f"object at {id(object()):#x}")

    async def loop(again: bool) -> str:
        try:
            await strange()
        except KeyError as error:
            seen.append(str(error))
        if len(seen) == 1:
            raise RuntimeError("die")
        return "lived"

    async with fp.connect(store) as runtime:
        with pytest.raises(RuntimeError):
            await runtime.record("r", loop, True)
        # The step's failure came before another ask would; a run that goes on tries it anew, as ``resume`` does.
        assert await runtime.record("r", loop, True) == "lived"
    assert len(seen) == 2


@live
async def test_equal_calls_are_told_apart_by_their_order(store: str) -> None:
    count = iter(range(10))

    @fp.tool(read_only=True)
    async def dice() -> int:
        return next(count)

    fail = [True]

    async def loop() -> list[int]:
        found = [await dice(), await dice(), await dice()]
        if fail[0]:
            raise RuntimeError
        return found

    async with fp.connect(store) as runtime:
        with pytest.raises(RuntimeError):
            await runtime.record("r", loop)
        fail[0] = False
        assert await runtime.record("r", loop) == [0, 1, 2]


# ── divergence ───────────────────────────────────────────────────────────────────────────────────────────────


def edited(world: World, first: str) -> Any:
    @fp.tool
    async def mail(to: str) -> str:
        world.done[to] += 1
        return "sent"

    async def mailing() -> str:
        await mail(first)
        await mail("bob")
        if world.done["die"] == 0:
            world.done["die"] += 1
            raise RuntimeError("die")
        return "all"

    return mailing


@live
async def test_other_code_is_refused_before_anything_is_performed_with_both_sides(store: str) -> None:
    world = World()
    async with fp.connect(store) as runtime:
        with pytest.raises(RuntimeError):
            await runtime.record("r", edited(world, "ann"))
        head = (await (await runtime.open("r")).row()).head
        with pytest.raises(ReplayDiverged) as diverged:
            await runtime.record("r", edited(world, "eve"))
        assert 'mail({"to":"eve"})' in diverged.value.asked
        assert 'mail({"to":"ann"})' in diverged.value.recorded
        run = await runtime.open("r")
        assert (await run.row()).head == head + 1  # that it goes on, and nothing else
        await run.resume()
        with pytest.raises(ReplayDiverged):
            await run.wait()
        assert "replay.diverged" in (await runtime.recover()).failed["r"]
    assert world.done == {"ann": 1, "bob": 1, "die": 1}


@live
async def test_a_function_that_ends_without_asking_for_what_is_on_record_has_diverged(store: str) -> None:
    world = World()

    async def nothing() -> str:
        return "all"

    nothing.__qualname__ = "mailing"
    async with fp.connect(store) as runtime:
        with pytest.raises(RuntimeError):
            await runtime.record("r", edited(world, "ann"))
        with pytest.raises(ReplayDiverged, match="came to its end"):
            await runtime.record("r", nothing)


@live
async def test_other_code_may_go_on_in_a_fork_that_keeps_what_was_the_same(store: str) -> None:
    world = World()

    @fp.tool
    async def mail(to: str) -> str:
        world.done[to] += 1
        return "sent"

    def mailing(*names: str, die: bool = False) -> Any:
        async def mailing() -> str:
            for name in names:
                await mail(name)
            if die:
                raise RuntimeError
            return ",".join(names)

        return mailing

    async with fp.connect(store) as runtime:
        with pytest.raises(RuntimeError):
            await runtime.record("r", mailing("ann", "bob", die=True))
        before = await (await runtime.open("r")).history()
        assert await runtime.record("r", mailing("ann", "eve"), on_divergence="fork") == "ann,eve"
        run = await runtime.open("r")
        (child,) = await run.children()
        assert (await run.history())[: len(before)] == before
        assert (child.run, child.summary.status) == ("r.fork-1", "idle")
    assert world.done == {"ann": 1, "bob": 1, "eve": 1}


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────


@live
async def test_a_fork_with_another_result_goes_on_through_the_code_from_there(store: str) -> None:
    world = World()

    def script(request: Any) -> Any:
        answers = [part.response for message in request.messages if message.role == "tool" for part in message.parts]
        if not answers:
            return asks(call("look", number="17"))
        if len(answers) == 1 and answers[0]["due"]:
            return asks(call("charge", number="17", cents=answers[0]["due"]))
        return "paid" if len(answers) == 2 else "nothing due"

    loop = clerk(ScriptedModel(script), *tools_of(world))
    async with fp.connect(store, functions=[loop]) as runtime:
        assert await runtime.record("r", loop, "17") == "paid"
        run = await runtime.open("r")
        before = await run.digest()
        child = await run.fork(patch=fp.Patch(tool_results={"call_look": {"number": "17", "due": 0}}))
        await child.resume()
        state = await child.wait()
        assert state.output == "nothing due"
        assert await runtime.record(child.id, loop) == "nothing due"
        assert await run.digest() == before
        compared = await runtime.compare(run, child)
        assert compared.diverged_at == 1
        assert ("results", 500, 0) in [
            (one.field, one.a["due"], one.b["due"]) for one in compared.drift if one.field == "results"
        ]
    assert world.done == {"look": 1, "charge": 1}


@live
async def test_a_fork_takes_another_answer_of_the_model(store: str) -> None:
    world, model = World(), billing()
    loop = clerk(model, *tools_of(world))
    async with fp.connect(store, functions=[loop]) as runtime:
        await runtime.record("r", loop, "17")
        run = await runtime.open("r")
        first = next(one.event.effect for one in await run.history() if type(one.event).__name__ == "EffectSettled")
        child = await run.fork(patch=fp.Patch(tool_results={first: "I would rather not."}))
        assert await runtime.record(child.id, loop) == "I would rather not."
        assert (await child.trajectory()).steps[0].text == "I would rather not."
    assert len(model.requests) == 3


@live
async def test_a_fork_asks_another_model_with_other_instructions_from_there_on(store: str) -> None:
    world, model = World(), billing()
    other = ScriptedModel(["never"], name="scripted:other")
    loop = clerk(model, *tools_of(world))
    async with fp.connect(store, functions=[loop]) as runtime:
        await runtime.record("r", loop, "17")
        run = await runtime.open("r")
        child = await run.fork(step=2, patch=fp.Patch(model=other.name, instructions="Be kind.", settings={"t": 1}))
        assert await runtime.record(child.id, loop) == "paid"
        asked = model.requests[-1]
        assert (asked.model, asked.instructions, dict(asked.settings)) == ("scripted:other", "Be kind.", {"t": 1})
        shown = await child.request(3)
        assert (shown.model, shown.instructions) == ("scripted:other", "Be kind.")
        assert (await run.request(3)).model == "scripted:model"
    assert len(model.requests) == 4
    assert world.done == {"look": 1, "charge": 1}


@live
async def test_a_fork_with_other_arguments_keeps_what_is_asked_all_the_same(store: str) -> None:
    world = World()

    @fp.tool(read_only=True)
    async def look(number: str) -> str:
        world.done[number] += 1
        return number

    async def loop(*numbers: str) -> str:
        return "+".join([await look(number) for number in numbers])

    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop, "1", "2") == "1+2"
        run = await runtime.open("r")
        child = await run.fork(patch=fp.Patch(arguments=["1", "3"]))
        assert await runtime.record(child.id, loop) == "1+3"
        compared = await runtime.compare(run, child)
        assert [one.field for one in compared.drift] == ["own", "output"]
    assert world.done == {"1": 1, "2": 1, "3": 1}


@live
async def test_a_fork_may_take_the_parents_outcomes_and_asks_about_the_rest(store: str) -> None:
    world = World()
    loop = clerk(billing(), *tools_of(world))
    async with fp.connect(store, functions=[loop]) as runtime:
        await runtime.record("r", loop, "17")
        run = await runtime.open("r")
        recorded = await run.fork(step=0, effects="recorded")
        assert await runtime.record(recorded.id, loop) == "paid"
        assert world.done == {"look": 1, "charge": 1}
        sources = [one.source for step in (await recorded.trajectory()).steps for one in step.calls]
        assert all(sources) and len(sources) == 2
        asking = await run.fork(step=0, effects="ask", patch=fp.Patch(arguments=["18"]))
        assert await runtime.record(asking.id, loop) == "paid"
    assert world.done == {"look": 1, "charge": 1}


@live
async def test_forks_of_a_functions_fork_work_and_share_its_past(store: str) -> None:
    world = World()
    loop = clerk(billing(), *tools_of(world))
    async with fp.connect(store, functions=[loop]) as runtime:
        await runtime.record("r", loop, "17")
        child = await (await runtime.open("r")).fork(step=1)
        assert await runtime.record(child.id, loop) == "paid"
        grandchild = await child.fork(step=2)
        assert await runtime.record(grandchild.id, loop) == "paid"
        assert [point.run for point in await grandchild.lineage()] == [child.id, "r"]
    assert world.done["look"] == 1
    assert world.done["charge"] == 2  # the child's own; the grandchild has it on record
    assert len(set(world.keys)) == 2


@live
async def test_a_functions_fork_takes_no_messages_and_no_input(store: str) -> None:
    loop = clerk(billing(), *tools_of(World()))
    async with fp.connect(store) as runtime:
        await runtime.record("r", loop, "17")
        run = await runtime.open("r")
        for patch in (fp.Patch(messages=[]), fp.Patch(input="more"), fp.Patch(arguments="17")):
            with pytest.raises(PatchBad):
                await run.fork(patch=patch)
        with pytest.raises(InputNotTaken):
            await run.send("more")


@live
async def test_a_failure_that_a_fork_sets_is_never_mended_by_performing_it(store: str) -> None:
    world = World()
    look, charge = tools_of(world)

    async def loop() -> str:
        await look("17")
        return await charge(number="17", cents=500)

    async with fp.connect(store) as runtime:
        await runtime.record("r", loop)
        run = await runtime.open("r")
        effect = (await run.trajectory()).own[1].effect
        child = await run.fork(patch=fp.Patch(tool_results={effect: fp.ToolError("declined")}))
        for _ in range(2):
            with pytest.raises(fp.EffectFailed, match="declined"):
                await runtime.record(child.id, loop)
    assert world.done == {"look": 1, "charge": 1}


@live
async def test_a_fork_may_stand_before_any_call_of_the_code(store: str) -> None:
    world = World()
    look, charge = tools_of(world)

    async def loop() -> str:
        await look("17")
        return await charge(number="17", cents=500)

    async with fp.connect(store) as runtime:
        await runtime.record("r", loop)
        run = await runtime.open("r")
        first, second = [one.effect for one in (await run.trajectory()).own]
        assert second is not None and first is not None
        before = await run.fork(before=second)
        assert [one.name for one in (await before.trajectory()).own] == ["look", "charge"]
        assert (await before.trajectory()).own[1].status == "open"
        start = await run.fork(step=0, effects="recorded")
        assert (await start.row()).at == first - 1
        assert fp.state_at(await run.history(), step=0).seq == first - 1
        assert await runtime.record(start.id, loop) == "charged 500"
    assert world.done == {"look": 1, "charge": 1}


@live
async def test_a_fork_is_called_with_its_own_arguments_and_refuses_those_that_do_not_fit(store: str) -> None:
    async def loop(number: str) -> str:
        return number

    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop, "17") == "17"
        run = await runtime.open("r")
        child = await run.fork(patch=fp.Patch(arguments={"number": "18"}))
        assert await runtime.record(child.id, loop, number="18") == "18"
        with pytest.raises(FunctionOtherArguments):
            await runtime.record(child.id, loop, "17")
        with pytest.raises(FunctionUnfit):
            await run.fork(patch=fp.Patch(arguments=[1, 2, 3]))
        assert len(await run.children()) == 1


# ── control ──────────────────────────────────────────────────────────────────────────────────────────────────


@live
async def test_a_paused_run_asks_for_nothing_more_until_it_is_continued(store: str) -> None:
    world = World()
    loop = clerk(billing(), *tools_of(world))
    async with fp.connect(store) as runtime:
        with pytest.raises(RunIsPaused, match="2 steps"):
            await runtime.record("r", loop, "17", limits=fp.Limits(steps=2))
        assert world.done == {"look": 1, "charge": 1}
        run = await runtime.open("r")
        await run.unpause(limits=fp.Limits(steps=9))
        assert await runtime.record("r", loop, "17") == "paid"
    assert world.done == {"look": 1, "charge": 1}


@live
async def test_an_interrupted_run_goes_on_from_its_record(store: str) -> None:
    world = World()
    world.lost = {"look"}
    loop = clerk(billing(), *tools_of(world))
    async with fp.connect(store, grace_s=0) as runtime:
        recording = asyncio.ensure_future(runtime.record("r", loop, "17"))
        await world.gone.wait()
        await (await runtime.open("r")).interrupt("enough")
        with pytest.raises(RunCalledOff):
            await recording
        world.lost = set()
        run = await runtime.open("r")
        assert (await run.brief()).status == "paused"
        await run.resume()
        assert (await run.wait()).output == "paid"
        assert await runtime.record("r", loop, "17") == "paid"
    assert world.done == {"look": 2, "charge": 1}


@live
async def test_a_function_that_raised_is_tried_again_from_its_record(store: str) -> None:
    world, fail = World(), [True]

    @fp.step(idempotent=True)
    async def flaky() -> str:
        world.done["flaky"] += 1
        if fail[0]:
            raise ValueError("down")
        return "up"

    @fp.step
    async def first() -> int:
        world.done["first"] += 1
        return 1

    async def loop() -> str:
        await first()
        return await flaky()

    async with fp.connect(store) as runtime:
        with pytest.raises(ValueError, match="down"):
            await runtime.record("r", loop)
        assert (await (await runtime.open("r")).brief()).status == "failed"
        fail[0] = False
        assert await runtime.record("r", loop) == "up"
    assert world.done == {"first": 1, "flaky": 2}


@live
async def test_a_function_whose_arguments_or_result_have_no_json_form_is_refused(store: str) -> None:
    async def loop(thing: object = None) -> object:
        return object()

    async with fp.connect(store) as runtime:
        with pytest.raises(FunctionUnfit):
            await runtime.record("r", loop, object())
        with pytest.raises(FunctionUnfit, match="its result"):
            await runtime.record("r", loop, 1)
        with pytest.raises(FunctionUnfit):
            await runtime.record("r2", lambda: None)


@live
async def test_an_id_is_of_one_function_with_one_set_of_arguments(store: str) -> None:
    loop, other = clerk(billing(), *tools_of(World())), clerk(billing(), name="other")
    agent = fp.Agent("agent", model=ScriptedModel(["hello"]))
    async with fp.connect(store, agents=[agent]) as runtime:
        await runtime.record("r", loop, "17")
        with pytest.raises(FunctionOtherArguments, match="18"):
            await runtime.record("r", loop, "18")
        with pytest.raises(RunIsOfAgent):
            await runtime.record("r", other)
        await (await runtime.start("agent", "hi", run_id="own")).wait()
        with pytest.raises(RunIsOfAgent):
            await runtime.record("own", loop)


@live
async def test_a_run_is_resumed_only_where_its_function_is_known(store: str) -> None:
    world = World()
    loop = clerk(billing(), *tools_of(world))
    async with fp.connect(store, grace_s=0) as runtime:
        await killed_in(world, "look", runtime.record("r", loop, "17"))
    async with fp.connect(store) as runtime:
        with pytest.raises(FunctionMissing, match="clerk"):
            await (await runtime.open("r")).resume()
    async with fp.connect(store, functions=[loop]) as runtime:
        run = await runtime.open("r")
        await run.resume()
        assert (await run.wait()).output == "paid"


@live
async def test_what_is_left_running_when_the_run_rests_asks_for_nothing_more(store: str) -> None:
    world, left = World(), []
    rested = asyncio.Event()
    look, _ = tools_of(world)

    async def later() -> None:
        await rested.wait()
        await look("1")

    async def loop() -> str:
        left.append(asyncio.ensure_future(later()))
        return "over"

    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop) == "over"
        rested.set()
        with pytest.raises(RecordingEnded, match="look"):
            await left[0]
    assert not world.done


# ── what is told of it ───────────────────────────────────────────────────────────────────────────────────────


@live
async def test_two_conversations_side_by_side_are_each_told_whole(store: str) -> None:
    model = model_of("one", "two", "three")

    async def talk(name: str) -> None:
        messages = [user(name)]
        for _ in range(3):
            messages.append((await ask(model, messages)).message)
            messages.append(user(f"{name} goes on"))

    async def loop() -> None:
        await asyncio.gather(talk("ann"), talk("bob"))

    async with fp.connect(store) as runtime:
        await runtime.record("r", loop)
        run = await runtime.open("r")
        told = await run.trajectory()
        assert sorted(step.text for step in told.steps) == sorted(["one", "two", "three"] * 2)
        for step in range(1, 7):
            shown = await run.request(step)
            assert len({message.text.split()[0] for message in shown.messages if message.role == "user"}) == 1
        written = sum(len(str(one.event)) for one in await run.history())
        assert written < 12_000
        assert (await runtime.verify("r", fold=True)).findings == ()


@live
async def test_what_a_model_is_shown_again_is_not_written_again(store: str) -> None:
    words = "w" * 400

    def script(request: Any) -> Any:
        return f"{len(request.messages)} {words}"

    model = ScriptedModel(script)

    async def loop(turns: int) -> None:
        messages = []
        for turn in range(turns):
            messages.append(user(f"{turn} {words}"))
            messages.append((await ask(model, messages)).message)

    async with fp.connect(store) as runtime:
        await runtime.record("r", loop, 40)
        run = await runtime.open("r")
        sizes = [len(str(one.event)) for one in await run.history()]
    assert max(sizes) < 1500


@live
async def test_secrets_are_in_no_event_and_the_code_has_them(store: str) -> None:
    seen = []

    @fp.tool(read_only=True)
    async def token() -> str:
        return "s3cr3t-value"

    @fp.tool(read_only=True)
    async def use(key: str) -> str:
        seen.append(key)
        return "ok"

    async def loop() -> str:
        return await use(await token())

    async with fp.connect(store, secrets={"key": "s3cr3t-value"}) as runtime:
        assert await runtime.record("r", loop) == "ok"
        history = await (await runtime.open("r")).history()
        assert await runtime.record("r", loop) == "ok"
    assert seen == ["s3cr3t-value"]
    assert "s3cr3t" not in str(history)


@live
async def test_a_message_of_the_code_is_kept_part_by_part(store: str) -> None:
    look, _ = tools_of(World())
    model = model_of(asks(call("look", number="1"), call("look", id="b", number="2")))

    async def loop() -> int:
        messages = [user("go")]
        said = (await ask(model, messages)).message
        messages += [answer(part.id, await look(**part.arguments)) for part in said.calls]
        return len(said.calls)

    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop) == 2
        run = await runtime.open("r")
        state = await run.state()
        assert [message.role for message in state.messages] == ["user", "assistant", "tool", "tool"]
        fp.validate_transcript(state.messages)


@live
async def test_a_call_is_told_with_its_effect_also_where_the_code_words_its_answer(store: str) -> None:
    look, _ = tools_of(World())
    model = model_of(asks(call("look", number="1")))

    async def loop() -> str:
        messages = [user("go")]
        said = (await ask(model, messages)).message
        await look(number="1")
        messages += [said, answer("call_look", "It is due.")]
        return (await ask(model, messages)).message.text

    async with fp.connect(store) as runtime:
        await runtime.record("r", loop)
        (one,) = (await (await runtime.open("r")).trajectory()).steps[0].calls
    assert (one.result, one.recovery, one.attempts, one.status) == ("It is due.", "repeat", 1, "succeeded")
    assert one.effect is not None
