"""The blocking twin is generated, says what the async classes say, and works from any OS thread."""

import inspect
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tools.generate_blocking import TWINS, generated

import forkpoint as fp
from forkpoint import blocking
from forkpoint.errors import RunBusy, RunNotFound, RuntimeBlocksItself, RuntimeClosed
from forkpoint.runtime.files import RunFiles
from forkpoint.runtime.progress import Progress
from forkpoint.testing.fakes import ScriptedModel, call, calls

PAIRS = [(fp.Run, blocking.Run), (fp.Runtime, blocking.Runtime), (RunFiles, blocking.RunFiles)]


@fp.tool(read_only=True)
def look(number: int) -> int:
    """Look."""
    return number * 2


def agent(*tools: fp.Tool[..., object], name: str = "a") -> fp.Agent:
    """An agent that calls its first tool once an input."""
    used = tools or (look,)

    def script(request: object) -> object:
        last = request.messages[len(request.messages) - 1]  # type: ignore[attr-defined]
        arguments = {"number": 4} if used[0] is look else {}
        return calls(call(used[0].name, **arguments)) if last.role == "user" else "done"

    return fp.Agent(name, model=ScriptedModel(script), tools=used)  # type: ignore[arg-type]


def public(kind: type) -> dict[str, object]:
    return {name: one for name, one in vars(kind).items() if not name.startswith("_") and callable(one)}


def test_generating_gives_what_is_there() -> None:
    for path, text in generated().items():
        assert path.read_text("utf-8") == text, f"{path.name} is stale: python tools/generate_blocking.py"


@pytest.mark.parametrize(("there", "here"), PAIRS, ids=lambda kind: kind.__module__)
def test_every_method_has_its_twin_with_the_same_signature_and_words(there: type, here: type) -> None:
    left_out = next(twin.left_out for twin in TWINS if twin.name == there.__name__)
    assert set(public(here)) == set(public(there)) - left_out
    for name, twin in public(here).items():
        theirs, ours = inspect.signature(getattr(there, name)), inspect.signature(twin)  # type: ignore[arg-type]
        assert list(ours.parameters) == list(theirs.parameters), name
        for one, other in zip(ours.parameters.values(), theirs.parameters.values(), strict=True):
            assert (one.kind, one.default) == (other.kind, other.default), name
        assert inspect.getdoc(twin) == inspect.getdoc(getattr(there, name)), name
        assert not inspect.iscoroutinefunction(twin)


def test_connecting_takes_the_same_arguments() -> None:
    assert list(inspect.signature(blocking.connect).parameters) == list(inspect.signature(fp.connect).parameters)


def test_a_run_is_started_read_sent_to_forked_and_compared_without_await(tmp_path: Path) -> None:
    with blocking.connect(tmp_path / "runs.db", agents=[agent()]) as runtime:
        run = runtime.start("a", "go", run_id="r")
        assert run.wait().output == "done"
        assert repr(run) == "Run('r')"
        run.send("again")
        assert run.wait().turn == 2
        child = run.fork(step=1, patch=fp.Patch(tool_results={"call_look": 9}), run_id="child")
        child.resume()
        assert child.wait().output == "done"
        assert runtime.compare(run, child).shared.by == "lineage"
        assert [one.run for one in runtime.all_runs()] == ["child", "r"]
        assert [point.run for point in child.lineage()] == ["r"]
        assert runtime.open("r").history()[0].seq == 1
        assert runtime.verify(fold=True).sound
        assert [one.run for one in runtime.prune(runs=["child"], confirm=True).removed] == ["child"]
        with pytest.raises(RunNotFound):
            runtime.open("child")


def test_a_watcher_gets_events_and_notices_as_an_iterator() -> None:
    with blocking.connect("memory:", agents=[agent()]) as runtime:
        run = runtime.start("a", "go", perform=False)
        watching = run.watch(after=0, follow=False)
        first = next(watching)
        assert isinstance(first, fp.RecordedEvent)
        assert first.seq == 1
        run.resume()
        seqs = [one.seq for one in watching if not isinstance(one, Progress)]
        assert seqs == list(range(2, run.wait().seq + 1))


def test_an_iterator_that_is_left_lets_go() -> None:
    with blocking.connect("memory:", agents=[agent()]) as runtime:
        run = runtime.start("a", "go")
        watching = run.watch(after=0)
        next(watching)
        watching.close()  # type: ignore[attr-defined]
        dropped = run.watch(after=0)
        next(dropped)
        del dropped
        assert run.wait().output == "done"


def test_many_os_threads_use_one_runtime() -> None:
    with blocking.connect("memory:", agents=[agent()]) as runtime:

        def one(number: int) -> str:
            run = runtime.start("a", f"go {number}", run_id=f"r{number}")
            return run.wait().output

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(one, range(24))) == ["done"] * 24
        assert len(list(runtime.all_runs())) == 24


def test_a_closed_runtime_is_told_and_closing_twice_is_closing_once() -> None:
    runtime = blocking.connect("memory:", agents=[agent()])
    run = runtime.start("a", "go")
    watching = run.watch(after=0)
    next(watching)
    run.wait()
    runtime.close()
    runtime.close()
    for asked in (run.state, runtime.waits, lambda: runtime.open("r"), lambda: next(run.watch())):
        with pytest.raises(RuntimeClosed):
            asked()
    watching.close()  # type: ignore[attr-defined]


def test_closing_ends_what_other_os_threads_wait_for() -> None:
    runtime = blocking.connect("memory:", agents=[agent()])
    told = threading.Event()
    caught: list[BaseException] = []

    def watch() -> None:
        try:
            for _ in runtime.start("a", "go").watch(after=0):
                told.set()
        except BaseException as error:
            caught.append(error)

    waiting = threading.Thread(target=watch)
    waiting.start()
    assert told.wait(30)
    runtime.close()
    waiting.join(30)
    assert [type(error) for error in caught] == [RuntimeClosed]


def test_what_cannot_be_opened_leaves_no_os_thread_behind(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_text("this is something else, and long enough to have a header of its own" * 9)
    before = threading.active_count()
    with pytest.raises(fp.ForkpointError):
        blocking.connect(tmp_path / "runs.db")
    assert threading.active_count() == before


def test_a_tool_that_would_wait_for_itself_is_told() -> None:
    there: list[Callable[[], object]] = []

    @fp.tool
    async def inside() -> str:
        """Inside."""
        try:
            there[0]()
        except RuntimeBlocksItself as error:
            return error.code
        return "it waited"

    with blocking.connect("memory:", agents=[agent(inside)]) as runtime:
        there.append(runtime.waits)
        run = runtime.start("a", "go")
        state = run.wait()
    answers = [part.response for message in state.messages if message.role == "tool" for part in message.parts]  # type: ignore[union-attr]
    assert answers == ["runtime.blocks-itself"]


INTERRUPTED = """
import sys
import forkpoint as fp
from forkpoint import blocking
from forkpoint.testing.fakes import ScriptedModel, call, calls

@fp.tool
async def slow() -> str:
    import asyncio
    print("entered", flush=True)
    await asyncio.sleep(600)
    return "never"

agent = fp.Agent("a", model=ScriptedModel([calls(call("slow")), "done"]), tools=[slow])
try:
    with blocking.connect(sys.argv[1], agents=[agent]) as runtime:
        runtime.start("a", "go", run_id="r").wait()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_an_interrupt_closes_cleanly_and_leaves_the_run_to_be_recovered(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "entered\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (out, err, child.returncode) == ("interrupted\n", "", 0)
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(("-wal", "-shm"))] == []

    @fp.tool
    async def slow() -> str:
        """Slow."""
        return "done"

    with blocking.connect(store, agents=[agent(slow)]) as runtime:
        run = runtime.open("r")
        try:
            run.resume(accept_changes=True)
        except RunBusy:
            pytest.fail("the interrupted process kept its lease")
        assert [wait.kind for wait in run.wait().waits] == ["unknown"]
