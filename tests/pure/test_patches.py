"""A patch as it is given, and how it becomes the data that a fork's first event holds."""

from typing import Any

import pytest
from msgspec import UNSET

from forkpoint.errors import PatchBad
from forkpoint.events import Keep, Put
from forkpoint.messages import (
    BlobPart,
    CallPart,
    Message,
    Reasoning,
    ResponsePart,
    Text,
    Usage,
    answer,
    assistant,
    user,
)
from forkpoint.timetravel.patches import Delete, Insert, Patch, Replace, as_edits, edited, parts_of

A, B, C = user("a"), assistant("b"), user("c")
NEW = user("new")


@pytest.mark.parametrize(
    ("edits", "wanted"),
    [
        ([], [A, B, C]),
        ([Replace(1, NEW)], [A, NEW, C]),
        ([Delete(0), Delete(2)], [B]),
        ([Insert(0, NEW)], [NEW, A, B, C]),
        ([Insert(3, NEW), Insert(3, A)], [A, B, C, NEW, A]),
        ([Insert(1, NEW), Delete(1)], [A, NEW, C]),
        (lambda told: told[::-1], [C, B, A]),
        (lambda told: [], []),
    ],
)
def test_edits_count_in_the_transcript_as_it_was(edits: Any, wanted: list[Message]) -> None:
    assert edited([A, B, C], edits) == wanted


@pytest.mark.parametrize(
    "edits",
    [
        [Delete(3)],
        [Delete(-1)],
        [Replace(3, NEW)],
        [Insert(4, NEW)],
        ["delete"],
        [Replace(0, "text")],  # type: ignore[arg-type]
        [Replace(0, Message(role="boss"))],  # type: ignore[arg-type]
        [Insert(0, user(object()))],  # type: ignore[arg-type]
        lambda told: ["text"],
        lambda told: [*told, None],
        lambda told: [Message(role="user", parts=(Usage(),))],  # type: ignore[arg-type]
    ],
)
def test_an_edit_that_does_not_fit_is_refused_before_anything_is_written(edits: Any) -> None:
    with pytest.raises(PatchBad) as refused:
        edited([A, B, C], edits)
    assert refused.value.part == "messages"


def test_a_function_gets_a_copy() -> None:
    told = [A, B]
    edited(told, lambda given: given.clear() or given)  # type: ignore[func-returns-value]
    assert told == [A, B]


@pytest.mark.parametrize(
    ("wanted", "edits"),
    [
        ([A, B, C], (Keep(start=0, stop=3),)),
        ([A, C], (Keep(start=0, stop=1), Keep(start=2, stop=3))),
        ([A, NEW, C], (Keep(start=0, stop=1), Put(message=NEW), Keep(start=2, stop=3))),
        ([C, A], (Keep(start=2, stop=3), Put(message=A))),
        ([], ()),
    ],
)
def test_what_is_kept_is_told_by_place_and_what_is_new_in_full(wanted: list[Message], edits: Any) -> None:
    assert as_edits([A, B, C], wanted) == edits
    kept = [[A, B, C][edit.start : edit.stop] if isinstance(edit, Keep) else [edit.message] for edit in edits]
    assert [message for part in kept for message in part] == wanted


def test_what_no_event_holds_is_told_in_full() -> None:
    assert as_edits([A, B, C], [A, B, C], loose={1}) == (Keep(start=0, stop=1), Put(message=B), Keep(start=2, stop=3))
    assert as_edits([A, A], [A, A], loose={0}) == (Put(message=A), Keep(start=1, stop=2))


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("hi", (Text(content="hi"),)),
        (Text(content="hi"), (Text(content="hi"),)),
        ([Text(content="see"), BlobPart(content="AA")], (Text(content="see"), BlobPart(content="AA"))),
        (user("hi"), (Text(content="hi"),)),
        (Message(role="assistant", parts=(Reasoning(content="x"),)), (Reasoning(content="x"),)),
    ],
)
def test_input_is_a_text_a_part_or_several(given: Any, parts: Any) -> None:
    assert parts_of(given) == parts


@pytest.mark.parametrize(
    "given",
    [
        5,
        None,
        ["hi"],
        [None],
        Usage(),
        [user("hi")],
        CallPart(id="1", name="t"),
        [ResponsePart(id="1")],
        answer("1", 0),
        assistant("", CallPart(id="1", name="t")),
    ],
)
def test_what_no_person_can_say_is_no_input(given: Any) -> None:
    """A call or an answer in a user's message would make every later request one that no provider takes."""
    with pytest.raises(PatchBad) as refused:
        parts_of(given)
    assert refused.value.part == "input"


def test_a_patch_knows_what_it_sets_of_the_agent() -> None:
    assert Patch().changed == ()
    assert Patch(model="x:y", settings={}, tools=[]).changed == ("model", "settings", "tools")
    assert Patch(instructions="").changed == ("instructions",)
    assert Patch().messages is UNSET
