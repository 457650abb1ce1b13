"""What the effects of a function's run do to its state: several conversations side by side, each a head. Pure.

The code decides what a model is shown. A request is told as what it keeps of a conversation on record and what it
adds, so that a step's cost does not grow with the steps; one that builds on nothing begins a conversation.
"""

from msgspec.structs import replace

from forkpoint.effects import ModelCall, StepCall, ToolCall
from forkpoint.events import EffectSettled
from forkpoint.messages import CallPart, Message
from forkpoint.outcomes import Succeeded
from forkpoint.pieces import Entry, Open, Slot, Transcript
from forkpoint.state import RunState, rest
from forkpoint.transcript import added_messages, digest_of

HEADS = 16
"""How many conversations are kept to build on. One that is not is told whole when it goes on."""


def kept_of(state: RunState, effect: ModelCall) -> Transcript:
    """What the request of ``effect`` keeps of a conversation on record."""
    found = state.heads.get(effect.since) if effect.since is not None else None
    if found is None:
        return Transcript()
    keep = len(found) if effect.keep is None else effect.keep
    return found if keep == len(found) else Transcript(found.entries.first(keep))


def shown_digest(state: RunState, effect: ModelCall, definition: bytes) -> str:
    """The name of a function's request, asked for in ``state`` under the definition of that digest."""
    return digest_of(kept_of(state, effect), added_messages(state, effect.add), definition)


def _transcript_of(state: RunState, seq: int, effect: ModelCall) -> Transcript:
    """Everything that the model is shown for ``effect``, requested as event ``seq``."""
    known = {opened.answer_seq: opened for opened in state.effects.values() if opened.answer_seq}
    transcript, index = kept_of(state, effect), 0
    for item in effect.add:
        if isinstance(item, int):
            opened = known[item]
            assert opened.answer is not None
            transcript = transcript.append(Entry(item, 0, opened.seq, opened.answer))
        else:
            index += 1
            transcript = transcript.append(Entry(seq, index, 0, item))
    return transcript


def shown(state: RunState, seq: int, opened: Open) -> RunState:
    """The model is asked: its conversation goes on, or a new one begins."""
    effect = opened.effect
    assert isinstance(effect, ModelCall)
    transcript = _transcript_of(state, seq, effect)
    heads, effects = dict(state.heads), dict(state.effects)
    before = state.heads.get(effect.since) if effect.since is not None else None
    if before is not None and effect.since is not None:
        last = before.entries[-1].seq if before.entries else 0
        if effect.keep is None:
            del heads[effect.since]
        for key, one in state.effects.items():
            if one.phase == "settled" and isinstance(one.effect, ToolCall) and one.effect.message == last:
                del effects[key]
    heads[seq], effects[seq] = transcript, opened
    while len(heads) > HEADS:
        del heads[min(heads)]
    return replace(
        state,
        seq=seq,
        transcript=transcript,
        asked=len(transcript),
        heads=heads,
        batch=(),
        notes=(),
        inputs=(),
        effects=effects,
    )


def asking_message(state: RunState, message: int) -> Message | None:
    """The message of event ``message``, if a model said it and its conversation has not gone on since."""
    for head in state.heads.values():
        if head.entries and head.entries[-1].seq == message:
            return head.entries[-1].message
    return None


def called(state: RunState, seq: int, effect: ToolCall) -> RunState:
    """A tool is asked for by a model's message: the call takes its place in it."""
    message = asking_message(state, effect.message)
    part: CallPart | None = message.calls[effect.call] if message is not None else None
    own = effect.arguments is not None or bool(effect.aside) or part is None
    opened = Open(seq=seq, effect=effect, name=effect.tool, call=part.id if part else effect.id)
    opened = opened if own else replace(opened, asked=part)
    batch = state.batch
    if batch and state.transcript.entries[-1].seq == effect.message:
        slot = batch[effect.call]
        batch = (*batch[: effect.call], Slot(slot.call, slot.name, seq), *batch[effect.call + 1 :])
    return replace(state, seq=seq, batch=batch, effects={**state.effects, seq: opened})


def is_spent(left: Open) -> bool:
    """Whether nothing can happen any more to an effect that has ended, and no model is told of it by reference."""
    if left.phase != "settled":
        return False
    return isinstance(left.effect, StepCall) or (isinstance(left.effect, ToolCall) and not left.effect.message)


def responded(state: RunState, seq: int, opened: Open, event: EffectSettled) -> RunState:
    """A model call has ended for good. What that means for the run is for the code to say."""
    if not isinstance(event.outcome, Succeeded):
        return rest(state)
    message = event.outcome.message or Message(role="assistant")
    tokens = event.usage.input_tokens if event.usage else state.context_tokens
    return _heard(replace(state, context_tokens=tokens), opened, Entry(seq, 0, 0, message))


def answered_anew(state: RunState, opened: Open, entry: Entry) -> RunState:
    """A fork puts a model's answer in the place of the one that its parent got."""
    effects = {key: one for key, one in state.effects.items() if key != opened.seq}
    return _heard(replace(state, effects=effects), opened, entry)


def _heard(state: RunState, opened: Open, entry: Entry) -> RunState:
    transcript = state.heads.get(opened.seq, Transcript()).append(entry)
    return replace(
        state,
        step=state.step + 1,
        transcript=transcript,
        heads={**state.heads, opened.seq: transcript},
        batch=tuple([Slot(part.id, part.name) for part in entry.message.calls]),
    )
