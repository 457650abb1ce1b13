"""Two processes on one run: one performs it, the other is told so, and what it asks for is done all the same."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forkpoint.runtime.run import Run
from forkpoint.runtime.runtime import Runtime

from .child import Stop
from .clerk import ALL, RECOVERY, RUN, Errand
from .killing import Scene
from .processes import Nursery, Process
from .verdicts import check_effects, told

AN_HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


def with_run(scene: Scene, ask: Callable[[Run, Runtime], Awaitable[Any]]) -> Any:
    """What ``ask`` gives, asked in the test's own process, which performs nothing."""

    async def asked() -> Any:
        async with scene.onlooker() as runtime:
            return await ask(await runtime.open(RUN), runtime)

    return asyncio.run(asked())


def prepared(scene: Scene) -> None:
    """The run is there, and nobody has performed anything of it."""

    async def start() -> None:
        async with scene.onlooker() as runtime:
            await runtime.start("clerk", "go", run_id=RUN, perform=False)

    asyncio.run(start())


def resuming(scene: Scene, **more: Any) -> Process:
    """A process that waits for the word to resume."""
    process = scene.process("resume", **more)
    assert process.hear() == {"ready": True}
    return process


def owner_of(scene: Scene) -> tuple[str | None, bool | None]:
    async def look(run: Run, _: Runtime) -> tuple[str | None, bool | None]:
        row = await run.row()
        return row.owner, row.owner_alive

    return with_run(scene, look)  # type: ignore[no-any-return]


def test_of_two_that_resume_at_once_one_performs_and_the_other_hears_who(nursery: Nursery, tmp_path: Path) -> None:
    """The one that performs stands still meanwhile, so that the other cannot have waited for it."""
    scene = Scene(nursery, tmp_path, Errand(tools=("mail", "charge")))
    prepared(scene)
    stop = Stop(at="during", of="mail")
    both = [resuming(scene, stop=stop), resuming(scene, stop=stop)]
    for process in both:
        process.go_on()
    heard = [process.hear() for process in both]
    performs = heard.index({"at": "during", "of": "mail"})
    owner, alive = owner_of(scene)
    assert heard[1 - performs] == {"busy": owner}
    assert alive is True
    for process in both:
        process.go_on()
    said = both[performs].hear()
    assert said is not None and (said["status"], said["output"]) == ("idle", "done")
    assert [process.end() for process in both] == [0, 0]
    assert sorted(name for what, name, _ in scene.witness.entries if what == "did") == ["charge", "mail"]
    scene.finish("occurred")


def test_an_approval_from_another_process_is_acted_upon(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, tmp_path, Errand(tools=("charge", "mail"), gated=True, hangs="charge"))
    first = scene.process("resume")
    first.kill()
    prepared(scene)
    asking = resuming(scene)
    asking.go_on()
    said = asking.hear()
    assert said is not None and said["status"] == "waiting"

    async def approve(run: Run, name: str) -> None:
        (wait,) = [wait for wait in await run.waits() if wait.name == name]
        await run.approve(wait.effect, digest=wait.digest)

    with_run(scene, lambda run, _: approve(run, "charge"))
    performing = resuming(scene, stop=Stop(at="during", of="mail"))
    performing.go_on()
    assert performing.hear() == {"at": "hanging", "of": "charge"}
    with_run(scene, lambda run, _: approve(run, "mail"))
    assert performing.hear() == {"at": "during", "of": "mail"}
    performing.go_on()
    performing.go_on()
    said = performing.hear()
    assert said is not None and said["status"] == "idle"
    performing.end()
    scene.finish("occurred")


def hanging(scene: Scene, name: str) -> Process:
    """A process that performs the run, up to where ``name`` hangs."""
    prepared(scene)
    process = resuming(scene)
    process.go_on()
    assert process.hear() == {"at": "hanging", "of": name}
    return process


def test_an_input_from_another_process_is_the_next_turn(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, tmp_path, Errand(tools=("look",), hangs="look", more=True))
    process = hanging(scene, "look")
    with_run(scene, lambda run, _: run.send("one thing more", key="more"))
    process.go_on()
    said = process.hear()
    assert said is not None and said["status"] == "idle"
    assert with_run(scene, lambda run, _: run.brief()).turn == 2
    scene.finish("occurred")


def test_a_decision_from_another_process_is_acted_upon(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, tmp_path, Errand(tools=("look", "mail"), hangs="look", faulty=True))
    process = hanging(scene, "look")

    async def resolve(run: Run, _: Runtime) -> None:
        async for _recorded in run.watch(after=0):
            if waits := await run.waits():
                break
        assert [(wait.kind, wait.name) for wait in waits] == [("unknown", "mail")]
        await run.resolve(waits[0].effect, "not_occurred", actor="ann")

    with_run(scene, resolve)
    process.go_on()
    said = process.hear()
    assert said is not None and (said["status"], said["output"]) == ("idle", "done")
    process.end()
    scene.finish("occurred")


@pytest.mark.parametrize(("name", "status"), [("look", "idle"), ("mail", "waiting"), ("charge", "waiting")])
def test_an_interrupt_from_another_process_reaches_the_call(
    nursery: Nursery, tmp_path: Path, name: str, status: str
) -> None:
    """What may have taken effect waits for a person; what only reads is called off."""
    scene = Scene(nursery, tmp_path, Errand(tools=(name,), hangs=name))
    process = hanging(scene, name)
    with_run(scene, lambda run, _: run.interrupt("enough"))
    said = process.hear()
    assert said is not None and said["status"] == status
    assert process.end() == 0
    assert scene.witness.keys() == set()


def test_a_stop_from_another_process_ends_the_run(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, tmp_path, Errand(tools=("look",), hangs="look"))
    process = hanging(scene, "look")
    with_run(scene, lambda run, _: run.stop("for good"))
    said = process.hear()
    assert said is not None and said["status"] == "stopped"
    assert process.end() == 0


def test_a_killed_performers_run_is_taken_over_at_once(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, tmp_path, Errand(tools=ALL))
    process = scene.process(stop=Stop(at="done", of="mail"), lease_s=AN_HOUR_MS)
    assert process.hear() == {"at": "done", "of": "mail"}
    assert owner_of(scene)[1] is True
    assert process.kill()
    assert owner_of(scene)[1] is False
    scene.finish("occurred")


def put_to_sleep(scene: Scene, ahead: Path, stop: Stop) -> Process:
    """A performer that is stopped where told, an hour before its clock goes on; by then its lease has run out."""
    ahead.write_text("0")
    sleeper = scene.process("attend", stop=stop, ahead=str(ahead))
    assert sleeper.hear() == {"at": stop.at, "of": stop.of}
    sleeper.signal(signal.SIGSTOP)
    ahead.write_text(str(AN_HOUR_MS))
    return sleeper


def woken(sleeper: Process) -> dict[str, Any] | None:
    sleeper.signal(signal.SIGCONT)
    sleeper.go_on()
    said = sleeper.hear()
    sleeper.end()
    return said


@pytest.mark.parametrize("name", ALL)
def test_a_performer_that_slept_past_its_lease_performs_nothing_when_it_wakes(
    nursery: Nursery, tmp_path: Path, name: str
) -> None:
    scene = Scene(nursery, tmp_path, Errand(tools=(name,)))
    sleeper = put_to_sleep(scene, tmp_path / "ahead", Stop(at="dispatched", of=name))
    scene.ahead = str(tmp_path / "ahead")
    heir = scene.process("attend", verdict="not_occurred", ahead=scene.ahead)
    said = heir.hear()
    assert said is not None and said["status"] == "idle", said
    said = woken(sleeper)
    assert said is not None and said.get("code") == "lease.lost"
    assert sum(1 for what, _, _ in scene.witness.entries if what == "tried") == (0 if name == "mail" else 1)
    scene.finish("occurred")


@pytest.mark.parametrize("name", ALL)
def test_what_was_in_flight_when_a_performer_fell_asleep_happens_as_its_class_allows(
    nursery: Nursery, tmp_path: Path, name: str
) -> None:
    """The tool was running already: nothing can call it back. A call that must not happen twice is not repeated; one
    that is repeated has the same key. A probe that says "not done" of a call that is asleep is wrong about it, which
    is why it may only say so of what will not be done later."""
    scene = Scene(nursery, tmp_path, Errand(tools=(name,)))
    sleeper = put_to_sleep(scene, tmp_path / "ahead", Stop(at="during", of=name))
    scene.ahead = str(tmp_path / "ahead")
    heir = scene.process("attend", verdict="abandoned_unknown", ahead=scene.ahead)
    said = heir.hear()
    assert said is not None and said["status"] == "idle", said
    said = woken(sleeper)
    assert said is not None and said.get("code") == "lease.lost"
    (key,) = scene.witness.keys()
    assert scene.witness.times("did", key) == (1 if name == "mail" else 2)


def waits_after_takeover(scene: Scene, sleeper: Process, verdict: str | None) -> list[tuple[str, str]]:
    """What the run waits for once another process took it over, ``verdict`` was given, and the sleeper woke."""
    heir = scene.process("recover", ahead=scene.ahead)
    assert heir.hear() == {"recovered": [RUN], "failed": {}}

    async def decided(run: Run, _: Runtime) -> None:
        (wait,) = await run.waits()
        assert (wait.kind, wait.name) == ("unknown", "mail")
        if verdict is not None:
            await run.resolve(wait.effect, verdict, actor="ann")  # type: ignore[arg-type]

    with_run(scene, decided)
    said = woken(sleeper)
    assert said is not None and said.get("code") == "lease.lost"
    return [(wait.kind, wait.name) for wait in with_run(scene, lambda run, _: run.waits())]


def test_a_late_result_after_a_takeover_settles_the_doubt(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, tmp_path, Errand(tools=("mail",)))
    sleeper = put_to_sleep(scene, tmp_path / "ahead", Stop(at="done", of="mail"))
    scene.ahead = str(tmp_path / "ahead")
    assert waits_after_takeover(scene, sleeper, None) == []
    (mail,) = [one for one in told(with_run(scene, lambda run, _: run.history())).values() if one.resolved]
    assert (mail.resolved[0].finding, mail.resolved[0].source) == ("occurred", "late")
    scene.finish("not_occurred")


def test_a_late_result_after_a_decision_is_told_against_it(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, tmp_path, Errand(tools=("mail",)))
    sleeper = put_to_sleep(scene, tmp_path / "ahead", Stop(at="done", of="mail"))
    scene.ahead = str(tmp_path / "ahead")
    assert waits_after_takeover(scene, sleeper, "not_occurred") == [("contradiction", "mail")]
    check_effects(with_run(scene, lambda run, _: run.history()), scene.witness)
    assert len(scene.witness.keys()) == 1
    assert RECOVERY["mail"] == "hold"
