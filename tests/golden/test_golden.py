"""Journals that each release wrote still read, verify and fold to the same states, for ever.

``make.py`` writes those of a new release. A failure here is mended in the code, never in the golden files.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from forkpoint.codec import decode_event, encode_event, event_digest
from forkpoint.events import KINDS, RecordedEvent
from forkpoint.folding import fold
from forkpoint.transcript import first_problem
from given import state_digest

HERE = Path(__file__).resolve().parent
JOURNALS = sorted(HERE.glob("v*/*.jsonl"))


def _lines(journal: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]


def _events(journal: Path) -> list[RecordedEvent]:
    return [
        RecordedEvent(
            line["run"],
            line["seq"],
            line["at_ms"],
            bytes.fromhex(line["digest"]),
            decode_event(line["event"].encode(), run=line["run"], seq=line["seq"]),
        )
        for line in _lines(journal)
    ]


def test_there_are_journals_to_keep() -> None:
    assert JOURNALS
    kinds = {type(recorded.event) for journal in JOURNALS for recorded in _events(journal)}
    assert kinds == set(KINDS)


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_old_journal_folds_to_the_same_states_for_ever(journal: Path) -> None:
    wanted = json.loads((journal.parent / "digests.json").read_text(encoding="utf-8"))[journal.stem]
    events = _events(journal)
    assert {seq: state_digest(fold(events[: int(seq)])) for seq in wanted} == wanted
    assert first_problem(fold(events).messages) is None


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_old_journals_digests_still_hold_and_its_bytes_are_not_rewritten(journal: Path) -> None:
    before = bytes(32)
    for line in _lines(journal):
        data = line["event"].encode()
        before = event_digest(before, line["run"], line["seq"], line["at_ms"], data)
        assert before.hex() == line["digest"]


@pytest.mark.parametrize("journal", sorted(HERE.glob("v0_1/*.jsonl")), ids=lambda path: path.stem)
def test_this_release_writes_what_it_reads_byte_for_byte(journal: Path) -> None:
    """Holds for journals of the format that this release writes."""
    for line in _lines(journal):
        data = line["event"].encode()
        assert encode_event(decode_event(data, run=line["run"], seq=line["seq"])) == data
