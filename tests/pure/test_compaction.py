"""A summary stands for the oldest messages shown; the journal keeps everything, and nothing is cut in two."""

import pytest

from forkpoint.commands import Advance, ChangeAgent, Send
from forkpoint.definition import Compaction
from forkpoint.effects import ModelCall
from forkpoint.events import ContextCompacted, EffectRequested, EffectSettled
from forkpoint.ids import AtStep
from forkpoint.messages import Text
from forkpoint.outcomes import Succeeded
from forkpoint.summarise import ASK, replaced
from forkpoint.timetravel.moments import seq_of, state_at
from forkpoint.transcript import first_problem, request_digest
from given import Past, agent, asks, dispatched, ends, fails, given, says, settled, started, told

KEEP_1 = Compaction(after_tokens=50, keep_steps=1)


def _long(keep: Compaction = KEEP_1, steps: int = 3) -> Past:
    """A run whose next request would be preceded by a summary."""
    past = given(started(compaction=keep))
    for number in range(1, steps + 1):
        tokens = 60 if number == steps else 10
        past = past.after(asks("look", "mail", tokens=tokens), dispatched(), ends("look", number), ends("mail", number))
    return past


def test_a_summary_is_written_by_a_model_call_of_its_own_before_the_next_request() -> None:
    past = _long().after(Advance(by="p"))
    opened = past.effect("")
    assert isinstance(opened.effect, ModelCall) and opened.effect.compaction
    assert opened.effect.add[-1].text == ASK  # type: ignore[union-attr]
    past = past.after(says("in short"))
    settled, compacted = (recorded.event for recorded in past.events[-2:])
    assert isinstance(settled, EffectSettled) and isinstance(compacted, ContextCompacted)
    assert compacted.replaced == 7
    assert past.state.messages[0].text == "Summary of the conversation so far:\nin short"
    assert told(past.state)[1:] == ["look(c1)", "mail(c2)", ("c1", 3), ("c2", 3)]


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_no_cut_parts_a_call_from_its_answer(keep: int) -> None:
    past = _long(Compaction(after_tokens=50, keep_steps=keep), steps=5)
    past = past.after(Advance(by="p"), says("in short"))
    assert first_problem(past.state.messages) is None
    assert sum(1 for message in past.state.messages if message.calls) == keep


def test_a_summary_is_no_step_and_its_cost_counts() -> None:
    before = _long()
    past = before.after(Advance(by="p"), says("in short"))
    assert past.state.step == before.state.step == 3
    assert past.state.spent.cost == before.state.spent.cost + 0.5
    assert past.state.status == "running"


def test_both_sides_of_a_summary_stay_reachable() -> None:
    past = _long().after(Advance(by="p"), says("in short"), says("the end"))
    assert told(state_at(past.events, step=2))[:2] == ["hello", "look(c1)"]
    assert told(state_at(past.events, step=4))[0].startswith("Summary")
    assert past.events[seq_of(past.events, AtStep(3)) - 1].event.__class__ is ContextCompacted


def test_the_request_that_asks_for_it_can_be_rebuilt_and_so_can_the_next() -> None:
    past = _long()
    for recorded in past.after(Advance(by="p"), says("in short"), says("the end")).events[len(past.events) :]:
        if isinstance(recorded.event, EffectRequested) and isinstance(recorded.event.effect, ModelCall):
            call = recorded.event.effect
            assert request_digest(past.state, call.add) == call.digest
        past = past.after(recorded.event)


def test_short_transcripts_and_agents_without_a_policy_are_left_alone() -> None:
    for past in (_long(steps=1), given(started(), asks("look", tokens=10**6), dispatched(), ends("look"))):
        request = past.when(Advance(by="p"))[0]
        assert isinstance(request, EffectRequested) and not request.effect.compaction  # type: ignore[union-attr]
    assert replaced(given(started(None)).state) == 0


def test_one_summary_does_not_follow_the_other_for_the_same_request() -> None:
    past = _long().after(Advance(by="p"), says("in short"))
    request = past.when(Advance(by="p"))[0]
    assert isinstance(request, EffectRequested) and not request.effect.compaction  # type: ignore[union-attr]


def test_a_summary_that_cannot_be_written_is_done_without() -> None:
    past = _long().after(Advance(by="p"), fails(""))
    assert past.state.status == "running"
    request = past.when(Advance(by="p"))[0]
    assert isinstance(request, EffectRequested) and not request.effect.compaction  # type: ignore[union-attr]


def test_what_is_said_while_a_summary_is_written_is_not_lost() -> None:
    past = _long().after(
        Advance(by="p"), Send(parts=(Text(content="and?"),)), says("in short"), says("one"), says("two")
    )
    assert told(past.state)[-3:] == ["one", "and?", "two"]


def test_a_policy_that_changes_meanwhile_cuts_no_other_place_in_two() -> None:
    past = _long(steps=6).after(Advance(by="p"))
    for other in (agent(), agent(compaction=Compaction(after_tokens=1, keep_steps=50))):
        changed = past.after(ChangeAgent(agent=other, differences=("compaction",)), says("in short"))
        assert first_problem(changed.state.messages) is None
        assert changed.state.context_tokens == 0
    assert told(changed.state)[0] == "hello"


def test_a_fork_while_a_summary_is_written_does_without_it() -> None:
    child = _long().after(Advance(by="p")).forked()
    assert not any(isinstance(opened.effect, ModelCall) for opened in child.state.effects.values())
    assert told(child.state)[0] == "hello"


def test_a_response_that_brings_no_message_is_an_empty_summary() -> None:
    past = _long().after(Advance(by="p"))
    past = past.after(settled(past, "", Succeeded()))
    assert past.state.messages[0].text == "Summary of the conversation so far:\n"
