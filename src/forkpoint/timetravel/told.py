"""Messages grouped into steps: each model response with the answers to its calls and what was said before it. Pure.

An answer is matched to a call by where it stands, never through one map over all calls: transcripts reuse ids.
"""

from collections.abc import Iterable

from forkpoint.answers import NOTE
from forkpoint.messages import Message, ResponsePart
from forkpoint.pieces import Entry
from forkpoint.state import RunState


class StepTold:
    """One model response; for each of its calls the answer (if there is one) and the effect it became (0 if
    none, -1 if it was called off before it became one)."""

    def __init__(self, entry: Entry, heard: list[Message]) -> None:
        self.message = entry.message
        self.seq = entry.seq
        self.heard = heard
        self.answers: list[ResponsePart | None] = [None] * len(entry.message.calls)
        self.effects = [0] * len(self.answers)


class Telling:
    """Messages as steps. ``after`` is what was said since the last; ``cut`` says that earlier ones are not told."""

    def __init__(self) -> None:
        self.steps: list[StepTold] = []
        self.after: list[Message] = []
        self.cut = False
        self._awaited: dict[str, list[tuple[StepTold, int]]] = {}

    def add(self, entry: Entry) -> None:
        """Take in the next message."""
        message = entry.message
        if message.role == "assistant":
            step = StepTold(entry, self.after)
            self.steps.append(step)
            self.after = []
            for place in range(len(message.calls) - 1, -1, -1):
                self._awaited.setdefault(message.calls[place].id, []).append((step, place))
            return
        responses = [part for part in message.parts if isinstance(part, ResponsePart)]
        taken = [self._answered(part, entry.effect) for part in responses]
        if not (taken and all(taken)):
            self.after.append(message)

    def _answered(self, part: ResponsePart, effect: int) -> bool:
        """Give the answer to the newest step that awaits it, to the first of its calls of that id."""
        awaited = self._awaited.get(part.id)
        if not awaited:
            return False
        step, place = awaited.pop()
        step.answers[place] = part
        step.effects[place] = max(effect, 0)
        return True


def tell_messages(entries: Iterable[Entry]) -> Telling:
    """Messages as steps."""
    telling = Telling()
    for entry in entries:
        telling.add(entry)
    return telling


def tell_state(state: RunState, *, past: Iterable[Entry] = (), hide: Iterable[int] = (), after: int = 0) -> Telling:
    """A state's messages as steps, those in ``past`` first, without those that the events ``hide`` hold.

    With ``after``, only what events over it hold.
    """
    hidden = set(hide)
    said = (*past, *state.transcript.entries)
    entries = [entry for entry in (_in_order(said) if state.function else said) if entry.seq not in hidden]
    if after:
        entries = _since(entries, after)
    telling = tell_messages(entries)
    telling.cut = not hidden and not after and _begins_late(state)
    if state.batch and telling.steps:
        asking = state.transcript.entries[-1].seq
        step = next((one for one in reversed(telling.steps) if one.seq == asking), telling.steps[-1])
        _place(state, step)
    telling.after += state.notes
    telling.after += (entry.message for entry in state.inputs)
    return telling


def _in_order(entries: Iterable[Entry]) -> list[Entry]:
    """The messages of conversations that went on side by side, each once, in the order in which they were said."""
    by_place = {(entry.seq, entry.index): entry for entry in entries}
    return [by_place[place] for place in sorted(by_place)]


def is_note(message: Message) -> bool:
    """Whether Forkpoint itself put the message in."""
    return any(getattr(part, "extra", None) == NOTE for part in message.parts)


def _since(entries: list[Entry], after: int) -> list[Entry]:
    """What is over ``after``, less the answers to calls of the steps before."""
    kept = [entry for entry in entries if entry.seq > after]
    first = next((place for place, entry in enumerate(kept) if entry.message.role == "assistant"), len(kept))
    return [entry for entry in kept[:first] if entry.message.role != "tool"] + kept[first:]


def _begins_late(state: RunState) -> bool:
    entries = state.transcript.entries
    if state.transcript.cold:
        return True
    return bool(entries) and entries[0].index == 1 and is_note(entries[0].message)


def _place(state: RunState, step: StepTold) -> None:
    """The calls of the last message, by their places: their answers have not been shown yet."""
    for place, slot in enumerate(state.batch):
        opened = state.effects.get(slot.effect)
        said = slot.answer or (opened.answer if opened is not None else None)
        parts = said.parts if said is not None else ()
        step.answers[place] = next((part for part in parts if isinstance(part, ResponsePart)), None)
        step.effects[place] = slot.effect
