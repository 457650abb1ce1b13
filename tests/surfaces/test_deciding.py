"""Decisions typed by a person: recorded with no agent and nobody performing, acted on by whoever performs the run."""

from pathlib import Path

import pytest
from surfaces_typed import Typed


def _call(typed: Typed, run: str, step: int, place: int) -> dict[str, object]:
    told: dict[str, object] = typed("show", run, "--step", str(step), "--json").document["calls"][place]
    return told


def test_a_decision_about_an_unknown_is_recorded_by_anyone_and_acted_on_later(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    ended = typed(
        "resolve", "inv", "12", "occurred", "--output", '{"id": 9}', "--note", "saw it", "--actor", "ada", "--json"
    )
    assert (ended.status, ended.document["status"], ended.document["owned"]) == (0, "running", False)
    assert "forkpoint resume inv" in typed("resolve", "inv", "12", "occurred", "--output", '{"id": 9}').out
    assert typed("resume", "inv", "--json").document["output"] == "Collected."
    call = _call(typed, "inv", 2, 0)
    assert call["status"] == "occurred" and call["remarks"] == ['person found: occurred, {"id":9}: saw it (by ada)']


def test_another_decision_is_refused_with_both(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    typed("resolve", "inv", "c2", "not_occurred")
    ended = typed("resolve", "inv", "12", "occurred", "--json")
    assert (ended.status, ended.error["code"]) == (3, "effect.already-resolved")
    assert ended.error["values"]["decided"] == "not_occurred"


def test_approvals_are_given_refused_and_edited(typed: Typed) -> None:
    typed("start", "shop", "mail them", "--id", "letters")
    assert typed("approve", "letters", "m1", "--arguments", '{"to": "eve", "body": "hi"}').status == 0
    assert typed("deny", "letters", "8", "not to bob", "--resume", "--json").document["status"] == "idle"
    first, second = _call(typed, "letters", 1, 0), _call(typed, "letters", 1, 1)
    assert first["arguments"] == {"to": "eve", "body": "hi"} and first["status"] == "succeeded"
    assert second["status"] == "denied" and second["outcome"]["text"] == "not to bob"  # type: ignore[index]
    assert "not to bob" in typed("show", "letters").out
    assert typed("approve", "letters", "m1", "--json").error["code"] == "approval.already-decided"


def test_edited_arguments_that_do_not_fit_are_refused(typed: Typed) -> None:
    typed("start", "shop", "mail them", "--id", "letters")
    ended = typed("approve", "letters", "6", "--arguments", '{"to": 7}', "--json")
    assert (ended.status, ended.error["code"]) == (2, "answer.unfit")
    assert len(typed("waits", "--json").document["waits"]) == 2


def test_a_question_is_answered(typed: Typed) -> None:
    typed("start", "shop", "ask me", "--id", "question")
    ended = typed("answer", "question", "q1", "that one", "--json")
    assert ended.error["code"] == "cli.unfit" and "a text needs quotes" in ended.error["what"]
    assert typed("answer", "question", "q1", "7", "--json").error["code"] == "answer.unfit"
    assert typed("answer", "question", "q1", '"that one"', "--resume", "--json").document["output"] == "Asked."


def test_a_run_is_paused_continued_interrupted_and_stopped(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    assert typed("pause", "inv", "--reason", "look first", "--json").document["status"] == "paused"
    assert "look first" in typed("show", "inv").out
    assert typed("unpause", "inv", "--steps", "9", "--json").document["status"] == "waiting"
    assert typed("interrupt", "inv", "--reason", "enough").status == 0
    assert typed("stop", "inv", "--json").document["status"] == "stopped"
    assert typed("send", "inv", "hello", "--json").error["code"] == "run.stopped"


def test_what_is_said_may_come_from_a_file(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("hello from a file", "utf-8")
    typed("start", "shop", "--id", "one")
    assert typed("send", "one", "@letter.txt", "--resume", "--json").document["output"] == "You said: hello from a file"
    assert typed("send", "one", "@@ada", "--resume", "--json").document["output"] == "You said: @ada"
    ended = typed("send", "one", "@missing.txt", "--json")
    assert (ended.status, ended.error["code"]) == (5, "cli.file-unusable")


def test_sending_again_under_a_key_is_one_input(typed: Typed) -> None:
    typed("start", "shop", "hello", "--id", "one")
    typed("send", "one", "more", "--key", "k")
    typed("send", "one", "more", "--key", "k")
    assert typed("resume", "one", "--json").document["turn"] == 2
    assert typed("send", "one", "else", "--key", "k", "--json").error["code"] == "input.key-reused"


def test_a_secret_of_the_app_is_not_written_by_a_decision_either(typed: Typed, tmp_path: Path) -> None:
    typed("start", "shop", "hello", "--id", "one", "--app", "surfaces_shop:app")
    typed("send", "one", "my token is a-very-secret-value", "--app", "surfaces_shop:app")
    assert b"a-very-secret-value" not in b"".join(one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())


@pytest.mark.parametrize(
    "words",
    [
        ["resolve", "inv", "12", "maybe"],
        ["resolve", "inv", "12"],
        ["resolve", "inv", "12", "occurred", "--output", "{"],
        ["nonsense"],
        ["runs", "--limit", "none"],
        ["runs", "--label", "nonsense"],
        ["runs", "--status", "nonsense"],
    ],
)
def test_what_cannot_be_understood_is_refused_and_changes_nothing(typed: Typed, words: list[str]) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    ended = typed(*words, "--json")
    assert (ended.status, ended.out, ended.error["code"]) == (2, "", "cli.unfit")
    assert typed("show", "inv", "--json").document["head"] == 14
