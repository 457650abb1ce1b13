"""The benchmark of other people's loops: its pure parts, and each loop at a tiny size. It times nothing."""

import pytest
from bench.loops import parser, printed
from bench.loops_child import WARM_STEPS, kept_bytes, performed
from bench.loops_clock import WINDOW, Clock, Stretch
from bench.loops_figures import FIGURES, out_of_reach, verdicts
from bench.loops_listed import FAMILIES, VARIANTS, Variant, variant_of
from bench.loops_measure import Found, Wanted, measure
from bench.loops_rows import LoopRow, Round, added, cheapest, growth, least_added, spread
from bench.script import PAYLOAD_BYTES_STEP, script

LABELS = [variant.label for variant in VARIANTS]


def variant_at(label):
    family, _, name = label.partition("/")
    found = variant_of(family, name)
    if missing := found.missing():
        pytest.skip(f"{label}: {missing}")
    return found


def stretch(cpu_us):
    return Stretch(cpu_us=cpu_us, wall_us=2 * cpu_us)


def row(name, role, *costs, durability="normal", steps=1_000, first=None, last=None, stored=0):
    rounds = [
        Round(
            whole=stretch(cost),
            first=stretch(cost if first is None else first),
            last=stretch(cost if last is None else last),
        )
        for cost in costs
    ]
    return LoopRow(
        family="pydantic-ai",
        name=name,
        role=role,
        durability=durability,
        steps=steps,
        rounds=tuple(rounds),
        stored=stored,
    )


def verdict(key, *rows):
    return next(one for one in verdicts(rows) if one.figure.key == key)


# ── each loop, for real ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("label", LABELS)
def test_every_loop_performs_all_steps_of_the_script_and_says_what_it_sets(label, tmp_path):
    variant = variant_at(label)
    if label == "pydantic-ai/dbos":
        pytest.skip("one process can have one DBOS; the next test gives it one")
    folder = tmp_path / "store"
    folder.mkdir()
    found = performed(
        {"family": variant.family, "name": variant.name, "durability": "normal", "steps": 4, "folder": folder}
    )
    assert found["bytes"] > 0
    assert found["settings"]
    assert (found["settings"] == "keeps nothing") == (variant.role == "alone")


def test_a_family_is_measured_in_processes_of_their_own(tmp_path):
    variants = [variant_at("pydantic-ai/alone"), variant_at("pydantic-ai/dbos"), variant_at("pydantic-ai/forkpoint")]
    told = []
    wanted = Wanted(variants=variants, steps=[2], durabilities=["normal"], rounds=2)
    found = measure(wanted, told.append)
    assert [(one.name, len(one.rounds)) for one in found.rows] == [("alone", 2), ("dbos", 2), ("forkpoint", 2)]
    # The second round goes the other way, so that a machine that slows down does so for both sides.
    assert [line.split(",")[0].partition("/")[2] for line in told] == [
        "alone",
        "dbos",
        "forkpoint",
        "forkpoint",
        "dbos",
        "alone",
    ]


@pytest.mark.parametrize("label", [one for one in LABELS if one.endswith("/forkpoint")])
def test_what_ours_keeps_holds_every_result_once(label, tmp_path):
    variant, steps = variant_at(label), 30
    folder = tmp_path / "store"
    folder.mkdir()
    with variant.load().opened(durability="normal", folder=folder) as perform:
        perform(script(steps), "run", Clock())
        kept_bytes(folder)
    held = b"".join(path.read_bytes() for path in folder.rglob("*.db"))
    # A result of 1,022 bytes lies across pages at times, so its beginning stands for it.
    assert [held.count(step.result[:40].encode()) for step in script(steps)] == [1] * steps


def test_a_loop_that_is_not_installed_is_left_out_and_says_what_it_lacks():
    absent = Variant(family="pydantic-ai", name="x", role="theirs", module="bench.x", needs=("no-such-distribution",))
    found = measure(Wanted(variants=[absent], steps=[1], durabilities=["normal"], rounds=1), lambda line: None)
    assert (found.rows, found.notes) == ([], ["pydantic-ai/x: left out, no-such-distribution not installed"])


# ── the pure parts ───────────────────────────────────────────────────────────────────────────────────────────────


def test_every_family_has_the_framework_alone_its_floor_an_option_of_its_own_and_ours():
    for family in FAMILIES:
        assert {one.role for one in VARIANTS if one.family == family} == {"alone", "floor", "theirs", "ours"}
    assert len(set(LABELS)) == len(LABELS)
    assert all(one.why_once for one in VARIANTS if one.once_from <= 1_000)
    assert WARM_STEPS < 10


def test_the_clock_counts_steps_between_the_beginning_and_the_end():
    clock = Clock()
    for _ in range(2 + 7):
        clock.mark()
    assert clock.steps == 7


@pytest.mark.parametrize(("steps", "window"), [(1, 1), (10, 5), (100, 50), (1_000, WINDOW)])
def test_the_first_and_the_last_stretch_are_as_long_and_apart(steps, window):
    clock = Clock()
    # A step costs its own number in µs, so that a stretch's average says which steps it is made of.
    at = [0, *(sum(range(number + 1)) for number in range(1, steps + 1)), sum(range(steps + 1))]
    clock._marks = [(1_000 * one, 1_000 * one) for one in at]
    assert clock.whole().cpu_us == sum(range(steps + 1)) / steps
    if steps > 1:
        assert clock.first().cpu_us == sum(range(2, 2 + window)) / window
        assert clock.last().cpu_us == sum(range(steps - window + 1, steps + 1)) / window


def test_what_is_added_is_the_median_of_the_rounds_differences():
    base, ours = row("alone", "alone", 100.0, 200.0, 300.0), row("forkpoint", "ours", 150.0, 210.0, 390.0)
    rows = [base, ours]
    assert added(ours, rows, "cpu_us") == 50.0
    assert added(ours, rows, "wall_us") == 100.0
    assert least_added(ours, rows, "cpu_us") == 50.0
    assert spread(ours, rows, "cpu_us") == (10.0, 90.0)
    assert added(base, rows, "cpu_us") is None
    assert added(ours, [ours], "cpu_us") is None


def test_what_was_measured_in_one_round_is_compared_with_that_round():
    base, slow = row("alone", "alone", 100.0, 500.0), row("harness", "theirs", 1_100.0)
    assert added(slow, [base, slow], "cpu_us") == 1_000.0


def test_the_share_is_of_the_cheapest_of_the_frameworks_own_options():
    rows = [
        row("alone", "alone", 100.0),
        row("dbos", "theirs", 1_100.0),
        row("harness", "theirs", 9_100.0),
        row("forkpoint", "ours", 300.0),
    ]
    assert cheapest(rows, "cpu_us", family="pydantic-ai", durability="normal", steps=1_000) == 1_000.0
    judged = verdict("pydantic-ai/forkpoint cpu_us normal 1000", *rows)
    assert (judged.value, judged.reached) == (0.2, True)
    dear = [*rows[:3], row("forkpoint", "ours", 301.0)]
    assert verdict("pydantic-ai/forkpoint cpu_us normal 1000", *dear).reached is False


def test_growth_is_of_what_is_added_and_not_of_the_frameworks_own():
    base = row("alone", "alone", 0.0, first=100.0, last=5_000.0)
    ours = row("forkpoint", "ours", 0.0, first=200.0, last=5_120.0)
    assert growth(ours, [base, ours]) == 1.2
    assert verdict("pydantic-ai/forkpoint growth", base, ours).reached is True


def test_bytes_are_judged_against_the_words_and_results_alone():
    heavy = row("forkpoint", "ours", 1.0, stored=1_500 * PAYLOAD_BYTES_STEP)
    assert verdict("pydantic-ai/forkpoint bytes", heavy).value == 1.5
    assert verdict("pydantic-ai/forkpoint bytes", heavy).reached is True


def test_every_figure_without_its_rows_is_not_measured():
    assert {one.reached for one in verdicts([])} == {None}
    assert len({figure.key for figure in FIGURES}) == len(FIGURES)


def test_the_table_shows_what_is_added_and_what_was_not_reached():
    rows = [
        row("alone", "alone", 100.0),
        row("dbos", "theirs", 1_100.0),
        row("forkpoint", "ours", 700.0, stored=3_000 * PAYLOAD_BYTES_STEP),
    ]
    text = printed(Found(rows=rows, notes=["pydantic-ai/dbos: WAL"]))
    assert "0.60x" in text
    assert "3.00x" in text
    assert "NOT REACHED" in text
    assert "pydantic-ai/dbos: WAL" in text


def test_where_the_floor_is_above_what_is_wanted_is_said_and_nowhere_else():
    rows = [row("alone", "alone", 100.0), row("dbos", "theirs", 1_100.0), row("forkpoint", "ours", 700.0)]
    high, low = [*rows, row("floor", "floor", 301.0)], [*rows, row("floor", "floor", 300.0)]
    assert list(out_of_reach(low)) == []
    (said,) = out_of_reach(high)
    assert said.startswith("pydantic-ai/floor, NORMAL, 1,000 steps: 0.20x of the CPU")
    assert said in printed(Found(rows=high))
    assert "with no record" not in printed(Found(rows=low))


def test_the_command_line_chooses_families_and_the_rest_as_the_other_benchmark_does(capsys):
    asked = parser().parse_args([])
    assert (asked.families, asked.steps, asked.durability, asked.repeat) == (
        FAMILIES,
        (10, 100, 1_000),
        ("normal", "full"),
        5,
    )
    given = ["--families", "langgraph", "--steps", "7", "--repeat", "2", "--durability", "full"]
    asked = parser().parse_args(given)
    assert (asked.families, asked.steps, asked.repeat, asked.durability) == (("langgraph",), (7,), 2, ("full",))
    with pytest.raises(SystemExit):
        parser().parse_args(["--families", "nobody"])
    assert "nobody" in capsys.readouterr().err


def test_its_help_is_its_own(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["--help"])
    said = capsys.readouterr().out
    assert "bench.loops" in said
    assert "--families" in said
    assert "--peers" not in said
