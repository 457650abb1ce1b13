"""What every store decides alike: whether an addition is sound, and why one is refused."""

from collections.abc import Mapping

from msgspec import Struct

from forkpoint.errors import (
    BadFilter,
    JournalConflict,
    JournalMalformed,
    LeaseLost,
    LeaseRequired,
    RunNotFound,
)
from forkpoint.errors._base import ForkpointError
from forkpoint.ids import check_run_id
from forkpoint.ports import MARK_BYTES, Append, RunFilter

DIGEST_BYTES = 32
MAX_SEQ = (1 << 32) - 1
"""The highest ``seq`` that a store numbers."""
MAX_LABELS = 100


class Standing(Struct, frozen=True, kw_only=True):
    """Where a run stands in its store, as far as an addition can be refused for it."""

    head: int
    digest: bytes
    epoch: int
    owner: str | None
    deleted: bool


def check_append(append: Append) -> None:
    """Refuse what no store may hold. Raises ``run.bad-id``, ``lease.required`` or ``journal.malformed``."""
    commit, lease = append.commit, append.lease
    if append.born:
        _check_birth(append)
    elif type(append.run) is not str:
        check_run_id(append.run)
    if lease is None:
        if append.leased:
            raise LeaseRequired(run=append.run)
    elif lease.run != append.run:
        raise lease_lost(append)
    count = len(commit.kinds)
    if commit.first != append.after + 1 or not 0 < count <= MAX_SEQ - append.after:
        raise JournalMalformed(run=append.run, detail=f"{count} events from {commit.first} after {append.after}")
    if len(commit.marks) != MARK_BYTES * (count - 1) + DIGEST_BYTES:
        raise JournalMalformed(run=append.run, detail=f"{len(commit.marks)} bytes of digests for {count} events")


def _check_birth(append: Append) -> None:
    check_run_id(append.run)
    if append.lease is not None:
        raise lease_lost(append)
    if append.parent is not None:
        check_run_id(append.parent)
    elif append.after:
        raise JournalMalformed(run=append.run, detail=f"a first run begins after 0, not {append.after}")
    check_texts(append.summary.labels)


def refusal(append: Append, found: Standing | None) -> ForkpointError:
    """Why ``append`` was not added to a run that stands as ``found``.

    A lost lease is told before a moved head: who lost the run must stop, not read on.
    """
    if found is None or found.deleted:
        return RunNotFound(run=append.run)
    lease = append.lease
    if lease is not None and (lease.epoch != found.epoch or lease.owner != found.owner):
        return lease_lost(append)
    return JournalConflict(run=append.run, expected=append.after, actual=found.head)


def lease_lost(append: Append) -> LeaseLost:
    """The error of an addition under a lease that is not the run's."""
    lease = append.lease
    assert lease is not None
    return LeaseLost(run=append.run, owner=lease.owner, epoch=lease.epoch)


def is_free(owner: str | None, *, mine: bool, alive: bool | None, until_ms: int, now_ms: int) -> bool:
    """Whether a run's lease may be taken: nobody has it, it is ours, its owner is dead, or its time is up."""
    return owner is None or mine or alive is False or until_ms <= now_ms


def check_filter(which: RunFilter, after: int | None, limit: int) -> None:
    """Refuse a filter that is not plain data. Raises ``run.bad-filter``, or ``run.bad-id`` for the parent."""
    for text in (which.status, which.agent, which.prefix):
        if text is not None and not is_text(text):
            raise BadFilter(given=repr(text)[:200])
    if which.parent is not None:
        check_run_id(which.parent)
    check_texts(which.labels)
    for number in (limit, 0 if after is None else after):
        if type(number) is not int or not 0 <= number < 1 << 62:
            raise BadFilter(given=repr(number)[:200])


def check_texts(labels: Mapping[str, str]) -> None:
    """Refuse labels that are not text. Raises ``run.bad-filter``."""
    if len(labels) > MAX_LABELS:
        raise BadFilter(given=f"more than {MAX_LABELS} labels")
    for name, value in labels.items():
        if not is_text(name) or not is_text(value):
            raise BadFilter(given=f"the label {name!r}: {value!r}"[:200])


def is_text(value: object) -> bool:
    """Whether ``value`` is text that can be stored."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
