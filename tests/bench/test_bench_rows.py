"""The benchmark's pure parts: its work, its rows, its command line and what it judges. It times nothing."""

import pytest
from bench.arguments import DEFAULT_STEPS, parsed
from bench.effect import happened
from bench.figures import FIGURES, verdicts
from bench.measure import Measured
from bench.peers import BASELINE, LISTED, OURS, Listed
from bench.rows import FIGURE_AT, Row, found, ratio
from bench.script import ASSISTANT_BYTES, RESULT_BYTES, compact, script
from bench.table import aligned, multiple, printed


def row(peer=OURS, durability="normal", steps=1_000, **figures):
    own = {key: figures.pop(key) for key in list(figures) if key in FIGURE_AT}
    return Row(peer=peer, durability=durability, steps=steps, extra=own, **figures)


def verdict(key, *rows):
    return next(one for one in verdicts(rows) if one.figure.key == key)


@pytest.mark.parametrize("number", [1, 9, 10, 999, 1_000, 10_000, 99_999])
def test_every_step_adds_an_assistant_message_of_316_bytes_and_a_result_of_1022(number):
    (step,) = script(1, first=number)
    assert (ASSISTANT_BYTES, RESULT_BYTES) == (316, 1_022)
    assert len(compact(step.assistant()).encode()) == 316
    assert len(step.result.encode()) == 1_022


def test_the_work_is_the_same_in_every_process_and_different_at_every_step():
    assert script(3) == script(3)
    assert script(1, first=3) == script(3)[2:]
    assert len({step.result for step in script(50)}) == 50
    assert len({step.call_id for step in script(50)}) == 50


def test_a_row_prints_all_its_keys_whatever_was_measured():
    keys = {"peer", "durability", "steps", "cpu_us_step", "wall_us_step", "payload_bytes", "db_bytes"}
    assert set(row().flat()) == keys | set(FIGURE_AT)
    assert row().flat()["fork_ms"] is None
    assert row(fork_ms=2.0).flat()["fork_ms"] == 2.0


def test_a_row_is_found_by_peer_durability_and_steps():
    rows = [row(), row(steps=10), row(durability="full")]
    assert found(rows, peer=OURS, durability="full", steps=1_000) is rows[2]
    assert found(rows, peer=OURS, durability="full", steps=10) is None


def test_a_ratio_with_something_unmeasured_is_unmeasured():
    assert ratio(6.0, 2.0) == 3.0
    assert ratio(None, 2.0) is None
    assert ratio(6.0, None) is None
    assert ratio(6.0, 0) is None


def test_the_command_line_defaults_to_everything():
    asked = parsed([])
    assert asked.peers == tuple(peer.name for peer in LISTED)
    assert asked.steps == DEFAULT_STEPS == (10, 100, 1_000, 10_000)
    assert asked.durabilities == ("normal", "full")
    assert not (asked.json or asked.crash or asked.unlimited)


def test_the_command_line_chooses_peers_steps_durability_and_repeats():
    asked = parsed(["--peers", "sqlite3,dbos", "--steps", "10,20", "--durability", "full", "--repeat", "5", "--json"])
    assert (asked.peers, asked.steps, asked.durabilities) == (("sqlite3", "dbos"), (10, 20), ("full",))
    assert (asked.repeat, asked.json) == (5, True)


@pytest.mark.parametrize(
    "wrong", [["--peers", "nobody"], ["--steps", "ten"], ["--steps", "0"], ["--durability", "off"], ["--repeat", "-1"]]
)
def test_an_argument_that_is_not_understood_is_refused(wrong, capsys):
    with pytest.raises(SystemExit):
        parsed(wrong)
    assert wrong[1] in capsys.readouterr().err


def test_a_peer_that_is_not_installed_says_what_it_lacks():
    absent = Listed(name="absent", module="bench.peers.absent", needs=("no-such-distribution-anywhere",))
    assert absent.missing() == "no-such-distribution-anywhere not installed"
    assert Listed(name=BASELINE, module="bench.peers.bare").missing() is None


def test_every_peer_that_is_capped_says_why():
    assert all(peer.why_largest for peer in LISTED if peer.largest < max(DEFAULT_STEPS))


def test_every_figure_without_its_rows_is_not_measured():
    assert {one.reached for one in verdicts([])} == {None}
    assert len({figure.key for figure in FIGURES}) == len(FIGURES)


def test_cpu_is_judged_against_bare_sqlite():
    bare = row(peer=BASELINE, cpu_us_step=50.0)
    assert verdict("cpu_over_bare", bare, row(cpu_us_step=250.0)).reached is True
    assert verdict("cpu_over_bare", bare, row(cpu_us_step=251.0)).reached is False
    assert verdict("cpu_over_bare", row(cpu_us_step=250.0)).reached is None


def test_cpu_is_judged_against_the_cheapest_of_langgraphs_rows():
    costs = {"langgraph-delta": 1_600.0, "langgraph-snapshots": 9_000.0, "dbos": 10.0}
    rows = [row(peer=peer, cpu_us_step=cost) for peer, cost in costs.items()]
    judged = verdict("cpu_below_langgraph", *rows, row(cpu_us_step=200.0))
    assert (judged.value, judged.reached) == (8.0, True)


def test_what_fsync_itself_costs_is_not_charged_to_us():
    rows = [
        row(peer=BASELINE, cpu_us_step=50.0),
        row(peer=BASELINE, durability="full", cpu_us_step=200.0),
        row(cpu_us_step=200.0),
        row(durability="full", cpu_us_step=400.0),
    ]
    assert verdict("cpu_full_over_normal", *rows).value == 1.25


def test_growth_compares_the_long_run_with_the_short_one():
    rows = [row(steps=100, cpu_us_step=200.0), row(steps=10_000, cpu_us_step=250.0)]
    assert verdict("cpu_growth", *rows).value == 1.25
    assert verdict("cpu_growth", *rows).reached is False


def test_the_tables_show_ratios_and_say_what_was_not_reached():
    bare = row(peer=BASELINE, cpu_us_step=50.0, wall_us_step=60.0, payload_bytes=1_338_000, db_bytes=1_646_592)
    ours = row(cpu_us_step=300.0, wall_us_step=360.0, payload_bytes=1_338_000, db_bytes=2_000_000, history_ms=3.0)
    text = printed(Measured(rows=(bare, ours), notes=("dbos: left out, dbos not installed",)))
    assert "6.00x" in text
    assert "1.23x" in text
    assert "NOT REACHED" in text
    assert "reached" in text
    assert "dbos: left out, dbos not installed" in text


def test_columns_are_aligned():
    assert aligned([["a", "b"], ["long", "12"]]) == "a      b\nlong  12"
    assert (multiple(None), multiple(2.5), multiple(1_234.0)) == ("-", "2.50x", "1,234x")


def test_the_witness_counts_each_time_an_effect_happened(tmp_path):
    witness = tmp_path / "witness.txt"
    assert happened(2, witness) == 0
    witness.write_text("1\n2\n2\n12\n")
    assert happened(2, witness) == 2
