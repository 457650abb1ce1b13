"""What ``--json`` prints: runs, waits, stories and requests as plain data with lasting names. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from forkpoint._word import Ref
from forkpoint.cli.files_between import FilesBetween
from forkpoint.cli.phrases import kind_of_outcome, parts_text, phrase
from forkpoint.cli.told import CallTold, FilesTold, Mark, OwnTold, StepTold, Story, TurnBegun
from forkpoint.cli.words import iso
from forkpoint.codec import encode_recorded
from forkpoint.events import RecordedEvent
from forkpoint.messages import Message, Part
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded, Unknown
from forkpoint.pieces import Open
from forkpoint.ports import ModelRequest, RunRow
from forkpoint.state import RunState
from forkpoint.status import Wait

NO_FILES: Mapping[int, FilesBetween] = {}
"""Where no files were read."""


class WaitTold(Struct, frozen=True, kw_only=True):
    """A decision that a run needs, with the effect it is about and when that was asked for."""

    run: str
    wait: Wait
    opened: Open | None
    at_ms: int


def of_wait(told: WaitTold) -> dict[str, Any]:
    """One decision that a run needs."""
    return {
        "run": told.run,
        "effect": told.wait.effect,
        "kind": told.wait.kind,
        "name": told.wait.name,
        "call": told.wait.call,
        "says": told.wait.says,
        "digest": told.wait.digest,
        "since": iso(told.at_ms),
        **_arguments(told.opened),
        "attempt": told.opened.attempt if told.opened else 0,
        "key": told.opened.key if told.opened else None,
        "outcome": of_outcome(told.opened.outcome) if told.opened and told.opened.outcome else None,
        "commands": list(wait_commands(told.run, told.wait)),
    }


def _arguments(opened: Open | None) -> dict[str, Any]:
    holder = opened.holder if opened else None
    arguments = getattr(holder, "arguments", None)
    return {"arguments": arguments, **_aside("arguments", (getattr(holder, "aside", None) or {}).get("arguments"))}


def wait_commands(run: str, wait: Wait) -> tuple[str, ...]:
    """What to type to decide about it."""
    match wait.kind:
        case "approval":
            return (f"forkpoint approve {run} {wait.effect}", f"forkpoint deny {run} {wait.effect} REASON")
        case "question":
            return (f"forkpoint answer {run} {wait.effect} JSON",)
        case _:
            return tuple(
                f"forkpoint resolve {run} {wait.effect} {verdict}"
                for verdict in ("occurred", "not_occurred", "abandoned_unknown")
            )


def of_outcome(outcome: Outcome) -> dict[str, Any]:
    """How something ended. A value that is kept aside is named by its digest and size."""
    told: dict[str, Any] = {"status": kind_of_outcome(outcome)}
    match outcome:
        case Succeeded():
            if outcome.message is not None:
                told["message"] = of_message(outcome.message)
            else:
                told["value"] = outcome.value
        case Failed():
            told |= {"error": outcome.error, "text": outcome.text, "happened": outcome.happened}
        case Cancelled():
            told |= {"reason": outcome.reason}
        case Unknown():
            told |= {"because": outcome.because, "text": outcome.text}
    for field, ref in (outcome.aside or {}).items():
        told |= _aside(field, ref)
    return told


def _aside(field: str, ref: Ref | None) -> dict[str, Any]:
    return {f"{field}_aside": {"digest": ref.digest, "bytes": ref.size}} if ref else {}


def of_message(message: Message) -> dict[str, Any]:
    """A message with its parts, as providers' conventions name them."""
    plain = msgspec.to_builtins(message)
    return {"role": message.role, "parts": plain.get("parts", []), "finish_reason": message.finish_reason}


def of_parts(parts: Sequence[Part]) -> list[Any]:
    """The parts of an input."""
    plain: list[Any] = msgspec.to_builtins(tuple(parts))
    return plain


def of_call(call: CallTold) -> dict[str, Any]:
    """One tool call."""
    return {
        "effect": call.effect or None,
        "call": call.call,
        "tool": call.tool,
        "arguments": call.arguments,
        **_aside("arguments", call.arguments_aside),
        "status": call.status,
        "outcome": of_outcome(call.outcome) if call.outcome else None,
        "recovery": call.recovery or None,
        "attempts": call.attempts,
        "key": call.key,
        "ms": call.ms,
        "remarks": list(call.remarks),
    }


def of_step(step: StepTold, files: Mapping[int, FilesBetween] = NO_FILES) -> dict[str, Any]:
    """One step. ``files`` has the files that it changed, by the event that tells of it, as far as they were read."""
    return {
        "step": step.number or None,
        "seq": step.seq,
        "ended": step.ended or None,
        "time": iso(step.at_ms),
        "status": step.status,
        "text": step.message.text if step.message else None,
        "message": of_message(step.message) if step.message else None,
        "finish_reason": step.message.finish_reason if step.message else None,
        "usage": of_usage(step.usage) if step.usage else None,
        "cost": step.cost,
        "ms": step.ms,
        "attempts": step.attempts,
        "calls": [of_call(call) for call in step.calls],
        "files": [_of_files(one, files.get(one.seq)) for one in step.files],
        "remarks": list(step.remarks),
    }


def _of_files(told: FilesTold, found: FilesBetween | None) -> dict[str, Any]:
    trees = {"seq": told.seq, "before": told.before, "after": told.after, "failed": told.failed}
    return trees if found is None else trees | found.as_json()


def of_usage(usage: Any) -> dict[str, int]:
    """Tokens by kind."""
    return dict(msgspec.structs.asdict(usage))


def of_story(
    story: Story,
    row: RunRow,
    *,
    lineage: Sequence[tuple[str, int]],
    forks: Sequence[RunRow],
    waits: Sequence[WaitTold],
    files: Mapping[int, FilesBetween] = NO_FILES,
) -> dict[str, Any]:
    """A run told as turns, steps and calls."""
    state = story.state
    turns, marks = _by_turn(story, files)
    return {
        "run": state.run,
        "at": state.seq,
        "head": row.head,
        **_standing(state),
        "workspace": state.workspace,
        "tree": state.tree,
        "lineage": [{"run": run, "at": at} for run, at in lineage],
        "forks": [{"run": fork.run, "at": fork.at, "status": fork.summary.status} for fork in forks],
        "turns": turns,
        "marks": marks,
        "waits": [of_wait(wait) for wait in waits],
    }


def _standing(state: RunState) -> dict[str, Any]:
    return {
        "status": state.status,
        "agent": state.agent.name,
        "function": state.function,
        "model": state.agent.model,
        "title": state.title,
        "labels": dict(state.labels),
        "started": iso(state.started_at_ms),
        "time": iso(state.at_ms),
        "turn": state.turn,
        "step": state.step,
        "state": state.app,
        "output": state.output,
        "failure": of_outcome(state.failure) if state.failure else None,
        "paused": msgspec.to_builtins(state.paused) if state.paused else None,
        "queued": [of_parts(entry.message.parts) for entry in state.queue],
        "usage": of_usage(state.spent.usage),
        "cost": state.spent.cost,
        "cost_unknown": state.spent.cost_unknown,
    }


def _by_turn(story: Story, files: Mapping[int, FilesBetween]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    turns: list[dict[str, Any]] = []
    marks = []
    for item in story.items:
        match item:
            case TurnBegun():
                turns.append(
                    {"turn": item.turn, "seq": item.seq, "time": iso(item.at_ms), "input": of_parts(item.parts)}
                    | {"text": parts_text(item.parts), "steps": [], "calls": []}
                )
            case StepTold():
                turns[-1]["steps"].append(of_step(item, files))
            case OwnTold() if turns:
                turns[-1]["calls"].append(of_call(item.call))
            case OwnTold():
                says = f"{item.call.tool}: {item.call.status}"
                marks.append({"seq": item.seq, "time": iso(item.at_ms), "kind": "requested", "says": says})
            case Mark():
                marks.append({"seq": item.seq, "time": iso(item.at_ms), "kind": item.kind, "says": item.says})
    return turns, marks


def of_event(recorded: RecordedEvent, names: Mapping[int, str]) -> dict[str, Any]:
    """One event: where it is, what it says, and ``event`` as it is stored."""
    told = phrase(recorded.event, names)
    stored = encode_recorded(recorded)
    return {
        "run": recorded.run,
        "seq": recorded.seq,
        "time": iso(recorded.at_ms),
        "kind": told.kind,
        "subject": told.subject,
        "status": told.status,
        "says": told.says,
        "digest": stored["digest"],
        "event": stored["event"],
    }


def of_request(run: str, step: int, request: ModelRequest) -> dict[str, Any]:
    """What a model was shown."""
    return {
        "run": run,
        "step": step,
        "model": request.model,
        "instructions": request.instructions,
        "settings": dict(request.settings),
        "tools": [msgspec.to_builtins(tool) for tool in request.tools],
        "messages": [of_message(message) for message in request.messages],
    }
