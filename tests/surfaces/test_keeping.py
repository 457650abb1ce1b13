"""Verifying, removing and importing from the command line; nothing is removed by accident."""

import json
import sqlite3
from pathlib import Path

from surfaces_typed import Typed


def test_a_sound_store_is_said_to_be_and_an_altered_one_is_found_out(typed: Typed, tmp_path: Path) -> None:
    typed("start", "shop", "hello", "--id", "one")
    assert typed("verify", "--fold", "--json").document["sound"] is True
    assert "as written" in typed("verify").out
    with sqlite3.connect(tmp_path / ".forkpoint" / "runs.db") as connection:
        connection.execute("UPDATE commits SET body = CAST(replace(body, 'hello', 'hullo') AS BLOB)")
    connection.close()
    ended = typed("verify", "--json")
    assert ended.status == 4 and ended.document["findings"][0]["run"] == "one"
    assert "one@" in typed("verify").out and typed("show", "one", "--json").error["code"] == "event.altered"


def test_a_run_is_deleted_only_when_that_is_confirmed(typed: Typed) -> None:
    typed("start", "shop", "hello", "--id", "one")
    ended = typed("delete", "one", "--json")
    assert (ended.status, ended.error["code"]) == (2, "cli.not-confirmed")
    assert typed("show", "one").status == 0
    assert typed("delete", "one", "--yes", "--json").document["run"] == "one"
    assert typed("show", "one").status == 2


def test_pruning_tells_what_would_go_and_needs_a_yes(typed: Typed) -> None:
    for name in ("one", "two"):
        typed("start", "shop", "hello", "--id", name)
    plan = typed("prune", "--older-than", "0s", "--dry-run", "--json").document
    assert sorted(one["run"] for one in plan["removed"]) == ["one", "two"]
    assert typed("prune", "--older-than", "0s", "--json").error["code"] == "prune.not-confirmed"
    assert typed("prune", "--json").error["code"] == "prune.no-choice"
    assert typed("prune", "--older-than", "soon", "--json").error["code"] == "cli.unfit"
    assert typed("prune", "--older-than", "30d", "--yes", "--json").document["removed"] == []
    assert [one["run"] for one in typed("prune", "two", "--yes", "--json").document["removed"]] == ["two"]
    assert typed("prune", "--unused", "--json").document["removed"] == []
    assert [one["id"] for one in typed("runs", "--json").document["runs"]] == ["one"]


def test_recorded_conversations_become_runs_once(typed: Typed, tmp_path: Path) -> None:
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is due?"},
        {"role": "assistant", "content": None, "tool_calls": [_called("x1", "invoice", '{"number": "17"}')]},
        {"role": "tool", "tool_call_id": "x1", "content": "4200"},
        {"role": "assistant", "content": "4200 cents."},
    ]
    (tmp_path / "chat.json").write_text(json.dumps({"messages": chat}), "utf-8")
    ended = typed("import", "chat.json", "--label", "set=a", "--json")
    assert (ended.status, ended.document["written"]) == (0, 1)
    run = ended.document["runs"][0]["run"]
    assert typed("import", "chat.json", "--json").document["written"] == 0
    assert typed("show", f"{run}@step:1", "--json").document["step"] == 1
    assert typed("request", f"{run}@step:2", "--json").document["instructions"] == "Be brief."
    assert typed("runs", "--label", "set=a", "--json").document["runs"][0]["id"] == run
    (tmp_path / "other.json").write_text("{}", "utf-8")
    assert typed("import", "other.json", "--json").error["code"] == "import.not-chat"
    assert "already there" in typed("import", "chat.json").out


def _called(call: str, name: str, arguments: str) -> dict[str, object]:
    return {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_the_doctor_says_what_is_meant_here_and_why(typed: Typed) -> None:
    facts = typed("doctor", "--json").document
    assert facts["store"]["exists"] is False and facts["agents"]["app"] is None
    typed("start", "shop", "hello")
    assert typed("doctor", "--json").document["store"]["statuses"] == {"idle": 1}
    ended = typed("doctor", "--app", "no_such_module:agents", "--json")
    assert ended.status == 1 and "app.not-found" in ended.document["agents"]["problem"]


def test_the_doctor_tells_of_a_file_that_is_no_store(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no store at all", "utf-8")
    ended = typed("doctor", "--store", "notes.txt", "--json")
    assert ended.status == 1 and "store.foreign" in ended.document["store"]["problem"]
    assert typed("runs", "--store", "notes.txt", "--json").error["code"] == "store.foreign"


def test_a_run_is_exported_and_comes_back_exactly(typed: Typed, tmp_path: Path) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    ended = typed("export", "inv", "inv.jsonl", "--json")
    assert (ended.status, ended.document["format"], ended.document["at"]) == (0, "forkpoint", 14)
    assert (tmp_path / "inv.jsonl").stat().st_mode & 0o777 == 0o600
    back = typed("import", "inv.jsonl", "--format", "forkpoint", "--store", "other.db", "--json")
    assert back.document["runs"][0]["run"] == "inv"
    events = typed("show", "inv", "--events", "--json").document["events"]
    again = typed("show", "inv", "--events", "--store", "other.db", "--json").document["events"]
    assert [one["digest"] for one in again[: len(events)]] == [one["digest"] for one in events]


def test_an_export_follows_no_link_and_replaces_nothing_unasked(typed: Typed, tmp_path: Path) -> None:
    typed("start", "shop", "nasty", "--id", "bad")
    assert typed("export", "bad", "page.html").status == 0
    assert "<img src=x" not in (tmp_path / "page.html").read_text("utf-8")
    assert typed("export", "bad", "page.html", "--json").error["code"] == "export.exists"
    assert typed("export", "bad", "page.html", "--force").status == 0
    (tmp_path / "victim").write_text("mine", "utf-8")
    (tmp_path / "link.json").symlink_to(tmp_path / "victim")
    for more in ([], ["--force"]):
        assert typed("export", "bad", "link.json", *more, "--json").error["code"] == "export.not-a-file"
    assert (tmp_path / "victim").read_text("utf-8") == "mine"


def test_an_export_that_cannot_be_is_refused(typed: Typed) -> None:
    typed("start", "shop", "collect 17", "--id", "inv")
    assert typed("export", "inv@step:1", "-", "--json").error["code"] == "cli.unfit"
    assert typed("export", "inv", "x.json", "--format", "nonsense", "--json").error["code"] == "import.unknown-format"
