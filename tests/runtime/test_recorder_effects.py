"""A function's effects that fail, hang, are cut off or change files: the rules are those of every run."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.functions import World, ask, asks, clerk, live, model_of

import forkpoint as fp
from forkpoint.errors import RunBusy, RunWaits
from forkpoint.events import EffectSettled
from forkpoint.messages import user
from forkpoint.outcomes import Cancelled, Failed, Succeeded, Unknown
from forkpoint.ports import ModelUnavailable
from forkpoint.runtime.progress import Progress
from forkpoint.testing.fakes import FakeClock, ScriptedModel, call


async def outcomes(runtime: fp.Runtime, run: str = "r") -> list[Any]:
    history = await (await runtime.open(run)).history()
    return [one.event.outcome for one in history if isinstance(one.event, EffectSettled)]


@live
async def test_a_model_that_is_out_of_order_is_asked_again_and_every_attempt_is_on_record(store: str) -> None:
    clock, replies = FakeClock(), [ModelUnavailable("busy"), ModelUnavailable("busy", retry_after_s=30), "hello"]
    model = ScriptedModel(replies)  # type: ignore[arg-type]

    async def loop() -> str:
        return (await ask(model, [user("hi")])).message.text

    async with fp.connect(store, clock=clock) as runtime:
        recording = asyncio.ensure_future(runtime.record("r", loop))
        while not recording.done():
            await clock.advance(1)
        assert recording.result() == "hello"
        assert [type(one) for one in await outcomes(runtime)] == [Failed, Failed, Succeeded]
        assert (await (await runtime.open("r")).brief()).spent.cost_unknown == 2


@live
async def test_a_model_that_stays_out_of_order_fails_the_function_and_is_asked_again_when_it_is_resumed(
    store: str,
) -> None:
    clock, down = FakeClock(), [True]
    model = ScriptedModel(lambda request: ModelUnavailable("busy") if down[0] else "hello")

    async def loop() -> str:
        return (await ask(model, [user("hi")])).message.text

    async with fp.connect(store, clock=clock) as runtime:
        recording = asyncio.ensure_future(runtime.record("r", loop))
        while not recording.done():
            await clock.advance(1)
        assert isinstance(recording.exception(), fp.EffectFailed)
        assert "gave up after 3 attempts" in str(recording.exception())
        down[0] = False
        assert await runtime.record("r", loop) == "hello"
    assert len(model.requests) == 4


@pytest.mark.parametrize("error", [TimeoutError("slow"), ConnectionError("cut"), fp.OutcomeUnknown("who knows")])
def test_an_error_after_which_nobody_knows_waits_for_a_person(tmp_path: Path, error: Exception) -> None:
    async def test() -> None:
        tried = []

        @fp.tool
        async def mail(to: str) -> str:
            tried.append(to)
            raise error

        async def loop() -> str:
            return await mail("ann")

        async with fp.connect(str(tmp_path / "runs.db")) as runtime:
            for _ in range(2):
                with pytest.raises(RunWaits):
                    await runtime.record("r", loop)
            assert [type(one) for one in await outcomes(runtime)] == [Unknown]
            run = await runtime.open("r")
            await run.resolve((await run.waits())[0].effect, "occurred", output="sent")
            assert await runtime.record("r", loop) == "sent"
        assert tried == ["ann"]

    asyncio.run(test())


@live
async def test_a_call_that_outlives_its_time_is_unknown_and_its_late_result_settles_it(store: str) -> None:
    clock, free = FakeClock(), asyncio.Event()

    @fp.tool(timeout_s=5)
    async def mail(to: str) -> str:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return f"sent to {to}"

    async def loop() -> str:
        return await mail("ann")

    async with fp.connect(store, clock=clock) as runtime:
        recording = asyncio.ensure_future(runtime.record("r", loop))
        for _ in range(20):
            await clock.advance(1)
        assert isinstance(recording.exception(), RunWaits)
        free.set()
        for _ in range(3):
            await clock.advance(1)
        assert await runtime.record("r", loop) == "sent to ann"


@live
async def test_arguments_that_do_not_fit_are_told_to_the_code_and_nothing_runs(store: str) -> None:
    world = World()

    @fp.tool
    async def charge(cents: int) -> str:
        world.done["charge"] += 1
        return "charged"

    model = model_of(asks(call("charge", cents="much")))
    loop = clerk(model, charge)
    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop) == "done"
        assert [one.error for one in await outcomes(runtime) if isinstance(one, Failed)] == ["InvalidArguments"]
    assert not world.done
    assert "InvalidArguments" in str(model.requests[-1].messages[-1])


@live
async def test_a_result_that_cannot_be_stored_happened_and_is_never_repeated(store: str) -> None:
    world = World()

    @fp.tool(idempotent=True)
    async def odd() -> object:
        world.done["odd"] += 1
        return object()

    async def loop() -> str:
        try:
            await odd()
        except fp.EffectFailed as error:
            return error.error
        return "stored"

    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop) == "ValueNotJson"
        (failed,) = await outcomes(runtime)
    assert failed.happened
    assert world.done == {"odd": 1}


@live
async def test_a_model_that_is_called_off_leaves_what_it_had_said(store: str) -> None:
    speaking = asyncio.Event()

    async def respond(request: Any, progress: Any) -> Any:
        from forkpoint.ports import ModelProgress

        progress(ModelProgress(text="I was about to"))
        speaking.set()
        await asyncio.Event().wait()

    model = ScriptedModel(["hello"])
    model.respond = respond  # type: ignore[method-assign]

    async def loop() -> str:
        return (await ask(model, [user("hi")])).message.text

    async with fp.connect(store, grace_s=0.5) as runtime:
        recording = asyncio.ensure_future(runtime.record("r", loop))
        await speaking.wait()
        await (await runtime.open("r")).interrupt()
        await asyncio.wait([recording])
        (called_off,) = await outcomes(runtime)
    assert isinstance(called_off, Cancelled)
    assert called_off.partial is not None
    assert called_off.partial.text == "I was about to"


@live
async def test_what_is_said_and_reported_is_heard_by_a_watcher_as_it_comes(store: str) -> None:
    looking, listening = asyncio.Event(), asyncio.Event()
    heard: list[str] = []

    @fp.tool(read_only=True)
    async def look(ctx: fp.ToolContext) -> str:
        looking.set()
        await listening.wait()
        ctx.progress("looking")
        return "seen"

    async def listen(run: fp.Run) -> None:
        async for one in run.watch(after=0):
            listening.set()
            if isinstance(one, Progress):
                heard.append(one.text)
            elif type(one.event).__name__ == "FunctionReturned":
                return

    loop = clerk(model_of(asks(call("look")), last="all is well"), look)
    async with fp.connect(store) as runtime:
        recording = asyncio.ensure_future(runtime.record("r", loop))
        await looking.wait()
        await listen(await runtime.open("r"))
        assert await recording == "all is well"
    assert heard == ["looking", "all is well"]


@live
async def test_a_tools_changes_to_the_applications_state_are_on_record(store: str) -> None:
    @fp.tool(idempotent=True)
    async def note(ctx: fp.ToolContext, text: str) -> int:
        notes = [*ctx.state.get("notes", []), text]
        ctx.set_state(notes=notes)
        return len(notes)

    async def loop() -> int:
        await note("a")
        return await note("b")

    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop) == 2
        assert (await (await runtime.open("r")).brief()).app == {"notes": ["a", "b"]}


def test_a_functions_files_are_seen_around_its_calls_and_travel_with_its_forks(tmp_path: Path) -> None:
    folder, store = tmp_path / "work", str(tmp_path / "runs.db")
    folder.mkdir()

    @fp.tool(idempotent=True)
    async def write(ctx: fp.ToolContext, text: str) -> str:
        assert ctx.workspace is not None
        (Path(ctx.workspace) / "note.txt").write_text(text)
        return "written"

    async def loop() -> None:
        await write("one")
        await write("two")

    async def test() -> None:
        async with fp.connect(store) as runtime:
            await runtime.record("r", loop, workspace=folder)
            run = await runtime.open("r")
            first = next(one.seq for one in await run.history() if type(one.event).__name__ == "EffectSettled")
            child = await run.fork(first + 1, workspace=tmp_path / "other")
            assert (tmp_path / "other" / "note.txt").read_text() == "one"
            await runtime.record(child.id, loop)
            assert (tmp_path / "other" / "note.txt").read_text() == "two"
            await run.workspace.rewind(at=first + 1)
            assert (folder / "note.txt").read_text() == "one"

    asyncio.run(test())


@live
async def test_one_process_records_a_run_at_a_time(store: str) -> None:
    going, free = asyncio.Event(), asyncio.Event()

    @fp.tool(read_only=True)
    async def look() -> str:
        going.set()
        await free.wait()
        return "seen"

    async def loop() -> str:
        return await look()

    async with fp.connect(store) as one, fp.connect(store) as other:
        first = asyncio.ensure_future(one.record("r", loop))
        same = asyncio.ensure_future(one.record("r", loop))
        await going.wait()
        with pytest.raises(RunBusy):
            await other.record("r", loop)
        free.set()
        assert await first == await same == "seen"
        assert await other.record("r", loop) == "seen"


@live
async def test_code_that_gives_up_waiting_for_a_call_does_not_undo_it(store: str) -> None:
    world, free, began = World(), asyncio.Event(), asyncio.Event()

    @fp.tool
    async def mail(to: str) -> str:
        began.set()
        await free.wait()
        world.done["mail"] += 1
        return "sent"

    async def loop() -> str:
        sending = asyncio.ensure_future(mail("ann"))
        await began.wait()
        sending.cancel()
        free.set()
        return "gave up"

    async with fp.connect(store) as runtime:
        assert await runtime.record("r", loop) == "gave up"
        assert [type(one) for one in await outcomes(runtime)] == [Succeeded]
    assert world.done == {"mail": 1}
