"""Forks through the runtime: what a child shares, what its patch changes, and what its tools may do."""

import asyncio

import msgspec
import pytest
from tests.runtime.stage import answers_in, call, calls, live, played, results, runtime_on, said

import forkpoint as fp
from forkpoint.errors import (
    ForkAmbiguousCall,
    ForkNameTaken,
    ForkNoSuchCall,
    ForkNoSuchPoint,
    PatchBad,
    PatchInvalid,
)
from forkpoint.messages import assistant, user
from forkpoint.ports import ModelRequest
from forkpoint.runtime.runtime import Runtime
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.fakes import Reply, ScriptedModel, settle
from forkpoint.transcript import first_problem


class World:
    """An outside that counts what happened to it, and under which keys."""

    def __init__(self) -> None:
        self.mails: list[str] = []
        self.keys: list[str] = []
        self.looks = 0

    def agent(self, model: ScriptedModel | None = None) -> fp.Agent:
        """An agent that looks (safe), charges (idempotent) and mails (not safe)."""

        @fp.tool(read_only=True)
        async def look(number: int) -> int:
            """Look."""
            self.looks += 1
            return number * 2

        @fp.tool(idempotent=True)
        async def charge(ctx: fp.ToolContext, cents: int) -> int:
            """Charge."""
            self.keys.append(ctx.idempotency_key)
            return cents

        @fp.tool
        async def mail(to: str) -> str:
            """Mail."""
            self.mails.append(to)
            return f"sent {len(self.mails)}"

        script = model or played(
            calls(call("look", id="c1", number=4)),
            calls(call("charge", id="c2", cents=5), call("mail", id="c3", to="ann")),
            calls(call("mail", id="c4", to="bob")),
        )
        return fp.Agent("a", model=script, tools=[look, charge, mail])


async def finished(world: World, journal: MemoryJournal | None = None) -> tuple[Runtime, fp.Run]:
    runtime = runtime_on(journal, world.agent())
    run = await runtime.start("a", "go", run_id="r")
    await run.wait()
    return runtime, run


@live
async def test_a_fork_at_every_event_shares_its_past_and_runs_on_to_the_end() -> None:
    world = World()
    runtime, run = await finished(world)
    history = await run.history()
    before = await run.digest()
    for at in range(1, len(history) + 1):
        child = await run.fork(at)
        own = await child.history()
        assert own[:at] == history[:at]
        assert [one.seq for one in own] == list(range(1, at + 2))
        assert first_problem((await child.state()).messages) is None
        await child.resume()
        state = await child.wait()
        for wait in state.waits:
            assert wait.kind == "inherited"
            await child.resolve(wait.effect, "not_occurred")
            state = await child.wait()
        assert state.status == "idle"
        assert first_problem(state.messages) is None
    assert await run.digest() == before
    assert await run.history() == history
    await runtime.close()


@live
async def test_a_patched_result_changes_what_the_model_sees_next_and_repeats_nothing() -> None:
    world = World()
    runtime, run = await finished(world)
    child = await run.fork(step=1, patch=fp.Patch(tool_results={"c1": {"due": 0}}))
    assert results(await child.state()) == [{"due": 0}]
    await child.resume()
    state = await child.wait()
    assert results(state)[0] == {"due": 0}
    assert world.looks == 1
    assert results(await run.state())[0] == 8
    await runtime.close()


@live
async def test_a_result_of_an_earlier_step_is_replaced_in_place() -> None:
    world = World()
    runtime, run = await finished(world)
    child = await run.fork(step=3, patch=fp.Patch(tool_results={"c1": 99, "c3": fp.ToolError("bounced")}))
    state = await child.state()
    assert results(state) == [99, 5, {"error": "Error", "message": "bounced"}, "sent 2"]
    assert first_problem(state.messages) is None
    await child.resume()
    await child.wait()
    request = await child.request()
    assert answers_in(request) == results(state)
    await runtime.close()


@live
async def test_every_part_of_a_patch_is_applied_in_order() -> None:
    world = World()
    runtime, run = await finished(world)
    seen = ScriptedModel(lambda request: "patched")  # named like the agent's own, and yet the patch's is asked
    patch = fp.Patch(
        messages=[fp.Replace(0, user("something else"))],
        state={"x": 1},
        tool_results={"c1": 0},
        instructions="Be kind.",
        model=seen,
        settings={"temperature": 0},
        input="and now?",
    )
    child = await run.fork(step=1, patch=patch)
    state = await child.state()
    assert (state.app, state.agent.instructions, state.agent.settings) == ({"x": 1}, "Be kind.", {"temperature": 0})
    assert said(state)[0] == "something else"
    await child.resume()
    state = await child.wait()
    assert state.output == "patched"
    assert said(state)[-3:] == ["patched", "and now?", "patched"]
    assert seen.requests[0].instructions == "Be kind."
    assert answers_in(seen.requests[0]) == [0]
    assert (await run.state()).agent.instructions == ""
    await runtime.close()


@live
async def test_none_is_a_value_and_a_part_left_out_is_unset() -> None:
    @fp.tool
    async def remember(ctx: fp.ToolContext) -> None:
        """Remember."""
        ctx.set_state(kept=True)

    runtime = runtime_on(None, fp.Agent("a", model=played(calls(call("remember"))), tools=[remember]))
    run = await runtime.start("a", "go")
    await run.wait()
    assert (await (await run.fork()).state()).app == {"kept": True}
    assert (await (await run.fork(patch=fp.Patch(state=None))).state()).app is None
    assert results(await (await run.fork(step=1, patch=fp.Patch(tool_results={"call_remember": None}))).state()) == [
        None
    ]
    await runtime.close()


@live
async def test_a_patch_that_no_provider_would_take_is_refused_with_the_reason() -> None:
    runtime, run = await finished(World())
    with pytest.raises(PatchInvalid, match="answers the call c1, which no call before it awaits"):
        await run.fork(step=1, patch=fp.Patch(messages=[fp.Delete(1)]))
    with pytest.raises(PatchInvalid):
        await run.fork(step=1, patch=fp.Patch(messages=lambda messages: messages[::-1]))
    with pytest.raises(PatchBad, match="does not fit 3 messages"):
        await run.fork(step=1, patch=fp.Patch(messages=[fp.Delete(9)]))
    child = await run.fork(step=1, patch=fp.Patch(messages=[fp.Delete(1), fp.Delete(2)]))
    assert said(await child.state()) == ["go"]
    assert len(await run.children()) == 1
    await runtime.close()


@live
async def test_points_calls_and_names_that_do_not_exist_are_refused_by_name() -> None:
    runtime, run = await finished(World())
    head = (await run.brief()).seq
    with pytest.raises(ForkNoSuchPoint, match=f"events 1 to {head}, steps 0 to 4, turns 0 to 1"):
        await run.fork(head + 1)
    for point in ({"step": 9}, {"turn": 3}, {"before": "nope"}, {"at": 0}):
        with pytest.raises(ForkNoSuchPoint):
            await run.fork(**point)
    with pytest.raises(ForkNoSuchCall, match="no tool call c4"):
        await run.fork(step=1, patch=fp.Patch(tool_results={"c4": 1}))
    with pytest.raises(ForkNameTaken):
        await run.fork(run_id="r")
    assert [(await run.fork()).id, (await run.fork()).id] == ["r.fork-1", "r.fork-2"]
    await runtime.close()


@live
async def test_a_call_id_that_occurs_twice_needs_the_effect_id() -> None:
    model = played(calls(call("look", id="same", number=1)), calls(call("look", id="same", number=2)))
    runtime = runtime_on(None, World().agent(model))
    run = await runtime.start("a", "go")
    await run.wait()
    with pytest.raises(ForkAmbiguousCall) as refused:
        await run.fork(patch=fp.Patch(tool_results={"same": 7}))
    second = int(refused.value.effects.split(", ")[1])
    child = await run.fork(patch=fp.Patch(tool_results={second: 7}))
    assert results(await child.state()) == [2, 7]
    await runtime.close()


@live
async def test_forks_of_forks_know_their_lineage_and_keep_their_patches() -> None:
    runtime, run = await finished(World())
    first = await run.fork(step=1, patch=fp.Patch(tool_results={"c1": 1}))
    await first.resume()
    await first.wait()
    second = await first.fork(step=2, patch=fp.Patch(input="more"))
    third = await second.fork(step=1)
    assert next(str(point) for point in await third.lineage()).startswith("r.fork-1.fork-1@")
    assert results(await third.state()) == [1]
    assert [row.run for row in await first.children()] == [second.id]
    await second.resume()
    assert (await second.wait()).status == "idle"
    assert (await second.request(1)).messages == (await run.request(1)).messages
    await runtime.close()


@live
async def test_keys_to_the_outside_differ_in_every_fork_and_hold_over_attempts() -> None:
    world = World()
    runtime, run = await finished(world)
    for _ in range(2):
        child = await run.fork(step=1)
        await child.resume()
        await child.wait()
    assert len(set(world.keys)) == 3
    await runtime.close()


@live
async def test_recorded_answers_cost_nothing_and_what_is_new_is_live() -> None:
    world = World()
    runtime, run = await finished(world)
    child = await run.fork(step=1, effects="recorded")
    await child.resume()
    state = await child.wait()
    assert world.mails == ["ann", "bob"]
    assert len(world.keys) == 1
    assert results(state) == results(await run.state())
    sources = [one.event.source for one in await child.history() if getattr(one.event, "source", None)]
    assert len(sources) == 3
    await runtime.close()


@live
async def test_asking_is_recorded_and_then_a_person() -> None:
    world = World()
    runtime, _run = await finished(world)
    other = played(
        calls(call("look", id="x1", number=1)),
        calls(call("mail", id="x2", to="ann"), call("look", id="x3", number=3), call("mail", id="x4", to="eve")),
    )
    changed = fp.connect(runtime.edge.journal, agents=[world.agent(other)])
    child = await (await changed.open("r")).fork(step=1, effects="ask")
    await child.resume()
    state = await child.wait()
    assert world.mails == ["ann", "bob"]
    assert [(wait.kind, wait.call) for wait in state.waits] == [("approval", "x4")]
    await child.approve(state.waits[0].effect)
    state = await child.wait()
    assert world.mails == ["ann", "bob", "eve"]
    assert results(state) == [8, "sent 1", 6, "sent 3"]
    await runtime.close()


@live
async def test_calls_left_open_are_performed_in_the_child_only_if_that_is_safe() -> None:
    gate, started = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    def hanging(name: str, **how: bool) -> fp.Tool[[], object]:
        async def body() -> str:
            ran.append(name)
            started.set()
            await gate.wait()
            return name

        return fp.tool(name=name, **how)(body)

    tools = [hanging("read", read_only=True), hanging("again", idempotent=True), hanging("once")]
    model = played(calls(call("read"), call("again"), call("once")))
    runtime = runtime_on(None, fp.Agent("a", model=model, tools=tools), grace_s=0)
    run = await runtime.start("a", "go", run_id="r")
    await started.wait()
    await settle()
    assert sorted(ran) == ["again", "once", "read"]
    child = await run.fork()
    skipped = await run.fork(pending="skip")
    anyway = await run.fork(pending="run")
    gate.set()
    for each, waiting in ((child, ["again", "once"]), (skipped, []), (anyway, [])):
        await each.resume()
        state = await each.wait()
        assert [wait.name for wait in state.waits] == waiting
    assert sorted(ran) == ["again", "again", "once", "once", "read", "read", "read", "read"]
    assert [part["message"] for part in results(await skipped.state())[1:]] == [
        "left open in the parent run; it was not performed here"
    ] * 2
    await child.resolve((await child.waits())[0].effect, "occurred", output="seen")
    await child.resolve((await child.waits())[0].effect, "abandoned_unknown")
    assert (await child.wait()).status == "idle"
    assert (await run.wait()).status == "idle"
    await runtime.close()


@live
async def test_an_approval_is_asked_again_in_a_fork() -> None:
    paid: list[int] = []

    @fp.tool(approval=True)
    async def pay(cents: int) -> int:
        """Pay."""
        paid.append(cents)
        return cents

    runtime = runtime_on(None, fp.Agent("a", model=played(calls(call("pay", id="p", cents=1))), tools=[pay]))
    run = await runtime.start("a", "go")
    (wait,) = (await run.wait()).waits
    await run.approve(wait.effect)
    await run.wait()
    child = await run.fork(before="p")
    await child.resume()
    (again,) = (await child.wait()).waits
    await child.deny(again.effect, "not twice")
    assert results(await child.wait()) == [{"error": "denied", "message": "not twice"}]
    assert paid == [1]
    await runtime.close()


@live
async def test_a_probe_for_an_inherited_call_gets_its_owners_key() -> None:
    asked: list[str] = []
    gate, started = asyncio.Event(), asyncio.Event()

    async def probe(ctx: fp.ToolContext) -> fp.Occurred | fp.NotOccurred:
        asked.append(ctx.idempotency_key)
        return fp.Occurred("found it")

    @fp.tool(reconcile=probe)
    async def transfer(ctx: fp.ToolContext) -> str:
        """Transfer."""
        asked.append(ctx.idempotency_key)
        started.set()
        await gate.wait()
        return "done"

    runtime = runtime_on(None, fp.Agent("a", model=played(calls(call("transfer"))), tools=[transfer]))
    run = await runtime.start("a", "go")
    await started.wait()
    child = await run.fork()
    await child.resume()
    assert results(await child.wait()) == ["found it"]
    assert asked[0] == asked[1]
    gate.set()
    await run.wait()
    await runtime.close()


@live
async def test_a_fork_without_input_calls_nothing_until_asked() -> None:
    model = played("hello")
    runtime = runtime_on(None, fp.Agent("a", model=model))
    run = await runtime.start("a", "go")
    await run.wait()
    child = await run.fork()
    await child.resume()
    assert (await child.wait()).status == "idle"
    assert len(model.requests) == 1
    await runtime.close()


@live
async def test_a_failed_turn_can_be_forked_before_and_after_its_failure() -> None:
    model = played(calls(call("look", id="c1", number=1)), ValueError("broken"))
    kind = ScriptedModel(lambda request: "mended", name="kind:model")
    world = World()
    runtime = runtime_on(None, world.agent(model), models={"kind:model": kind})
    run = await runtime.start("a", "go")
    assert (await run.wait()).status == "failed"
    before = await run.fork(step=1, patch=fp.Patch(model="kind:model"))
    await before.resume()
    assert (await before.wait()).output == "mended"
    after = await run.fork(patch=fp.Patch(model="kind:model"))
    assert (await after.state()).status == "failed"
    await after.resume()
    assert (await after.wait()).output == "mended"
    await runtime.close()


@live
async def test_a_patched_message_leaves_the_others_byte_for_byte() -> None:
    from forkpoint.messages import BlobPart, CallPart, Message, Reasoning, Text

    rich = Message(
        role="assistant",
        parts=(
            Reasoning(content="hm", extra={"signature": "abc=="}),
            Text(content="see", extra={"cache": True}),
            BlobPart(mime_type="image/png", content="aGk=" * 2000),
            CallPart(id="c1", name="look", arguments={"number": 1}, extra={"index": 0}),
        ),
        finish_reason="tool_call",
    )
    runtime = runtime_on(None, World().agent(played(rich)))
    run = await runtime.start("a", "go")
    await run.wait()
    child = await run.fork(step=1, patch=fp.Patch(messages=[fp.Replace(0, user("instead"))]))
    theirs = (await child.state()).messages[1]
    assert msgspec.json.encode(theirs) == msgspec.json.encode(rich)
    assert (await child.state()).messages[0] == user("instead")
    await runtime.close()


@live
async def test_patched_assistant_calls_are_planned_in_the_child() -> None:
    world = World()
    runtime, run = await finished(world)
    looks = world.looks
    patch = fp.Patch(messages=lambda m: [m[0], assistant("", call("look", id="new", number=21))])
    child = await run.fork(step=1, patch=patch)
    await child.resume()
    assert results(await child.wait())[0] == 42
    assert world.looks == looks + 1
    await runtime.close()


@live
async def test_a_call_that_a_summary_stands_for_cannot_be_given_another_result() -> None:
    def script(request: ModelRequest) -> Reply:
        if request.messages[-1].text.startswith("Summarise the conversation"):
            return "we looked"
        return calls(call("look", id=f"c{len(model.requests)}", number=1)) if len(model.requests) < 7 else "done"

    model = ScriptedModel(script)
    agent = fp.Agent(
        "a", model=model, tools=World().agent().tools, compaction=fp.Compaction(after_tokens=10, keep_steps=2)
    )
    runtime = runtime_on(None, agent)
    run = await runtime.start("a", "go")
    await run.wait()
    with pytest.raises(ForkNoSuchCall):
        await run.fork(patch=fp.Patch(tool_results={"c1": 0}))
    kept = [part.id for message in (await run.state()).messages for part in message.calls]
    child = await run.fork(patch=fp.Patch(tool_results={kept[-1]: 0}))
    assert results(await child.state())[-1] == 0
    await runtime.close()


@live
async def test_a_fork_right_at_a_call_of_a_tool_that_never_was_goes_on() -> None:
    runtime = runtime_on(None, World().agent(played(calls(call("nothing", id="n1")))))
    run = await runtime.start("a", "go")
    await run.wait()
    child = await run.fork(before="n1")
    await child.resume()
    state = await child.wait()
    assert (state.status, state.output) == ("idle", "done")
    assert results(state) == [{"error": "UnknownTool", "message": "there is no tool 'nothing'"}]
    await runtime.close()
