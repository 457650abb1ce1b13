"""True of every history: folding, moments, transcripts, requests, forks.

Not tested here: stores and checkpoints on disk, and what really is performed (see ``crash`` and ``runtime``).
"""

from histories import forked, histories, searched
from hypothesis import given as for_any
from hypothesis import strategies as st

from forkpoint.advance import idempotency_key
from forkpoint.codec import encode_event
from forkpoint.effects import ModelCall
from forkpoint.events import EffectDispatched, EffectRequested, RunForked
from forkpoint.folding import fold
from forkpoint.timetravel.moments import replay, state_at
from forkpoint.transcript import additions, compile_messages, first_problem, known_messages, request_digest
from given import Past, state_digest


@searched(60)
@for_any(histories(), st.data())
def test_folding_in_two_parts_equals_folding_at_once(past: Past, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(past.events)))
    assert fold(past.events[cut:], fold(past.events[:cut])) == past.state


@searched(40)
@for_any(histories())
def test_the_state_at_any_event_is_the_fold_of_the_events_up_to_it(past: Past) -> None:
    state = None
    for recorded in past.events:
        state = fold([recorded], state)
        assert state_at(past.events, recorded.seq) == state
    assert replay(past.events) == past.state


@searched(40)
@for_any(histories())
def test_folding_again_gives_the_same_state_to_the_last_byte(past: Past) -> None:
    assert state_digest(fold(past.events)) == state_digest(past.state)


@searched(80)
@for_any(histories())
def test_every_transcript_at_every_event_is_one_that_any_provider_takes(past: Past) -> None:
    state = None
    for recorded in past.events:
        state = fold([recorded], state)
        assert first_problem(compile_messages(state)) is None, recorded


@searched(80)
@for_any(histories())
def test_every_request_can_be_rebuilt_and_matches_its_digest(past: Past) -> None:
    state = None
    for recorded in past.events:
        before, state = state, fold([recorded], state)
        event = recorded.event
        if isinstance(event, EffectRequested) and isinstance(event.effect, ModelCall):
            assert before is not None
            assert request_digest(before, event.effect.add) == event.effect.digest
            if not event.effect.compaction:
                assert request_digest(state, ()) == event.effect.digest
                assert tuple(entry.message for entry in state.transcript.entries) == compile_messages(before)


@searched(60)
@for_any(histories())
def test_what_the_next_request_adds_is_what_the_transcript_shows(past: Past) -> None:
    from forkpoint.transcript import added_messages

    state = None
    for recorded in past.events:
        state = fold([recorded], state)
        kept = tuple(entry.message for entry in state.transcript.entries)
        assert (*kept, *added_messages(state, additions(state))) == compile_messages(state)
        assert len(known_messages(state)) <= len(compile_messages(state))


@searched(12)
@for_any(histories(24, forks=False), st.data())
def test_a_fork_at_every_event_shares_exactly_its_past(past: Past, data: st.DataObject) -> None:
    before = [encode_event(recorded.event) for recorded in past.events]
    for seq in range(1, len(past.events) + 1):
        child = forked(data.draw, past, at=seq)
        birth = child.events[-1].event
        assert isinstance(birth, RunForked)
        assert child.events[:-1] == past.events[:seq]
        assert first_problem(child.state.messages) is None
        assert child.state.step == past.upto(seq).state.step
        assert child.state.spent == past.upto(seq).state.spent
    assert [encode_event(recorded.event) for recorded in past.events] == before


@searched(60)
@for_any(histories())
def test_an_effect_has_one_key_over_all_attempts_and_another_in_every_run(past: Past) -> None:
    keys: dict[str, tuple[str, int]] = {}
    for recorded in past.events:
        event = recorded.event
        if isinstance(event, EffectDispatched) and event.key is not None:
            assert event.key == idempotency_key(recorded.run, event.effect)
            assert keys.setdefault(event.key, (recorded.run, event.effect)) == (recorded.run, event.effect)
