"""Forks with a "what if" typed, and comparisons of what came of them."""

from pathlib import Path

from surfaces_typed import Typed


def test_a_fork_shares_the_steps_before_and_shows_the_model_the_change(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    ended = typed("fork", "inv@step:1", "--result", 'c1={"due": 0}', "--id", "free", "--json")
    assert ended.document | {"changes": None} == {
        "run": "free",
        "parent": "inv",
        "at": 8,
        "status": "running",
        "changes": None,
        "effects": "ask",
        "pending": "hold",
        "due": True,
        "waits": 0,
    }
    assert ended.document["changes"] == ["another result for call c1"]
    typed("resume", "free")
    shown = typed("request", "free@step:2", "--json").document
    assert shown["messages"][-1]["parts"][0]["response"] == {"due": 0}
    assert typed("show", "free@6", "--json").document["at"] == 6
    assert typed("show", "inv", "--json").document["head"] == 14, "the parent stays as it is"


def test_what_a_fork_would_do_to_the_world_waits_unless_it_is_to_be_live(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    assert typed("fork", "inv@step:1", "--resume", "--json").document["waits"][0]["kind"] == "approval"
    live = typed("fork", "inv@step:1", "--effects", "live", "--resume", "--json").document
    assert live["waits"][0]["kind"] == "unknown"


def test_every_part_of_a_patch_can_be_typed(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    words = ["--error", "12=declined", "--state", '{"a": 1}', "--instructions", "Be brief.", "--input", "hello"]
    ended = typed("fork", "inv@before:c2", *words, "--label", "why=test", "--resume", "--accept-changes", "--json")
    assert ended.status == 0
    told = typed("show", ended.document["run"], "--json").document
    assert told["state"] == {"a": 1} and told["labels"]["why"] == "test"
    call = told["turns"][0]["steps"][1]["calls"][0]
    assert (call["status"], call["outcome"]["text"]) == ("failed", "declined")
    assert [turn["text"] for turn in told["turns"]] == ["collect 17", "hello"]
    assert typed("request", ended.document["run"], "--json").document["instructions"] == "Be brief."


def test_a_fork_that_cannot_be_is_refused(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    for words, code in (
        (["inv@99"], "fork.no-such-point"),
        (["inv", "--id", "inv"], "fork.name-taken"),
        (["inv@step:1", "--result", "c9=1"], "fork.no-such-call"),
        (["inv", "--result", "c1"], "cli.unfit"),
        (["inv", "--result", "c1=1", "--error", "c1=x"], "cli.unfit"),
        (["inv", "--state", "[]"], "cli.unfit"),
        (["inv", "--id", "../x"], "run.bad-id"),
    ):
        ended = typed("fork", *words, "--json")
        assert (ended.status != 0, ended.error["code"]) == (True, code), words
    assert len(typed("runs", "--json").document["runs"]) == 1


def test_two_runs_are_compared_and_more_become_a_table(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    typed("fork", "inv@before:c2", "--error", "c2=declined", "--id", "other", "--resume")
    found = typed("compare", "inv", "other", "--json").document
    assert found["diverged_at"] == 2 and found["shared"]["steps"] == 1
    assert "diverged at step 2" in typed("compare", "inv", "other").out
    assert typed("compare", "inv@step:1", "other@step:1", "--json").document["diverged_at"] is None
    rows = typed("compare", "inv", "other", "inv@step:1", "--json").document["rows"]
    assert [row["name"] for row in rows] == ["inv", "inv@step:1", "other"]
    assert typed("compare", "inv", "--json").error["code"] == "cli.unfit"


def test_a_comparison_is_written_as_a_page_that_replaces_nothing_unasked(typed: Typed, tmp_path: Path) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    typed("start", "shop", "nasty", "--id", "bad")
    assert typed("compare", "inv", "bad", "--html", "page.html").status == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<img src=x" not in page
    assert typed("compare", "inv", "bad", "--html", "page.html", "--json").error["code"] == "export.exists"
    assert typed("compare", "inv", "bad", "--html", "page.html", "--force").status == 0
