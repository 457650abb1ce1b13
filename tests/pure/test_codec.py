"""Events to bytes and back; what is unknown is refused by name, and one byte changed is noticed.

Not tested here: files, commits and ``verify`` (``storage``).
"""

import json
from typing import Any

import pytest
from hypothesis import given as for_any
from hypothesis import strategies as st
from msgspec import UNSET

from forkpoint._canon import canonical, content_digest, link, short, value_digest
from forkpoint._word import Ref
from forkpoint.aside import bring_back, refs, set_aside
from forkpoint.codec import (
    FORMAT,
    LARGE_BYTES,
    decode_event,
    decode_events,
    encode_event,
    encode_recorded,
    event_digest,
    event_digests,
)
from forkpoint.definition import AgentRecord, ToolRecord
from forkpoint.effects import ModelCall
from forkpoint.errors import BlobMissing, EventUnknown, EventUnreadable
from forkpoint.events import (
    KINDS,
    EffectRequested,
    EffectSettled,
    Event,
    InputReceived,
    Keep,
    Put,
    ResultPatch,
    RunForked,
    RunPaused,
    RunStarted,
    RunStopped,
    SnapshotTaken,
    StateChanged,
    needs_lease,
)
from forkpoint.messages import BlobPart, CallPart, FilePart, Message, Reasoning, Text, UriPart, answer, user
from forkpoint.outcomes import Failed, Succeeded
from given import asks, dispatched, ends, given, says, started


def _decoded(event: Event) -> Event:
    return decode_event(encode_event(event), run="r", seq=7)


RICH = Message(
    role="assistant",
    parts=(
        Reasoning(content="hm", extra={"signature": "a\u0000b", "n": 1.5}),
        Text(content="\r\n\u2028 é \U0001f600"),
        CallPart(id="1", name="t", arguments={"z": None, "a": [True, -1, 1e300]}),
        CallPart(id="2", name="t", arguments="not {json"),
        BlobPart(mime_type="image/png", content="AAAA"),
        FilePart(file_id="f"),
        UriPart(uri="https://x/"),
    ),
    finish_reason="tool_call",
)


@pytest.mark.parametrize(
    "event",
    [
        InputReceived(parts=(Text(content="x"),), key="k"),
        EffectSettled(effect=3, outcome=Succeeded(message=RICH), cost=0.0),
        EffectSettled(effect=3, outcome=Succeeded(value={"b": [1, {"a": None}], "type": "x", "is": "y"})),
        EffectRequested(effect=ModelCall(add=(4, user("x"), 6, RICH), digest="d")),
        RunForked(parent="p", at=1, parent_head=2),
        RunForked(parent="p", at=1, parent_head=2, state=None, edits=(), input=()),
        RunForked(parent="p", at=1, parent_head=2, edits=(Keep(start=0, stop=2), Put(message=RICH))),
    ],
)
def test_what_is_read_is_what_was_written(event: Event) -> None:
    assert _decoded(event) == event
    assert b"\n" not in encode_event(event)


def test_unset_none_and_empty_are_three_things() -> None:
    left_out, cleared = (
        RunForked(parent="p", at=1, parent_head=2),
        RunForked(parent="p", at=1, parent_head=2, state=None),
    )
    assert _decoded(left_out).state is UNSET  # type: ignore[union-attr]
    assert _decoded(cleared).state is None  # type: ignore[union-attr]


def test_every_kind_has_a_name_of_its_own_and_a_place_that_never_changes() -> None:
    names = [json.loads(encode_event(_some(kind)))["is"] for kind in KINDS]
    assert names == [
        "run_started", "run_forked", "input", "requested", "dispatched", "settled", "resolved", "approval_requested",
        "approval_decided", "state_changed", "compacted", "snapshot", "rewound", "paused", "continued", "interrupted",
        "stopped", "agent_changed", "returned",
    ]  # fmt: skip


def _some(kind: type[Event]) -> Event:
    values: dict[str, Any] = {
        "agent": AgentRecord(name="a"), "effect": 1, "parent": "p", "at": 1, "parent_head": 1, "parts": (), "by": "p",
        "outcome": Succeeded(), "finding": "occurred", "digest": "d", "decision": "allowed", "summary": user("s"),
        "replaced": 1, "through": 1, "tree": "t", "before": "b", "to": 1,
    }  # fmt: skip
    if kind is EffectRequested:
        values["effect"] = ModelCall(digest="d")
    return kind(**{name: values[name] for name in kind.__struct_fields__ if name in values})


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_is_not_known_is_refused_in_every_kind(kind: type[Event]) -> None:
    plain = json.loads(encode_event(_some(kind)))
    with pytest.raises(EventUnreadable) as refused:
        decode_event(json.dumps(plain | {"novel": 1}).encode(), run="r", seq=9)
    assert (refused.value.run, refused.value.seq) == ("r", 9)
    assert "novel" in str(refused.value)


def test_a_kind_that_is_not_known_is_refused_by_name_and_place() -> None:
    with pytest.raises(EventUnknown) as refused:
        decode_event(b'{"is":"teleported","to":1}', run="r", seq=9)
    assert (refused.value.run, refused.value.seq, refused.value.event) == ("r", 9, "teleported")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"{}",
        b'{"is":5}',
        b'{"is":"stopped","reason":1}',
        b'{"is":"stopped","reason":"\xff"}',
        b'{"is":"stopped"}x',
        b'{"is":"stopped"',
        b'{"is":"input","parts":[{"type":"hologram"}]}',
        b'{"is":"settled","of":1,"outcome":{"is":"exploded"}}',
        b'{"is":"dispatched","of":"1","by":"p"}',
        b'{"is":"state_changed","of":1,"set":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
    ],
)
def test_bytes_that_are_no_event_are_refused_by_place(data: bytes) -> None:
    with pytest.raises(EventUnreadable) as refused:
        decode_event(data, run="r", seq=9)
    assert (refused.value.run, refused.value.seq) == ("r", 9)


def test_a_journal_of_a_newer_format_is_refused() -> None:
    newer = RunStarted(agent=AgentRecord(name="a"), format=FORMAT + 1)
    with pytest.raises(EventUnreadable) as refused:
        _decoded(newer)
    assert f"format {FORMAT + 1}" in str(refused.value)


def _chain(at_ms: int, lines: list[bytes]) -> list[bytes]:
    digests = [bytes(32)]
    for seq, line in enumerate(lines, 1):
        digests.append(event_digest(digests[-1], "r", seq, at_ms, line))
    return digests[1:]


@for_any(st.data())
def test_one_byte_changed_anywhere_is_noticed(data: st.DataObject) -> None:
    past = given(started(), asks("mail"), dispatched(), ends("mail"), says())
    lines = [encode_event(recorded.event) for recorded in past.events]
    digests = _chain(past.now_ms, lines)
    assert digests == [recorded.digest for recorded in past.events]
    which = data.draw(st.integers(0, len(lines) - 1))
    place = data.draw(st.integers(0, len(lines[which]) - 1))
    line = bytearray(lines[which])
    line[place] ^= data.draw(st.integers(1, 255))
    altered = _chain(past.now_ms, [*lines[:which], bytes(line), *lines[which + 1 :]])
    assert altered[:which] == digests[:which]
    assert all(one != other for one, other in zip(altered[which:], digests[which:], strict=True))


def test_a_digest_covers_run_place_time_and_what_came_before() -> None:
    base = (bytes(32), "r", 1, 5, b"x")
    others = [(b"1" * 32, "r", 1, 5, b"x"), (bytes(32), "s", 1, 5, b"x"), (bytes(32), "r", 2, 5, b"x")]
    others += [(bytes(32), "r", 1, 6, b"x"), (bytes(32), "r", 1, 5, b"y")]
    assert len({event_digest(*one) for one in (base, *others)}) == 6
    assert event_digest(bytes(32), "r", 1, 23, b"4") != event_digest(bytes(32), "r", 12, 3, b"4")


def test_a_recorded_event_as_plain_data_has_its_place_and_digest() -> None:
    (first, *_) = given(started()).events
    plain = encode_recorded(first)
    assert (plain["run"], plain["seq"], plain["digest"]) == ("r", 1, first.digest.hex())
    assert plain["event"]["is"] == "run_started"


# ── large values ─────────────────────────────────────────────────────────────────────────────────────────────

BIG = "x" * (LARGE_BYTES + 1)


@pytest.mark.parametrize(
    "event",
    [
        EffectSettled(effect=3, outcome=Succeeded(value={"deep": BIG})),
        EffectSettled(effect=3, outcome=Failed(error="E", text=BIG)),
        EffectSettled(
            effect=3,
            outcome=Succeeded(
                message=Message(role="assistant", parts=(CallPart(id="1", name="t", arguments={"a": BIG}),))
            ),
        ),
        InputReceived(parts=(Text(content="short"), Text(content=BIG, extra={"big": BIG}))),
        RunForked(parent="p", at=1, parent_head=2, input=(Text(content=BIG),)),
        RunForked(
            parent="p",
            at=1,
            parent_head=2,
            state={"a": BIG},
            tool_results=(ResultPatch(effect=1, call="c", value=BIG),),
        ),
        RunForked(parent="p", at=1, parent_head=2, edits=(Put(message=answer("c", BIG)),)),
        EffectRequested(effect=ModelCall(add=(1, answer("c", BIG)), digest="d")),
        RunStarted(agent=AgentRecord(name="a", instructions=BIG, tools=(ToolRecord(name="t", parameters={"d": BIG}),))),
        StateChanged(effect=1, set={"a": BIG}),
    ],
)
def test_a_large_value_is_a_blob_and_comes_back_exactly(event: Event) -> None:
    small, blobs = set_aside(event, LARGE_BYTES)
    assert blobs and len(encode_event(small)) < 1000
    assert set(refs(small)) == set(blobs)
    assert all(content_digest(data) == digest for digest, data in blobs.items())
    read = _decoded(small)
    assert bring_back(read, blobs.__getitem__) == event
    with pytest.raises(BlobMissing):
        bring_back(read, {}.__getitem__)


def test_what_is_small_stays_the_same_object() -> None:
    event = InputReceived(parts=(Text(content="x"),))
    assert set_aside(event, LARGE_BYTES) == (event, {})
    assert set_aside(event, LARGE_BYTES)[0] is event
    assert bring_back(event, {}.__getitem__) is event
    exact = "x" * (LARGE_BYTES - 2)
    assert set_aside(StateChanged(effect=1, set={}), LARGE_BYTES)[1] == {}
    assert set_aside(InputReceived(parts=(Text(content=exact),)), LARGE_BYTES)[1] == {}


def test_an_answer_told_from_a_large_result_refers_to_the_same_blob() -> None:
    from forkpoint.answers import told

    ref = Ref(digest="sha256:1", size=9999)
    message = told("c", Succeeded(aside={"value": ref}))
    assert message.parts[0].aside == {"response": ref}


# ── names by content ─────────────────────────────────────────────────────────────────────────────────────────


def test_equal_values_have_equal_names_whatever_the_order_of_their_keys() -> None:
    assert value_digest({"a": 1, "b": [2]}) == value_digest({"b": [2], "a": 1})
    assert value_digest({"a": 1}) != value_digest({"a": 2})
    assert canonical({"b": 1, "a": {"d": 1, "c": 2}}) == b'{"a":{"c":2,"d":1},"b":1}'


def test_a_link_covers_what_came_before() -> None:
    assert link(b"", b"ab") == link(b"", b"a", b"b") != link(b"x", b"ab")
    assert len(short(link(b"", b"a"))) == 43


# ── who may write what ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_performing_gives_needs_the_lease(kind: type[Event]) -> None:
    performed = {
        "requested",
        "dispatched",
        "settled",
        "approval_requested",
        "state_changed",
        "compacted",
        "snapshot",
        "returned",
    }
    event = _some(kind)
    assert needs_lease(event) == (json.loads(encode_event(event))["is"] in performed)


def test_a_limit_is_reached_by_performing_and_a_pause_is_asked_for() -> None:
    assert needs_lease(RunPaused(limit="3 steps"))
    assert not needs_lease(RunPaused())
    assert not needs_lease(SnapshotTaken(why="rewind"))
    assert not needs_lease(EffectSettled(effect=1, outcome=Succeeded(), attempt=0, actor="ann"))
    assert not needs_lease(RunStopped())


# ── many at once ─────────────────────────────────────────────────────────────────────────────────────────────


def test_lines_are_read_together_as_one_by_one() -> None:
    past = given(started(), asks("mail"), dispatched(), ends("mail"), says())
    lines = [encode_event(recorded.event) for recorded in past.events]
    events = [recorded.event for recorded in past.events]
    assert decode_events(lines, run="r", first=1) == events
    assert decode_events(lines[3:], run="r", first=4) == events[3:]
    assert decode_events([], run="r", first=1) == []
    assert event_digests(bytes(32), "r", 1, past.now_ms, lines) == [recorded.digest for recorded in past.events]


@pytest.mark.parametrize(
    ("place", "line", "error"),
    [
        (0, encode_event(RunStarted(agent=AgentRecord(name="a"), format=FORMAT + 1)), EventUnreadable),
        (2, b'{"is":"teleported"}', EventUnknown),
        (2, b"", EventUnreadable),
        (2, b'{"is":"stopped"}{"is":"stopped"}', EventUnreadable),
        (2, b'{"is":"state_changed","of":1,"set":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001, EventUnreadable),
    ],
)
def test_a_bad_line_among_many_is_refused_by_its_own_place(place: int, line: bytes, error: Any) -> None:
    lines = [encode_event(recorded.event) for recorded in given(started(), says()).events]
    lines[place] = line
    with pytest.raises(error) as refused:
        decode_events(lines, run="r", first=1)
    assert refused.value.seq == place + 1
