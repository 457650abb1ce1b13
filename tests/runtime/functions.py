"""A function with a loop of its own, as a user would write one, and what its world counts."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import forkpoint as fp
from forkpoint.messages import CallPart, Message, answer, assistant, user
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse
from forkpoint.runtime.recorder import Answer, current
from forkpoint.testing.fakes import Reply, ScriptedModel


class World:
    """What really happened, outside of every run: how often each thing was done, and with what keys."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.keys: list[str] = []
        self.lost: set[str] = set()
        """What takes effect and then never comes back."""
        self.gone = asyncio.Event()
        """Set once something is lost."""

    async def do(self, name: str) -> None:
        self.done[name] += 1
        if name in self.lost:
            self.gone.set()
            await asyncio.Event().wait()


async def killed_in(world: World, name: str, recording: Coroutine[Any, Any, Any]) -> None:
    """Call ``recording`` off while ``name`` is in flight, as the end of its process would."""
    world.lost = {name}
    task = asyncio.ensure_future(recording)
    await world.gone.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    world.lost = set()


async def ask(model: ScriptedModel, messages: Sequence[Message], *, instructions: str = "Collect.") -> Answer:
    """Ask a model as an adapter does."""
    recorder = current()
    assert recorder is not None
    request = ModelRequest(model=model.name, instructions=instructions, messages=tuple(messages))

    async def perform(changed: ModelRequest, progress: Callable[[ModelProgress], None]) -> ModelResponse:
        return await model.respond(changed, progress)

    return await recorder.model(request, perform)


def clerk(
    model: ScriptedModel, *tools: fp.Tool[..., Any], at_once: bool = False, name: str = "clerk"
) -> fp.Function[..., Any]:
    """A loop somebody wrote: ask the model, run what it asks for, one by one or at once, until it answers."""
    by_name = {tool.name: tool for tool in tools}

    async def called(part: CallPart) -> Message:
        try:
            return answer(part.id, await by_name[part.name](**part.arguments))
        except fp.EffectFailed as error:
            return answer(part.id, {"error": error.error, "message": str(error)})

    @fp.record(name=name)
    async def loop(task: str = "go") -> str:
        messages: list[Message] = [user(task)]
        while True:
            said = (await ask(model, messages)).message
            messages.append(said)
            if not said.calls:
                return said.text
            if at_once:
                messages += await asyncio.gather(*(called(part) for part in said.calls))
            else:
                messages += [await called(part) for part in said.calls]

    return loop


def model_of(*replies: Reply, last: str = "done") -> ScriptedModel:
    """A model that says ``replies`` in turn, by how often it has spoken in what it is shown; then ``last``."""

    def script(request: ModelRequest) -> Reply:
        spoken = sum(1 for message in request.messages if message.role == "assistant")
        return replies[spoken] if spoken < len(replies) else last

    return ScriptedModel(script)


def asks(*parts: CallPart) -> Message:
    return assistant("", *parts)


def live(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test with a store's path on an event loop of its own."""

    def wrapped(tmp_path: Path) -> None:
        asyncio.run(test(str(tmp_path / "runs.db")))

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped
