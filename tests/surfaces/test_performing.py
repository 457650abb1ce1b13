"""Runs begun, resumed and recovered from the command line, with the agents that the app names."""

from pathlib import Path

import pytest
from surfaces_typed import Typed


def test_a_run_is_begun_and_performed_and_its_store_made(typed: Typed, tmp_path: Path) -> None:
    ended = typed("start", "shop", "hello", "--json")
    assert (ended.status, ended.document["status"], ended.document["output"]) == (0, "idle", "You said: hello")
    assert ended.document["run"].startswith("shop-")
    assert (tmp_path / ".forkpoint" / "runs.db").stat().st_mode & 0o777 == 0o600
    assert "You said: hello" in typed("start", "shop", "hello").out


def test_a_run_can_be_begun_and_left_to_others(typed: Typed) -> None:
    ended = typed("start", "shop", "hello", "--id", "later", "--no-perform", "--json")
    assert (ended.document["status"], ended.document["due"], ended.document["owned"]) == ("running", True, False)
    assert "unowned" in typed("runs").out
    assert typed("recover", "--json").document == {"runs": [{"run": "later", "status": "idle"}], "failed": {}}
    assert typed("recover").out.strip() == "Nothing was due."


def test_a_failed_turn_ends_with_1_and_says_how_to_go_on(typed: Typed) -> None:
    ended = typed("start", "shop", "fail now", "--id", "bad")
    assert ended.status == 1
    assert "RuntimeError: the model is down" in ended.out and "forkpoint resume bad" in ended.out
    assert typed("resume", "bad", "--json").status == 1


def test_starting_again_is_the_same_run_and_another_input_is_refused(typed: Typed) -> None:
    typed("start", "shop", "hello", "--id", "one")
    assert typed("start", "shop", "hello", "--id", "one", "--json").document["step"] == 1
    ended = typed("start", "shop", "something else", "--id", "one", "--json")
    assert (ended.status, ended.error["code"]) == (3, "run.exists")


def test_a_run_that_waits_says_for_what_and_succeeds(typed: Typed) -> None:
    ended = typed("start", "shop", "mail them", "--id", "letters")
    assert ended.status == 0
    assert "forkpoint approve letters 6" in ended.out


def test_a_recovery_that_leaves_runs_behind_says_which_and_ends_with_3(typed: Typed) -> None:
    typed("start", "shop", "hello", "--id", "lost", "--no-perform")
    typed("start", "shop", "hello", "--id", "found", "--no-perform")
    typed("fork", "lost", "--id", "odd", "--model", "elsewhere")
    ended = typed("recover", "--json")
    assert ended.status == 3
    assert sorted(one["run"] for one in ended.document["runs"]) == ["found", "lost"]
    assert "model.no-provider" in ended.document["failed"]["odd"]


def test_agents_come_from_the_nearest_pyproject(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.forkpoint]\napp = "surfaces_shop:agents"\n', "utf-8")
    below = tmp_path / "deep" / "down"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    facts = typed("doctor", "--json").document
    assert facts["agents"]["app"] == "surfaces_shop:agents" and facts["agents"]["agents"][0]["name"] == "shop"
    assert "pyproject.toml" in typed("doctor").out


@pytest.mark.parametrize(
    ("app", "code"),
    [
        ("surfaces_shop:agent", None),
        ("surfaces_shop:app", None),
        ("surfaces_shop:nothing", "app.unfit"),
        ("surfaces_shop:missing", "app.not-found"),
        ("surfaces_shop:broken", "app.not-found"),
        ("no_such_module:agents", "app.not-found"),
        ("surfaces_shop", "app.not-found"),
    ],
)
def test_an_app_is_an_agent_agents_or_an_app(typed: Typed, app: str, code: str | None) -> None:
    ended = typed("start", "shop", "hello", "--app", app, "--json")
    assert (ended.error["code"] if ended.status else None) == code


def test_performing_without_agents_is_refused_before_anything_is_written(typed: Typed, tmp_path: Path) -> None:
    typed("start", "shop", "hello", "--id", "one")
    assert typed("send", "one", "more").status == 0, "a decision needs no agents"
    ended = typed("start", "shop", "x", "--app", "")
    assert (ended.status, "app.missing" in ended.err) == (2, True)
    assert len(typed("runs", "--json").document["runs"]) == 1
    assert typed("start", "nobody", "x", "--json").error["code"] == "agent.missing"


def test_what_nobody_foresaw_is_told_as_a_fault_to_report(typed: Typed) -> None:
    """Such as a fault in a hook of the app: it is no refusal of ours, and must not look like one."""
    ended = typed("start", "shop", "hello", "--app", "surfaces_shop:rude", "--json")
    assert (ended.status, ended.error["code"], ended.error["kind"]) == (70, "cli.crashed", "bug")
    assert "LookupError: a hook with a fault" in ended.error["what"] and "surfaces_shop.py" in ended.error["what"]
    told = typed("start", "shop", "hello", "--app", "surfaces_shop:rude")
    assert told.status == 70 and "Please report it" in told.err and "Traceback" in told.err
    assert typed("runs", "--json").document["runs"] == []
