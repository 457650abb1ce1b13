"""Lists, stories, events, requests, waits and trees: what a person sees of runs, and what a script is given."""

from pathlib import Path

import pytest
from surfaces_typed import Typed

from forkpoint.cli.main import main


def test_a_list_of_runs_has_what_one_needs_to_go_on(typed: Typed) -> None:
    typed("start", "shop", "hello", "--id", "first", "--label", "team=a")
    typed("start", "shop", "collect 17", "--id", "second")
    ended = typed("runs", "--json")
    assert ended.status == 0
    second, first = ended.document["runs"]
    assert (first["id"], first["title"], first["status"], first["steps"]) == ("first", "hello", "idle", 1)
    assert (second["id"], second["status"], second["waits"], second["parent"]) == ("second", "waiting", 1, None)
    assert first["started"].endswith("Z") and first["labels"] == {"team": "a"}


def test_a_list_can_be_narrowed_and_paged(typed: Typed) -> None:
    for number in range(5):
        typed("start", "shop", "hello", "--id", f"run-{number}", "--label", f"odd={number % 2}")
    assert [one["id"] for one in typed("runs", "--label", "odd=1", "--json").document["runs"]] == ["run-3", "run-1"]
    page = typed("runs", "--limit", "2", "--json").document
    assert [one["id"] for one in page["runs"]] == ["run-4", "run-3"]
    rest = typed("runs", "--limit", "9", "--after", str(page["next"]), "--json").document
    assert [one["id"] for one in rest["runs"]] == ["run-2", "run-1", "run-0"]
    assert typed("runs", "--status", "failed", "--json").document == {"runs": [], "next": None}
    assert f"--after {page['next']}" in typed("runs", "--limit", "2").out


def test_an_id_from_the_list_works_everywhere_as_its_beginning(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "alpha-1")
    typed("start", "shop", "hello", "--id", "beta-1")
    for words in (
        ["show", "alp"],
        ["show", "alp@step:1"],
        ["request", "alp@step:1"],
        ["waits", "alp"],
        ["tree", "alp"],
        ["watch", "alp", "--after", "0", "--no-follow"],
        ["fork", "alp@step:1", "--id", "gamma"],
        ["compare", "alp", "bet"],
        ["verify", "alp"],
        ["resolve", "alp", "c2", "occurred"],
        ["resume", "alp"],
        ["send", "alp", "more"],
        ["pause", "alp"],
        ["unpause", "alp"],
        ["interrupt", "alp"],
        ["stop", "alp"],
        ["delete", "alp", "--yes"],
    ):
        ended = typed(*words)
        assert ended.status == 0, (words, ended.err)


def test_the_beginning_of_several_ids_is_refused_with_their_names(typed: Typed) -> None:
    typed("start", "shop", "hello", "--id", "run-1")
    typed("start", "shop", "hello", "--id", "run-2")
    ended = typed("show", "run", "--json")
    assert ended.status == 2
    assert ended.error["code"] == "run.ambiguous" and "run-1, run-2" in ended.error["what"]
    typed("fork", "run-1")
    assert typed("show", "run-1").status == 0, "a whole id is that run, whatever begins with it"
    typed("delete", "run-2", "--yes")
    assert typed("show", "run", "--json").document["run"] == "run-1", "forks named after their parent are no other run"
    assert typed("show", "nobody", "--json").error["code"] == "run.not-found"


def test_a_story_tells_turns_steps_calls_and_what_is_waited_for(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    told = typed("show", "inv").out
    for words in ("Turn 1", "collect 17", "Step 1", 'invoice(number="17")', "4200", "the gateway did not answer"):
        assert words in told
    assert "forkpoint resolve inv 12 occurred" in told
    document = typed("show", "inv", "--json").document
    (turn,) = document["turns"]
    assert [step["step"] for step in turn["steps"]] == [1, 2]
    (call,) = turn["steps"][0]["calls"]
    assert (call["tool"], call["arguments"], call["status"]) == ("invoice", {"number": "17"}, "succeeded")
    assert call["outcome"]["value"] == {"number": "17", "due": 4200}
    assert [(wait["effect"], wait["kind"]) for wait in document["waits"]] == [(12, "unknown")]


def test_a_story_at_a_moment_ends_there(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    document = typed("show", "inv@step:1", "--json").document
    assert (document["step"], document["at"], document["waits"]) == (1, 8, [])
    assert typed("show", "inv@5", "--json").document["at"] == 5
    assert typed("show", "inv@before:c2", "--json").document["turns"][0]["steps"][1]["calls"][0]["status"] == "asked"
    ended = typed("show", "inv@step:9", "--json")
    assert (ended.status, ended.error["code"]) == (2, "fork.no-such-point")
    assert typed("show", "inv@soon", "--json").error["code"] == "fork.bad-address"


def test_forks_stand_where_they_left(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    typed("fork", "inv@step:1", "--id", "other", "--input", "mail them")
    assert "↳ forked: other at @8" in typed("show", "inv").out
    child = typed("show", "other", "--json").document
    assert child["lineage"] == [{"run": "inv", "at": 8}]
    assert any(mark["kind"] == "run_forked" and "mail them" in mark["says"] for mark in child["marks"])


def test_a_step_shows_its_values_whole_and_a_large_one_only_when_asked(typed: Typed) -> None:
    typed("start", "shop", "read 9000", "--id", "big")
    call = typed("show", "big", "--json").document["turns"][0]["steps"][0]["calls"][0]
    assert call["outcome"]["value"] is None and call["outcome"]["value_aside"]["bytes"] == 9002
    assert "kept aside" in typed("show", "big").out
    step = typed("show", "big", "--step", "1", "--json").document
    assert step["calls"][0]["outcome"]["value"] == "y" * 9000
    assert "7,000 more characters" in typed("show", "big", "--step", "1").out
    assert typed("show", "big", "--step", "1", "--full").out.count("y") > 9000
    assert typed("show", "big", "--full", "--json").document["turns"][0]["steps"][0]["calls"][0]["outcome"]["value"]
    assert typed("show", "big", "--step", "7", "--json").error["code"] == "fork.no-such-point"


def test_events_are_found_by_outcome_kind_and_text_and_pages_keep_them(typed: Typed) -> None:
    """A run of over 2,000 events with 7 errors: the 7 are found, and a page is the same after the run went on."""
    typed("start", "shop", "count", "--id", "long")
    failed = typed("show", "long", "--status", "failed", "--json").document
    assert failed["matching"] == 7 and failed["of"] > 2000
    assert [one["event"]["outcome"]["error"] for one in failed["events"]] == ["ValueError"] * 7
    assert typed("show", "long", "--kind", "settled", "--text", "177 IS unlucky", "--json").document["matching"] == 1
    second = typed("show", "long", "--events", "--page", "2", "--json").document["events"]
    assert [one["seq"] for one in second] == list(range(101, 201))
    settled = typed("show", "long", "--kind", "settled", "--page", "1", "--limit", "3", "--json").document
    typed("send", "long", "hello", "--resume")
    assert typed("show", "long", "--events", "--page", "2", "--json").document["events"] == second
    again = typed("show", "long", "--kind", "settled", "--page", "1", "--limit", "3", "--json").document
    assert again["events"] == settled["events"]
    assert typed("show", "long", "--events", "--page", "99", "--json").error["code"] == "cli.unfit"
    assert typed("show", "long", "--kind", "nonsense", "--json").error["code"] == "cli.unfit"


def test_a_request_is_what_the_model_was_shown(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    shown = typed("request", "inv@step:2", "--json").document
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant", "tool"]
    assert shown["instructions"] == "You are the clerk." and shown["model"] == "scripted:model"
    assert [tool["name"] for tool in shown["tools"]][:2] == ["invoice", "charge"]
    told = typed("request", "inv@step:2").out
    assert "You are the clerk." in told and "answers c1" in told
    assert typed("request", "inv@5", "--json").error["code"] == "cli.unfit"


def test_waits_say_what_to_type(typed: Typed) -> None:
    typed("start", "shop", "mail them", "--id", "letters")
    typed("start", "shop", "ask me", "--id", "question")
    waits = typed("waits", "--json").document["waits"]
    assert [(one["run"], one["kind"], one["name"]) for one in waits] == [
        ("letters", "approval", "mail"),
        ("letters", "approval", "mail"),
        ("question", "question", "ask_person"),
    ]
    assert waits[0]["arguments"] == {"to": "ada", "body": "hello"}
    assert waits[0]["commands"] == ["forkpoint approve letters 6", "forkpoint deny letters 6 REASON"]
    assert 'mail(to="bob", body="bye")' in typed("waits", "letters").out
    (question,) = typed("waits", "question", "--json").document["waits"]
    assert question["commands"] == ["forkpoint answer question 6 JSON"]


def test_a_tree_tells_every_fork_and_the_step_it_left_at(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "root")
    for step, name in ((1, "a"), (1, "b"), (2, "c")):
        typed("fork", f"root@step:{step}" if step == 1 else "root@before:c2", "--id", name)
    typed("fork", "a", "--id", "a-a")
    nodes = {one["id"]: one for one in typed("tree", "a-a", "--json").document["runs"]}
    assert {name: (one["parent"], one["step"]) for name, one in nodes.items()} == {
        "root": (None, None),
        "a": ("root", 1),
        "b": ("root", 1),
        "c": ("root", 2),
        "a-a": ("a", 1),
    }
    typed("start", "shop", "hello", "--id", "alone")
    assert typed("tree", "--json").document["families"] == 2
    drawn = typed("tree").out
    assert "└── " in drawn and "alone" in drawn and "@8, step 1" in drawn


def test_a_deleted_parent_still_stands_in_the_tree(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "root")
    typed("fork", "root@step:1", "--id", "child")
    typed("delete", "root", "--yes")
    assert [one["status"] for one in typed("tree", "--json").document["runs"]] == ["deleted", "running"]
    assert typed("show", "root", "--json").error["code"] == "run.not-found"


def test_watching_prints_each_event_once_and_ends_with_the_run(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    lines = typed("watch", "inv", "--after", "0", "--no-follow").out.splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(1, 15))
    typed("stop", "inv", "--reason", "enough")
    ended = typed("watch", "inv", "--after", "12", "--json")
    assert ended.status == 0 and '"kind":"stopped"' in ended.out.splitlines()[-1]


def test_looking_makes_no_store(typed: Typed, tmp_path: Path) -> None:
    for words in (["runs"], ["waits"], ["tree"], ["show", "x"], ["verify"], ["send", "x", "y"], ["delete", "x"]):
        ended = typed(*words, "--json")
        assert (ended.status, ended.error["code"]) == (2, "store.missing")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["--json", "runs"], ["--store", "here.db", "runs", "--json"], ["runs", "--json"]])
def test_options_for_everything_may_stand_first(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert '"store.missing"' in capsys.readouterr().err
