"""What a fork inherits: the state at its fork point, changed by its patch, with what was open put right.

The order is the order of a patch: messages, state, tool results, agent, input. Then the calls that the
parent left open: a model call is dropped (the child asks anew), a tool call stays to be performed only where
that is safe, and any other is held for a person.
"""

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from forkpoint import answers
from forkpoint._canon import value_digest
from forkpoint._vector import Vector
from forkpoint.effects import ModelCall, Recovery, ToolCall
from forkpoint.events import ApprovalDecided, Keep, Put, RecordedEvent, ResultPatch, RunForked
from forkpoint.functions import answered_anew, is_spent
from forkpoint.messages import CallPart, Message, ResponsePart
from forkpoint.outcomes import Cancelled, Failed, Outcome, Succeeded
from forkpoint.pieces import Entry, Lineage, Open, Slot, Transcript
from forkpoint.state import RunState, accept, agent_digest, rest
from forkpoint.transcript import known_entries

PUT_BASE = 1 << 20
"""Messages put in by edits are numbered from here, so that they never meet the numbers of patched results."""


def inherited(state: RunState, recorded: RecordedEvent, event: RunForked) -> RunState:
    """The child's state at birth, given the parent's at the fork point."""
    seq, owner = recorded.seq, state.run
    state = replace(
        state,
        run=recorded.run,
        seq=seq,
        at_ms=recorded.at_ms,
        turn_at_ms=recorded.at_ms - (state.at_ms - state.turn_at_ms),
        interrupting=state.interrupting and event.pending != "run",
        stopped=False,
        paused=None,
        workspace=event.workspace,
        files="unseen",
        files_blurred=False,
        labels={**state.labels, **(event.labels or {})},
        retold=state.retold or (state.function is not None and event.input is not UNSET),
        lineage=Lineage(parent=event.parent, at=event.at, parent_head=event.parent_head, effects=event.effects),
        sources=frozenset(),
    )
    if event.edits is not UNSET:
        state = _edited(state, seq, event.edits)
    if event.state is not UNSET:
        state = replace(state, app=event.state)
    for index, patch in enumerate(event.tool_results, 1):
        state = _answered(state, seq, index, patch)
    if event.agent is not None:
        state = replace(
            state,
            agent=event.agent,
            agent_digest=agent_digest(event.agent),
            overridden=state.overridden | frozenset(event.changed),
        )
    if state.function is not None:
        return _called_again(rest(_left_open(state, owner, event)), event)
    if event.input is not UNSET:
        entry = Entry(seq, 0, 0, Message(role="user", parts=event.input))
        state = replace(state, queue=(*state.queue, entry), title=state.title or entry.message.text[:80])
    state = rest(_left_open(state, owner, event))
    return state if event.input is UNSET else accept(state)


def _called_again(state: RunState, event: RunForked) -> RunState:
    """A function's fork: it is called again unless it had returned, and nothing that it could see was changed."""
    changed = bool(event.tool_results) or event.agent is not None
    if event.input is not UNSET:
        changed, words = True, Message(role="user", parts=event.input).text
        state = replace(state, title=words[:80])
    effects = {key: opened for key, opened in state.effects.items() if not is_spent(opened)}
    state = replace(state, effects=effects)
    if not changed:
        return state
    return replace(state, active=True, returned=None, failure=None, output="")


def _edited(state: RunState, seq: int, edits: tuple[Keep | Put, ...]) -> RunState:
    """The state with its whole transcript replaced; calls of the last message may still be open.

    The turn is over if the model has the last word in it, and goes on if not.
    """
    told = known_entries(state)
    entries: list[Entry] = []
    index = PUT_BASE
    for edit in edits:
        if isinstance(edit, Keep):
            entries += told[edit.start : edit.stop]
        else:
            index += 1
            entries.append(Entry(seq, index, 0, edit.message))
    head, calls, said = _open_end(entries)
    kept = bool(head) and bool(state.batch) and head[-1] is state.transcript.entries[-1]
    batch = _batch(state if kept else None, calls, said)
    owed = bool(batch) or (bool(head) and head[-1].message.role != "assistant")
    alive = {slot.effect for slot in batch}
    effects = {
        key: opened for key, opened in state.effects.items() if key in alive or not isinstance(opened.effect, ToolCall)
    }
    doubts = {key: doubt for key, doubt in state.doubts.items() if key in effects or doubt.finding is not None}
    return replace(
        state,
        transcript=Transcript(Vector(head)),
        batch=batch,
        effects=effects,
        doubts=doubts,
        notes=(),
        inputs=(),
        turn=max(state.turn, int(owed)),
        active=owed,
        failure=None,
        output="" if owed or not head else head[-1].message.text,
    )


def _open_end(entries: list[Entry]) -> tuple[list[Entry], tuple[CallPart, ...], list[Message | None]]:
    """``entries`` up to a last message with unanswered calls, those calls, and the answer of each that has one.

    With an answer that no call awaits, all of ``entries``: then they are no transcript, and the fork is refused.
    """
    last = len(entries)
    while last and entries[last - 1].message.role == "tool":
        last -= 1
    calls = entries[last - 1].message.calls if last else ()
    tail = [entry.message for entry in entries[last:]]
    said: list[Message | None] = []
    for part in calls:
        found = next((message for message in tail if _answers(message, part.id)), None)
        if found is not None:
            tail.remove(found)
        said.append(found)
    if tail or None not in said:
        return entries, (), []
    return entries[:last], calls, said


def _batch(state: RunState | None, calls: tuple[CallPart, ...], said: list[Message | None]) -> tuple[Slot, ...]:
    """The calls with their answers; those without one stay the effects they are, if ``state`` has them open."""
    slots = []
    for place, (part, answer) in enumerate(zip(calls, said, strict=True)):
        effect = 0
        if state is not None and answer is None:
            effect = state.batch[place].effect
            opened = state.effects.get(effect)
            effect = 0 if opened is not None and opened.phase == "settled" else effect
        slots.append(Slot(part.id, part.name, effect, answer))
    return tuple(slots)


def _answers(message: Message, call: str) -> bool:
    return any(isinstance(part, ResponsePart) and part.id == call for part in message.parts)


def patched_answer(patch: ResultPatch) -> Message:
    """The message that a patched result puts in place of the recorded one."""
    if patch.error is not None:
        return answers.error_answer(patch.call, "Error", patch.error)
    outcome = Succeeded(value=patch.value, aside=patch.aside)
    return answers.told(patch.call, outcome)


def _answered(state: RunState, seq: int, index: int, patch: ResultPatch) -> RunState:
    message = patched_answer(patch)
    entry = Entry(seq, index, patch.effect, message)
    if not patch.effect:
        return _answered_without_effect(state, entry, patch.call)
    state = replace(state, doubts={key: doubt for key, doubt in state.doubts.items() if key != patch.effect})
    opened = state.effects.get(patch.effect)
    if opened is not None and isinstance(opened.effect, ModelCall):
        return state if patch.message is None else answered_anew(state, opened, Entry(seq, index, 0, patch.message))
    if opened is not None:
        failed = patch.error is not None
        outcome: Outcome = Failed(error="Error", text=patch.error or "") if failed else Succeeded()
        done = replace(opened, phase="settled", gate="none", outcome=outcome, answer=message, answer_seq=0)
        return replace(state, effects={**state.effects, patch.effect: done})
    transcript = state.transcript
    entries = [entry if old.effect == patch.effect else old for old in transcript.entries]
    if any(new is entry for new in entries):
        return replace(state, transcript=transcript.holding(Vector(entries)))
    return replace(state, transcript=replace(transcript, patched=(*transcript.patched, entry)))


def _answered_without_effect(state: RunState, entry: Entry, call: str) -> RunState:
    """The state with another answer to a call that never became an effect: open still, or put in by an edit."""
    batch = list(state.batch)
    for place, slot in enumerate(batch):
        if slot.call == call and slot.effect <= 0:
            batch[place] = Slot(slot.call, slot.name, 0, entry.message)
            return replace(state, batch=tuple(batch))
    old = state.transcript.entries
    entries = [entry if not one.effect and _answers(one.message, call) else one for one in old]
    return replace(state, transcript=state.transcript.holding(Vector(entries)))


def _left_open(state: RunState, owner: str, event: RunForked) -> RunState:
    effects: dict[int, Open] = {}
    doubts, decided = dict(state.doubts), dict(state.decided)
    for key, opened in state.effects.items():
        if isinstance(opened.effect, ModelCall):
            continue
        effects[key] = _taken_over(state, opened, owner, event)
        if effects[key].phase in ("requested", "settled") and opened.phase == "unknown":
            del doubts[key]
        if effects[key].gate == "asked":
            decided.pop(key, None)
    return replace(state, effects=effects, doubts=doubts, decided=decided)


def _taken_over(state: RunState, opened: Open, owner: str, event: RunForked) -> Open:
    """What becomes, in the child, of a call that ``owner`` left open."""
    if opened.phase == "settled":
        return opened
    if opened.phase == "requested" or opened.recovery is Recovery.REPEAT or event.pending == "run":
        return _closed(opened, answers.NOT_RUN) if state.interrupting else _afresh(state, opened, event)
    if event.pending == "skip":
        return _closed(opened, answers.LEFT_OPEN)
    theirs = opened.owner or (owner, opened.seq)
    if opened.recovery is Recovery.RECONCILE and opened.phase in ("dispatched", "probe", "retry"):
        return replace(opened, phase="probe", owner=theirs)
    return replace(opened, phase="unknown" if opened.phase == "unknown" else "held", owner=theirs)


def _closed(opened: Open, reason: str) -> Open:
    outcome = Cancelled(reason=reason)
    answer = answers.told(opened.call, outcome)
    return replace(opened, phase="settled", gate="none", outcome=outcome, answer=answer, answer_seq=0)


def _afresh(state: RunState, opened: Open, event: RunForked) -> Open:
    """The call as if nobody had tried it: to be allowed again if it had to be, or if this fork asks about each."""
    effect = opened.effect
    asks = event.effects == "ask" and event.pending != "run"
    asks = asks and opened.recovery is not Recovery.REPEAT and not opened.external
    gated = asks or (isinstance(effect, ToolCall) and effect.gated)
    afresh = replace(
        opened,
        phase="requested",
        gate="none",
        asked=_asked(state, opened),
        attempt=0,
        key=None,
        outcome=None,
        owner=None,
    )
    return replace(afresh, gate="asked", digest=opened.digest or _digest(afresh)) if gated else afresh


def _asked(state: RunState, opened: Open) -> Any:
    """What holds the arguments as the model asked for them, without what a person edited in the parent."""
    effect = opened.effect
    if not isinstance(opened.asked, ApprovalDecided):
        return opened.asked
    if not isinstance(effect, ToolCall) or effect.arguments is not None or effect.aside:
        return None
    return state.transcript.entries[-1].message.calls[effect.call]


def _digest(opened: Open) -> str:
    """What binds a question to a call and its arguments; those that stand aside are named by their digest."""
    aside = {key: ref.digest for key, ref in (opened.holder.aside or {}).items()}
    return value_digest([opened.name, aside or getattr(opened.holder, "arguments", None)])
