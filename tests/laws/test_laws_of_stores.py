"""All stores agree: whatever is asked of them, in whatever order, they give the same or refuse with the same words.

Not tested here: several processes (see ``storage`` and ``crash``), and what only one store can meet (a full disk).
"""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from histories import THOROUGH, searched
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from forkpoint.errors import ForkpointError
from forkpoint.ports import Journal, Lease, RunFilter
from forkpoint.stores.memory import MemoryJournal
from forkpoint.stores.sqlite import SqliteJournal
from forkpoint.testing.journal import addition, birth
from forkpoint.testing.journal.given import fork, summary_of

PHASES = tuple(Phase) if THOROUGH else (Phase.generate,)
"""To make a failure small takes minutes; a thorough search does it."""

RUNS = st.sampled_from(["a", "b", "c", "d"])
WHO = st.sampled_from([0, 1])
BLOBS = st.sampled_from(["sha256:x", "sha256:y"])
COUNTS = st.integers(1, 3)
SUMMARIES = st.builds(
    summary_of,
    status=st.sampled_from(["running", "idle"]),
    due=st.booleans(),
    labels=st.sampled_from([{}, {"k": "v"}, {"k": "w"}]),
)
FILTERS = st.builds(
    RunFilter,
    status=st.sampled_from([None, "idle"]),
    parent=st.sampled_from([None, "a"]),
    prefix=st.sampled_from([None, "a", "b"]),
    labels=st.sampled_from([{}, {"k": "v"}]),
    due=st.sampled_from([None, True]),
)


class Stores(RuleBasedStateMachine):
    """Two handles on each store; every rule does the same to all stores."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        memory = MemoryJournal()
        path = self.folder / "runs.db"
        on_disk = (SqliteJournal(path, synchronous="normal"), SqliteJournal(path, synchronous="normal"))
        self.stores: tuple[tuple[Journal, Journal], ...] = ((memory, memory.beside()), on_disk)
        self.heads: dict[str, int] = {}
        self.leases: dict[str, Lease] = {}
        self.now_ms = 0

    def teardown(self) -> None:
        for handles in self.stores:
            for handle in handles:
                self.loop.run(handle.close())
        self.loop.close()
        shutil.rmtree(self.folder)

    def both(self, who: int, ask: Callable[[Journal], Awaitable[Any]]) -> Any:
        """What every store gives for the same question; ``None`` if all refuse it alike."""
        told = [self.loop.run(_answer(handles[who], ask)) for handles in self.stores]
        assert told[0] == told[1]
        return None if isinstance(told[0], Refused) else told[0]

    @initialize(counts=st.lists(COUNTS, min_size=1, max_size=3))
    def there_is_a_run_with_two_forks(self, counts: list[int]) -> None:
        after = 0
        for count in counts:
            more = addition("a", after, count, born=after == 0)
            self.both(0, lambda on, more=more: on.append(more))
            after += count
        for child in ("c", "b"):
            self.both(0, lambda on, child=child: on.append(fork(child, "a", 1)))

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────

    @rule(who=WHO, run=RUNS, count=COUNTS, summary=SUMMARIES, blob=BLOBS)
    def a_run_is_born(self, who: int, run: str, count: int, summary: Any, blob: str) -> None:
        self.both(who, lambda on: on.append(birth(run, count, summary=summary, blobs={blob: b"b"}, calls=[("c", 1)])))

    @rule(who=WHO, run=RUNS, parent=RUNS, back=st.integers(-1, 4), refs=st.sampled_from([(), ("sha256:x",)]))
    def a_run_is_forked(self, who: int, run: str, parent: str, back: int, refs: tuple[str, ...]) -> None:
        at = max(1, self.heads.get(parent, 1) - back)
        self.both(who, lambda on: on.append(fork(run, parent, at, refs=refs)))

    @rule(
        who=WHO,
        run=RUNS,
        count=COUNTS,
        off=st.sampled_from([0, 0, 0, 0, -1, 1]),
        leased=st.sampled_from([None, False, True]),
        refs=st.lists(BLOBS, max_size=2, unique=True),
        step=st.integers(0, 3),
        checkpoint=st.sampled_from([None, b"state"]),
    )
    def a_run_grows(self, who: int, run: str, count: int, off: int, leased: bool | None, **more: Any) -> None:
        after = max(1, self.heads.get(run, 1) + off)
        more["lease"] = None if leased is None else self.leases.get(run)
        more["summary"] = summary_of(status="idle" if leased else "running")
        self.both(
            who,
            lambda on: on.append(addition(run, after, count, leased=bool(leased), calls=[("c", after + 1)], **more)),
        )

    @rule(who=WHO, run=RUNS)
    def a_run_is_deleted(self, who: int, run: str) -> None:
        self.both(who, lambda on: on.delete(run))

    @rule(who=WHO)
    def what_nothing_needs_is_collected(self, who: int) -> None:
        for handles in self.stores:
            self.loop.run(_done(handles[who].collect()))

    # ── leases ───────────────────────────────────────────────────────────────────────────────────────────────

    @rule(who=WHO, run=RUNS, later_ms=st.sampled_from([0, 5, 50]))
    def a_lease_is_taken(self, who: int, run: str, later_ms: int) -> None:
        self.now_ms += later_ms
        now_ms, owner = self.now_ms, f"owner-{who}"
        lease = self.both(who, lambda on: on.take_lease(run, owner=owner, now_ms=now_ms, until_ms=now_ms + 20))
        if lease is not None:
            self.leases[run] = lease

    @rule(who=WHO, run=RUNS, renewed=st.booleans())
    def a_lease_is_renewed_or_given_back(self, who: int, run: str, renewed: bool) -> None:
        lease = self.leases.get(run)
        if lease is not None:
            self.both(who, lambda on: on.renew_lease(lease) if renewed else on.release_lease(lease))

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    @rule(who=WHO, run=RUNS, after=st.integers(0, 6), upto=st.sampled_from([None, 1, 4, 9]), step=st.integers(0, 4))
    def a_run_is_read(self, who: int, run: str, after: int, upto: int | None, step: int) -> None:
        self.both(who, lambda on: on.commits(run, after=after, upto=upto))
        self.both(who, lambda on: on.outlines(run, after=after, upto=upto))
        self.both(who, lambda on: on.commit_reaching(run, step=step))
        self.both(who, lambda on: on.commit_reaching(run, turn=1))
        self.both(who, lambda on: on.effects_of_call(run, "c"))
        self.both(who, lambda on: on.checkpoint(run, upto=upto or 99))

    @rule(who=WHO, which=FILTERS, after=st.sampled_from([None, 2]), limit=st.integers(0, 3), blob=BLOBS)
    def runs_are_listed(self, who: int, which: RunFilter, after: int | None, limit: int, blob: str) -> None:
        self.both(who, lambda on: on.rows(which, after=after, limit=limit))
        self.both(who, lambda on: on.blob(blob))

    @invariant()
    def every_handle_sees_the_same_runs(self) -> None:
        for run in ("a", "b", "c", "d"):
            rows = [self.loop.run(_done(handle.row(run))) for handles in self.stores for handle in handles]
            assert all(row == rows[0] for row in rows)
            self.heads[run] = rows[0].head if rows[0] is not None else 0
            self.both(0, lambda on, run=run: on.children(run))


class Refused(str):
    """The code and the words of a refusal."""


async def _done(asked: Awaitable[Any]) -> Any:
    return await asked


async def _answer(journal: Journal, ask: Callable[[Journal], Awaitable[Any]]) -> Any:
    try:
        return await ask(journal)
    except ForkpointError as error:
        return Refused(f"{error.code}: {error}")


def test_all_stores_agree_whatever_is_asked_of_them() -> None:
    run_state_machine_as_test(Stores, settings=settings(searched(25, 1000), phases=PHASES))
