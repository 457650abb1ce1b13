"""Calls that Pydantic AI puts off until somebody decides, where the user declared that Forkpoint asks for them.

What was not declared stays Pydantic AI's: the run ends with its ``DeferredToolRequests``, and the function's own code
goes on from there.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

from pydantic_ai.tools import DeferredToolResults

from forkpoint.adapters.pydantic_ai_declared import Declared, tool_of
from forkpoint.adapters.pydantic_ai_results import came_of
from forkpoint.agents.tool import Tool
from forkpoint.runtime.recorder import Recorder


async def settled(recorder: Recorder, said: Declared, ctx: Any, requests: Any) -> Any:
    """Decisions for the declared ones among ``requests``; ``None`` if there are none.

    A tool that needs approval here is let through: its call is where a person is asked, and where the answer lies.
    """
    known = {one.name: one for one in ctx.tool_manager.tool_defs}

    def is_said(call: Any, what: str) -> bool:
        return bool(said.options(call.tool_name, known[call.tool_name].metadata).get(what))

    approvals = {call.tool_call_id: True for call in requests.approvals if is_said(call, "approval")}
    external = [call for call in requests.calls if is_said(call, "external")]
    if not approvals and not external:
        return None
    answers = await asyncio.gather(
        *[_answer(recorder, tool_of(known[call.tool_name], said), call) for call in external]
    )
    calls = {call.tool_call_id: answer for call, answer in zip(external, answers, strict=True)}
    return DeferredToolResults(approvals=approvals, calls=calls)


async def _answer(recorder: Recorder, wanted: Tool[..., Any], call: Any) -> Any:
    """What came from outside for an external tool's call."""

    def asked() -> Awaitable[Any]:
        return recorder.tool(wanted, call.args_as_dict(), call=call.tool_call_id)

    return came_of(await recorder.waited(asked, call.tool_name, is_async=True))
