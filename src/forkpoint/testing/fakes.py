"""Fakes for tests: a clock that moves when told, and models whose answers are a function of what they are shown."""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from forkpoint.messages import CallPart, Message, Usage, assistant
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse

Reply: TypeAlias = Message | ModelResponse | Exception | str
"""What a scripted model may answer: a text, a message, a whole response, or an error to raise."""


class FakeClock:
    """A clock that stands still until ``advance``; timers fire in order of their time."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._called_off: set[int] = set()

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, as far as this clock has been moved."""
        return self._now_ms

    def call_later(self, seconds: float, then: Callable[[], None]) -> Callable[[], None]:
        """Call ``then`` once the clock has advanced by ``seconds``."""
        number = next(self._count)
        heapq.heappush(self._timers, (self._now_ms + int(seconds * 1000), number, then))
        return lambda: self._called_off.add(number)

    async def advance(self, seconds: float) -> None:
        """Move on by ``seconds``, firing what falls due, and let the event loop settle after each."""
        end = self._now_ms + int(seconds * 1000)
        while self._timers and self._timers[0][0] <= end:
            at_ms, number, then = heapq.heappop(self._timers)
            self._now_ms = max(self._now_ms, at_ms)
            if number not in self._called_off:
                then()
                await settle()
        self._now_ms = end
        await settle()


async def settle(rounds: int = 50) -> None:
    """Let everything that is ready on the event loop run."""
    for _ in range(rounds):
        await asyncio.sleep(0)


class ScriptedModel:
    """A model that answers with what ``script`` makes of the request, and keeps every request it saw.

    ``script`` is a function from a request to a reply, or a list of replies used one a call. ``calls("x", a=1)``
    below makes a message that asks for a tool.
    """

    def __init__(
        self, script: Callable[[ModelRequest], Reply] | Sequence[Reply], *, name: str = "scripted:model"
    ) -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._script = script if callable(script) else _in_turn(script)

    async def respond(self, request: ModelRequest, progress: Callable[[ModelProgress], None]) -> ModelResponse:
        """The script's answer."""
        self.requests.append(request)
        reply = self._script(request)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            reply = assistant(reply)
        if isinstance(reply, Message):
            progress(ModelProgress(text=reply.text))
            return ModelResponse(message=reply, usage=Usage(input_tokens=10, output_tokens=5), cost=0.001)
        return reply


def _in_turn(replies: Sequence[Reply]) -> Callable[[ModelRequest], Reply]:
    left = iter(replies)
    count = itertools.count(1)

    def next_reply(request: ModelRequest) -> Reply:
        number = next(count)
        for reply in left:
            return reply
        last = request.messages[len(request.messages) - 1].text if len(request.messages) else ""
        raise AssertionError(f"the script has {len(replies)} replies; call {number} asked after: {last[:200]}")

    return next_reply


def call(name: str, /, id: str = "", **arguments: Any) -> CallPart:
    """One call of a tool, as a model asks for it; its id is made from the name where none is given."""
    return CallPart(id=id or f"call_{name}", name=name, arguments=arguments)


def calls(*parts: CallPart, text: str = "") -> Message:
    """A model's message that asks for tools."""
    return assistant(text, *parts)
