"""A checkpoint, taken at any event it may be taken at and read on another day, gives the state that folding gives.

Not tested here: where stores keep checkpoints, and when one is taken.
"""

from histories import histories, searched
from hypothesis import given as for_any

from forkpoint.commands import Send
from forkpoint.definition import Compaction
from forkpoint.events import ResultPatch
from forkpoint.folding import fold
from forkpoint.messages import Text, user
from forkpoint.runtime.checkpoints import (
    Address,
    Anchor,
    Frozen,
    freezable,
    freeze,
    needs_all,
    thawed,
    unfreeze,
)
from forkpoint.state import RunState
from forkpoint.timetravel.patches import Replace, as_edits, edited
from forkpoint.transcript import known_messages
from given import Past, asks, dispatched, ends, given, says, started, state_digest

Kept = dict[tuple[str, int], Frozen]


def _read(state: RunState, digest: bytes, anchor: Anchor | None) -> Frozen:
    frozen = Frozen.read(freeze(state, digest, anchor), run=state.run, seq=state.seq, digest=digest)
    assert frozen is not None
    return frozen


def _addresses(frozen: Frozen, kept: Kept) -> list[Address]:
    before = _addresses(kept[frozen.base], kept) if frozen.base is not None else []
    return before + frozen.added


def _warm(state: RunState, frozen: Frozen, kept: Kept, past: Past) -> RunState:
    events = {recorded.seq: recorded for recorded in past.events}
    return thawed(state, _addresses(frozen, kept), events)


def _check(past: Past) -> int:
    """Freeze at every event that allows it, each checkpoint on the one before; then read each, and go on from it."""
    kept: Kept = {}
    state: RunState | None = None
    anchor: Anchor | None = None
    for place, recorded in enumerate(past.events, 1):
        state = fold([recorded], state)
        if not freezable(state):
            continue
        frozen = _read(state, recorded.digest, anchor)
        anchor = Anchor(state.run, state.seq, state.transcript.entries)
        kept[state.run, state.seq] = frozen
        cold = unfreeze(frozen)
        assert state_digest(_warm(cold, frozen, kept, past)) == state_digest(state)
        later = cold
        for following in past.events[place:]:
            later = _warm(later, frozen, kept, past) if needs_all(later, following) else later
            later = fold([following], later)
        warm = _warm(later, frozen, kept, past) if later.transcript.cold else later
        assert state_digest(warm) == state_digest(past.state)
    return len(kept)


@searched(60)
@for_any(histories())
def test_a_checkpoint_at_any_event_leads_to_the_folded_state(past: Past) -> None:
    _check(past)


def _long() -> Past:
    past = given(started())
    for number in range(4):
        past = past.after(
            asks("look", "mail"), dispatched(), ends("look", number), ends("mail", number), says(f"{number}")
        )
        past = past.after(Send(parts=(Text(content="go on"),)))
    return past


def test_a_patched_result_survives_forks_of_forks() -> None:
    parent = _long()
    look = next(entry.effect for entry in parent.state.transcript.entries if entry.effect)
    child = parent.forked(
        len(parent.events) - 3, run="c1", tool_results=(ResultPatch(effect=look, call="c1", value=7),)
    )
    child = child.after(asks("mail"), dispatched(), ends("mail"), says())
    grandchild = child.forked(run="c2", tool_results=(ResultPatch(effect=look, call="c1", value=8),))
    grandchild = grandchild.after(Send(parts=(Text(content="more"),)), says("so it is"))
    assert _check(child) > 4
    assert _check(grandchild) > 4
    assert (
        next(
            part.response
            for message in grandchild.state.messages
            for part in message.parts
            if hasattr(part, "response")
        )
        == 8
    )


def test_a_forks_edits_speak_of_messages_that_are_only_in_the_journal() -> None:
    parent = _long()
    known = known_messages(parent.state)
    edits = as_edits(known, edited(known, [Replace(0, user("hi"))]))
    child = parent.forked(run="c1", edits=edits).after(says("so"))
    assert child.state.messages[0] == user("hi")
    assert _check(child) > 4


def test_a_summary_written_after_a_checkpoint_replaces_messages_that_are_only_in_the_journal() -> None:
    past = given(started(compaction=Compaction(after_tokens=50, keep_steps=2)))
    for number in range(5):
        tokens = 60 if number in (2, 4) else 10
        past = past.after(asks("look", tokens=tokens), dispatched(), ends("look", number))
        if number in (2, 4):
            past = past.after(says(f"summary {number}"))
    past = past.after(says("the end"))
    assert [message.text[:7] for message in past.state.messages].count("Summary") == 1
    assert _check(past) > 4


def test_a_checkpoint_that_was_altered_or_belongs_to_another_event_is_ignored() -> None:
    past = given(started(), says())
    digest = past.events[-1].digest
    body = freeze(past.state, digest, None)
    assert Frozen.read(body, run="r", seq=past.state.seq, digest=digest) is not None
    assert Frozen.read(body, run="r", seq=past.state.seq + 1, digest=digest) is None
    assert Frozen.read(body, run="s", seq=past.state.seq, digest=digest) is None
    assert Frozen.read(body, run="r", seq=past.state.seq, digest=bytes(32)) is None
    for place in range(len(body)):
        altered = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        assert Frozen.read(altered, run="r", seq=past.state.seq, digest=digest) is None
