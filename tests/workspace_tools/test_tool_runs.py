"""The file tools in a run: what the model is shown of a refusal, of a question, of an interruption, of a crash."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.stage import call, calls, live, played, results

import forkpoint as fp
from forkpoint.errors.tools import PathNotFound
from forkpoint.runtime.progress import Progress
from forkpoint.workspace.tools import file_tools


@pytest.fixture
def played_in(root: Path) -> Callable[..., Any]:
    """A connected runtime whose agent has the tools of ``root`` and says ``messages``."""

    def made(*messages: Any, **options: Any) -> fp.Runtime:
        agent = fp.Agent("coder", model=played(*messages), tools=file_tools(root, **options))
        return fp.connect("memory:", agents=[agent])

    return made


def test_a_rejected_path_is_a_structured_error_of_the_call_and_the_run_goes_on(
    played_in: Callable[..., Any], root: Path, outside: Path
) -> None:
    (root / "a.txt").write_text("one\n")
    (root / "out").symlink_to(outside)

    @live
    async def act() -> None:
        bad = calls(
            call("read_file", "c1", path="../outside/secret.txt"),
            call("write_file", "c2", path="out/harm.txt", content="HARM"),
            call("edit_file", "c3", path="a.txt", old_text="two", new_text="three"),
            call("read_file", "c4", path="a.txt"),
        )
        async with played_in(bad, calls(call("write_file", path="b.txt", content="x"))) as runtime:
            run = await runtime.start("coder", "go")
            state = await run.wait()
        assert (state.status, state.output, state.step) == ("idle", "done", 3)
        read, write, edit, good, written = results(state)
        assert read["error"] == write["error"] == "PathEscapes" and edit["error"] == "EditNotFound"
        assert read["message"] == ("The path '../outside/secret.txt' climbs with '..'; nothing was read or written")
        assert "leads out of the folder" in write["message"]
        assert good == "     1\tone"
        assert written == {"path": "b.txt", "bytes": 1}

    act()
    assert sorted(os.listdir(outside)) == ["secret.txt"]  # noqa: PTH208


def test_a_command_waits_for_a_person_and_is_run_once_it_is_allowed(played_in: Callable[..., Any], root: Path) -> None:
    @live
    async def act() -> None:
        async with played_in(calls(call("shell", command="echo ran >> log; cat log"))) as runtime:
            run = await runtime.start("coder", "go")
            (wait,) = (await run.wait()).waits
            assert wait.kind == "approval" and not (root / "log").exists()
            await run.approve(wait.effect)
            state = await run.wait()
        assert results(state) == [{"exit_status": 0, "output": "ran\n", "cut_bytes": 0, "ended": "by itself"}]

    act()
    assert (root / "log").read_text() == "ran\n"


def test_an_interrupted_command_is_stopped_and_its_true_outcome_is_on_record(
    played_in: Callable[..., Any], root: Path
) -> None:
    @live
    async def act() -> None:
        command = "echo begun > log; echo begun; sleep 1000"
        async with played_in(calls(call("shell", command=command)), approve_shell=False) as runtime:
            run = await runtime.start("coder", "go")
            async for heard in run.watch(after=0):
                if isinstance(heard, Progress) and heard.tool == "shell":
                    assert heard.text == "begun\n"
                    break
            await run.interrupt("enough")
            state = await run.wait()
        assert (state.status, state.waits) == ("idle", ())
        (ran,) = results(state)
        assert (ran["ended"], ran["output"]) == ("cancelled", "begun\n")

    act()
    assert (root / "log").read_text() == "begun\n"


def test_parallel_edits_of_one_file_in_one_step_are_all_made(played_in: Callable[..., Any], root: Path) -> None:
    (root / "a").write_text("<1><2><3><4>")

    @live
    async def act() -> None:
        edits = [call("edit_file", f"c{n}", path="a", old_text=f"<{n}>", new_text=f"[{n}]") for n in range(1, 5)]
        async with played_in(calls(*edits)) as runtime:
            run = await runtime.start("coder", "go")
            state = await run.wait()
        assert [result["replaced"] for result in results(state)] == [1] * 4

    act()
    assert (root / "a").read_text() == "[1][2][3][4]"


def test_what_a_restart_may_do_is_said_by_each_tool(root: Path) -> None:
    tools = {tool.name: tool for tool in file_tools(root)}
    repeat = {name for name, tool in tools.items() if tool.recovery is fp.Recovery.REPEAT}
    assert repeat == {"read_file", "list_dir", "glob", "grep"}
    assert tools["write_file"].recovery is fp.Recovery.RETRY
    assert tools["edit_file"].recovery is fp.Recovery.RECONCILE
    assert tools["shell"].recovery is fp.Recovery.HOLD


def test_a_lost_edit_is_found_in_the_file_or_not(root: Path) -> None:
    (edit,) = (tool for tool in file_tools(root) if tool.name == "edit_file")
    asked = {"path": "a", "old_text": "old", "new_text": "new"}

    def found(data: str, **more: Any) -> Any:
        (root / "a").write_text(data)
        return asyncio.run(edit.find(fp.ToolContext(), asked | more))

    assert found("the old one") == fp.NotOccurred()
    edited = found("the new one")
    assert isinstance(edited, fp.Occurred)
    (root / "a").write_text("the old one")
    assert edited.output == edit(fp.ToolContext(), **asked)
    assert isinstance(found("neither"), fp.StillUnknown)
    assert isinstance(found("old", new_text="older"), fp.NotOccurred)
    assert isinstance(found("older", new_text="older"), fp.StillUnknown)
    assert found("new new", replace_all=True).output.replaced is None
    (root / "a").unlink()
    with pytest.raises(PathNotFound):
        asyncio.run(edit.find(fp.ToolContext(), asked))


def test_without_a_root_each_run_works_in_its_own_workspace_and_a_fork_in_its_own(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    write = calls(call("write_file", "c1", path="a.txt", content="first"))
    shell = calls(call("shell", "c2", command="cat a.txt && echo more >> a.txt"), call("read_file", "c3", path="a.txt"))

    @live
    async def act() -> None:
        agent = fp.Agent("coder", model=played(write, "wrote", shell), tools=file_tools(approve_shell=False))
        async with fp.connect("memory:", agents=[agent]) as runtime:
            runs = [await runtime.start("coder", "go", workspace=folder) for folder in folders]
            for run in runs:
                await run.wait()
            child = await runs[0].fork(workspace=tmp_path / "child", patch=fp.Patch(input="go on"))
            await child.resume()
            assert results(await child.wait())[1]["output"] == "first"
            bare = await runtime.start("coder", "go")
            (refused,) = results(await bare.wait())
            assert refused["error"] == "WorkspaceNone"

    act()
    assert [(folder / "a.txt").read_text() for folder in folders] == ["first", "first"]
    assert (tmp_path / "child" / "a.txt").read_text() == "firstmore\n"
