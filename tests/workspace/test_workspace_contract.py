"""The public contract, on a real folder and in memory."""

from pathlib import Path

import pytest
from workspace_hands import FolderHands, Place

from forkpoint.testing.workspace import MemoryHands, MemoryWorkspace
from forkpoint.testing.workspace_contract import Hands, WorkspaceContract
from forkpoint.workspace import Workspace


class TestAFolder(WorkspaceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path

    def make(self, *, keep_turns: int = 20) -> tuple[Workspace, Hands]:
        place = Place(root=self.tmp_path / "project", store=self.tmp_path / "store")
        place.root.mkdir()
        return place.recorder(keep_turns=keep_turns), FolderHands(place.root)


class TestInMemory(WorkspaceContract):
    def make(self, *, keep_turns: int = 20) -> tuple[Workspace, Hands]:
        workspace = MemoryWorkspace(keep_turns=keep_turns)
        return workspace, MemoryHands(workspace)
