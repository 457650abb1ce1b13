"""What is given to the API and does not fit is refused with a code, before anything is written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.stage import live, played, runtime_on

import forkpoint as fp
from forkpoint.errors import ArgumentUnfit, StoreUnknownKind

NEVER: Any = object()


@live
async def test_what_a_run_cannot_start_with_is_refused_and_no_run_is_left() -> None:
    async with runtime_on(None, fp.Agent("a", model=played())) as runtime:
        unfit: list[dict[str, Any]] = [
            {"labels": {"a": 1}},
            {"labels": ["a"]},
            {"limits": fp.Limits(steps=-1)},
            {"limits": {"steps": 1}},
        ]
        for given in unfit:
            with pytest.raises(ArgumentUnfit):
                await runtime.start("a", "go", **given)
        assert (await runtime.runs()).rows == ()


@live
async def test_what_a_fork_cannot_be_made_with_is_refused_and_no_fork_is_left() -> None:
    async with runtime_on(None, fp.Agent("a", model=played())) as runtime:
        run = await runtime.start("a", "go")
        await run.wait()
        unfit: list[dict[str, Any]] = [
            {"effects": "sometimes"},
            {"pending": "later"},
            {"patch": {"input": "x"}},
            {"labels": {1: "x"}},
        ]
        for given in unfit:
            with pytest.raises(ArgumentUnfit):
                await run.fork(**given)
        with pytest.raises(ArgumentUnfit, match=r"limits.tokens takes a number above 0"):
            await run.unpause(limits=fp.Limits(tokens=-5))
        assert await run.children() == ()


@pytest.mark.parametrize(
    "options",
    [{"durability": "off"}, {"agents": NEVER}, {"agents": [NEVER]}, {"secrets": 5}, {"lease_s": 0}, {"grace_s": -1}],
)
def test_what_a_runtime_cannot_be_connected_with_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ArgumentUnfit):
        fp.connect(tmp_path / "runs.db", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["postgresql://host/db", "http://host/runs.db", "memory", ":memory:", "sqlite"])
def test_a_store_that_there_is_none_for_makes_no_folder_of_that_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    connect: Callable[[str], fp.Runtime] = fp.connect
    with pytest.raises(StoreUnknownKind):
        connect(name)
    assert list(tmp_path.iterdir()) == []
