"""Runs of a store compared and told as steps: by lineage where they share a past, and never performing anything."""

import pytest
from stage import live, played, runtime_on

import forkpoint as fp
from forkpoint.errors import ForkNoSuchPoint, RunNotFound
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.fakes import ScriptedModel, call, calls


@fp.tool(read_only=True)
async def look(n: int) -> dict[str, object]:
    return {"n": n, "text": "x" * 5000}


def agent(model: ScriptedModel) -> fp.Agent:
    return fp.Agent("a", model=model, tools=[look])


class Counting(MemoryJournal):
    """A journal that counts the commits it gave out."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    async def commits(self, run, *, after=0, upto=None):  # type: ignore[no-untyped-def]
        found = await super().commits(run, after=after, upto=upto)
        self.read += len(found)
        return found


@live
async def test_forks_are_compared_from_where_they_part() -> None:
    script = [calls(call("look", n=n)) for n in range(4)]
    model = played(*script, last="end")
    async with runtime_on(MemoryJournal(), agent(model)) as runtime:
        run = await runtime.start("a", "go", run_id="origin")
        await run.wait()
        asked = len(model.requests)
        at = (await run.state(step=2)).seq
        child = await run.fork(step=2, run_id="kid")
        found = await runtime.compare(run, "kid")
        assert (found.shared.steps, found.shared.by, str(found.shared.fork_point)) == (2, "lineage", f"origin@{at}")
        assert (found.diverged_at, found.names) == (3, ("origin", "kid"))
        assert found.b.steps[-1].calls[0].result == {"n": 1, "text": "x" * 5000}
        assert [step.number for step in found.a.steps] == [2, 3, 4, 5]
        assert len(model.requests) == asked
        assert (await runtime.compare(child, "kid")).drift == ()
        moments = await runtime.compare("origin@step:1", "origin@step:4")
        assert (moments.shared.steps, moments.diverged_at) == (1, 2)


@live
async def test_a_result_replaced_in_the_shared_past_is_found_there() -> None:
    model = played(*(calls(call("look", id=f"c{n}", n=n)) for n in range(3)), last="end")
    async with runtime_on(MemoryJournal(), agent(model)) as runtime:
        run = await runtime.start("a", "go", run_id="origin")
        await run.wait()
        await run.fork(step=2, patch=fp.Patch(tool_results={"c0": {"n": 9}}), run_id="past")
        await run.fork(step=2, patch=fp.Patch(tool_results={"c1": {"n": 9}}), run_id="last")
        past, last = await runtime.compare("origin", "past"), await runtime.compare("origin", "last")
        assert (past.diverged_at, past.shared.steps, past.drift[0].field) == (1, 0, "results")
        assert (last.diverged_at, last.shared.steps, last.drift[0].field) == (2, 1, "results")
        assert last.drift[0].b == {"n": 9}


@live
async def test_many_forks_make_one_table_against_their_origin_in_any_order() -> None:
    model = played(*(calls(call("look", n=n)) for n in range(3)), last="end")
    async with runtime_on(MemoryJournal(), agent(model)) as runtime:
        run = await runtime.start("a", "go", run_id="origin")
        await run.wait()
        for n in range(5):
            await run.fork(step=n % 3 + 1, run_id=f"f{n}")
        names = [f"f{n}" for n in range(5)]
        table = await runtime.compare(*names)
        assert table == await runtime.compare(*reversed(names))
        assert table.reference == "origin"
        assert [(row.name, row.diverged_at, row.steps) for row in table.rows] == [
            ("f0", 2, 1),
            ("f1", 3, 2),
            ("f2", 4, 3),
            ("f3", 2, 1),
            ("f4", 3, 2),
        ]


@live
async def test_what_forks_share_is_not_read() -> None:
    journal = Counting()
    model = played(*(calls(call("look", n=n)) for n in range(400)), last="end")
    async with runtime_on(journal, agent(model)) as runtime:
        run = await runtime.start("a", "go", run_id="origin")
        await run.wait()
        for name in ("one", "two"):
            await run.fork(step=395, run_id=name)
        journal.read = 0
        found = await runtime.compare("one", "two")
        assert (found.shared.steps, found.diverged_at) == (395, None)
        assert journal.read < 400


@live
async def test_a_run_tells_its_steps_with_large_values_in_place() -> None:
    model = played(calls(call("look", n=1)), last="end")
    async with runtime_on(MemoryJournal(), agent(model)) as runtime:
        run = await runtime.start("a", "go")
        await run.wait()
        told = await run.trajectory()
        assert [step.text for step in told.steps] == ["", "end"]
        assert told.steps[0].calls[0].result == {"n": 1, "text": "x" * 5000}
        assert (told.status, told.tokens) == ("idle", 30)


@live
async def test_runs_and_moments_that_do_not_exist_are_refused() -> None:
    async with runtime_on(MemoryJournal(), agent(played(last="x"))) as runtime:
        run = await runtime.start("a", "go", run_id="r")
        await run.wait()
        with pytest.raises(RunNotFound):
            await runtime.compare("r", "nobody")
        with pytest.raises(ForkNoSuchPoint):
            await runtime.compare("r", "r@step:9")
