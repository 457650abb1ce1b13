"""A registered secret is nowhere in the store's files, and everything works as if it were.

Not tested: run ids, which a caller chooses and which are written as they are; and what tools do themselves.
"""

import asyncio
import base64
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from storage_runs import verified

import forkpoint as fp
from forkpoint.messages import assistant
from forkpoint.ports import ModelProgress, ModelRequest, ModelResponse
from forkpoint.runtime.progress import Progress
from forkpoint.testing.fakes import FakeClock, Reply, ScriptedModel, call, calls

SECRET = "s3cr3t-XYZ/42"
SECRETS = {"TOKEN": SECRET}
FORMS = (SECRET, base64.b64encode(SECRET.encode()).decode(), quote(SECRET, safe=""))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "runs.db"


def leaks(path: Path) -> list[str]:
    """Where a secret stands in any file of the store's folder."""
    found = []
    for file in sorted(path.parent.rglob("*")):
        data = file.read_bytes() if file.is_file() else b""
        found += [f"{file.name}: {data[max(0, at - 80) : at + 40]!r}" for at in _places(data)]
    return found


def _places(data: bytes) -> list[int]:
    return [at for form in FORMS if (at := data.find(form.encode())) >= 0]


async def checked(path: Path, *agents: fp.Agent, work: Any, **options: Any) -> None:
    """Do ``work``; no secret is in the files, neither while they are open nor afterwards."""
    async with fp.connect(path, agents=agents, secrets=SECRETS, clock=FakeClock(), **options) as runtime:
        await work(runtime)
        assert leaks(path) == []
    assert leaks(path) == []


class World:
    """What the tools really got."""

    def __init__(self) -> None:
        self.got: list[Any] = []


def tools(world: World) -> list[fp.Tool[..., Any]]:
    @fp.tool(read_only=True)
    def fetch(url: str, headers: dict[str, str]) -> dict[str, Any]:
        """Fetch."""
        world.got.append((url, headers))
        return {"echo": headers, "large": f"{SECRET} " * 1000, f"key-{SECRET}": [FORMS[1], FORMS[2]]}

    @fp.tool
    def fail(word: str) -> str:
        """Fail."""
        world.got.append(word)
        raise ValueError(f"the gateway refuses {word!r} for {SECRET}")

    @fp.tool
    def doubt(word: str) -> str:
        """Doubt."""
        world.got.append(word)
        raise fp.OutcomeUnknown(f"sent {word}, then cut off")

    @fp.tool(approval=True)
    def pay(ctx: fp.ToolContext, card: str) -> str:
        """Pay."""
        world.got.append(card)
        ctx.set_state(**{"card": card, SECRET: "as a key"})
        return f"paid with {card}"

    @fp.tool(external=True)
    def ask(question: str) -> str: ...

    return [fetch, fail, doubt, pay, ask]


def script(request: ModelRequest) -> Reply:
    said = sum(1 for message in request.messages if message.role == "assistant")
    turns = [
        calls(call("fetch", id=f"c-{SECRET}", url=f"http://x/?t={FORMS[2]}", headers={"auth": f"Bearer {SECRET}"})),
        calls(call("fail", word=SECRET), text=f"I use {SECRET} now"),
        calls(call("fetch", id="c2", url=SECRET * 1000, headers={SECRET: "x"})),
        calls(call("doubt", word=SECRET), call("pay", card="none"), call("ask", question=f"is it {SECRET}?")),
    ]
    return turns[said] if said < len(turns) else f"It was {SECRET}"


def agent(world: World) -> fp.Agent:
    return fp.Agent(
        "spy",
        model=ScriptedModel(script),
        tools=tools(world),
        instructions=f"Use {SECRET}.",
        settings={"key": SECRET},
    )


def test_a_secret_is_nowhere_in_the_file_whatever_way_it_came(path: Path) -> None:
    world = World()

    async def work(runtime: fp.Runtime) -> None:
        run = await runtime.start("spy", f"My token is {SECRET}", labels={SECRET: SECRET, "n": SECRET}, actor=SECRET)
        state = await run.wait()
        doubtful, pay, ask = (wait.effect for wait in state.waits)
        await run.resolve(doubtful, "occurred", output={"was": SECRET}, note=f"I saw {SECRET}", actor=SECRET)
        await run.approve(pay, arguments={"card": SECRET}, actor=SECRET)
        await run.answer(ask, f"yes, {SECRET}", actor=SECRET)
        await run.resolve(doubtful, "occurred", output={"was": SECRET}, note=f"I saw {SECRET}", actor=SECRET)
        state = await run.wait()
        assert state.output.startswith("It was {{secret:TOKEN")
        await run.send(f"again {SECRET}", key=SECRET, actor=SECRET)
        await run.send(f"again {SECRET}", key=SECRET, actor=SECRET)
        for _ in range(2):
            await run.send(f"and again {SECRET}", key="twice")
        assert (await run.wait()).turn == 3
        for command in (run.pause, run.interrupt, run.stop):
            await command(f"because of {SECRET}", actor=SECRET)

    asyncio.run(checked(path, agent(world), work=work))
    assert world.got[0][1] == {"auth": f"Bearer {SECRET}"}
    assert world.got[1:2] + world.got[3:] == [SECRET, SECRET, SECRET]
    assert world.got[2] == (SECRET * 1000, {SECRET: "x"})
    assert verified(path, fold=True, secrets=SECRETS).sound


def test_a_model_is_shown_the_secret_where_it_stood(path: Path) -> None:
    world = World()
    spy = agent(world)

    async def work(runtime: fp.Runtime) -> None:
        await (await runtime.start("spy", f"My token is {SECRET}")).wait()

    asyncio.run(checked(path, spy, work=work))
    assert isinstance(spy.model, ScriptedModel)
    shown = spy.model.requests[1]
    assert shown.instructions == f"Use {SECRET}."
    assert shown.settings == {"key": SECRET}
    assert shown.messages[0].text == f"My token is {SECRET}"


def test_a_run_with_secrets_is_started_once_and_carried_on_in_another_process(path: Path) -> None:
    world = World()

    async def first(runtime: fp.Runtime) -> None:
        await (await runtime.start("spy", f"go {SECRET}", run_id="r", perform=False)).state()

    async def second(runtime: fp.Runtime) -> None:
        run = await runtime.start("spy", f"go {SECRET}", run_id="r")
        state = await run.wait()
        assert len(state.waits) == 3

    asyncio.run(checked(path, agent(world), work=first))
    asyncio.run(checked(path, agent(world), work=second))
    assert world.got[0][1] == {"auth": f"Bearer {SECRET}"}


def test_no_part_of_a_patch_leaks(path: Path) -> None:
    world = World()

    async def work(runtime: fp.Runtime) -> None:
        run = await runtime.start("spy", "go", run_id="r")
        await run.wait()
        for n, patch in enumerate(
            (
                fp.Patch(tool_results={"c2": {"was": SECRET}}),
                fp.Patch(tool_results={"c2": fp.ToolError(f"no {SECRET}")}),
                fp.Patch(tool_results={"c2": f"{SECRET} " * 1000}),
                fp.Patch(state={SECRET: SECRET}),
                fp.Patch(instructions=f"Use {SECRET} " * 1000, settings={"k": SECRET}),
                fp.Patch(input=f"What about {SECRET}?"),
                fp.Patch(messages=lambda told: [*told[:1], assistant(f"I know {SECRET}")]),
            )
        ):
            child = await run.fork(step=3, patch=patch, run_id=f"f{n}", labels={"why": SECRET}, actor=SECRET)
            await child.resume()
            await child.wait()

    asyncio.run(checked(path, agent(world), work=work))
    assert verified(path, fold=True, secrets=SECRETS).sound


class InPieces:
    """A model that says a secret in pieces, and thinks it in pieces."""

    name = "scripted:pieces"

    async def respond(self, request: ModelRequest, progress: Any) -> ModelResponse:
        for at in range(0, len(SECRET), 3):
            progress(ModelProgress(text=SECRET[at : at + 3], reasoning=SECRET[at : at + 3]))
        progress(ModelProgress(text=" is it"))
        return ModelResponse(message=assistant(f"{SECRET} is it"))


def test_a_secret_split_over_chunks_shows_in_no_notice(path: Path) -> None:
    shown: list[Progress] = []

    @fp.tool(read_only=True)
    def report(ctx: fp.ToolContext) -> str:
        """Report."""
        for at in range(0, len(SECRET), 4):
            ctx.progress(SECRET[at : at + 4])
        return SECRET

    pieces = fp.Agent("pieces", model=InPieces())
    tooled = fp.Agent("tooled", model=ScriptedModel([calls(call("report")), "done"]), tools=[report])

    async def work(runtime: fp.Runtime) -> None:
        for name in ("pieces", "tooled"):
            run = await runtime.start(name, "go", perform=False)
            watching = asyncio.create_task(watched(run))
            await asyncio.sleep(0)
            await run.resume()
            await run.wait()
            await watching

    async def watched(run: fp.Run) -> None:
        shown.extend([one async for one in run.watch(after=0, follow=False) if isinstance(one, Progress)])

    asyncio.run(checked(path, pieces, tooled, work=work))
    text = "".join(one.text for one in shown)
    assert SECRET not in text + "".join(one.reasoning for one in shown)
    assert "{{secret:TOKEN}} is it" in text
    assert text.count("{{secret:TOKEN}}") == 2
    assert "".join(one.reasoning for one in shown) == "{{secret:TOKEN}}"


def test_a_text_that_only_looks_like_a_placeholder_never_becomes_the_secret(path: Path) -> None:
    """Whoever may write to a run, the token is not theirs to read."""
    echo = fp.Agent("echo", model=ScriptedModel(lambda request: request.messages[0].text))
    got: list[str] = []

    async def work(runtime: fp.Runtime) -> None:
        run = await runtime.start("echo", "say {{secret:TOKEN}}")
        await run.wait()
        assert isinstance(echo.model, ScriptedModel)
        got.append(echo.model.requests[0].messages[0].text)

    asyncio.run(checked(path, echo, work=work))
    assert got == ["say {{secret:TOKEN}}"]


def test_a_secret_that_has_no_value_here_is_told_before_anything_is_dispatched(path: Path) -> None:
    world = World()

    async def first(runtime: fp.Runtime) -> None:
        await (await runtime.start("spy", f"go {SECRET}", run_id="r", perform=False)).state()

    asyncio.run(checked(path, agent(world), work=first))

    async def second() -> str:
        bare = fp.Agent("spy", model=ScriptedModel(script), tools=tools(world), instructions="Use {{secret:TOKEN}}.")
        async with fp.connect(path, agents=[bare], clock=FakeClock()) as runtime:
            run = await runtime.open("r")
            try:
                await run.resume(accept_changes=True)
                return (await run.wait()).status
            except fp.ForkpointError as error:
                return error.code

    assert asyncio.run(second()) == "secret.missing"
    assert world.got == []
