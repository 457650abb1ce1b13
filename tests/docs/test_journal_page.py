"""The page about the journal's format says what ``events`` says: every kind, every field, every default."""

import re
from typing import Any, get_args

import msgspec
import pytest
from msgspec import NODEFAULT, UNSET, Struct
from tests.docs.pages import DOCS, blocks, section

from forkpoint.codec import decode_event, encode_event
from forkpoint.definition import AgentRecord
from forkpoint.effects import Effect, ModelCall
from forkpoint.events import KINDS, Event
from forkpoint.messages import Part
from forkpoint.outcomes import Outcome

PAGE = DOCS / "journal-format.md"
SILENT = (NODEFAULT, UNSET, None, "", ())
"""Defaults that need no word: the field is simply not there."""

EXAMPLES = [block.text.strip() for block in blocks(PAGE, "json")]


def tag(kind: type[Any]) -> str:
    return str(kind.__struct_config__.tag)


def fields(kind: type[Struct]) -> list[tuple[str, Any]]:
    """The names of a kind's fields as they are written, each with its default."""
    found = [(field.encode_name, field.default) for field in msgspec.structs.fields(kind)]
    return [(name, default) for name, default in found if name != "aside"]


def test_the_page_has_every_kind_of_event_in_the_order_of_the_code() -> None:
    assert re.findall(r"^### (\w+)$", section(PAGE, "Events"), re.MULTILINE) == [tag(kind) for kind in KINDS]


@pytest.mark.parametrize("kind", KINDS, ids=tag)
def test_the_page_has_an_example_of_the_event_and_names_every_field(kind: type[Event]) -> None:
    text = section(PAGE, tag(kind))
    words = set(re.findall(r"\w+", " ".join(re.findall(r'`[^`]+`|"\w+":', text))))
    assert [name for name, _ in fields(kind) if name not in words] == []
    assert f'{{"is":"{tag(kind)}"' in text


def of_events() -> list[str]:
    kinds = {tag(kind) for kind in KINDS}
    return [line for line in EXAMPLES if line.split('"')[3] in kinds]


@pytest.mark.parametrize("line", of_events())
def test_an_example_is_what_would_be_stored(line: str) -> None:
    assert encode_event(decode_event(line.encode(), run="page", seq=1)).decode() == line


def stated(text: str) -> dict[str, str]:
    """The defaults that a text states: ```name`=value``."""
    return {name: value.strip('"') for name, value in re.findall(r'`(\w+)`=("?\w+"?)', text)}


@pytest.mark.parametrize("kind", [*KINDS, *get_args(Effect), *get_args(Outcome)], ids=tag)
def test_every_default_that_says_something_is_stated(kind: type[Struct]) -> None:
    title = {**dict.fromkeys(get_args(Effect), "Effects"), **dict.fromkeys(get_args(Outcome), "Outcomes")}.get(kind)
    text = section(PAGE, title or tag(kind))
    if title is not None:
        found = re.search(rf"^- `{tag(kind)}`:(.*?)(?=^- |\Z)", text, re.MULTILINE | re.DOTALL)
        assert found is not None, tag(kind)
        text = found[1]
        assert [name for name, _ in fields(kind) if f"`{name}`" not in text] == []
    telling = {name: str(value).lower() for name, value in fields(kind) if value not in SILENT}
    assert {name: value for name, value in stated(text).items() if name in telling} == telling


def test_the_definition_of_an_agent_is_told_whole() -> None:
    text = section(PAGE, "run_started")
    assert [name for name, _ in fields(AgentRecord) if f"`{name}`" not in text] == []


def test_every_part_of_a_message_is_told_with_its_fields() -> None:
    rows = {
        name: line
        for line in section(PAGE, "Messages").splitlines()
        for name in re.findall(r"`(\w+)`", line.split("|")[1] if line.startswith("|") else "")
    }
    for kind in get_args(Part):
        told = rows[tag(kind)]
        assert [name for name, _ in fields(kind) if name != "extra" and f"`{name}`" not in told] == [], tag(kind)


def test_what_may_lie_aside_is_marked_as_large() -> None:
    for kind in (*get_args(Effect), *get_args(Outcome)):
        if kind is ModelCall:
            continue
        title = "Effects" if kind in get_args(Effect) else "Outcomes"
        found = re.search(rf"^- `{tag(kind)}`:(.*?)(?=^- |\Z)", section(PAGE, title), re.MULTILINE | re.DOTALL)
        assert found is not None
        assert set(re.findall(r"`(\w+)` \(large\)", found[1])) == set(kind.LARGE)
