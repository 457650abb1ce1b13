"""What two runs share and where they part: never performed, only told."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lived import Lived
from msgspec.structs import replace

from forkpoint.commands import Advance, Pause
from forkpoint.errors import NotComparable
from forkpoint.events import ResultPatch, RunForked
from forkpoint.ids import ForkPoint
from forkpoint.messages import CallPart, Message, Usage, answer, assistant, user
from forkpoint.outcomes import Failed
from forkpoint.timetravel.aligning import CELLS, aligned_steps
from forkpoint.timetravel.comparing import Comparison, compare, compare_many

IDS = itertools.count()


def did(*steps: tuple[str, object] | str, result: object = "ok") -> list[Message]:
    """A plain conversation: each step one call of a tool with an argument; a last text."""
    messages = [user("go")]
    for step in steps:
        name, argument = step if isinstance(step, tuple) else (step, "x")
        call = f"call-{next(IDS)}"
        messages += [assistant("", CallPart(id=call, name=name, arguments={"a": argument})), answer(call, result)]
    return [*messages, assistant("done")]


def fields(found: Comparison) -> list[str]:
    return [drift.field for drift in found.drift]


def test_arguments_with_other_key_order_or_spacing_are_no_drift() -> None:
    one = [assistant("", CallPart(id="1", name="t", arguments={"a": 1, "b": [2]}))]
    two = [assistant("", CallPart(id="2", name="t", arguments='{ "b": [2],  "a": 1 }'))]
    found = compare(one, two)
    assert (found.diverged_at, found.drift) == (None, ())


def test_a_swapped_order_of_tools_is_one_entry_and_no_arguments() -> None:
    x, y = CallPart(id="1", name="x", arguments={"n": 1}), CallPart(id="2", name="y", arguments={"n": 2})
    found = compare([assistant("", x, y)], [assistant("", y, x)])
    assert (fields(found), found.diverged_at) == (["tools"], 1)
    assert (found.drift[0].a, found.drift[0].b) == (["x", "y"], ["y", "x"])


def test_one_changed_argument_is_one_entry_for_that_call() -> None:
    x, y = CallPart(id="1", name="x", arguments={"n": 1}), CallPart(id="2", name="y", arguments={"n": 2})
    found = compare([assistant("", x, y)], [assistant("", x, replace(y, arguments={"n": 3}))])
    (drift,) = found.drift
    assert (drift.field, drift.call, drift.a, drift.b, drift.step_a) == ("args", "y", {"n": 2}, {"n": 3}, 1)


def test_a_run_cut_short_differs_in_steps_and_finish_reason() -> None:
    whole = did("search", "read")
    found = compare(whole, whole[:-1])
    assert (fields(found), found.diverged_at) == (["steps", "finish_reason"], 3)
    assert [(line.kind, line.a, line.b) for line in found.aligned][-1] == ("only_a", 3, None)


def test_token_totals_are_no_drift_unless_usage_is_asked_for() -> None:
    cheap = Lived().start().respond(assistant("hi"), usage=Usage(input_tokens=1), cost=0.1)
    dear = Lived().start().respond(assistant("hi"), usage=Usage(input_tokens=9), cost=0.2)
    assert compare(cheap.history, dear.history).drift == ()
    found = compare(cheap.history, dear.history, usage=True)
    assert [(drift.field, drift.a, drift.b) for drift in found.drift] == [("tokens", 1, 9), ("cost", 0.1, 0.2)]


def test_a_failed_last_call_ends_in_its_errors_name_and_has_no_tokens() -> None:
    good = Lived().start().respond(assistant("hi"), usage=Usage(input_tokens=4))
    bad = Lived().start().do(Advance(by="p")).end(0, Failed(error="Overloaded", text="busy"))
    found = compare(good.history, bad.history, usage=True)
    reason = next(drift for drift in found.drift if drift.field == "finish_reason")
    tokens = next(drift for drift in found.drift if drift.field == "tokens")
    assert (reason.a, reason.b, tokens.a, tokens.b) == ("stop", "Overloaded", 4, None)


def test_a_replaced_tool_result_diverges_at_its_step_though_names_and_arguments_match() -> None:
    lived = Lived().start().step("search", {"due": 12}).step("read", 1).respond(assistant("done"))
    effect = next(
        one.seq for one in lived.history if getattr(one.event, "effect", None).__class__.__name__ == "ToolCall"
    )
    patch = ResultPatch(effect=effect, call="c", value={"due": 0})
    child = lived.fork("child", RunForked(parent="r", at=1, parent_head=1, tool_results=(patch,)))
    for a, b in ((lived.history, child.history), (lived.state, child.state), (lived.history, child.state)):
        found = compare(a, b)  # type: ignore[arg-type]
        assert (found.diverged_at, fields(found), found.shared.steps) == (1, ["results"], 0)
    assert compare(did("t", result=1), did("t", result="1")).diverged_at == 1


def test_a_run_compared_with_itself_has_no_divergence_and_no_drift() -> None:
    lived = Lived().start().step("search", 1).respond(assistant("done"))
    for side in (lived.history, lived.state, did("a", "b")):
        found = compare(side, side)  # type: ignore[arg-type]
        assert (found.diverged_at, found.drift) == (None, ())
        assert {line.kind for line in found.aligned} == {"same"}


def test_a_step_that_one_side_lacks_counts_as_different() -> None:
    assert compare([], [assistant("hi")]).diverged_at == 1
    assert compare([assistant("hi")], []).diverged_at == 1


def test_an_insertion_does_not_make_everything_after_it_different() -> None:
    a = did("search", "read", "edit", "test")
    b = did("search", "read", "read2", ("edit", "other"), "test")
    found = compare(a, b)
    assert [(line.kind, line.a, line.b) for line in found.aligned] == [
        ("same", 1, 1),
        ("same", 2, 2),
        ("only_b", None, 3),
        ("changed", 3, 4),
        ("same", 4, 5),
        ("same", 5, 6),
    ]
    assert (found.diverged_at, fields(found)) == (3, ["args", "steps"])


def test_shared_history_is_known_by_lineage_and_later_coincidence_by_content() -> None:
    lived = Lived().start()
    for n in range(6):
        lived.step("search", n, id=f"c{n}")
    at = len(lived.history)
    lived.step("edit", "parent").respond(assistant("done"))
    one, two = (lived.fork(name, at=at).step("read", "same").step("test", name) for name in ("k1", "k2"))
    for a, b in ((one.history, two.history), (one.state, two.state)):
        found = compare(a, b)  # type: ignore[arg-type]
        assert (found.shared.steps, found.shared.by, found.shared.fork_point) == (6, "lineage", ForkPoint("r", at))
        assert found.diverged_at == 8
    apart = [Lived(name).start() for name in ("p", "q")]
    for other in apart:
        for n in range(6):
            other.step("search", n)
        other.step("test", other.run)
    found = compare(apart[0].history, apart[1].history)
    assert (found.shared.steps, found.shared.by, found.diverged_at) == (6, "content", 7)


def test_a_parent_and_its_fork_share_what_lineage_says() -> None:
    lived = Lived().start().step("search", 1).step("read", 2)
    child = lived.fork("kid").respond(assistant("b"))
    at = lived.state.seq  # type: ignore[union-attr]
    lived.respond(assistant("a"))
    for a, b in ((lived.state, child.state), (child.state, lived.state), (child.history, lived.history)):
        found = compare(a, b)  # type: ignore[arg-type]
        assert (found.shared.steps, found.shared.by, found.shared.fork_point) == (2, "lineage", ForkPoint("r", at))
        assert (found.diverged_at, fields(found)) == (3, ["text"])


def test_the_state_of_the_application_and_the_files_are_compared_where_both_have_them() -> None:
    lived = Lived().start().respond(assistant("hi"))
    assert lived.state is not None
    other = replace(lived.state, app={"k": 1}, tree="t2")
    found = compare(lived.state, other)
    assert [(drift.field, drift.a, drift.b) for drift in found.drift] == [
        ("state", None, {"k": 1}),
        ("files", None, "t2"),
    ]
    assert compare(list(lived.state.messages), other).drift == ()


def test_states_histories_and_messages_can_be_mixed() -> None:
    lived = Lived().start("go").step("search", "ok", a="x").respond(assistant("done"))
    sides = (lived.history, lived.state, did("search"))
    for a, b in itertools.product(sides, sides):
        assert compare(a, b).diverged_at is None  # type: ignore[arg-type]


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(NotComparable):
        compare("one", "two")  # type: ignore[arg-type]


def test_many_runs_make_one_table_whatever_their_order() -> None:
    origin = (
        Lived("origin").start().step("search", 1).step("read", 2).respond(assistant("end"), usage=Usage(input_tokens=3))
    )
    at = len(origin.history)
    forks = [origin.fork(f"f{n}", at=at - 3).step("test", n) for n in range(5)]
    tables = [
        compare_many([one.history for one in order], ancestor=origin.history)
        for order in (forks, forks[::-1], [*forks[2:], *forks[:2]])
    ]
    assert tables[0] == tables[1] == tables[2]
    assert [(row.name, row.diverged_at, row.steps, row.outcome) for row in tables[0].rows] == [
        (f"f{n}", 3, 3, "running") for n in range(5)
    ]
    assert tables[0].reference == "origin"
    assert tables[0].diverged["f0"] == {"f0": None, "f1": 3, "f2": 3, "f3": 3, "f4": 3}
    assert all(row.ms is not None and row.shared == 2 for row in tables[0].rows)
    assert str(tables[0]).count("\n") == 6


def test_the_text_says_what_is_shared_where_it_parts_and_what_differs() -> None:
    said = str(compare(did("search", ("read", 1)), did("search", ("read", 2)), names=("left", "right")))
    assert "a: left" in said and "shared: 1 step, equal in content" in said
    assert "diverged at step 2" in said and 'args of read at step 2\n  a: {"a":1}\n  b: {"a":2}' in said


def test_what_a_run_holds_is_shown_and_never_obeyed() -> None:
    evil = "<img src=x onerror=alert(1)></script>\x1b]0;x\x07\u202e"
    messages = [assistant(evil, CallPart(id="1", name=evil, arguments={evil: evil})), answer("1", {evil: evil})]
    found = compare(messages, [assistant("x")], names=(evil, "b"))
    assert not set("\x1b\x07\u202e") & set(found.as_text())
    html = found.as_html()
    assert "<img" not in html and "</script" not in html and "\x1b" not in html and "\u202e" not in html
    assert "default-src 'none'" in html and "<script" not in html
    table = compare_many([messages], names=[evil])
    assert "<img" not in table.as_html() and "\x1b" not in table.as_text()


def test_the_plain_data_of_a_comparison_is_json() -> None:
    import json

    lived = Lived().start().step("search", 1).respond(assistant("x"))
    plain = json.loads(json.dumps(compare(lived.history, did("search")).as_json(), allow_nan=False))
    assert set(plain) == {"a", "b", "shared", "diverged_at", "drift", "aligned"}
    assert plain["a"]["steps"][0]["calls"][0]["status"] == "succeeded"


def test_long_runs_are_aligned_in_time_that_does_not_explode() -> None:
    a = [(f"text {n}", ()) for n in range(3000)]
    b = [("new", ()), *a[:1500], ("x", ()), *a[1510:], ("end", ())]
    lines = aligned_steps(a, b)
    assert len(a) * len(b) > CELLS
    assert sum(kind == "same" for kind, _, _ in lines) == 2990


steps = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12)


@given(steps, steps)
def test_an_alignment_tells_every_step_of_both_sides_once_and_in_order(a: list[str], b: list[str]) -> None:
    lines = aligned_steps([(name, ()) for name in a], [(name, ()) for name in b])
    assert [place for _, place, _ in lines if place is not None] == list(range(len(a)))
    assert [place for _, _, place in lines if place is not None] == list(range(len(b)))
    for kind, at_a, at_b in lines:
        if kind == "same":
            assert a[at_a] == b[at_b]  # type: ignore[index]


@given(steps, steps)
def test_comparing_the_other_way_round_finds_the_same_divergence(a: list[str], b: list[str]) -> None:
    one, two = did(*a), did(*b)
    there, back = compare(one, two), compare(two, one)
    assert there.diverged_at == back.diverged_at
    assert there.shared.steps == back.shared.steps
    assert (there.diverged_at is None) == (a == b)


def test_an_answer_that_is_open_differs_from_an_answer_of_nothing() -> None:
    call = CallPart(id="1", name="t", arguments={})
    assert compare([assistant("", call)], [assistant("", call), answer("1", None)]).diverged_at == 1


def test_a_pause_stays_with_the_parent() -> None:
    lived = Lived().start().step("search", 1).do(Pause(reason="lunch"))
    child = lived.fork("kid")
    assert (lived.state.status, child.state.status) == ("paused", "running")  # type: ignore[union-attr]
