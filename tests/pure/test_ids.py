"""Names of runs, and the addresses that people type."""

import pytest

from forkpoint.errors import BadAddress, BadRunId
from forkpoint.ids import (
    Address,
    AtSeq,
    AtStep,
    AtTurn,
    BeforeCall,
    ForkPoint,
    check_run_id,
    fork_name,
    parse_address,
    parse_where,
)


@pytest.mark.parametrize("name", ["a", "inv-17", "A.b_c-d", "0", "x" * 128, "a_", "a-"])
def test_names_of_letters_digits_dots_and_dashes_are_taken(name: str) -> None:
    assert check_run_id(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "-a", "_a", ".a", "a.", "a/b", "a\\b", "a b", "a@b", "a\n", "é", "x" * 129, None, 7, b"a", ["a"]],
)
def test_anything_else_cannot_name_a_run(name: object) -> None:
    with pytest.raises(BadRunId):
        check_run_id(name)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("r", Address("r")),
        ("r@12", Address("r", AtSeq(12))),
        ("r@step:0", Address("r", AtStep(0))),
        ("r@turn:2", Address("r", AtTurn(2))),
        ("r@before:call_1:x@y", Address("r", BeforeCall("call_1:x@y"))),
    ],
)
def test_an_address_names_a_run_and_a_moment_and_prints_as_it_is_typed(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "-1",
        "1.5",
        "+1",
        " 1",
        "1\n",
        "step:",
        "step:-1",
        "step:x",
        "turn:1.5",
        "before:",
        "seq:3",
        "٣",
        "9" * 5000,
    ],
)
def test_what_names_no_moment_is_refused(text: str) -> None:
    with pytest.raises(BadAddress):
        parse_where(text)


@pytest.mark.parametrize("text", ["@1", "a b@1", "../x@1"])
def test_an_address_needs_a_run(text: str) -> None:
    with pytest.raises(BadRunId):
        parse_address(text)


def test_a_fork_is_named_after_its_parent_within_the_length_that_is_allowed() -> None:
    assert fork_name("r", 1) == "r.fork-1"
    assert fork_name("r.fork-1", 2) == "r.fork-1.fork-2"
    for parent in ("x" * 128, "x" * 119 + "..." + "y" * 6):
        names = {fork_name(parent, n) for n in (1, 2, 10**6)}
        assert len(names) == 3
        assert all(check_run_id(name) for name in names)


def test_a_fork_point_is_a_run_and_an_event() -> None:
    assert str(ForkPoint("r", 7)) == "r@7"
