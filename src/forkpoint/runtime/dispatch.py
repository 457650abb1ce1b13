"""One effect, performed so that a crash at any line leaves the truth.

The request and the dispatch are on record before anything here runs. Killed here, the effect was tried and nobody
wrote down how it ended: recovery decides by its class. What this returns is a command; it becomes a fact only when
it is appended.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from forkpoint.agents.tool import NotOccurred, Occurred, OutcomeUnknown, ToolContext
from forkpoint.answers import NOT_RUN
from forkpoint.commands import Found, Settle
from forkpoint.effects import ModelCall
from forkpoint.errors import ForkpointError, ToolBadResult, ToolGone, ValueNotJson
from forkpoint.messages import CallPart, Message, Text
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded, Unknown
from forkpoint.pieces import Open
from forkpoint.ports import ModelProgress, ModelResponse, ModelUnavailable
from forkpoint.runtime.calls import Control, run_probe, run_tool
from forkpoint.runtime.edges import Equipment
from forkpoint.runtime.progress import Progress, Telling
from forkpoint.runtime.reading import Reader
from forkpoint.runtime.requests import Requests, normal_response
from forkpoint.state import RunState
from forkpoint.values import to_json
from forkpoint.workspace.port import Workspace

ERROR_CHARS = 4000
"""How much of an error's text is kept; the rest is told as a number."""

Report = Callable[[Progress], None]


class Bench(Struct, frozen=True, kw_only=True):
    """What performing needs: the run's equipment, its requests, the blobs, and where progress goes."""

    equipment: Equipment
    requests: Requests
    reader: Reader
    report: Report
    workspace: Workspace | None = None

    def telling(self, state: RunState, opened: Open, tool: str = "") -> Telling:
        """Where the notices of one effect go."""
        return Telling(self.report, self.equipment.secrets, run=state.run, effect=opened.seq, tool=tool)


Respond = Callable[[Callable[[ModelProgress], None]], Awaitable[ModelResponse]]
"""Asks a model, telling pieces of its answer as they come."""

Work = Callable[[ToolContext], Awaitable[Any]]
"""Does what an effect asks for: its result."""


async def ask_model(bench: Bench, state: RunState, opened: Open, control: Control) -> Settle:
    """Ask the model for ``opened``; how that ended, as the command to record it."""
    assert isinstance(opened.effect, ModelCall)
    request = await bench.requests.request(state, opened.effect)
    model = bench.equipment.model

    def succeeded(response: ModelResponse) -> Succeeded:
        return Succeeded(message=normal_response(response))

    return await asked(bench, state, opened, control, lambda progress: model.respond(request, progress), succeeded)


async def asked(
    bench: Bench,
    state: RunState,
    opened: Open,
    control: Control,
    respond: Respond,
    succeeded: Callable[[ModelResponse], Succeeded],
) -> Settle:
    """One attempt to have a model respond; how it ended. ``succeeded`` makes an answer one that can be stored."""
    began = time.monotonic()
    said: list[str] = []
    telling = bench.telling(state, opened)

    def progress(piece: ModelProgress) -> None:
        said.append(piece.text)
        telling.tell(piece.text, piece.reasoning)

    def settle(outcome: Outcome, **more: Any) -> Settle:
        telling.end()
        ms = int((time.monotonic() - began) * 1000)
        return Settle(effect=opened.seq, attempt=opened.attempt, outcome=outcome, ms=ms, **more)

    if control.why is not None:
        return settle(Cancelled(reason=NOT_RUN))
    try:
        control.interruptible = True
        response = await respond(progress)
        control.interruptible = False
        outcome = succeeded(response)
    except asyncio.CancelledError as error:
        if control.why is not None:
            return settle(Cancelled(reason=control.why, partial=_partial(said)))
        if _being_cancelled():
            raise
        return settle(_failed(error), transient=True)
    except ModelUnavailable as error:
        after = None if error.retry_after_s is None else int(error.retry_after_s * 1000)
        return settle(_failed(error), transient=True, retry_after_ms=after)
    except (TimeoutError, ConnectionError) as error:
        return settle(_failed(error), transient=True)
    except Exception as error:  # the provider's refusal is the effect's outcome, not ours to raise
        return settle(_failed(error))
    return settle(outcome, usage=response.usage, cost=response.cost)


def plain_response(response: ModelResponse) -> Succeeded:
    """A response as it can be stored, with every part as it is, and what else the provider said as its value."""
    message = response.message
    parts = tuple(
        [
            msgspec.structs.replace(part, arguments=to_json(part.arguments)) if isinstance(part, CallPart) else part
            for part in message.parts
        ]
    )
    reason = message.finish_reason or ("tool_call" if message.calls else "stop")
    said = Message(role="assistant", parts=parts, finish_reason=reason)
    return Succeeded(message=said, value=to_json(response.rest))


def _partial(said: list[str]) -> Message | None:
    text = "".join(said)
    return Message(role="assistant", parts=(Text(content=text),), finish_reason="error") if text else None


async def call_tool(bench: Bench, state: RunState, opened: Open, control: Control) -> Settle:
    """Run the tool for ``opened``; how that ended, as the command to record it."""
    tool = bench.equipment.tool(opened.name)
    if tool is None:
        return _untold(state, opened)
    holder = await bench.reader.whole(opened.holder) if opened.holder.aside else opened.holder
    try:
        arguments = bench.equipment.arguments(tool, holder)
    except ForkpointError as error:  # it was not tried: a secret is missing here, or its parameters have changed
        return Settle(effect=opened.seq, attempt=opened.attempt, outcome=_failed(error))

    async def work(ctx: ToolContext) -> Any:
        return await run_tool(tool, ctx, arguments, control)

    return await done(bench, state, opened, control, work, timeout_s=tool.timeout_s, check=tool.check_result)


async def done(
    bench: Bench,
    state: RunState,
    opened: Open,
    control: Control,
    work: Work,
    *,
    timeout_s: float | None,
    check: Callable[[Any], None],
) -> Settle:
    """One attempt at ``work``; how it ended. ``check`` raises ``tool.bad-result`` for a result that is no good."""
    began = time.monotonic()
    telling = bench.telling(state, opened, opened.name)

    def settle(outcome: Outcome, **more: Any) -> Settle:
        telling.end()
        ms = int((time.monotonic() - began) * 1000)
        return Settle(effect=opened.seq, attempt=opened.attempt, outcome=outcome, ms=ms, **more)

    ctx = _context(bench, state, opened, control, telling)
    if control.why is not None:
        return settle(Cancelled(reason=NOT_RUN))
    try:
        control.expire_after(timeout_s)
        result = await work(ctx)
        changes = ctx.changes
    except asyncio.CancelledError:
        if control.why is None and _being_cancelled():
            raise
        why = _why_text(control, timeout_s)
        return settle(Unknown(because=control.why or "cancelled", text=why), doubtful=True)
    except OutcomeUnknown as error:
        return settle(Unknown(because="reported", text=error.text), doubtful=True)
    except (TimeoutError, ConnectionError) as error:
        return settle(_failed(error), doubtful=True, transient=True)
    except Exception as error:  # a tool's exception is its outcome, and goes to the model
        return settle(_failed(error))
    return settle(_usable(check, result), set=changes[0] or None, unset=changes[1])


def _untold(state: RunState, opened: Open) -> Settle:
    """What ends a call whose tool this process does not have, if the run's agent never had it either.

    Raises ``tool.gone`` for one that the agent on record has: this process is not the one to perform it.
    """
    if any(record.name == opened.name for record in state.agent.tools) or state.agent.aside:
        raise ToolGone(run=state.run, tool=opened.name, effect=opened.seq)
    failed = Failed(error="UnknownTool", text=f"there is no tool {opened.name!r}")
    return Settle(effect=opened.seq, attempt=opened.attempt, outcome=failed)


def _usable(check: Callable[[Any], None], result: Any) -> Outcome:
    """The result as it can be stored; or that it happened and cannot be used."""
    try:
        check(result)
        return Succeeded(value=to_json(result))
    except (ValueNotJson, ToolBadResult) as error:
        return Failed(error=type(error).__name__, text=_short(str(error)), happened=True)


def _context(bench: Bench, state: RunState, opened: Open, control: Control, telling: Telling) -> ToolContext:
    loop, here = asyncio.get_running_loop(), threading.get_ident()

    def report(text: str) -> None:
        if threading.get_ident() == here:
            telling.tell(text)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(telling.tell, text)

    return ToolContext(
        run_id=state.run,
        effect_id=opened.seq,
        idempotency_key=opened.key or "",
        attempt=opened.attempt,
        state=bench.equipment.reveal(dict(state.app)) if state.app else {},
        report=report,
        is_cancelled=lambda: control.is_signalled,
        workspace=state.workspace,
    )


async def probe_tool(bench: Bench, state: RunState, opened: Open, control: Control) -> Found:
    """Ask the tool's probe what came of ``opened``; under the key of the run that performed it."""
    tool = bench.equipment.tool(opened.name)
    if tool is None:
        raise ToolGone(run=state.run, tool=opened.name, effect=opened.seq)
    holder = await bench.reader.whole(opened.holder) if opened.holder.aside else opened.holder
    telling = bench.telling(state, opened, opened.name)
    try:
        arguments = bench.equipment.arguments(tool, holder)
        control.expire_after(tool.timeout_s)
        finding = await run_probe(tool, _context(bench, state, opened, control, telling), arguments)
        if isinstance(finding, Occurred):
            value = to_json(finding.output)
            return Found(effect=opened.seq, finding="occurred", outcome=Succeeded(value=value))
    except (Exception, asyncio.CancelledError) as error:  # a probe that fails has found nothing out
        if isinstance(error, asyncio.CancelledError) and _being_cancelled():
            raise
        return Found(effect=opened.seq, finding="unknown", note=_short(f"{type(error).__name__}: {error}"))
    if isinstance(finding, NotOccurred):
        return Found(effect=opened.seq, finding="not_occurred")
    return Found(effect=opened.seq, finding="unknown", note=finding.text)


def unanswered(opened: Open) -> Found:
    """The command for a probe that was signalled and did not end within its grace period."""
    return Found(effect=opened.seq, finding="unknown", note="the probe did not answer in time")


def _being_cancelled() -> bool:
    """Whether it is this task that is to end, and not something that the called code had cancelled itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _why_text(control: Control, timeout_s: float | None) -> str:
    match control.why:
        case "timeout":
            return f"no result within {timeout_s} s"
        case "cancelled":
            return "it was interrupted while it ran"
        case None:
            return "something inside it was cancelled"


def given_up(opened: Open, control: Control, timeout_s: float | None) -> Settle:
    """The command for a call that was signalled and did not end within its grace period."""
    why = control.why or "cancelled"
    return Settle(
        effect=opened.seq,
        attempt=opened.attempt,
        outcome=Unknown(because=why, text=f"{_why_text(control, timeout_s)}, and it did not end when signalled"),
        doubtful=True,
    )


def _failed(error: BaseException) -> Failed:
    return Failed(error=type(error).__name__, text=_short(str(error)))


def _short(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= ERROR_CHARS:
        return text
    return f"{text[:ERROR_CHARS]}… ({len(text) - ERROR_CHARS} more characters)"
