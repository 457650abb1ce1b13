"""What a model is told about a call that did not simply succeed: one wording for each ending."""

from typing import Any

from forkpoint._canon import canonical
from forkpoint.messages import Message, ResponsePart, Text, answer
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded, Unknown

NOTE = {"forkpoint": "note"}
"""Marks a message that Forkpoint put in, so that no reader takes it for a person's words."""

NOT_ANSWERED = "outcome unknown: the call has no recorded result"
NOT_YET = "not performed yet"
NOT_RUN = "cancelled before it ran"
LEFT_OPEN = "left open in the parent run; it was not performed here"
WITHDRAWN = "interrupted: the question was withdrawn"


def note(text: str) -> Message:
    """A message from Forkpoint itself, in a user's place because every provider takes it there."""
    return Message(role="user", parts=(Text(content=f"[note] {text}", extra=NOTE),))


def error_answer(call: str, error: str, text: str) -> Message:
    """The answer that tells a model that a call went wrong."""
    return answer(call, {"error": error, "message": text})


def placeholder(call: str, text: str = NOT_ANSWERED) -> Message:
    """The explicit answer for a call that has none."""
    return error_answer(call, "unknown", text)


def told(call: str, outcome: Outcome) -> Message:
    """The answer that a model sees for ``outcome``."""
    match outcome:
        case Succeeded():
            return Message(role="tool", parts=(_response(call, outcome),))
        case Failed():
            return error_answer(call, outcome.error, outcome.text or outcome.error)
        case Cancelled():
            return error_answer(call, "cancelled", outcome.reason or NOT_RUN)
        case Unknown():
            return placeholder(call, f"outcome unknown: {outcome.text or outcome.because}")


def denied(call: str, reason: str) -> Message:
    """The answer for a call that a person did not allow."""
    return error_answer(call, "denied", reason or "a person did not allow this call")


def resolved(call: str, finding: str, outcome: Succeeded | Failed | None) -> Message:
    """The answer for a call whose unknown outcome was decided; ``decision`` says by whom, in a note."""
    if outcome is not None:
        return told(call, outcome)
    return answer(call, {"resolved": finding, "meaning": _MEANING[finding]})


def decision(tool: str, effect: int, finding: str, *, source: str, actor: str | None, words: str) -> str:
    """The sentence that keeps a finding about an unknown outcome in the conversation, word for word."""
    who = {"person": actor or "a person", "probe": "the tool's own probe", "late": "a late result"}[source]
    said = f" Their note: {words}" if words else ""
    return f"The outcome of {tool} (effect {effect}) was unknown; {who} found: {finding}.{said}"


def contradicted(tool: str, effect: int, decided: str, late: Succeeded | Failed) -> str:
    """The sentence for a late result that disagrees with what was decided."""
    return f"{tool} (effect {effect}) was decided as {decided}, but a late result says that it {ending(late)}."


def afterwards(said: str, outcome: Succeeded | Failed) -> str:
    """``said`` with an outcome that came when the call had its answer already."""
    return f"{said} It {ending(outcome)}."


def ending(outcome: Succeeded | Failed) -> str:
    """How a call ended, in a few words: its result where that is short enough to be told in a sentence."""
    if isinstance(outcome, Failed):
        return f"failed with {outcome.error}: {outcome.text}" if outcome.text else f"failed with {outcome.error}"
    if outcome.aside:
        return "succeeded, with a result that is too large to repeat here"
    return f"succeeded with {as_text(outcome.value)}"


def edited(tool: str, arguments: str, actor: str | None) -> str:
    """The sentence for a call that a person allowed with other arguments."""
    return f"{actor or 'A person'} changed the arguments of {tool} before it ran, to {arguments}."


_MEANING = {
    "occurred": "The call did take effect. Do not repeat it.",
    "not_occurred": "The call did not take effect. A new call may be made if it is still wanted.",
    "abandoned_unknown": "Nobody knows whether the call took effect. Do not assume either.",
}


def _response(call: str, outcome: Succeeded) -> ResponsePart:
    aside = {"response": outcome.aside["value"]} if outcome.aside and "value" in outcome.aside else None
    return ResponsePart(id=call, response=outcome.value, aside=aside)


def as_text(value: Any) -> str:
    """A JSON value as one line of text, cut where it is long."""
    text = canonical(value).decode()
    return text if len(text) <= 500 else f"{text[:500]}… ({len(text)} characters)"
