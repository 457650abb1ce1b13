"""The command line as real processes: pipes, interrupts, and what is loaded."""

import os
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "forkpoint", *words]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("FORKPOINT_STORE", "FORCE_COLOR")} | {
        "PYTHONPATH": str(HERE)
    }


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return _ran(_command(*words))


def _ran(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False, timeout=60)


def test_a_pipe_gets_no_colours_and_a_row_for_each_run(tmp_path: Path) -> None:
    app = ["--app", "surfaces_shop:agents"]
    assert _run("start", "shop", "a long title " * 8, "--id", "x" * 100, *app).returncode == 0
    listed = _run("runs")
    assert listed.returncode == 0 and "\x1b" not in listed.stdout
    header, row = listed.stdout.splitlines()
    assert header.split() == ["RUN", "STATUS", "STEPS", "TITLE", "COST", "UPDATED"]
    assert row.startswith("x" * 100), "an id is whole, so that it can be used"
    failed = _run("show", "nobody")
    assert (failed.returncode, failed.stdout) == (2, "") and "\x1b" not in failed.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    _run("start", "shop", "read 200000", "--id", "big", "--app", "surfaces_shop:agents")
    shown = subprocess.Popen(
        _command("show", "big", "--full"), env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert shown.stdout is not None and shown.stderr is not None
    shown.stdout.close()
    with shown.stderr:
        assert shown.stderr.read() == b""
    assert shown.wait(60) == 141


def test_an_interrupt_leaves_a_run_that_can_go_on(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(_SLOW, "utf-8")
    started = subprocess.Popen(
        _command("start", "slow", "go", "--id", "one", "--app", "slow:agent"),
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "in the tool\n"
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert started.returncode == 130 and "forkpoint resume" in err and "Traceback" not in err
    (tmp_path / "slow.py").write_text(_SLOW.replace("await asyncio.Event().wait()", "pass"), "utf-8")
    resumed = _run("resume", "one", "--app", "slow:agent")
    assert resumed.returncode == 0 and "idle" in resumed.stdout


_SLOW = '''
import asyncio
import forkpoint as fp
from forkpoint.testing.fakes import ScriptedModel, call, calls

@fp.tool(read_only=True)
async def wait() -> str:
    """Wait until it is called off."""
    print("in the tool", flush=True)
    await asyncio.Event().wait()
    return ""

def script(request):
    return calls(call("wait")) if len(request.messages) == 1 else "done"

agent = fp.Agent("slow", model=ScriptedModel(script), tools=[wait])
'''


def test_looking_loads_neither_agents_nor_what_they_are_made_with(tmp_path: Path) -> None:
    """Starting up quickly is a matter of what is imported; that is looked at, not the time."""
    _run("start", "shop", "collect 17", "--id", "inv", "--app", "surfaces_shop:agents")
    for words in (["runs"], ["show", "inv"], ["waits"], ["tree"], ["show", "inv", "--events"]):
        script = (
            "import sys\n"
            "from forkpoint.cli.main import main\n"
            f"status = main({words!r})\n"
            "print([name for name in sys.modules if name.startswith(('forkpoint.agents', 'surfaces_shop'))])\n"
            "sys.exit(status)\n"
        )
        ended = _ran([sys.executable, "-c", script])
        assert (ended.returncode, ended.stdout.splitlines()[-1]) == (0, "[]"), words


def test_a_list_of_runs_loads_nothing_that_folds_or_performs(tmp_path: Path) -> None:
    _run("start", "shop", "hello", "--app", "surfaces_shop:agents")
    script = (
        "import sys\n"
        "from forkpoint.cli.main import main\n"
        "main(['runs'])\n"
        "print([name for name in ('folding', 'runtime.run', 'wiring') if f'forkpoint.{name}' in sys.modules])\n"
    )
    ended = _ran([sys.executable, "-c", script])
    assert ended.stdout.splitlines()[-1] == "[]"


def test_a_watching_recovery_acts_on_a_decision_and_ends_in_order(tmp_path: Path) -> None:
    app = ["--app", "surfaces_shop:agents"]
    _run("start", "shop", "mail them", "--id", "letters", *app)
    watching = subprocess.Popen(
        _command("recover", "--watch", *app),
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert _run("approve", "letters", "m1").returncode == 0
    assert _run("deny", "letters", "m2").returncode == 0
    assert watching.stdout is not None
    assert watching.stdout.readline() == "letters  taken up\n"
    assert _run("watch", "letters", "--after", "0", "--no-follow").returncode == 0
    watching.send_signal(signal.SIGTERM)
    _, err = watching.communicate(timeout=60)
    assert watching.returncode == 143 and "Traceback" not in err
    assert "idle" in _run("runs").stdout
