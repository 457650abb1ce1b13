"""Group commit: additions that arrive in the same turn of the event loop are made durable together.

1. The first to arrive leads. It lets everyone run who is ready to, then writes what has gathered. Where one run is
   performed alone, there is nobody to let run.
2. Nothing waits while the group is written: it is written on the event loop, between two of its turns.
3. A member that is cancelled before the group is written is withdrawn. If it led, the next one leads.
4. A refusal is one member's own. What stops the group from being written is everyone's.
"""

import asyncio
import copy
import time
from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from forkpoint.errors._base import ForkpointError

T = TypeVar("T")

Begin = Callable[[float], float]
"""Begins to write, given when that was first wanted (``time.monotonic``): 0.0 when it is done, else the
seconds to wait before trying again."""

Write = Callable[[Sequence[T]], Sequence[Exception | None]]
"""Writes and ends what was begun; gives each member's refusal, in order."""


class _Member(Generic[T]):
    """One addition in a group, and where its fate is told: ``True`` to lead, ``False`` when it is written.

    The first to arrive needs to be told nothing, and has no place for it.
    """

    __slots__ = ("item", "told")

    def __init__(self, item: T, told: "Future[bool] | None") -> None:
        self.item = item
        self.told = told


class Grouping(Generic[T]):
    """Writes that arrive together, written together. ``alone`` says of one that there is nobody to wait for."""

    def __init__(self, begin: Begin, write: "Write[T]", *, alone: Callable[[T], bool] = lambda _: False) -> None:
        self._begin = begin
        self._alone = alone
        self._write = write
        self._gathering: list[_Member[T]] | None = None

    async def add(self, item: T) -> None:
        """Write ``item`` with whatever else is ready. Raises its refusal, or what stopped the group."""
        group = self._gathering
        if group is None:
            member = _Member(item, None)
            self._gathering = [member]
        else:
            told: Future[bool] = asyncio.get_running_loop().create_future()
            member = _Member(item, told)
            group.append(member)
            try:
                leads = await told
            except asyncio.CancelledError:
                self._withdraw(member)
                raise
            if not leads:
                return
        await self._lead(member)

    async def _lead(self, member: _Member[T]) -> None:
        since_s = time.monotonic()
        try:
            if not self._alone(member.item):
                await asyncio.sleep(0)
            wait_s = self._begin(since_s)
            while wait_s:
                await asyncio.sleep(wait_s)
                wait_s = self._begin(since_s)
        except ForkpointError as error:
            _tell_all(self._taken(), error)
            raise
        except BaseException:
            self._withdraw(member)
            raise
        self._finish(member, self._taken())

    def _taken(self) -> "list[_Member[T]]":
        """The group as it is now; whoever comes next begins another."""
        group, self._gathering = self._gathering, None
        assert group is not None
        if len(group) > 1:
            group = [member for member in group if member.told is None or not member.told.cancelled()]
        return group

    def _finish(self, leader: _Member[T], group: "list[_Member[T]]") -> None:
        try:
            refusals = self._write([member.item for member in group])
        except BaseException as error:
            _tell_all(group, error)
            raise
        own: Exception | None = None
        for member, refusal in zip(group, refusals, strict=True):
            if member is leader:
                own = refusal
            else:
                _tell(member, refusal)
        if own is not None:
            raise own

    def _withdraw(self, member: _Member[T]) -> None:
        """Take ``member`` out of the group that is gathering; if it was to lead, another one does."""
        group = self._gathering
        if group is None or member not in group:
            return
        leads = member.told is None or (member.told.done() and not member.told.cancelled())
        group.remove(member)
        if leads and not _promoted(group):
            self._gathering = None


def _promoted(group: "Sequence[_Member[T]]") -> bool:
    """Make the first member that was not cancelled itself lead; false if there is none."""
    for member in group:
        if member.told is not None and not member.told.done():
            member.told.set_result(True)
            return True
    return False


def _tell(member: _Member[T], refusal: BaseException | None) -> None:
    if member.told is None or member.told.done():
        return
    if refusal is None:
        member.told.set_result(False)
    else:
        member.told.set_exception(refusal)


def _tell_all(group: "Sequence[_Member[T]]", error: BaseException) -> None:
    # A copy each: raised in several places, one object would gather all their tracebacks.
    for member in group:
        _tell(member, copy.copy(error) if isinstance(error, ForkpointError) else error)
