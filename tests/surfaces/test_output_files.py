"""Files that commands write: whole or not at all, for their user only, never through a link, never over another."""

import os
from pathlib import Path

import pytest

from forkpoint.cli.files import write_new
from forkpoint.errors import CommandFileExists, CommandFileUnusable


def test_a_file_is_written_for_its_user_only(tmp_path: Path) -> None:
    write_new(tmp_path / "out.json", b"data", force=False)
    assert (tmp_path / "out.json").read_bytes() == b"data"
    assert (tmp_path / "out.json").stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["out.json"]


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    place = tmp_path / "out.json"
    place.write_bytes(b"old")
    with pytest.raises(CommandFileExists):
        write_new(place, b"new", force=False)
    assert place.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1
    write_new(place, b"new", force=True)
    assert place.read_bytes() == b"new" and place.stat().st_mode & 0o777 == 0o600


def test_a_link_is_never_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    for name, target in (("link", victim), ("dangling", tmp_path / "nowhere")):
        (tmp_path / name).symlink_to(target)
        with pytest.raises(CommandFileExists):
            write_new(tmp_path / name, b"new", force=False)
        write_new(tmp_path / name, b"new", force=True)
        assert not (tmp_path / name).is_symlink()
    assert victim.read_bytes() == b"mine" and not (tmp_path / "nowhere").exists()


def test_a_write_that_is_cut_off_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CommandFileUnusable, match="No space left"):
        write_new(tmp_path / "out.json", b"data", force=False)
    assert not any(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(CommandFileUnusable):
        write_new(tmp_path / "no" / "out.json", b"data", force=False)
