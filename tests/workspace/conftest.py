"""A folder to work in, its recorder, and hands that edit it."""

from pathlib import Path

import pytest
from workspace_hands import FolderHands, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace folder beside a store."""
    root = tmp_path / "project"
    root.mkdir()
    return Place(root=root, store=tmp_path / "runs.db-files")


@pytest.fixture
def hands(place: Place) -> FolderHands:
    return FolderHands(place.root)
