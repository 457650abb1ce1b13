"""Values in words, and text from runs made harmless. Pure."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forkpoint.cli import words

DANGEROUS = "\x1b\x07\x9b\x08\r\x7f\u202e\u2066\u2028\ufeff\U000e0041"


@given(st.text())
def test_nothing_a_terminal_acts_on_is_left_in_any_text(text: str) -> None:
    for shown in (words.safe(text), words.one_line(text), words.paragraph(text, 20), words.brief(text)):
        assert all(character >= " " or character in "\n\t" for character in shown)
        assert not set(shown) & set(DANGEROUS)


def test_what_is_dangerous_is_spelled_out_and_the_rest_left() -> None:
    assert words.safe("a\x1b[31mred\u202e") == "a\\x1b[31mred\\u202e"
    assert words.safe("line\r\nnext\tä漢🙂") == "line\nnext\tä漢🙂"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_json_is_harmless_and_still_says_the_same(text: str) -> None:
    for shown in (words.harmless_json({"value": text}), words.json_line({"value": text})):
        assert json.loads(shown) == {"value": text}
        assert not set(shown) & set(DANGEROUS)


def test_long_values_are_cut_and_say_so() -> None:
    assert words.one_line("x" * 500, 10) == "xxxxxxxxx…"
    assert words.paragraph("x" * 1500, 500).endswith("… (1,000 more characters)")
    assert words.paragraph("short", 500) == "short"
    assert words.one_line("a\n  b", 10) == "a b"
    assert len(words.one_line("\x1b" * 12_000_000, 10)) == 10


def test_calls_read_as_people_write_them() -> None:
    assert words.called("charge", {"number": "17", "cents": 4200}) == 'charge(number="17", cents=4200)'
    assert words.called("now", None) == "now()"
    assert words.called("odd", "not json") == "odd(not json)"


@pytest.mark.parametrize(
    ("ms", "said"),
    [(0, "just now"), (4_999, "just now"), (65_000, "1 min ago"), (3_600_000, "1 h ago"), (200_000_000, "2 d ago")],
)
def test_times_are_told_as_how_long_ago(ms: int, said: str) -> None:
    assert words.ago(1_000_000_000_000 - ms, 1_000_000_000_000) == said


def test_durations_sizes_and_costs() -> None:
    assert [words.lasting(ms) for ms in (0, 12, 1_234, 200_000, 7_500_000)] == [
        "",
        "12 ms",
        "1.2 s",
        "3 min 20 s",
        "2 h 5 min",
    ]
    assert [words.size(count) for count in (980, 12_000_002, 3_400_000_000_000)] == ["980 B", "12.0 MB", "3.4 TB"]
    assert words.cost(0.012, 1) == "$0.0120 + 1 call of unknown cost"
    assert words.cost(0, 2) == "2 calls of unknown cost"
    assert words.cost(0, 0) == ""
    assert words.iso(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
