"""The harness end to end with the one peer that needs nothing installed. No other peer, and no time, is tested."""

import pytest
from bench.arguments import parsed
from bench.crash import crashes, told
from bench.measure import ChildFailedError, ask, measure
from bench.peers import listed
from bench.script import PAYLOAD_BYTES_STEP


def test_bare_sqlite_gives_a_row_a_length_and_its_notes():
    measured = measure(
        parsed(["--peers", "sqlite3", "--steps", "10", "--durability", "full", "--repeat", "1"]), _untold
    )
    (row,) = measured.rows
    assert (row.peer, row.durability, row.steps) == ("sqlite3", "full", 10)
    assert row.payload_bytes == 10 * PAYLOAD_BYTES_STEP
    assert row.db_bytes is not None
    assert row.db_bytes > row.payload_bytes
    assert row.cpu_us_step is not None
    assert "PRAGMA synchronous" in measured.notes[0]


def test_bare_sqlite_repeats_an_effect_whose_record_was_lost():
    (crashed,) = crashes(["sqlite3"], _untold)
    assert crashed.times == 2
    assert "2 times" in told([crashed])


def test_a_process_that_fails_says_so_with_its_last_line(tmp_path):
    with pytest.raises(ChildFailedError, match="no verb 'dance'"):
        ask(listed("sqlite3"), "dance", str(tmp_path))


def _untold(line: str) -> None:
    """Progress is for people."""
