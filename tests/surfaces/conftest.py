"""The command line, run in this process on a store of its own."""

from pathlib import Path

import pytest
from surfaces_typed import APP, Ended, Typed

from forkpoint.cli.main import main


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, with nothing in the environment that the command line would read."""
    monkeypatch.chdir(tmp_path)
    for name in ("FORKPOINT_STORE", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type a command; one that performs is given the shop's agents."""

    def run(*words: str) -> Ended:
        needs_app = words[0] in ("start", "resume", "recover") or "--resume" in words
        more = ["--app", APP] if needs_app and "--app" not in words else []
        status = main([words[0], *more, *words[1:]])
        said = capsys.readouterr()
        return Ended(status, said.out, said.err)

    return run
