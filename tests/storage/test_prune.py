"""Runs are removed on command only, whole, and never what a fork still shares."""

import asyncio
from pathlib import Path

import pytest
from storage_runs import DAY_S, agent, ask, change, file_hashes, forked, lived, on_store, verified

import forkpoint as fp
from forkpoint.errors import BadRunId, PruneNoChoice, PruneNotConfirmed, RunBusy, RunNotFound
from forkpoint.runtime.keeping import Pruned
from forkpoint.testing.fakes import FakeClock, ScriptedModel, call, calls

NOW_MS = FakeClock().now_ms()


def later(days: int) -> FakeClock:
    return FakeClock(NOW_MS + days * DAY_S * 1000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "runs.db"


def listed(path: Path) -> list[str]:
    async def work(runtime: fp.Runtime) -> list[str]:
        return [row.run async for row in runtime.all_runs()]

    return on_store(path, work)


def pruned(path: Path, *, clock: FakeClock | None = None, **choice: object) -> Pruned:
    return on_store(path, lambda runtime: runtime.prune(**choice), clock=clock or FakeClock())  # type: ignore[arg-type]


def test_runs_of_400_days_ago_survive_opening_listing_and_resuming(path: Path) -> None:
    lived(path, "old")

    async def work(runtime: fp.Runtime) -> tuple[list[str], str]:
        run = await runtime.open("old")
        await run.send("Again")
        await run.resume()
        await runtime.recover()
        return [row.run async for row in runtime.all_runs()], (await run.wait()).output

    for _ in range(2):
        assert on_store(path, work, clock=later(400)) == (["old"], "done")
    assert verified(path, fold=True).sound


def test_a_dry_run_lists_what_the_real_one_removes_and_changes_nothing(path: Path) -> None:
    lived(path, "old", "older")
    lived(path, "new", clock=later(380))
    before = file_hashes(path.parent)
    dry = pruned(path, older_than_s=30 * DAY_S, dry_run=True, clock=later(400))
    assert file_hashes(path.parent) == before
    real = pruned(path, older_than_s=30 * DAY_S, confirm=True, clock=later(400))
    assert dry.removed == real.removed
    assert {one.run for one in real.removed} == {"old", "older"}
    assert all(one.bytes > 500 and one.events > 10 and one.blob_bytes > 5000 for one in real.removed)
    assert (dry.dry_run, dry.freed_bytes) == (True, 0)
    assert listed(path) == ["new"]
    assert verified(path, fold=True).sound


def test_pruning_needs_a_choice_and_a_yes(path: Path) -> None:
    lived(path, "old")
    before = file_hashes(path.parent)
    with pytest.raises(PruneNoChoice):
        pruned(path, confirm=True)
    with pytest.raises(PruneNotConfirmed) as caught:
        pruned(path, older_than_s=0)
    assert (caught.value.count, caught.value.names) == (1, "old")
    with pytest.raises(RunNotFound):
        pruned(path, runs=["old", "none"], confirm=True)
    with pytest.raises(BadRunId):
        pruned(path, runs=["../old"], confirm=True)
    assert file_hashes(path.parent) == before


def test_pruning_gives_back_room_and_keeps_what_others_hold(path: Path) -> None:
    lived(path, "keep", steps=4)
    lived(path, *(f"go-{n}" for n in range(40)), steps=20)
    before = path.stat().st_size
    done = pruned(path, runs=[f"go-{n}" for n in range(40)], confirm=True)
    assert len(done.removed) == 40
    assert done.freed_bytes >= sum(one.bytes for one in done.removed) // 2
    assert path.stat().st_size == before - done.freed_bytes
    assert verified(path, fold=True).sound


def test_what_forks_share_stays_until_the_last_of_them_goes(path: Path) -> None:
    lived(path, "a", steps=4)
    forked(path, "a", "child", 8)
    forked(path, "child", "grandchild", 9)
    done = pruned(path, runs=["a", "child"], confirm=True)
    kept = {one.run: one.kept_upto for one in done.removed}
    assert kept["a"] >= 8
    assert kept["child"] == 9
    assert listed(path) == ["grandchild"]
    verdict = verified(path, fold=True)
    assert verdict.sound
    assert verdict.runs == 3

    async def work(runtime: fp.Runtime) -> str:
        run = await runtime.open("grandchild")
        await run.resume()
        return (await run.wait()).output

    assert on_store(path, work) == "done"
    (last,) = pruned(path, runs=["grandchild"], confirm=True).removed
    assert last.kept_upto == 0
    assert ask(path, "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM commits)") == [(0,)]
    assert ask(path, "SELECT count(*) FROM blobs") == [(0,)]


def test_deleting_says_what_went_and_what_stays(path: Path) -> None:
    lived(path, "a", steps=2)
    ((head,),) = ask(path, "SELECT head FROM runs")
    forked(path, "a", "child", 5)
    removed = on_store(path, lambda runtime: runtime.delete("a"))
    assert 5 <= removed.kept_upto < head
    assert removed.events == head - removed.kept_upto
    assert ask(path, "SELECT head FROM runs WHERE run = 'a'") == [(removed.kept_upto,)]
    whole = on_store(path, lambda runtime: runtime.delete("child"))
    assert (whole.kept_upto, whole.events) == (0, 1)
    with pytest.raises(RunNotFound):
        on_store(path, lambda runtime: runtime.delete("a"))


def test_nothing_but_room_is_given_back_for_an_empty_list(path: Path) -> None:
    lived(path, "a", "b", steps=60)
    on_store(path, lambda runtime: runtime.delete("b"))
    done = pruned(path, runs=())
    assert done.removed == ()
    assert done.freed_bytes > 0
    assert listed(path) == ["a"]


def test_a_run_with_an_outcome_nobody_knows_is_only_removed_by_name(path: Path) -> None:
    @fp.tool
    def mail() -> str:
        """Mail."""
        raise fp.OutcomeUnknown("cut off")

    mailer = fp.Agent("mailer", model=ScriptedModel([calls(call("mail"))]), tools=[mail])

    async def work(runtime: fp.Runtime) -> int:
        run = await runtime.start("mailer", "go", run_id="doubt")
        return (await run.wait()).waits[0].effect

    effect = on_store(path, work, agents=[mailer])
    done = pruned(path, older_than_s=DAY_S, confirm=True, clock=later(400))
    assert done.removed == ()
    assert [(one.run, str(effect) in one.why) for one in done.kept] == [("doubt", True)]
    assert [one.run for one in pruned(path, runs=["doubt"], confirm=True).removed] == ["doubt"]


def test_a_run_that_is_performed_is_never_removed(path: Path) -> None:
    entered, gate = asyncio.Event(), asyncio.Event()

    @fp.tool
    async def slow() -> str:
        """Slow."""
        entered.set()
        await gate.wait()
        return "done"

    slowly = fp.Agent("slowly", model=ScriptedModel([calls(call("slow")), "done"]), tools=[slow])
    clock = FakeClock()

    async def work(runtime: fp.Runtime) -> Pruned:
        run = await runtime.start("slowly", "go", run_id="r")
        await entered.wait()
        with pytest.raises(RunBusy):
            await runtime.delete("r")
        with pytest.raises(RunBusy):
            await runtime.prune(runs=["r"], confirm=True)
        done = await runtime.prune(older_than_s=0, confirm=True)
        gate.set()
        assert (await run.wait()).output == "done"
        return done

    done = on_store(path, work, agents=[slowly], clock=clock)
    assert done.removed == ()
    assert "performing" in done.kept[0].why


def test_a_damaged_run_stays_by_age_and_can_be_removed_by_name(path: Path) -> None:
    lived(path, "a")
    change(path, "UPDATE commits SET body = x'00'")
    done = pruned(path, older_than_s=0, confirm=True, clock=later(1))
    assert "event." in done.kept[0].why
    assert [one.run for one in pruned(path, runs=["a"], confirm=True).removed] == ["a"]
    assert listed(path) == []


def test_a_removed_id_can_be_used_again_once_nothing_of_it_is_left(path: Path) -> None:
    lived(path, "a")

    async def work(runtime: fp.Runtime) -> int:
        seq = (await (await runtime.start("looker", "Look, a", run_id="a", labels={"name": "a"})).wait()).seq
        await runtime.delete("a")
        run = await runtime.start("looker", "Something else", run_id="a")
        return (await run.wait()).seq - seq

    assert on_store(path, work, agents=[agent()]) == 0
