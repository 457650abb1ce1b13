"""Files travel with a run: snapshots on its journal, rewinds of its own folder, forks with a folder of their own."""

import asyncio
from pathlib import Path

import pytest
from tests.runtime.stage import call, calls, played, runtime_on

import forkpoint as fp
from forkpoint.errors import SnapshotNotFound, WorkspaceNone
from forkpoint.events import SnapshotTaken, WorkspaceRewound
from forkpoint.runtime.runtime import Runtime
from forkpoint.stores.memory import MemoryJournal


@fp.tool(idempotent=True)
async def write(ctx: fp.ToolContext, name: str, text: str) -> str:
    """Write a file."""
    path = Path(ctx.workspace or "") / name
    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
    await asyncio.to_thread(path.write_text, text)
    return "ok"


@fp.tool
async def remove(ctx: fp.ToolContext, name: str) -> str:
    """Remove a file."""
    await asyncio.to_thread((Path(ctx.workspace or "") / name).unlink)
    return "ok"


@fp.tool(read_only=True)
async def look(ctx: fp.ToolContext) -> int:
    """Count the files."""
    return await asyncio.to_thread(lambda: len(list(Path(ctx.workspace or "").iterdir())))


SCRIPT = (
    calls(call("look", id="l1")),
    calls(call("write", id="w1", name="a.txt", text="one"), call("write", id="w2", name="b/c.txt", text="two")),
    "first turn over",
    calls(call("write", id="w3", name="a.txt", text="three"), call("remove", id="d1", name="kept.txt")),
    "second turn over",
)


def files_in(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def new_folder(folder: Path) -> None:
    folder.mkdir()
    (folder / "kept.txt").write_text("mine")


async def two_turns(folder: Path, journal: MemoryJournal | None = None) -> tuple[Runtime, fp.Run, list[dict[str, str]]]:
    new_folder(folder)
    agent = fp.Agent("coder", model=played(*SCRIPT), tools=[write, remove, look])
    runtime = runtime_on(journal, agent)
    seen = [files_in(folder)]
    run = await runtime.start("coder", "first", run_id="r", workspace=folder)
    await run.wait()
    seen.append(files_in(folder))
    await run.send("second")
    await run.wait()
    seen.append(files_in(folder))
    return runtime, run, seen


def test_every_step_knows_its_files_and_reading_takes_no_snapshot(tmp_path: Path) -> None:
    async def scene() -> None:
        runtime, run, seen = await two_turns(tmp_path / "work")
        taken = [event.why for _, event in await run.workspace.snapshots()]
        assert taken == ["start", "after", "before", "after"]
        assert seen[1] == {"a.txt": "one", "b/c.txt": "two", "kept.txt": "mine"}
        at_two = {path.decode(): entry for path, entry in await run.workspace.files(step=2)}
        assert {"a.txt", "b/c.txt", "kept.txt"} <= set(at_two)
        assert await run.workspace.read("a.txt", turn=1) == b"one"
        assert await run.workspace.read("a.txt") == b"three"
        before, after = (await run.state(turn=1)).seq, (await run.state()).seq
        changed = [(change.shown, change.kind) for change in await run.workspace.changes(before, after)]
        assert changed == [("a.txt", "modified"), ("kept.txt", "deleted")]
        with pytest.raises(SnapshotNotFound):
            await run.workspace.files(step=1)
        await runtime.close()

    asyncio.run(scene())


def test_a_rewind_brings_back_the_files_before_a_turn_and_its_undo_brings_back_the_rest(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        runtime, run, seen = await two_turns(folder)
        planned = await run.workspace.rewind(turn=2, dry_run=True)
        assert files_in(folder) == seen[2]
        done = await run.workspace.rewind(turn=2)
        assert [change.shown for change in done.put_back] == [change.shown for change in planned.put_back]
        assert files_in(folder) == seen[1]
        await run.workspace.undo()
        assert files_in(folder) == seen[2]
        assert [type(one.event) for one in await run.history()].count(WorkspaceRewound) == 2
        await runtime.close()

    asyncio.run(scene())


def test_a_persons_own_edit_is_kept_and_reported_unless_forced(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        runtime, run, seen = await two_turns(folder)
        (folder / "a.txt").write_text("a person was here")
        done = await run.workspace.rewind(turn=2)
        assert [(kept.shown, kept.reason) for kept in done.kept] == [("a.txt", "changed-since")]
        assert files_in(folder) == seen[1] | {"a.txt": "a person was here"}
        await run.workspace.rewind(turn=2, force=True)
        assert files_in(folder) == seen[1]
        await run.workspace.undo()
        assert files_in(folder)["a.txt"] == "a person was here"
        await runtime.close()

    asyncio.run(scene())


def test_what_others_changed_between_turns_is_on_record_as_theirs(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        folder.mkdir()
        agent = fp.Agent("coder", model=played(*SCRIPT[1:]), tools=[write, remove, look])
        runtime = runtime_on(None, agent)
        run = await runtime.start("coder", "first", workspace=folder)
        await run.wait()
        (folder / "kept.txt").write_text("added by a person")
        await run.send("second")
        await run.wait()
        before = [event for _, event in await run.workspace.snapshots() if event.why == "before"]
        assert before[-1].outside == ("kept.txt",)
        await run.workspace.rewind(turn=2)
        assert files_in(folder) == {"a.txt": "one", "b/c.txt": "two", "kept.txt": "added by a person"}
        await runtime.close()

    asyncio.run(scene())


def test_a_fork_gets_a_folder_of_its_own_as_of_the_fork_point(tmp_path: Path) -> None:
    async def scene() -> None:
        folder, other = tmp_path / "work", tmp_path / "other"
        runtime, run, seen = await two_turns(folder)
        child = await run.fork(turn=1, workspace=other, patch=fp.Patch(input="another way"))
        assert files_in(other) == seen[1]
        await child.resume()
        await child.wait()
        assert files_in(other) == {"a.txt": "three", "b/c.txt": "two"}
        assert files_in(folder) == seen[2]
        await child.workspace.rewind(turn=2)
        assert files_in(other) == seen[1]
        bare = await run.fork(turn=1)
        with pytest.raises(WorkspaceNone):
            await bare.workspace.files()
        await runtime.close()

    asyncio.run(scene())


def test_a_snapshot_that_failed_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        folder.mkdir()

        @fp.tool
        async def vanish() -> str:
            """Take the whole folder away."""
            await asyncio.to_thread(folder.rename, tmp_path / "elsewhere")
            return "gone"

        runtime = runtime_on(None, fp.Agent("coder", model=played(calls(call("vanish"))), tools=[vanish]))
        run = await runtime.start("coder", "go", workspace=folder)
        state = await run.wait()
        assert state.output == "done"
        last = [one.event for one in await run.history() if isinstance(one.event, SnapshotTaken)][-1]
        assert last.tree is None and last.failed is not None and "workspace." in last.failed
        await runtime.close()

    asyncio.run(scene())


def test_recovery_takes_the_missing_snapshot_before_it_repeats_anything(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        folder.mkdir()
        journal = MemoryJournal()
        started = asyncio.Event()

        @fp.tool(name="write", idempotent=True)
        async def half(ctx: fp.ToolContext) -> str:
            """Write, then hang the first time."""
            (folder / "half.txt").write_text(f"attempt {ctx.attempt}")
            started.set()
            if ctx.attempt == 1:
                await asyncio.Event().wait()
            return "ok"

        agent = fp.Agent("coder", model=played(calls(call("write"))), tools=[half])
        dead = runtime_on(journal, agent, grace_s=0, files=tmp_path / "contents")
        run = await dead.start("coder", "go", run_id="r", workspace=folder)
        await started.wait()
        beside = journal.beside()
        await journal.abandon()
        del run
        other = runtime_on(beside, agent, files=tmp_path / "contents")
        await other.recover()
        taken = [one for _, one in await (await other.open("r")).workspace.snapshots()]
        assert [one.why for one in taken] == ["start", "after", "after"]
        assert taken[1].changed == 1
        await other.close()
        await dead.close()

    asyncio.run(scene())
