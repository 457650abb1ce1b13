"""Processes that run a hand-written loop and may be killed in the middle of a tool; started by ``test_plain_crashes``.

One process has everything loaded and forks another for each piece of work that it reads, so that dying costs no second.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec import Struct
from tests.adapters.plain_stage import Speaker, client_for, driven, loop, wrap
from tests.crash.witness import Witness

import forkpoint as fp
from forkpoint import blocking
from forkpoint.errors import RunWaits


class Work(Struct, frozen=True, kw_only=True):
    """What a process is to do. ``dies`` names the tool that kills it, after (or ``before``) its effect."""

    store: str
    url: str
    witness: str
    said: str
    api: Any
    is_async: bool
    form: str = "whole"
    dies: str = ""
    before: bool = False
    at_once: bool = False
    resolve: str = ""


def tools_for(work: Work, witness: Any) -> dict[str, Any]:
    """The world: a charge that may be repeated under its key, and a mail that nobody may repeat."""

    others = asyncio.Event()
    """The last of several mails is sent when what else was asked for at once is on record."""

    def happen(what: str, key: str) -> None:
        if work.dies == what and work.before:
            os.kill(os.getpid(), signal.SIGKILL)
        witness.note(what, "done", key)
        if work.dies == what:
            os.kill(os.getpid(), signal.SIGKILL)

    if work.is_async:

        @fp.tool(idempotent=True)
        async def charge(ctx: fp.ToolContext, number: str, cents: int) -> dict[str, int]:
            """Charge an invoice."""
            happen("charge", ctx.idempotency_key)
            return {"charged": cents}

        @fp.tool
        async def mail(ctx: fp.ToolContext, to: str) -> str:
            """Send a mail."""
            if work.at_once and to == "bo":
                await others.wait()
            happen(f"mail-{to}", ctx.idempotency_key)
            return f"sent to {to}"
    else:

        @fp.tool(idempotent=True)
        def charge(ctx: fp.ToolContext, number: str, cents: int) -> dict[str, int]:  # type: ignore[misc]
            """Charge an invoice."""
            happen("charge", ctx.idempotency_key)
            return {"charged": cents}

        @fp.tool
        def mail(ctx: fp.ToolContext, to: str) -> str:  # type: ignore[misc]
            """Send a mail."""
            happen(f"mail-{to}", ctx.idempotency_key)
            return f"sent to {to}"

    return {"charge": charge, "mail": mail, "others": others}


def function_for(work: Work, witness: Any) -> Any:
    """The loop, as a function of the kind that is asked for."""
    server = SimpleNamespace(url=work.url, openai_url=f"{work.url}/v1")
    client = wrap(client_for(work.api, server, is_async=work.is_async))  # type: ignore[arg-type]
    tools = tools_for(work, witness)
    others = tools.pop("others")

    def speaker() -> Speaker:
        found = Speaker(work.api, client, work.form)
        found.tools(*tools.values())
        found.told("Collect invoice 17")
        return found

    async def at_once() -> str:
        asking = speaker()
        while True:
            said = await asking.ask()
            if not said.calls:
                return said.text
            left = len(said.calls) - 1

            async def one(name: str, given: dict[str, Any]) -> Any:
                nonlocal left
                result = await tools[name](**given)
                left -= 1
                if not left:
                    others.set()
                return result

            results = await asyncio.gather(*(one(name, given) for _, name, given in said.calls))
            asking.answer([(call, value) for (call, _, _), value in zip(said.calls, results, strict=True)])

    async def collect(number: str) -> str:
        return await (at_once() if work.at_once else loop(speaker(), tools))

    def collect_plainly(number: str) -> str:
        found: str = driven(loop(speaker(), tools))
        return found

    return fp.record(collect if work.is_async else collect_plainly, name="collect")


async def recorded(work: Work, function: Any) -> str:
    """What the function returns, recorded by the async runtime."""
    async with fp.connect(work.store) as runtime:
        if work.resolve:
            handle = await runtime.open("inv-17")
            (wait,) = (await handle.state()).waits
            await handle.resolve(wait.effect, work.resolve, output="sent to bo")
        found: str = await runtime.record("inv-17", function, "17")
        return found


def recorded_plainly(work: Work, function: Any) -> str:
    """The same by the blocking one."""
    with blocking.connect(work.store) as runtime:
        if work.resolve:
            handle = runtime.open("inv-17")
            (wait,) = handle.state().waits
            handle.resolve(wait.effect, work.resolve, output="sent to bo")
        found: str = runtime.record("inv-17", function, "17")
        return found


def perform(work: Work) -> dict[str, str]:
    """Do the work: what it came to, or what it waits for."""
    function = function_for(work, Witness(Path(work.witness)))
    try:
        found = asyncio.run(recorded(work, function)) if work.is_async else recorded_plainly(work, function)
    except RunWaits as waits:
        return {"waits": str(waits)}
    return {"result": found}


def main() -> None:
    """Fork a process for each line that is read; say its id, and how it ended."""
    for line in sys.stdin:
        work = msgspec.json.decode(line, type=Work)
        pid = os.fork()
        if pid == 0:
            Path(work.said).write_text(json.dumps(perform(work)))
            os._exit(0)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
