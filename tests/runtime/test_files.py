"""Files travel with a run: snapshots on its journal, rewinds of its own folder, forks with a folder of their own."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest
from tests.runtime.stage import call, calls, played, runtime_on

import forkpoint as fp
from forkpoint.errors import (
    ForkNameTaken,
    ForkNoSuchPoint,
    RewindCutShort,
    RewindUnfinished,
    SnapshotNotFound,
    SnapshotPruned,
    SnapshotStoreFailed,
    WorkspaceInUse,
    WorkspaceNone,
    WorkspaceRefused,
)
from forkpoint.events import SnapshotTaken, WorkspaceRewound
from forkpoint.runtime.runtime import Runtime
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.fakes import FakeClock, settle
from forkpoint.workspace.beside import RunFolders
from forkpoint.workspace.disk import Disk
from forkpoint.workspace.port import Snapshot
from forkpoint.workspace.recorder import WorkspaceRecorder
from forkpoint.workspace.store import ContentStore
from forkpoint.workspace.tree import File, digest_in


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


# ── where things are not as they should be ───────────────────────────────────────────────────────────────────────


class Failing(RunFolders):
    """Workspaces whose snapshots fail while ``broken`` says with what."""

    broken: Exception | None = None

    def __call__(self, run: str, root: str) -> WorkspaceRecorder:
        recorder = super().__call__(run, root)
        take = recorder.snapshot

        def snapshot(**given: object) -> Snapshot:
            if self.broken is not None:
                raise self.broken
            return take(**given)  # type: ignore[arg-type]

        recorder.snapshot = snapshot  # type: ignore[method-assign, assignment]
        return recorder


async def snapshots(run: fp.Run) -> list[SnapshotTaken]:
    return [event for _, event in await run.workspace.snapshots()]


def test_a_run_in_a_folder_that_is_none_is_not_begun(tmp_path: Path) -> None:
    async def scene() -> None:
        runtime = runtime_on(None, fp.Agent("coder", model=played("hello"), tools=[write]))
        with pytest.raises(WorkspaceRefused):
            await runtime.start("coder", "go", run_id="r", workspace=tmp_path / "nowhere")
        assert (await runtime.runs()).rows == ()
        await runtime.close()

    asyncio.run(scene())


def test_a_run_that_is_performed_is_not_rewound_by_this_process_or_another(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        new_folder(folder)
        journal = MemoryJournal()
        at_work, over = asyncio.Event(), asyncio.Event()

        @fp.tool(name="write", idempotent=True)
        async def slow(ctx: fp.ToolContext) -> str:
            """Write, and take a while for it."""
            (folder / "kept.txt").write_text("changed")
            at_work.set()
            await over.wait()
            return "ok"

        agent = fp.Agent("coder", model=played(calls(call("write"))), tools=[slow])
        runtime = runtime_on(journal, agent, files=tmp_path / "contents")
        run = await runtime.start("coder", "go", run_id="r", workspace=folder)
        await at_work.wait()
        other = runtime_on(journal.beside(), agent, files=tmp_path / "contents")
        for one in (run, await other.open("r")):
            for dry_run in (True, False):
                with pytest.raises(WorkspaceInUse):
                    await one.workspace.rewind(turn=1, dry_run=dry_run)
        assert files_in(folder) == {"kept.txt": "changed"}
        over.set()
        await run.wait()
        await (await other.open("r")).workspace.rewind(turn=1)
        assert files_in(folder) == {"kept.txt": "mine"}
        await other.close()
        await runtime.close()

    asyncio.run(scene())


def test_a_fork_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    async def scene() -> None:
        runtime, run, _ = await two_turns(tmp_path / "work")
        with pytest.raises(ForkNameTaken):
            await run.fork(turn=1, workspace=tmp_path / "other", run_id="r")
        assert not (tmp_path / "other").exists()
        await runtime.close()

    asyncio.run(scene())


def test_files_are_read_and_forked_also_when_the_folder_is_gone(tmp_path: Path) -> None:
    async def scene() -> None:
        folder, other = tmp_path / "work", tmp_path / "other"
        journal = MemoryJournal()
        runtime, run, seen = await two_turns(folder, journal)
        await asyncio.to_thread(folder.rename, tmp_path / "elsewhere")
        assert await run.workspace.read("a.txt", turn=1) == b"one"
        await run.fork(turn=1, workspace=other)
        assert files_in(other) == seen[1]
        with pytest.raises(WorkspaceRefused):
            await run.workspace.rewind(turn=2)
        await runtime.close()

    asyncio.run(scene())


def test_whatever_a_workspace_raises_the_run_goes_on_and_says_it(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        new_folder(folder)
        files = Failing(None)
        files.broken = ConnectionError("the container is gone")
        runtime = runtime_on(None, fp.Agent("coder", model=played(*SCRIPT), tools=[write, remove, look]), files=files)
        run = await runtime.start("coder", "first", workspace=folder)
        assert (await run.wait()).output == "first turn over"
        assert {one.failed for one in await snapshots(run)} == {"ConnectionError: the container is gone"}
        await runtime.close()

    asyncio.run(scene())


def test_what_changed_around_a_snapshot_that_failed_is_put_back_only_by_force(tmp_path: Path) -> None:
    """Whether the run or a person changed it, nobody can tell."""

    async def scene() -> None:
        folder = tmp_path / "work"
        new_folder(folder)
        files = Failing(None)
        model = played(calls(call("write", id="w0", name="z.txt", text="0")), "zero", *SCRIPT[1:])
        runtime = runtime_on(None, fp.Agent("coder", model=model, tools=[write, remove]), files=files)
        run = await runtime.start("coder", "zero", workspace=folder)
        await run.wait()
        files.broken = OSError("no space left")
        await run.send("first")
        await run.wait()
        behind = (await run.workspace.seen()).behind
        assert "no space left" in behind
        files.broken = None
        await run.send("second")
        await run.wait()
        assert [bool(one.failed) for one in await snapshots(run)] == [False, False, True, True, False, False]
        kept = (await run.workspace.rewind(turn=2)).kept
        assert {one.shown: one.reason for one in kept} == {
            "a.txt": "changed-since",
            "b": "changed-since",
            "b/c.txt": "changed-since",
        }
        await run.workspace.rewind(turn=2, force=True)
        assert files_in(folder) == {"kept.txt": "mine", "z.txt": "0"}
        await runtime.close()

    asyncio.run(scene())


def test_a_rewind_after_a_kill_puts_back_what_the_lost_call_had_changed(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        new_folder(folder)
        journal = MemoryJournal()
        started = asyncio.Event()

        @fp.tool
        async def half(ctx: fp.ToolContext) -> str:
            """Write, then never end."""
            (folder / "half.txt").write_text("half")
            started.set()
            await asyncio.Event().wait()
            return "ok"

        agent = fp.Agent("coder", model=played(calls(call("half"))), tools=[half])
        dead = runtime_on(journal, agent, grace_s=0, files=tmp_path / "contents")
        await dead.start("coder", "go", run_id="r", workspace=folder)
        await started.wait()
        beside = journal.beside()
        await journal.abandon()
        other = runtime_on(beside, agent, files=tmp_path / "contents")
        run = await other.open("r")
        assert (await run.workspace.seen()).behind
        planned = await run.workspace.rewind(turn=1, dry_run=True)
        done = await run.workspace.rewind(turn=1)
        assert [change.shown for change in planned.put_back] == [change.shown for change in done.put_back]
        assert files_in(folder) == {"kept.txt": "mine"}
        assert (await run.workspace.seen()).behind == ""
        await run.workspace.undo()
        assert files_in(folder) == {"half.txt": "half", "kept.txt": "mine"}
        await other.close()
        await dead.close()

    asyncio.run(scene())


def test_recovery_takes_the_missing_snapshot_of_a_run_that_was_paused(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        new_folder(folder)
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
        await dead.start("coder", "go", run_id="r", workspace=folder)
        await started.wait()
        beside = journal.beside()
        await journal.abandon()
        other = runtime_on(beside, agent, files=tmp_path / "contents")
        run = await other.open("r")
        await run.pause()
        await other.recover()
        assert [one.why for one in await snapshots(run)] == ["start", "after"]
        assert (await run.state()).status == "paused"
        (folder / "kept.txt").write_text("edited while it was paused")
        await run.unpause()
        await run.resume()
        await run.wait()
        assert [one.outside for one in await snapshots(run)][2] == ("kept.txt",)
        await other.close()
        await dead.close()

    asyncio.run(scene())


def test_a_fork_is_rewound_to_turns_that_its_parent_had(tmp_path: Path) -> None:
    async def scene() -> None:
        folder, other = tmp_path / "work", tmp_path / "other"
        runtime, run, seen = await two_turns(folder)
        child = await run.fork(turn=1, workspace=other, patch=fp.Patch(input="another way"))
        (other / "mine.txt").write_text("put here before the fork went on")
        await child.resume()
        await child.wait()
        assert [one.outside for one in await snapshots(child)][-2] == ("mine.txt",)
        await child.workspace.rewind(turn=1, confirm_deletes=True)
        assert files_in(other) == seen[0] | {"mine.txt": "put here before the fork went on"}
        assert files_in(folder) == seen[2]
        with pytest.raises(ForkNoSuchPoint):
            await child.workspace.rewind(turn=3)
        await runtime.close()

    asyncio.run(scene())


def test_what_a_fork_began_with_stays_when_its_parent_gives_up_old_turns(tmp_path: Path) -> None:
    async def scene() -> None:
        folder, other = tmp_path / "work", tmp_path / "other"
        new_folder(folder)
        script = [
            reply
            for turn in range(1, 5)
            for reply in (calls(call("write", id=f"w{turn}", name="a.txt", text=f"{turn}")), f"turn {turn} over")
        ]
        files = RunFolders(None, keep_turns=1)
        runtime = runtime_on(None, fp.Agent("coder", model=played(*script), tools=[write]), files=files)
        run = await runtime.start("coder", "1", workspace=folder, run_id="r")
        await run.wait()
        child = await run.fork(workspace=other)
        for turn in (2, 3, 4):
            await run.send(f"{turn}")
            await run.wait()
        files("r", str(folder)).prune()
        assert await child.workspace.read("a.txt") == b"1"
        with pytest.raises(SnapshotPruned):
            await run.workspace.files(turn=2)
        for at in ({"turn": 2}, {"step": 3}):
            with pytest.raises(SnapshotPruned):
                await run.workspace.rewind(**at)
        await runtime.close()

    asyncio.run(scene())


def test_a_rewind_says_to_which_moment_it_went(tmp_path: Path) -> None:
    async def scene() -> None:
        runtime, run, _ = await two_turns(tmp_path / "work")
        before = [seq for seq, event in await run.workspace.snapshots() if event.why == "before"]
        for again in (run.workspace.rewind(turn=2), run.workspace.undo()):
            await again
        rewound = [one for one in await run.history() if isinstance(one.event, WorkspaceRewound)]
        assert [one.event.to for one in rewound] == [before[0], rewound[0].seq - 1]
        await runtime.close()

    asyncio.run(scene())


def test_an_edit_while_a_call_waits_to_be_tried_again_is_the_persons(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        new_folder(folder)
        clock = FakeClock()

        @fp.tool(name="write", idempotent=True)
        async def shaky(ctx: fp.ToolContext) -> str:
            """Write, but reach it only the second time."""
            if ctx.attempt == 1:
                raise ConnectionError("not yet")
            (folder / "a.txt").write_text("one")
            return "ok"

        agent = fp.Agent("coder", model=played(calls(call("write"))), tools=[shaky])
        runtime = runtime_on(None, agent, clock=clock)
        run = await runtime.start("coder", "go", workspace=folder)
        while [one.why for one in await snapshots(run)] != ["start", "after"]:
            await settle()
        (folder / "kept.txt").write_text("edited in between")
        while (await run.brief()).status != "idle":
            await clock.advance(0.3)
            await settle()
        taken = await snapshots(run)
        assert [(one.why, one.outside) for one in taken[2:]] == [("before", ("kept.txt",)), ("after", ())]
        await runtime.close()

    asyncio.run(scene())


def test_an_edit_while_a_person_decides_is_theirs(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        new_folder(folder)

        @fp.tool(approval=True)
        async def careful() -> str:
            """Write what somebody must allow."""
            (folder / "a.txt").write_text("allowed")
            return "ok"

        both = calls(call("write", id="w", name="b.txt", text="b"), call("careful", id="c"))
        runtime = runtime_on(None, fp.Agent("coder", model=played(both), tools=[write, careful]))
        run = await runtime.start("coder", "go", workspace=folder)
        (wait,) = (await run.wait()).waits
        (folder / "kept.txt").write_text("edited meanwhile")
        await run.approve(wait.effect)
        await run.wait()
        taken = [(one.why, one.outside, one.changed) for one in await snapshots(run)]
        assert taken[1:] == [("after", (), 1), ("before", ("kept.txt",), 1), ("after", (), 1)]
        await runtime.close()

    asyncio.run(scene())


def test_a_read_only_call_does_not_wait_for_a_snapshot(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        new_folder(folder)
        looked, waited = threading.Event(), list[bool]()

        class Slow(RunFolders):
            def __call__(self, run: str, root: str) -> WorkspaceRecorder:
                recorder = super().__call__(run, root)
                take = recorder.snapshot

                def snapshot(**given: object) -> Snapshot:
                    waited.append(looked.wait(10))
                    return take(**given)  # type: ignore[arg-type]

                recorder.snapshot = snapshot  # type: ignore[method-assign, assignment]
                return recorder

        @fp.tool(name="look", read_only=True)
        async def look_at_once() -> str:
            """Look."""
            looked.set()
            return "seen"

        both = calls(call("write", id="w", name="a.txt", text="a"), call("look", id="l"))
        agent = fp.Agent("coder", model=played(both), tools=[write, look_at_once])
        runtime = runtime_on(None, agent, files=Slow(None))
        run = await runtime.start("coder", "go", run_id="r", workspace=folder)
        assert (await run.wait()).output == "done"
        assert waited and all(waited)
        assert [one.why for one in await snapshots(run)] == ["start", "after"]
        await runtime.close()

    asyncio.run(scene())


def test_many_turns_add_only_what_each_of_them_changed(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        new_folder(folder)
        for number in range(200):
            (folder / f"f{number}.txt").write_text(f"{number}\n" * 50)
        turns = 20
        script = [
            reply
            for turn in range(turns)
            for reply in (calls(call("write", id=f"w{turn}", name="f7.txt", text=f"turn {turn}")), "over")
        ]
        files = RunFolders(None, keep_turns=None)
        runtime = runtime_on(None, fp.Agent("coder", model=played(*script), tools=[write]), files=files)
        run = await runtime.start("coder", "0", workspace=folder, run_id="r")
        await run.wait()
        store = files("r", str(folder)).store
        before = len(store.digests())
        for turn in range(1, turns):
            await run.send(f"{turn}")
            await run.wait()
        # A turn adds one file, one folder (the root), and the name of the tree.
        assert len(store.digests()) - before == 3 * (turns - 1)
        await runtime.close()

    asyncio.run(scene())


def test_a_run_is_not_begun_where_nothing_can_be_captured(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        new_folder(folder)
        (tmp_path / "contents").write_text("a file in the place of the folder for contents")
        agent = fp.Agent("coder", model=played("hello"), tools=[write])
        runtime = runtime_on(None, agent, files=tmp_path / "contents")
        with pytest.raises(SnapshotStoreFailed):
            await runtime.start("coder", "go", run_id="r", workspace=folder)
        assert (await runtime.runs()).rows == ()
        await runtime.close()

    asyncio.run(scene())


class Stuck(Disk):
    """A disk on which nothing can be removed."""

    def unlink(self, name: bytes, at: int) -> None:
        """Refuse."""
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_nothing_works_on_files_of_which_a_rewind_was_cut_off(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        new_folder(folder)
        files = RunFolders(tmp_path / "contents")
        script = [calls(call("write", id="w1", name="a.txt", text="one")), "one", *SCRIPT[1:]]
        runtime = runtime_on(None, fp.Agent("coder", model=played(*script), tools=[write]), files=files)
        run = await runtime.start("coder", "go", run_id="r", workspace=folder)
        await run.wait()
        with (
            WorkspaceRecorder(folder, tmp_path / "contents", owner="r", disk=Stuck()) as recorder,
            pytest.raises(RewindCutShort),
        ):
            recorder.rewind(turn=1)
        await run.send("first")
        assert (await run.wait()).status == "running"
        with pytest.raises(RewindUnfinished):
            await run.resume()
        assert files_in(folder) == {"a.txt": "one", "kept.txt": "mine"}
        await run.workspace.abort()
        await run.resume()
        assert (await run.wait()).output == "first turn over"
        await runtime.close()

    asyncio.run(scene())


def test_what_a_call_wrote_after_it_was_given_up_is_put_back_only_by_force(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        new_folder(folder)
        may_end = asyncio.Event()

        @fp.tool(timeout_s=0.01)
        async def stubborn() -> str:
            """Write long after it should have ended."""
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    continue
            (folder / "late.txt").write_text("late")
            return "ok"

        model = played(calls(call("stubborn")), "sorry", *SCRIPT[1:])
        runtime = runtime_on(None, fp.Agent("coder", model=model, tools=[stubborn, write]), grace_s=0.01)
        run = await runtime.start("coder", "go", workspace=folder)
        assert (await run.wait()).status == "waiting"
        may_end.set()
        while (await run.brief()).status == "waiting":
            await settle()
        await run.wait()
        await run.send("first")
        await run.wait()
        before = (await snapshots(run))[2]
        assert (before.why, before.changed) == ("before", 1)
        kept = (await run.workspace.rewind(turn=1, dry_run=True)).kept
        assert [(one.shown, one.reason) for one in kept] == [("late.txt", "changed-since")]
        await runtime.close()

    asyncio.run(scene())


def test_the_snapshots_of_a_run_go_with_it_unless_a_fork_shares_them(tmp_path: Path) -> None:
    async def scene() -> None:
        folder, contents = tmp_path / "work", tmp_path / "contents"
        new_folder(folder)
        runtime = runtime_on(
            None, fp.Agent("coder", model=played(*SCRIPT[1:]), tools=[write, remove, look]), files=contents
        )
        run = await runtime.start("coder", "first", run_id="r", workspace=folder)
        await run.wait()
        child = await run.fork(turn=1, workspace=tmp_path / "other")
        before = files_in(folder)
        await runtime.prune(runs=["r"], confirm=True)
        assert await child.workspace.read("a.txt", turn=1) == b"one"
        await runtime.prune(runs=[child.id], confirm=True)
        store = ContentStore(contents)
        assert store.stored_bytes == 0
        store.close()
        assert files_in(folder) == before
        await runtime.close()

    asyncio.run(scene())


def test_a_journal_that_lies_in_the_workspace_is_neither_snapshot_nor_rewound(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        new_folder(folder)
        agent = fp.Agent("coder", model=played(*SCRIPT), tools=[write, remove, look])
        runtime = fp.connect(folder / "runs.db", agents=[agent])
        run = await runtime.start("coder", "first", run_id="r", workspace=folder)
        await run.wait()
        await run.send("second")
        await run.wait()
        assert [path for path, entry in await run.workspace.files() if isinstance(entry, File)] == [
            b"a.txt",
            b"b/c.txt",
        ]
        assert [event.outside for _, event in await run.workspace.snapshots() if event.outside] == []
        before = len(await run.history())
        done = await run.workspace.rewind(turn=1, force=True, confirm_deletes=True)
        assert [change.shown for change in done.put_back] == ["a.txt", "b", "b/c.txt", "kept.txt"]
        await runtime.close()
        again = fp.connect(folder / "runs.db", agents=[agent])
        assert len(await (await again.open("r")).history()) == before + 1
        await again.close()

    asyncio.run(scene())


def test_a_prune_that_removes_no_run_frees_the_files_of_turns_that_were_given_up(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "work"
        files = RunFolders(None, keep_turns=1)
        new_folder(folder)
        runtime = runtime_on(None, fp.Agent("coder", model=played(*SCRIPT), tools=[write, remove, look]), files=files)
        run = await runtime.start("coder", "first", run_id="r", workspace=folder)
        await run.wait()
        start = (await run.workspace.snapshots())[0][1]
        await run.send("second")
        await run.wait()
        store = files("r", str(folder)).store
        assert start.tree is not None
        first = digest_in(start.tree)
        assert store.has(first)
        await runtime.prune(runs=(), confirm=True)
        assert not store.has(first)
        with pytest.raises(SnapshotPruned):
            await run.workspace.rewind(turn=1)
        assert await run.workspace.read("a.txt") == b"three"
        assert (await run.workspace.rewind(turn=2, confirm_deletes=True)).put_back
        await runtime.close()

    asyncio.run(scene())
