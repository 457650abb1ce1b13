"""The live loop: what a run does while its process lives. Crashes are in ``tests/crash``."""

import asyncio
import dataclasses
import datetime
import itertools
import threading

import pytest
from tests.runtime.stage import answers_in, call, calls, live, played, results, runtime_on, said

import forkpoint as fp
from forkpoint.errors import AgentDiffers, AnswerUnfit, RunExists
from forkpoint.outcomes import Failed, Unknown
from forkpoint.ports import ModelRequest, ModelUnavailable
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.fakes import FakeClock, Reply, ScriptedModel, settle


@fp.tool(read_only=True)
async def look(number: int) -> int:
    """Look."""
    return number * 2


@live
async def test_a_run_asks_runs_tools_and_answers() -> None:
    model = played(calls(call("look", number=4)))
    async with runtime_on(None, fp.Agent("a", model=model, tools=[look])) as runtime:
        run = await runtime.start("a", "go")
        state = await run.wait()
    assert (state.status, state.output, state.step, state.turn) == ("idle", "done", 2, 1)
    assert results(state) == [8]


@live
async def test_starting_again_under_the_same_id_is_the_same_run() -> None:
    agent = fp.Agent("a", model=played())
    async with runtime_on(None, agent) as runtime:
        first = await runtime.start("a", "go", run_id="r")
        await first.wait()
        again = await runtime.start("a", "go", run_id="r")
        assert (await again.wait()).seq == (await first.state()).seq
        with pytest.raises(RunExists):
            await runtime.start("a", "something else", run_id="r")


@live
async def test_parallel_calls_are_isolated_and_answered_in_call_order() -> None:
    gate = asyncio.Event()

    @fp.tool
    async def slow() -> str:
        """Slow."""
        await gate.wait()
        return "slow"

    @fp.tool
    async def broken() -> str:
        """Broken."""
        raise ValueError("no such thing")

    @fp.tool
    async def fast() -> str:
        """Fast."""
        gate.set()
        return "fast"

    model = played(calls(call("slow"), call("broken"), call("fast")))
    async with runtime_on(None, fp.Agent("a", model=model, tools=[slow, broken, fast])) as runtime:
        state = await (await runtime.start("a", "go")).wait()
    assert results(state) == ["slow", {"error": "ValueError", "message": "no such thing"}, "fast"]
    assert len(model.requests) == 2


@live
async def test_bad_arguments_go_to_the_model_and_nothing_is_dispatched() -> None:
    ran: list[int] = []

    @fp.tool
    async def act(count: int) -> None:
        """Act."""
        ran.append(count)

    model = played(calls(call("act", count="many")), calls(call("nothing")))
    async with runtime_on(None, fp.Agent("a", model=model, tools=[act])) as runtime:
        run = await runtime.start("a", "go")
        state = await run.wait()
        kinds = [type(one.event).__name__ for one in await run.history()]
    assert ran == []
    assert "count" in results(state)[0]["message"]
    assert "there is no tool 'nothing'" in results(state)[1]["message"]
    assert kinds.count("EffectDispatched") == 3  # the three model calls


@live
async def test_what_the_loop_sees_is_what_was_stored() -> None:
    @dataclasses.dataclass
    class Invoice:
        due: datetime.date

    @fp.tool(read_only=True)
    async def invoice() -> Invoice:
        """Invoice."""
        return Invoice(due=datetime.date(2026, 1, 2))

    @fp.tool
    async def handle() -> object:
        """Handle."""
        return threading.Lock()

    model = played(calls(call("invoice"), call("handle")))
    async with runtime_on(None, fp.Agent("a", model=model, tools=[invoice, handle])) as runtime:
        run = await runtime.start("a", "go")
        state = await run.wait()
        request = await run.request(2)
    shown = answers_in(model.requests[1])
    assert shown[0] == {"due": "2026-01-02"}
    assert shown[1]["error"] == "ValueNotJson" and "lock" in shown[1]["message"]
    assert answers_in(request) == shown == results(state)


@live
async def test_queued_input_waits_its_turn_and_begins_the_next() -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    @fp.tool(read_only=True)
    async def wait() -> str:
        """Wait."""
        started.set()
        await gate.wait()
        return "ok"

    model = played(calls(call("wait")), "first", "second")
    async with runtime_on(None, fp.Agent("a", model=model, tools=[wait])) as runtime:
        run = await runtime.start("a", "one")
        await started.wait()
        await run.send("two")
        assert (await run.brief()).turn == 1
        gate.set()
        state = await run.wait()
    assert (state.turn, state.output) == (2, "second")
    assert said(state) == ["one", "first", "two", "second"]


@live
async def test_an_approval_is_stored_first_and_decided_by_any_process() -> None:
    sent: list[str] = []

    @fp.tool(approval=True)
    async def mail(to: str) -> str:
        """Mail."""
        sent.append(to)
        return "sent"

    journal = MemoryJournal()
    agent = fp.Agent("a", model=played(calls(call("mail", to="x@example.com"))), tools=[mail])
    runtime = runtime_on(journal, agent)
    run = await runtime.start("a", "go", run_id="r")
    state = await run.wait()
    assert state.status == "waiting"
    (wait,) = state.waits
    assert (wait.kind, wait.name) == ("approval", "mail")
    assert (await run.row()).owner is None
    assert sent == []
    other = runtime_on(journal.beside())
    await (await other.open("r")).approve(wait.effect, actor="ann")
    await (await other.open("r")).approve(wait.effect, actor="ann")
    await run.resume()
    assert (await run.wait()).status == "idle"
    assert sent == ["x@example.com"]
    await other.close()
    await runtime.close()


@live
async def test_a_denial_is_told_to_the_model_with_its_reason() -> None:
    @fp.tool(approval=True)
    async def mail(to: str) -> str:
        """Mail."""
        raise AssertionError("a denied call must not run")

    model = played(calls(call("mail", id="c1", to="x"), call("look", id="c2", number=1)))
    async with runtime_on(None, fp.Agent("a", model=model, tools=[mail, look])) as runtime:
        run = await runtime.start("a", "go")
        (wait,) = (await run.wait()).waits
        await run.deny(wait.effect, "not to him")
        state = await run.wait()
    assert results(state) == [{"error": "denied", "message": "not to him"}, 2]
    assert state.output == "done"


@live
async def test_edited_arguments_run_and_are_told_as_edited() -> None:
    paid: list[int] = []

    @fp.tool(approval=lambda arguments: arguments["cents"] > 100)
    async def pay(cents: int) -> int:
        """Pay."""
        paid.append(cents)
        return cents

    model = played(calls(call("pay", id="c1", cents=50)), calls(call("pay", id="c2", cents=500)))
    async with runtime_on(None, fp.Agent("a", model=model, tools=[pay])) as runtime:
        run = await runtime.start("a", "go")
        (wait,) = (await run.wait()).waits
        assert paid == [50]
        with pytest.raises(AnswerUnfit):
            await run.approve(wait.effect, arguments={"cents": "lots"})
        await run.approve(wait.effect, arguments={"cents": 90}, actor="ann")
        state = await run.wait()
    assert paid == [50, 90]
    assert any("ann changed the arguments of pay" in text for text in said(state))


@live
async def test_an_external_tool_is_answered_from_outside_and_checked() -> None:
    @fp.tool(external=True)
    async def ask(question: str) -> int:
        """Ask."""
        raise NotImplementedError

    model = played(calls(call("ask", id="q1", question="age?")))
    async with runtime_on(None, fp.Agent("a", model=model, tools=[ask])) as runtime:
        run = await runtime.start("a", "go")
        state = await run.wait()
        assert (state.status, state.waits[0].kind) == ("waiting", "question")
        with pytest.raises(AnswerUnfit):
            await run.answer("q1", "forty")
        await run.answer("q1", 40, actor="bob")
        state = await run.wait()
    assert results(state) == [40]


@live
async def test_a_model_that_cannot_answer_now_is_asked_again_after_a_while() -> None:
    clock, times = FakeClock(), []

    def script(request: ModelRequest) -> Reply:
        times.append(clock.now_ms())
        return "at last" if len(times) == 3 else ModelUnavailable("busy", retry_after_s=5)

    async with runtime_on(None, fp.Agent("a", model=ScriptedModel(script)), clock=clock) as runtime:
        run = await runtime.start("a", "go")
        for _ in range(60):
            await clock.advance(0.5)
        state = await run.wait()
    assert state.output == "at last"
    assert [b - a >= 5000 for a, b in itertools.pairwise(times)] == [True, True]
    assert state.spent.cost_unknown == 2


@live
async def test_a_failed_turn_takes_input_and_resume_tries_it_again() -> None:
    model = ScriptedModel([ValueError("bad key"), "fine"])
    async with runtime_on(None, fp.Agent("a", model=model)) as runtime:
        run = await runtime.start("a", "go")
        state = await run.wait()
        assert (state.status, state.failure) == ("failed", Failed(error="ValueError", text="bad key"))
        await run.resume()
        state = await run.wait()
    assert (state.status, state.output) == ("idle", "fine")
    assert said(state) == ["go", "fine"]


@live
async def test_a_timeout_of_a_tool_that_may_have_acted_waits_for_a_person() -> None:
    clock = FakeClock()

    @fp.tool(timeout_s=5)
    async def charge() -> str:
        """Charge."""
        await asyncio.Event().wait()
        return "never"

    model = played(calls(call("charge")))
    async with runtime_on(None, fp.Agent("a", model=model, tools=[charge]), clock=clock) as runtime:
        run = await runtime.start("a", "go")
        await settle()
        await clock.advance(6)
        state = await run.wait()
        assert (state.status, state.waits[0].kind) == ("waiting", "unknown")
        await run.resolve(state.waits[0].effect, "occurred", output={"id": 7}, note="seen in the bank", actor="ann")
        state = await run.wait()
    assert results(state) == [{"id": 7}]
    assert any("seen in the bank" in text and "ann" in text for text in said(state))
    assert any("seen in the bank" in message.text for message in model.requests[1].messages)


@live
async def test_a_timeout_of_a_reading_tool_is_its_failure() -> None:
    clock = FakeClock()

    @fp.tool(read_only=True, timeout_s=5)
    async def fetch() -> str:
        """Fetch."""
        await asyncio.Event().wait()
        return "never"

    async with runtime_on(
        None, fp.Agent("a", model=played(calls(call("fetch"))), tools=[fetch]), clock=clock
    ) as runtime:
        run = await runtime.start("a", "go")
        await settle()
        await clock.advance(6)
        state = await run.wait()
    assert results(state)[0]["error"] == "timeout"
    assert state.output == "done"


@live
async def test_a_call_that_ends_when_signalled_reports_its_true_outcome() -> None:
    clock = FakeClock()

    @fp.tool(timeout_s=5)
    async def charge() -> str:
        """Charge."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "charged just in time"
        return "never"

    async with runtime_on(
        None, fp.Agent("a", model=played(calls(call("charge"))), tools=[charge]), clock=clock
    ) as runtime:
        run = await runtime.start("a", "go")
        await settle()
        await clock.advance(6)
        state = await run.wait()
    assert results(state) == ["charged just in time"]


@live
async def test_a_late_result_settles_the_unknown() -> None:
    clock, finish = FakeClock(), threading.Event()

    @fp.tool(timeout_s=1)
    def charge() -> str:
        """Charge."""
        finish.wait(10)
        return "charged"

    async with runtime_on(
        None, fp.Agent("a", model=played(calls(call("charge"))), tools=[charge]), clock=clock
    ) as runtime:
        run = await runtime.start("a", "go")
        await settle()
        await clock.advance(1)
        await clock.advance(3)
        state = await run.wait()
        assert state.waits[0].kind == "unknown"
        finish.set()
        while (await run.brief()).waits:
            await asyncio.to_thread(finish.wait, 0.01)
        await run.resume()
        state = await run.wait()
    assert results(state) == ["charged"]
    assert any("a late result found: occurred" in text for text in said(state))


@live
async def test_a_late_result_against_a_decision_opens_a_wait_and_is_told() -> None:
    clock, finish = FakeClock(), threading.Event()

    @fp.tool(timeout_s=1)
    def charge() -> str:
        """Charge."""
        finish.wait(10)
        return "charged"

    model = played(calls(call("charge")), "so be it", "I see")
    async with runtime_on(None, fp.Agent("a", model=model, tools=[charge]), clock=clock) as runtime:
        run = await runtime.start("a", "go")
        await settle()
        await clock.advance(1)
        await clock.advance(3)
        (wait,) = (await run.wait()).waits
        await run.resolve(wait.effect, "not_occurred")
        assert (await run.wait()).output == "so be it"
        finish.set()
        while not (await run.brief()).waits:
            await asyncio.to_thread(finish.wait, 0.01)
        (late,) = (await run.brief()).waits
        assert late.kind == "contradiction"
        await run.send("and now?")
        assert (await run.wait()).status == "waiting"
        await run.resolve(late.effect, "occurred", actor="ann")
        state = await run.wait()
    assert state.output == "I see"
    assert any("a late result says that it succeeded" in text for text in said(state))


@live
async def test_an_interrupt_keeps_what_is_finished_and_closes_the_rest() -> None:
    started = asyncio.Event()

    @fp.tool(read_only=True)
    async def hang() -> str:
        """Hang."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    model = played(calls(call("look", id="c1", number=2), call("hang", id="c2")), "what next")
    async with runtime_on(None, fp.Agent("a", model=model, tools=[look, hang])) as runtime:
        run = await runtime.start("a", "go")
        await started.wait()
        await settle()
        await run.interrupt("enough")
        state = await run.wait()
        assert state.status == "idle"
        await run.send("carry on")
        state = await run.wait()
    assert results(state) == [4, {"error": "cancelled", "message": "it was interrupted while it ran"}]
    assert state.output == "what next"
    fp.validate_transcript(model.requests[-1].messages)


@live
async def test_an_interrupted_call_that_may_have_acted_waits_and_new_input_queues() -> None:
    started = asyncio.Event()

    @fp.tool
    async def charge() -> str:
        """Charge."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    model = played(calls(call("charge")), "hello again")
    async with runtime_on(None, fp.Agent("a", model=model, tools=[charge])) as runtime:
        run = await runtime.start("a", "go")
        await started.wait()
        await run.interrupt()
        state = await run.wait()
        assert (state.status, state.waits[0].kind) == ("waiting", "unknown")
        await run.send("hello?")
        assert (await run.wait()).status == "waiting"
        await run.resolve(state.waits[0].effect, "abandoned_unknown")
        state = await run.wait()
    assert state.output == "hello again"
    assert len(model.requests) == 2


@live
async def test_pause_stops_before_the_next_call_and_unpause_goes_on() -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    @fp.tool(read_only=True)
    async def wait() -> str:
        """Wait."""
        started.set()
        await gate.wait()
        return "ok"

    model = played(calls(call("wait")))
    async with runtime_on(None, fp.Agent("a", model=model, tools=[wait])) as runtime:
        run = await runtime.start("a", "go")
        await started.wait()
        await run.pause("lunch")
        gate.set()
        state = await run.wait()
        assert state.status == "paused"
        assert len(model.requests) == 1
        await run.unpause()
        state = await run.wait()
    assert (state.status, state.output) == ("idle", "done")


@live
async def test_a_limit_pauses_with_its_name_and_continues_on_request() -> None:
    model = played(*[calls(call("look", number=n)) for n in range(5)])
    agent = fp.Agent("a", model=model, tools=[look], limits=fp.Limits(steps=2))
    async with runtime_on(None, agent) as runtime:
        run = await runtime.start("a", "go")
        state = await run.wait()
        assert (state.status, state.step) == ("paused", 2)
        assert state.paused is not None and state.paused.limit == "2 steps"
        await run.unpause()
        assert (await run.wait()).step == 4
        await run.unpause(limits=fp.Limits())
        assert (await run.wait()).output == "done"


@live
async def test_stop_is_final() -> None:
    async with runtime_on(None, fp.Agent("a", model=played("hi"))) as runtime:
        run = await runtime.start("a", "go")
        await run.wait()
        await run.stop("no more")
        with pytest.raises(fp.ForkpointError, match="stopped for good"):
            await run.send("please")
        child = await run.fork()
        await child.resume()
        await child.send("go on")
        assert (await child.wait()).status == "idle"


@live
async def test_another_definition_is_refused_unless_accepted_and_then_recorded() -> None:
    journal = MemoryJournal()
    runtime = runtime_on(journal, fp.Agent("a", model=played("one"), instructions="Be brief."))
    await (await runtime.start("a", "go", run_id="r")).wait()
    await runtime.close()
    other = runtime_on(journal.beside(), fp.Agent("a", model=played("one", "two"), instructions="Be verbose."))
    run = await other.open("r")
    await run.send("again")
    with pytest.raises(AgentDiffers, match="instructions differ"):
        await run.resume()
    await run.resume(accept_changes=True)
    assert (await run.wait()).output == "two"
    assert "AgentChanged" in [type(one.event).__name__ for one in await run.history()]
    assert (await run.request()).instructions == "Be verbose."
    assert (await run.request(1)).instructions == "Be brief."
    await other.close()


@live
async def test_compaction_begins_the_next_request_with_the_summary() -> None:
    def script(request: ModelRequest) -> Reply:
        if request.messages[-1].text.startswith("Summarise the conversation"):
            return "we looked at numbers"
        return calls(call("look", number=1)) if len(model.requests) < 8 else "done"

    model = ScriptedModel(script)
    agent = fp.Agent("a", model=model, tools=[look], compaction=fp.Compaction(after_tokens=10, keep_steps=2))
    async with runtime_on(None, agent) as runtime:
        run = await runtime.start("a", "go")
        state = await run.wait()
        events = await run.history()
    assert state.output == "done"
    assert any(type(one.event).__name__ == "ContextCompacted" for one in events)
    assert "we looked at numbers" in model.requests[-1].messages[0].text
    for request in model.requests:
        fp.validate_transcript(request.messages)


@live
async def test_a_tool_changes_the_applications_state_with_its_outcome() -> None:
    @fp.tool
    async def note(ctx: fp.ToolContext, text: str) -> int:
        """Note."""
        ctx.set_state(notes=[*ctx.state.get("notes", []), text])
        return len(ctx.state["notes"])

    model = played(calls(call("note", text="a")), calls(call("note", text="b")))
    async with runtime_on(None, fp.Agent("a", model=model, tools=[note])) as runtime:
        run = await runtime.start("a", "go")
        state = await run.wait()
        early = await run.state(step=1)
    assert state.app == {"notes": ["a", "b"]}
    assert early.app == {"notes": ["a"]}


@live
async def test_a_tool_may_say_that_it_does_not_know() -> None:
    @fp.tool
    async def charge() -> str:
        """Charge."""
        raise fp.OutcomeUnknown("the gateway hung up")

    async with runtime_on(None, fp.Agent("a", model=played(calls(call("charge"))), tools=[charge])) as runtime:
        run = await runtime.start("a", "go")
        state = await run.wait()
        opened = state.effects[state.waits[0].effect]
    assert opened.outcome == Unknown(because="reported", text="the gateway hung up")


@live
async def test_large_values_stand_aside_and_come_back_whole() -> None:
    @fp.tool(read_only=True)
    async def page() -> str:
        """Page."""
        return "x" * 10_000

    model = played(calls(call("page")))
    async with runtime_on(None, fp.Agent("a", model=model, tools=[page], instructions="i" * 5000)) as runtime:
        run = await runtime.start("a", "y" * 6000)
        state = await run.wait()
        request = await run.request(2)
        settled = [one.event for one in await run.history() if type(one.event).__name__ == "EffectSettled"]
    assert results(state) == ["x" * 10_000] == answers_in(model.requests[1]) == answers_in(request)
    assert request.instructions == "i" * 5000 == model.requests[0].instructions
    assert said(state)[0] == "y" * 6000 == request.messages[0].text
    assert settled[1].outcome.value is None and settled[1].outcome.aside


@live
async def test_a_watcher_sees_every_event_once_and_progress_where_it_is_performed() -> None:
    model = played(calls(call("look", number=1), text="thinking"))
    async with runtime_on(None, fp.Agent("a", model=model, tools=[look])) as runtime:
        run = await runtime.start("a", "go", perform=False)
        seen: list[object] = []

        async def watch() -> None:
            async for item in run.watch(after=0):
                seen.append(item)
                if isinstance(item, fp.RecordedEvent) and item.seq == 11:
                    return

        watcher = asyncio.create_task(watch())
        await settle()
        await run.resume()
        await run.wait()
        await watcher
        total = (await run.brief()).seq
    events = [item for item in seen if isinstance(item, fp.RecordedEvent)]
    assert [one.seq for one in events] == list(range(1, total + 1))
    assert "thinking" in [item.text for item in seen if not isinstance(item, fp.RecordedEvent)]


@live
async def test_a_model_that_answers_its_own_calls_fails_and_spoils_nothing() -> None:
    from forkpoint.messages import Message, ResponsePart

    bad = Message(role="assistant", parts=(ResponsePart(id="c1", response="I did it"),))
    model = ScriptedModel([bad, "fine"])
    async with runtime_on(None, fp.Agent("a", model=model)) as runtime:
        run = await runtime.start("a", "go")
        state = await run.wait()
        assert state.failure is not None and state.failure.error == "ModelAnswersCalls"
        await run.resume()
        assert (await run.wait()).output == "fine"
