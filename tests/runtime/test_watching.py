"""Watching: recorded events in order from any process, and progress that never grows without bound."""

import asyncio
from pathlib import Path

from tests.runtime.stage import live, played

import forkpoint as fp
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse
from forkpoint.runtime.progress import KEEP, Bulletin, Inbox, Progress
from forkpoint.stores.sqlite.journal import SqliteJournal
from forkpoint.testing.fakes import call, calls


@fp.tool(read_only=True)
async def look(number: int) -> int:
    """Look."""
    return number * 2


class Hangs:
    """A model that answers once and then never again."""

    name = "scripted:model"

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._answers = played(calls(call("look", number=1)))

    async def respond(self, request: ModelRequest, progress: object) -> ModelResponse:
        if any(message.role == "tool" for message in request.messages):
            self.asked.set()
            await asyncio.Event().wait()
        return await self._answers.respond(request, lambda piece: None)


def test_a_watcher_elsewhere_sees_every_event_once_over_a_death_and_a_recovery(tmp_path: Path) -> None:
    """Three connections of their own to one file: who performs and dies, who watches, who takes over."""

    async def scene() -> None:
        path = tmp_path / "runs.db"
        model = Hangs()
        journal = SqliteJournal(path, synchronous="normal")
        dying = fp.connect(journal, agents=[fp.Agent("a", model=model, tools=[look])], grace_s=0)
        run = await dying.start("a", "go", run_id="r", perform=False)
        watching = fp.connect(path)
        seen: list[fp.RecordedEvent] = []

        async def watch() -> None:
            async for item in (await watching.open("r")).watch(after=0):
                assert isinstance(item, fp.RecordedEvent)
                seen.append(item)
                said = getattr(getattr(item.event, "outcome", None), "message", None)
                if said is not None and said.text == "done":
                    return

        watcher = asyncio.create_task(watch())
        await run.resume()
        await model.asked.wait()
        await journal.abandon()
        heir = fp.connect(path, agents=[fp.Agent("a", model=played(calls(call("look", number=1))), tools=[look])])
        recovered = await heir.recover()
        assert recovered.runs == ("r",)
        await asyncio.wait_for(watcher, timeout=30)
        history = await (await heir.open("r")).history()
        assert seen == history
        assert [one.seq for one in seen] == list(range(1, len(history) + 1))
        await watching.close()
        await heir.close()
        await dying.close()

    asyncio.run(scene())


@live
async def test_a_watcher_that_does_not_look_slows_nothing_and_keeps_a_bounded_number() -> None:
    class Talks:
        name = "scripted:model"

        async def respond(self, request: ModelRequest, progress: object) -> ModelResponse:
            for number in range(5 * KEEP):
                progress(ModelProgress(text=f"{number} "))  # type: ignore[operator]
            return await played().respond(request, lambda piece: None)

    async with fp.connect("memory:", agents=[fp.Agent("a", model=Talks())]) as runtime:
        run = await runtime.start("a", "go", perform=False)
        stalled = Inbox(lambda: None)
        leave = runtime.edge.bulletin.join(run.id, stalled)
        await run.resume()
        assert (await run.wait()).output == "done"
        leave()
    assert len(stalled.notices) == KEEP
    assert stalled.notices[-1].text == f"{5 * KEEP - 1} "


def test_who_has_left_is_told_nothing_more() -> None:
    bulletin, told = Bulletin(), list[int]()
    leave = bulletin.join("r", Inbox(lambda: told.append(1)))
    bulletin.post("r", Progress(run="r", effect=1, text="x"))
    leave()
    bulletin.post("r", Progress(run="r", effect=1, text="y"))
    assert told == [1]
    assert not bulletin.watched("r")
