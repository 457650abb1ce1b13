"""Additions that arrive together are written together; one that is alone waits for nobody."""

import asyncio
from collections.abc import Sequence

from forkpoint.stores.grouping import Grouping


def test_what_arrives_together_is_written_together_and_what_is_alone_at_once() -> None:
    written: list[list[str]] = []

    def write(items: Sequence[str]) -> Sequence[None]:
        written.append([*items])
        return [None] * len(items)

    group = Grouping[str](lambda since_s: 0.0, write, alone=lambda item: item == "alone")

    async def all_of() -> None:
        await asyncio.gather(*(group.add(item) for item in ("a", "b", "alone", "c")))
        await asyncio.gather(*(group.add(item) for item in ("alone", "d", "e")))

    asyncio.run(all_of())
    assert written == [["a", "b", "alone", "c"], ["alone"], ["d", "e"]]


def test_one_that_is_alone_is_written_without_a_turn_of_the_event_loop() -> None:
    group = Grouping[str](lambda since_s: 0.0, lambda items: [None] * len(items), alone=lambda _: True)
    adding = group.add("x")
    try:
        adding.send(None)
        ended = False
    except StopIteration:
        ended = True
    assert ended
