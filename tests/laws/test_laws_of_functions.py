"""Whatever a function asks for, one by one or at once, and however often it dies: it comes to the same."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any, TypeAlias

from histories import searched
from hypothesis import given
from hypothesis import strategies as st

import forkpoint as fp
from forkpoint.errors import ReplayDiverged
from forkpoint.stores.memory import MemoryJournal
from forkpoint.testing.crash import Killed, Life
from forkpoint.testing.fakes import FakeClock
from forkpoint.wiring import connect

Program: TypeAlias = Any
"""``("ask", name, argument)``, or ``("one by one", programs)`` or ``("at once", programs)``."""

ASKS = st.tuples(st.just("ask"), st.sampled_from(["look", "charge", "fail"]), st.integers(0, 2))
PROGRAMS = st.recursive(
    ASKS,
    lambda inner: st.tuples(st.sampled_from(["one by one", "at once"]), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)


class Shop:
    """Tools whose effects are counted, and a function that goes through a program."""

    def __init__(self, program: Program) -> None:
        self.done: Counter[tuple[str, str]] = Counter()
        self._program = program

        @fp.tool(read_only=True, attempts=9)
        async def look(n: int) -> str:
            return f"saw {n}"

        @fp.tool(idempotent=True, attempts=9)
        async def charge(ctx: fp.ToolContext, n: int) -> str:
            self.done["charge", ctx.idempotency_key] += 1
            return f"charged {n}"

        @fp.tool(read_only=True, attempts=9)
        async def fail(n: int) -> str:
            raise ValueError(f"no {n}")

        self.tools = {"look": look, "charge": charge, "fail": fail}

    def function(self, tools: dict[str, fp.Tool[..., Any]]) -> fp.Function[..., Any]:
        async def go(program: Program) -> Any:
            match program:
                case ("ask", name, n):
                    try:
                        return await tools[name](n=n)
                    except fp.EffectFailed as error:
                        return f"{error.error}: {error}"
                case ("one by one", parts):
                    return [await go(part) for part in parts]
                case (_, parts):
                    return list(await asyncio.gather(*(go(part) for part in parts)))

        @fp.record(name="program")
        async def program() -> Any:
            return await go(self._program)

        return program


def expected(program: Program) -> Any:
    match program:
        case ("ask", "look", n):
            return f"saw {n}"
        case ("ask", "charge", n):
            return f"charged {n}"
        case ("ask", _, n):
            return f"ValueError: no {n}"
        case (_, parts):
            return [expected(part) for part in parts]


def asked(program: Program) -> Counter[tuple[str, int]]:
    match program:
        case ("ask", name, n):
            return Counter([(name, n)])
        case (_, parts):
            return sum((asked(part) for part in parts), Counter())


async def lived(shop: Shop, store: MemoryJournal, clock: FakeClock, life: Life) -> Any:
    async def living() -> Any:
        tools = {name: life.tool(tool) for name, tool in shop.tools.items()}
        async with connect(life.journal(store.beside()), clock=life.clock(clock)) as runtime:
            return await runtime.record("r", shop.function(tools))

    return await life.live(living(), clock)


@searched(60, 1000)
@given(PROGRAMS, st.lists(st.integers(1, 120), max_size=3))
def test_deaths_change_nothing_of_what_a_function_comes_to(program: Program, deaths: list[int]) -> None:
    async def test() -> None:
        shop, store, clock = Shop(program), MemoryJournal(), FakeClock()
        for at in deaths:
            with suppress(Killed):
                await lived(shop, store, clock, Life(dies_at=at))
        assert await lived(shop, store, clock, Life()) == expected(program)
        async with connect(store.beside()) as runtime:
            run = await runtime.open("r")
            own = Counter((call.name, call.arguments["n"]) for call in (await run.trajectory()).own)
            assert (await runtime.verify("r", fold=True)).findings == ()
        assert own == asked(program)
        assert len({key for _, key in shop.done}) == sum(n for (name, _), n in own.items() if name == "charge")

    asyncio.run(test())


@searched(60, 1000)
@given(PROGRAMS, PROGRAMS)
def test_a_record_answers_only_the_program_that_made_it(program: Program, other: Program) -> None:
    async def test() -> None:
        clock, store = FakeClock(), MemoryJournal()
        made = Shop(("one by one", [program, ("ask", "charge", 99)]))
        with suppress(Killed):
            await lived(made, store, clock, Life(dies_at=10_000))
        edited = Shop(("one by one", [other, ("ask", "charge", 98)]))

        async def forked() -> Any:
            async with connect(store.beside(), clock=clock) as runtime:
                run = await runtime.open("r")
                child = await run.fork(at=(await run.row()).head - 1)
                try:
                    return await runtime.record(child.id, edited.function(edited.tools))
                except ReplayDiverged:
                    return "diverged"

        life = Life()
        assert await life.live(forked(), clock) == "diverged"
        assert not edited.done

    asyncio.run(test())
