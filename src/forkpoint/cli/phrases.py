"""One event of a run in words: what it is about, how it stands, what it says. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

import msgspec
from msgspec import UNSET, Struct

from forkpoint.cli.words import brief, lasting, one_line, size
from forkpoint.effects import Effect, ModelCall, StepCall, ToolCall
from forkpoint.events import (
    AgentChanged,
    ApprovalDecided,
    ApprovalRequested,
    ContextCompacted,
    EffectDispatched,
    EffectRequested,
    EffectResolved,
    EffectSettled,
    Event,
    FunctionReturned,
    InputReceived,
    RunContinued,
    RunForked,
    RunInterrupted,
    RunPaused,
    RunStarted,
    RunStopped,
    SnapshotTaken,
    StateChanged,
    WorkspaceRewound,
)
from forkpoint.messages import BlobPart, CallPart, FilePart, Message, Part, Reasoning, ResponsePart, Text, UriPart
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded, Unknown


class Phrase(Struct, frozen=True, kw_only=True):
    """An event in words. ``kind`` is its name as stored, ``status`` how an outcome or a decision stands."""

    kind: str
    subject: str = ""
    status: str = ""
    says: str = ""


def kind_of(event: Event) -> str:
    """The name of an event's kind, as it is stored."""
    return str(type(event).__struct_config__.tag)


def effect_name(effect: Effect) -> str:
    """What an effect is called: its tool, its step, or ``model``."""
    match effect:
        case ModelCall():
            return "summary" if effect.compaction else "model"
        case ToolCall():
            return effect.tool
        case StepCall():
            return effect.name
        case _:
            assert_never(effect)


def phrase(event: Event, names: Mapping[int, str]) -> Phrase:
    """``event`` in words; ``names`` has the names of effects by their number, as far as they are known."""
    match event:
        case EffectRequested() | EffectDispatched() | EffectSettled() | EffectResolved():
            return _of_effect(event, names)
        case ApprovalRequested():
            return _told(event, names, says="a person must allow it")
        case ApprovalDecided():
            arguments = f" as {brief(event.arguments)}" if event.decision == "edited" else ""
            says = _by(f"{event.decision}{arguments}{_because(event.reason)}", event.actor)
            return _told(event, names, status=event.decision, says=says)
        case StateChanged():
            return _told(event, names, says=_keys(event))
        case ContextCompacted():
            return _told(event, names, says=f"a summary stands for events up to {event.through}")
        case SnapshotTaken():
            return Phrase(kind=kind_of(event), status="failed" if event.failed else "", says=_snapshot(event))
        case WorkspaceRewound():
            return Phrase(kind=kind_of(event), says=_by(f"files put back as of event {event.to}", event.actor))
        case _:
            return Phrase(kind=kind_of(event), says=_of_run(event))


def _told(event: Any, names: Mapping[int, str], *, status: str = "", says: str) -> Phrase:
    return Phrase(kind=kind_of(event), subject=_subject(event.effect, names), status=status, says=says)


def _subject(effect: int, names: Mapping[int, str]) -> str:
    name = names.get(effect)
    return f"{one_line(name, 60)} ({effect})" if name else f"effect {effect}"


def _of_effect(
    event: EffectRequested | EffectDispatched | EffectSettled | EffectResolved, names: Mapping[int, str]
) -> Phrase:
    match event:
        case EffectRequested():
            name = effect_name(event.effect)
            return Phrase(kind=kind_of(event), subject=one_line(name, 60), says=_asked(event.effect))
        case EffectDispatched():
            return _told(event, names, says=f"attempt {event.attempt} by {one_line(event.by)}")
        case EffectSettled():
            status = kind_of_outcome(event.outcome)
            return _told(event, names, status=status, says=_settled(event))
        case EffectResolved():
            found = f"{event.source} found: {event.finding.replace('_', ' ')}"
            outcome = f", {ending(event.outcome)}" if event.outcome else ""
            says = _by(f"{found}{outcome}{_because(event.note)}", event.actor)
            return _told(event, names, status=event.finding, says=says)
        case _:
            assert_never(event)


def _asked(effect: Effect) -> str:
    match effect:
        case ModelCall():
            return "the model is asked"
        case ToolCall():
            marks = ["needs approval"] if effect.gated else []
            marks += ["answered from outside"] if effect.external else []
            return ", ".join([f"recovery {effect.recovery.value}", *marks])
        case StepCall():
            return f"recovery {effect.recovery.value}"
        case _:
            assert_never(effect)


def _settled(event: EffectSettled) -> str:
    words = [ending(event.outcome)]
    if event.then == "retry":
        words.append("tried again")
    if event.then == "probe":
        words.append("its probe is asked")
    if event.source is not None:
        words.append(f"recorded: the outcome of the parent's effect {event.source}")
    if event.ms:
        words.append(f"after {lasting(event.ms)}")
    if event.actor:
        words.append(f"by {one_line(event.actor, 60)}")
    return "; ".join(words)


def kind_of_outcome(outcome: Outcome) -> str:
    """``succeeded``, ``failed``, ``cancelled`` or ``unknown``."""
    return str(type(outcome).__struct_config__.tag)


def ending(outcome: Outcome, limit: int = 200) -> str:
    """An outcome on one line."""
    match outcome:
        case Succeeded(message=None):
            return large_of(outcome, "value") or brief(outcome.value, limit)
        case Succeeded():
            assert outcome.message is not None
            return said(outcome.message, limit)
        case Failed():
            text = large_of(outcome, "text") or one_line(outcome.text, limit)
            done = " (it did happen)" if outcome.happened else ""
            return f"{one_line(outcome.error, 60)}: {text}{done}" if text else one_line(outcome.error, 60) + done
        case Cancelled():
            return large_of(outcome, "reason") or one_line(outcome.reason or "cancelled", limit)
        case Unknown():
            text = large_of(outcome, "text") or one_line(outcome.text, limit)
            return f"{outcome.because}: {text}" if text else outcome.because
        case _:
            assert_never(outcome)


def large_of(holder: Any, field: str) -> str:
    """What is said of a field that is kept aside as a blob: its size. Empty for one that is in place."""
    ref = (holder.aside or {}).get(field)
    return f"({size(ref.size)}, kept aside)" if ref else ""


def said(message: Message, limit: int = 200) -> str:
    """A message on one line: its words, and the tools it asks for."""
    words = [part_text(part, limit) for part in message.parts if not isinstance(part, Reasoning)]
    return one_line("; ".join(word for word in words if word), limit)


def part_text(part: Part, limit: int = 200) -> str:
    """One part of a message on one line."""
    match part:
        case Text() | Reasoning():
            return large_of(part, "content") or one_line(part.content, limit)
        case CallPart():
            return f"calls {one_line(part.name, 60)}"
        case ResponsePart():
            return large_of(part, "response") or brief(part.response, limit)
        case BlobPart():
            return f"({part.modality}, {part.mime_type or 'unknown type'})"
        case FilePart():
            return f"({part.modality} {one_line(part.file_id, 60)})"
        case UriPart():
            return f"({part.modality} {large_of(part, 'uri') or one_line(part.uri, 100)})"
        case _:
            assert_never(part)


def parts_text(parts: Iterable[Part], limit: int = 200) -> str:
    """The parts of an input on one line."""
    return one_line(" ".join(part_text(part, limit) for part in parts), limit)


def _of_run(
    event: RunStarted
    | RunForked
    | InputReceived
    | RunPaused
    | RunContinued
    | RunInterrupted
    | RunStopped
    | AgentChanged
    | FunctionReturned,
) -> str:
    match event:
        case RunStarted():
            if event.function is not None:
                return f"a call of the function {one_line(event.function, 60)}"
            return f"agent {event.agent.name}, model {one_line(event.agent.model, 60) or 'unknown'}"
        case RunForked():
            return _by(f"forked from {event.parent}@{event.at}{_patched(event)}", event.actor)
        case InputReceived():
            return _by(parts_text(event.parts), event.actor)
        case RunPaused():
            why = f"paused: the limit of {event.limit} was reached" if event.limit else "paused"
            return _by(f"{why}{_because(event.reason)}", event.actor)
        case RunContinued():
            return _by("continued", event.actor)
        case RunInterrupted():
            return _by(f"the turn was called off{_because(event.reason)}", event.actor)
        case RunStopped():
            return _by(f"stopped for good{_because(event.reason)}", event.actor)
        case FunctionReturned():
            return f"the function {_ended(event.outcome)}"
        case AgentChanged():
            return _by(f"another definition: {one_line('; '.join(event.differences))}", event.actor)
        case _:
            assert_never(event)


def _ended(outcome: Succeeded | Failed) -> str:
    if isinstance(outcome, Failed):
        return f"raised {one_line(outcome.error, 60)}{_because(outcome.text)}"
    return f"returned {brief(outcome.value) if outcome.aside is None else large_of(outcome, 'value')}"


def patch_words(event: RunForked) -> list[str]:
    """What a fork's patch set, each part in words."""
    words = ["the transcript edited"] if event.edits is not UNSET else []
    if event.state is not UNSET:
        words.append("the application's state cleared" if event.state is None else "the application's state replaced")
    for patch in event.tool_results:
        kind = "an error" if patch.error is not None else "another result"
        of = f"call {one_line(patch.call, 60)}" if patch.call else f"effect {patch.effect}"
        words.append(f"{kind} for {of}")
    words += [f"other {name}" if name != "model" else _model(event) for name in event.changed]
    if not isinstance(event.input, msgspec.UnsetType):
        given = "arguments" if any((part.extra or {}).get("arguments") for part in event.input) else "input"
        words.append(f"{given}: {parts_text(event.input, 100)}")
    return words


def _model(event: RunForked) -> str:
    return f"model {one_line(event.agent.model, 60)}" if event.agent is not None else "another model"


def _patched(event: RunForked) -> str:
    words = [*patch_words(event), f"effects {event.effects}"]
    return f": {', '.join(words)}"


def _snapshot(event: SnapshotTaken) -> str:
    if event.failed:
        return f"the files could not be captured: {one_line(event.failed)}"
    outside = f"; {len(event.outside)} changed from outside" if event.outside else ""
    return f"the files as they were ({event.why}){outside}"


def _keys(event: StateChanged) -> str:
    words = [f"{one_line(key, 60)} = {brief(value, 60)}" for key, value in (event.set or {}).items()]
    words += [f"{one_line(key, 60)} removed" for key in event.unset]
    return ", ".join(words) or large_of(event, "set")


def _because(reason: str) -> str:
    return f": {one_line(reason)}" if reason else ""


def _by(text: str, actor: str | None) -> str:
    return f"{text} (by {one_line(actor, 60)})" if actor else text
