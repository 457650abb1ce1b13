"""Commands: what comes of them, what they see, and that nothing of them is left running."""

import os
import select
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forkpoint as fp
from forkpoint.errors.agents import ToolBadDefinition
from forkpoint.errors.tools import CommandNotStarted
from forkpoint.workspace.tooling import commands, strays
from forkpoint.workspace.tooling.keeping import Kept
from forkpoint.workspace.tools import file_tools

Use = Callable[..., Any]


def is_running(pid: int) -> bool:
    """Whether a process does not end, although it was killed: what dies takes a moment to."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        return not select.select([handle], [], [], 5.0)[0]
    finally:
        os.close(handle)


def pids(root: Path) -> list[int]:
    return [int(word) for word in (root / "pids").read_text().split()]


TREE = """
trap '' TERM
sh -c 'trap "" TERM; echo $$ >> pids; while :; do sleep 1; done' &
(setsid sh -c 'trap "" TERM; echo $$ >> pids; while :; do sleep 1; done' &)
echo $$ >> pids
until [ "$(wc -l < pids)" = 3 ]; do sleep 0.01; done
echo ready
"""


def test_a_command_tells_its_status_and_output(use: Use, root: Path) -> None:
    ran = use("shell", "echo out; echo err >&2; exit 3")
    assert (ran.exit_status, ran.output, ran.cut_bytes, ran.ended) == (3, "out\nerr\n", 0, "by itself")
    assert use("shell", "kill -9 $$").exit_status == -9
    assert use("shell", "cat; printf '\\377\\n'; pwd").output == f"\\xff\n{root}\n"


def test_output_comes_as_progress_while_the_command_runs(use: Use, root: Path) -> None:
    """The command waits for a file that only a watcher of its progress makes."""
    heard: list[str] = []

    def report(text: str) -> None:
        heard.append(text)
        if "waiting é" in "".join(heard):
            (root / "go").touch()

    ran = use(
        "shell", "echo waiting é; until [ -e go ]; do sleep 0.01; done; echo gone", ctx=fp.ToolContext(report=report)
    )
    assert ran.ended == "by itself" and ran.output == "waiting é\ngone\n"
    assert "".join(heard) == ran.output


def test_of_a_long_output_head_and_tail_are_kept_with_the_count_of_the_rest(use: Use) -> None:
    ran = use("shell", "seq 1 20000", options={"max_output_bytes": 40})
    whole = "".join(f"{n}\n" for n in range(1, 20001))
    head, _, rest = ran.output.partition("\n[… ")
    count, _, tail = rest.partition(" bytes cut …]\n")
    assert whole.startswith(head) and whole.endswith(tail)
    assert len(head) + len(tail) + int(count) == len(whole)
    assert ran.cut_bytes == int(count)


@pytest.mark.parametrize("size", range(1, 9))
def test_a_cut_never_splits_a_character(size: int) -> None:
    kept = Kept(limit=size * 2, tell=lambda text: None)
    data = "a" + "é€😀" * 20
    for byte in data.encode():
        kept.add(bytes([byte]))
    text, cut = kept.text()
    head, tail = text.split(f"\n[… {cut} bytes cut …]\n")
    assert data.startswith(head) and data.endswith(tail)
    assert len((head + tail).encode()) + cut == len(data.encode())


def test_a_command_that_outlives_its_limit_is_ended_with_all_it_began(use: Use, root: Path) -> None:
    ran = use("shell", TREE + "while :; do sleep 1; done", options={"timeout_s": 0.5})
    assert (ran.ended, ran.exit_status) == ("timeout", -signal.SIGKILL)
    assert ran.output == "ready\n"
    assert len(pids(root)) == 3 and not [pid for pid in pids(root) if is_running(pid)]


def test_a_cancelled_command_is_ended_with_all_it_began(use: Use, root: Path) -> None:
    ready = threading.Event()
    ctx = fp.ToolContext(report=lambda text: ready.set(), is_cancelled=ready.is_set)
    ran = use("shell", TREE + "while :; do sleep 1; done", ctx=ctx)
    assert ran.ended == "cancelled" and ran.output == "ready\n"
    assert len(pids(root)) == 3 and not [pid for pid in pids(root) if is_running(pid)]


def test_what_a_command_leaves_running_ends_with_it(use: Use, root: Path) -> None:
    ran = use("shell", TREE)
    assert (ran.ended, ran.exit_status) == ("by itself", 0)
    assert len(pids(root)) == 3 and not [pid for pid in pids(root) if is_running(pid)]


def test_the_whole_process_group_ends_also_where_no_list_of_processes_is_to_be_had(
    use: Use, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strays, "_PROCESSES", root / "none")
    ran = use("shell", TREE.replace("(setsid sh", "(sh") + "while :; do sleep 1; done", options={"timeout_s": 0.5})
    assert (ran.ended, ran.exit_status) == ("timeout", -signal.SIGKILL)
    assert len(pids(root)) == 3 and not [pid for pid in pids(root) if is_running(pid)]


def test_a_command_may_clean_up_before_it_is_killed(use: Use, root: Path) -> None:
    command = "trap 'echo cleaned; exit 7' TERM; echo on; while :; do sleep 0.01; done"
    ran = use("shell", command, timeout_s=0.2)
    assert (ran.ended, ran.exit_status) == ("timeout", 7)
    assert ran.output.endswith("cleaned\n")


def test_a_program_that_fails_to_watch_does_not_leave_the_command_running(use: Use, root: Path) -> None:
    def report(text: str) -> None:
        raise RuntimeError("watcher")

    with pytest.raises(RuntimeError, match="watcher"):
        use(
            "shell",
            "trap '' TERM; echo $$ > pids; while :; do echo on; sleep 0.01; done",
            ctx=fp.ToolContext(report=report),
        )
    assert not is_running(*pids(root))


def test_secrets_of_the_host_are_not_in_a_commands_environment(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD_X", "BASH_ENV", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "SECRET")
    monkeypatch.setenv("LC_TIME", "C")
    ran = use("shell", "env", options={"env": {"GIVEN": "yes", "TZ": "UTC"}})
    assert "SECRET" not in ran.output
    seen = dict(line.split("=", 1) for line in ran.output.splitlines())
    assert (seen["GIVEN"], seen["TZ"], seen["LC_TIME"], seen["PATH"]) == ("yes", "UTC", "C", os.environ["PATH"])
    own = {"GIVEN", "TERM", "PWD", "SHLVL", "_", "OLDPWD", commands.MARK}
    assert not [n for n in seen if n not in commands.PASSED_ON and not n.startswith("LC_") and n not in own]


def test_a_command_that_cannot_be_started_says_why(use: Use) -> None:
    with pytest.raises(CommandNotStarted, match="null byte"):
        use("shell", "echo \0")
    with pytest.raises(CommandNotStarted, match="too long"):
        use("shell", "x" * 3_000_000)


def test_a_command_asks_a_person_by_default(root: Path) -> None:
    def shell(**options: Any) -> fp.Tool[..., Any] | None:
        return next((tool for tool in file_tools(root, **options) if tool.name == "shell"), None)

    asked = shell()
    assert asked is not None and asked.approval is True and asked.recovery is fp.Recovery.HOLD
    free = shell(approve_shell=lambda arguments: "rm" in arguments["command"])
    assert free is not None and callable(free.approval)
    assert shell(shell=False) is None
    with pytest.raises(ToolBadDefinition):
        shell(timeout_s=0)


def test_a_toolset_is_recorded_the_same_whatever_its_folder_and_limits(root: Path, tmp_path: Path) -> None:
    """So that a run goes on under it in another folder or on another machine."""
    (tmp_path / "other").mkdir()
    one, other = file_tools(root), file_tools(tmp_path / "other", timeout_s=3, max_read_bytes=7, search_s=1)
    assert [tool.record() for tool in one] == [tool.record() for tool in other]
