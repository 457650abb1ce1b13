"""Which store and which agents are meant: options, then the environment, then what lies upward. Pure but for files."""

from pathlib import Path

import pytest

from forkpoint.cli.main import forward, wants_json
from forkpoint.cli.settings import choose_app, choose_store
from forkpoint.cli.typed import json_of, results_of, seconds_of
from forkpoint.errors import AppNotFound, AppUnfit, CommandUnfit
from forkpoint.timetravel.patches import ToolError


def _store(folder: Path) -> Path:
    (folder / ".forkpoint").mkdir(parents=True)
    place = folder / ".forkpoint" / "runs.db"
    place.touch()
    return place


def test_the_option_goes_before_the_environment_before_what_is_found(tmp_path: Path) -> None:
    place = _store(tmp_path)
    environment = {"FORKPOINT_STORE": "from-environment.db"}
    assert choose_store("given.db", environment=environment, folder=tmp_path).name == "given.db"
    assert choose_store(None, environment=environment, folder=tmp_path).name == "from-environment.db"
    found = choose_store(None, environment={}, folder=tmp_path)
    assert (found.name, found.exists) == (str(place), True)


def test_a_store_is_found_upward_and_the_nearest_wins(tmp_path: Path) -> None:
    outer = _store(tmp_path)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert choose_store(None, environment={}, folder=below).name == str(outer)
    inner = _store(tmp_path / "a")
    assert choose_store(None, environment={}, folder=below).name == str(inner)


def test_where_none_is_found_it_would_be_made_here(tmp_path: Path) -> None:
    choice = choose_store(None, environment={"FORKPOINT_STORE": ""}, folder=tmp_path)
    assert (choice.name, choice.exists) == (str(tmp_path / ".forkpoint" / "runs.db"), False)
    assert choose_store("memory:", environment={}, folder=tmp_path).exists


def test_the_nearest_pyproject_says_which_app_and_where_it_is_imported_from(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.forkpoint]\napp = "shop:agents"\n', "utf-8")
    below = tmp_path / "deep"
    below.mkdir()
    choice = choose_app(None, folder=below)
    assert choice is not None and (choice.name, choice.folder) == ("shop:agents", tmp_path)
    given = choose_app("other:agents", folder=below)
    assert given is not None and (given.name, given.folder) == ("other:agents", below)
    (below / "pyproject.toml").write_text("[project]\nname = 'x'\n", "utf-8")
    assert choose_app(None, folder=below) is None


def test_a_pyproject_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("not toml", "utf-8")
    with pytest.raises(AppNotFound):
        choose_app(None, folder=tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.forkpoint]\napp = 7\n", "utf-8")
    with pytest.raises(AppUnfit):
        choose_app(None, folder=tmp_path)


def test_shared_options_are_moved_behind_the_command() -> None:
    assert forward(["--store", "x", "--json", "runs", "--due"]) == ["runs", "--store", "x", "--json", "--due"]
    assert forward(["--app=a:b", "resume", "r"]) == ["resume", "--app=a:b", "r"]
    assert forward(["--version"]) == ["--version"]
    assert forward([]) == ["--help"]
    assert wants_json(["send", "r", "--json"]) and not wants_json(["send", "r", "--", "--json"])


def test_results_are_json_by_call_or_by_effect() -> None:
    assert results_of(['c1={"a": 1}', "12=null"], ["c2=no = no"]) == {
        "c1": {"a": 1},
        12: None,
        "c2": ToolError("no = no"),
    }
    with pytest.raises(CommandUnfit, match="needs quotes"):
        results_of(["c1=text"], None)


def test_durations_have_a_unit() -> None:
    assert [seconds_of(text, "--older-than") for text in ("90s", "15min", "12h", "30d", "1.5w")] == [
        90,
        900,
        43_200,
        2_592_000,
        907_200,
    ]
    for text in ("30", "d", "-1d", "1y", ""):
        with pytest.raises(CommandUnfit):
            seconds_of(text, "--older-than")


def test_a_json_value_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "value.json").write_text('{"a": [1, 2]}', "utf-8")
    assert json_of(f"@{tmp_path / 'value.json'}", "--output") == {"a": [1, 2]}
