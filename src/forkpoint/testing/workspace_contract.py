"""The contract that every ``Workspace`` passes: subclass, return yours, and run it with pytest."""

from typing import Protocol

import pytest

from forkpoint.errors.files import (
    NothingToUndo,
    NothingUnfinished,
    RewindAsks,
    SnapshotNotFound,
    SnapshotPruned,
    WorkspaceEscape,
)
from forkpoint.workspace.port import Point, Workspace
from forkpoint.workspace.tree import Link, TreeId


class Hands(Protocol):
    """What an agent or a person does to the live files, for the contract's sake."""

    def write(self, path: bytes, data: bytes, mode: int = 0o644) -> None:
        """Make or overwrite a file, and the folders above it."""
        ...

    def link(self, path: bytes, target: bytes) -> None:
        """Make a link."""
        ...

    def mkdir(self, path: bytes) -> None:
        """Make a folder, 0755, unless it is there."""
        ...

    def chmod(self, path: bytes, mode: int) -> None:
        """Set permission bits."""
        ...

    def remove(self, path: bytes) -> None:
        """Remove a file, a link, or a folder with all it holds."""
        ...

    def read(self, path: bytes) -> bytes | None:
        """A file's bytes, or ``None`` if there is none."""
        ...


class WorkspaceContract:
    """What every workspace promises. Subclass it and return a fresh workspace and its hands."""

    def make(self, *, keep_turns: int = 20) -> tuple[Workspace, Hands]:
        """An empty workspace, and hands that edit its live files."""
        raise NotImplementedError

    @pytest.fixture
    def both(self) -> tuple[Workspace, Hands]:
        return self.make()

    def test_a_snapshot_says_what_changed_since_the_last(self, both: tuple[Workspace, Hands]) -> None:
        workspace, hands = both
        hands.write(b"a", b"1")
        workspace.snapshot(by="outside")
        hands.write(b"a", b"2")
        hands.write(b"sub/b", b"3")
        found = {c.path: c.kind for c in workspace.snapshot().changes}
        assert found == {b"a": "modified", b"sub": "created", b"sub/b": "created"}

    def test_equal_files_have_equal_trees(self, both: tuple[Workspace, Hands]) -> None:
        workspace, hands = both
        hands.write(b"a", b"1")
        first = workspace.snapshot(by="outside")
        hands.write(b"a", b"2")
        workspace.snapshot()
        hands.write(b"a", b"1")
        assert workspace.snapshot().tree == first.tree

    def test_a_tree_gives_its_files_and_their_bytes(self, both: tuple[Workspace, Hands]) -> None:
        workspace, hands = both
        hands.write(b"sub/a", b"\xff\x00\r\n", 0o755)
        hands.link(b"l", b"sub/a")
        tree = workspace.snapshot().tree
        hands.write(b"sub/a", b"later")
        found = dict(workspace.files(tree))
        assert sorted(found) == [b"", b"l", b"sub", b"sub/a"]
        assert found[b"l"] == Link(b"sub/a")
        assert workspace.read(tree, b"sub/a") == b"\xff\x00\r\n"
        with pytest.raises(SnapshotNotFound):
            workspace.read(tree, b"l")

    def test_a_rewind_brings_back_a_turn_whole(self, both: tuple[Workspace, Hands]) -> None:
        workspace, hands = both
        hands.write(b"a", b"1")
        hands.write(b"gone/x", b"x", 0o600)
        hands.mkdir(b"empty")
        hands.link(b"l", b"a")
        start = workspace.snapshot(by="outside", turn=1)
        hands.write(b"a", b"2")
        hands.remove(b"gone")
        hands.write(b"gone", b"a file now")
        hands.remove(b"l")
        hands.write(b"l/inner", b"a folder now")
        hands.chmod(b"empty", 0o700)
        hands.write(b"new/deep/file", b"n")
        workspace.snapshot(turn=1)
        done = workspace.rewind(turn=1, confirm_deletes=True)
        assert done.after == start.tree == workspace.snapshot(by="outside").tree
        assert done.kept == ()

    def test_a_dry_run_names_what_the_real_one_does_and_changes_nothing(self, both: tuple[Workspace, Hands]) -> None:
        workspace, hands = both
        hands.write(b"a", b"1")
        start = workspace.snapshot(by="outside", turn=1)
        hands.write(b"a", b"2")
        hands.write(b"b", b"2")
        now = workspace.snapshot(turn=1)
        hands.write(b"b", b"a person's")
        dry = workspace.rewind(start.tree, dry_run=True)
        assert hands.read(b"a") == b"2"
        assert workspace.list()[-1].tree == now.tree
        real = workspace.rewind(start.tree)
        assert (dry.put_back, dry.kept) == (real.put_back, real.kept)
        assert hands.read(b"a") == b"1"

    def test_what_others_changed_is_kept_and_said(self, both: tuple[Workspace, Hands]) -> None:
        workspace, hands = both
        hands.write(b"shared", b"1")
        hands.write(b"theirs", b"1")
        start = workspace.snapshot(by="outside", turn=1)
        hands.write(b"shared", b"2")
        hands.write(b"ours", b"2")
        workspace.snapshot(turn=1)
        for path in (b"shared", b"theirs", b"new"):
            hands.write(path, b"a person's")
        done = workspace.rewind(start.tree)
        assert [(k.path, k.reason) for k in done.kept] == [
            (b"new", "kept-not-ours"),
            (b"shared", "changed-since"),
            (b"theirs", "kept-not-ours"),
        ]
        assert hands.read(b"ours") is None
        assert hands.read(b"shared") == hands.read(b"theirs") == hands.read(b"new") == b"a person's"

    def test_force_overwrites_a_conflict_and_undo_brings_it_back(self, both: tuple[Workspace, Hands]) -> None:
        workspace, hands = both
        hands.write(b"a", b"1")
        start = workspace.snapshot(by="outside", turn=1)
        hands.write(b"a", b"2")
        workspace.snapshot(turn=1)
        hands.write(b"a", b"a person's")
        workspace.rewind(start.tree, force=True)
        assert hands.read(b"a") == b"1"
        workspace.undo()
        assert hands.read(b"a") == b"a person's"
        workspace.undo()
        assert hands.read(b"a") == b"1"

    def test_an_undo_puts_back_what_the_rewind_changed_and_nothing_that_came_later(
        self, both: tuple[Workspace, Hands]
    ) -> None:
        workspace, hands = both
        for name in (b"a", b"b", b"d/c"):
            hands.write(name, b"1")
        workspace.snapshot(by="outside", turn=1)
        hands.write(b"a", b"2")
        hands.write(b"made/x", b"2")
        workspace.snapshot(turn=1)
        workspace.rewind(turn=1)
        for name in (b"b", b"d/new", b"made/later"):
            hands.write(name, b"3")
        workspace.snapshot(turn=2)
        done = workspace.undo()
        assert [change.path for change in done.put_back] == [b"a", b"made/x"]
        assert [hands.read(name) for name in (b"a", b"made/x", b"b", b"d/new", b"made/later")] == [b"2"] * 2 + [
            b"3"
        ] * 3

    @pytest.mark.parametrize("force", [False, True])
    def test_what_nobody_can_tell_apart_is_kept_unless_forced(self, both: tuple[Workspace, Hands], force: bool) -> None:
        workspace, hands = both
        hands.write(b"a", b"1")
        start = workspace.snapshot(by="outside", turn=1)
        hands.write(b"a", b"2")
        workspace.snapshot(by="mixed", turn=1)
        done = workspace.rewind(turn=1, force=force)
        assert done.target == start.tree
        assert [(k.path, k.reason) for k in done.kept] == ([] if force else [(b"a", "changed-since")])
        assert hands.read(b"a") == (b"1" if force else b"2")

    def test_what_the_run_changed_since_its_last_snapshot_is_put_back(self, both: tuple[Workspace, Hands]) -> None:
        workspace, hands = both
        hands.write(b"a", b"1")
        start = workspace.snapshot(by="outside", turn=1)
        hands.write(b"a", b"2")
        for dry_run in (True, False):
            done = workspace.rewind(start.tree, dry_run=dry_run, present_by="run")
            assert [change.path for change in done.put_back] == [b"a"]
        assert hands.read(b"a") == b"1"

    def test_a_rewind_can_be_narrowed_to_paths(self, both: tuple[Workspace, Hands]) -> None:
        workspace, hands = both
        hands.write(b"d/a", b"1")
        hands.write(b"e", b"1")
        start = workspace.snapshot(by="outside")
        hands.write(b"d/a", b"2")
        hands.write(b"e", b"2")
        workspace.snapshot()
        workspace.rewind(start.tree, paths=[b"d"])
        assert (hands.read(b"d/a"), hands.read(b"e")) == (b"1", b"2")

    @pytest.mark.parametrize("path", [b"..", b"../x", b"a/../../x", b"/etc/passwd", b"a//b", b"."])
    def test_a_path_out_of_the_workspace_fails_the_whole_rewind(
        self, both: tuple[Workspace, Hands], path: bytes
    ) -> None:
        workspace, hands = both
        hands.write(b"a", b"1")
        start = workspace.snapshot(by="outside")
        hands.write(b"a", b"2")
        workspace.snapshot()
        for dry_run in (True, False):
            with pytest.raises(WorkspaceEscape):
                workspace.rewind(start.tree, paths=[b"a", path], dry_run=dry_run, force=True)
        assert hands.read(b"a") == b"2"

    @pytest.mark.parametrize("force", [False, True])
    def test_a_path_behind_a_link_made_later_fails_the_whole_rewind(
        self, both: tuple[Workspace, Hands], force: bool
    ) -> None:
        workspace, hands = both
        hands.write(b"d/a", b"1")
        hands.write(b"b", b"1")
        start = workspace.snapshot(by="outside")
        hands.write(b"d/a", b"2")
        hands.write(b"b", b"2")
        workspace.snapshot()
        hands.remove(b"d")
        hands.link(b"d", b"..")
        for dry_run in (True, False):
            with pytest.raises(WorkspaceEscape):
                workspace.rewind(start.tree, dry_run=dry_run, force=force)
        assert hands.read(b"b") == b"2"

    def test_deleting_more_than_half_asks_first(self, both: tuple[Workspace, Hands]) -> None:
        workspace, hands = both
        hands.write(b"a", b"1")
        start = workspace.snapshot(by="outside")
        hands.write(b"b", b"1")
        hands.write(b"c", b"1")
        workspace.snapshot()
        assert workspace.rewind(start.tree, dry_run=True).asks
        with pytest.raises(RewindAsks):
            workspace.rewind(start.tree)
        assert hands.read(b"b") == b"1"
        workspace.rewind(start.tree, confirm_deletes=True)
        assert hands.read(b"b") is None

    def test_an_earlier_turn_can_be_reached_after_a_later_one(self, both: tuple[Workspace, Hands]) -> None:
        workspace, hands = both
        trees = {}
        for turn in (1, 2, 3):
            trees[turn] = workspace.snapshot(by="outside", turn=turn).tree
            hands.write(b"f", b"%d" % turn)
            hands.write(b"f%d" % turn, b"x")
            workspace.snapshot(turn=turn)
        for turn in (3, 2, 1):
            assert workspace.rewind(turn=turn, confirm_deletes=True).after == trees[turn]
        assert workspace.rewind(turn=1).put_back == ()

    def test_a_turn_given_up_is_refused_whole(self) -> None:
        workspace, hands = self.make(keep_turns=2)
        for turn in (1, 2, 3):
            workspace.snapshot(by="outside", turn=turn)
            hands.write(b"f", b"%d" % turn)
            workspace.snapshot(turn=turn)
        with pytest.raises(SnapshotPruned):
            workspace.rewind(turn=1)
        assert hands.read(b"f") == b"3"
        workspace.rewind(turn=2)
        assert hands.read(b"f") == b"1"

    def test_points_from_a_journal_decide_like_the_own_list(self, both: tuple[Workspace, Hands]) -> None:
        workspace, hands = both
        hands.write(b"a", b"1")
        start = workspace.snapshot(by="outside").tree
        hands.write(b"a", b"2")
        points = [Point(tree=workspace.snapshot().tree, by="run")]
        own = workspace.rewind(start, dry_run=True)
        given = workspace.rewind(start, since=points, dry_run=True)
        assert (own.put_back, own.kept) == (given.put_back, given.kept)

    def test_what_does_not_exist_is_refused(self, both: tuple[Workspace, Hands]) -> None:
        workspace, _ = both
        workspace.snapshot(by="outside")
        with pytest.raises(SnapshotNotFound):
            workspace.rewind(TreeId("sha256:" + "0" * 64))
        with pytest.raises(NothingToUndo):
            workspace.undo()
        with pytest.raises(NothingUnfinished):
            workspace.finish()
        with pytest.raises(NothingUnfinished):
            workspace.abort()
        assert workspace.unfinished() is None
