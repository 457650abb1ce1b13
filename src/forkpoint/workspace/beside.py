"""The workspaces of a store's runs: one recorder a run, all over one content store beside the journal."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from forkpoint.workspace.recorder import DEFAULT_KEEP_TURNS, WorkspaceRecorder
from forkpoint.workspace.register import Register, needed_digests
from forkpoint.workspace.store import ContentStore


class RunFolders:
    """Gives each run its workspace, and closes them all.

    ``folder`` holds the contents; a temporary one, gone with ``close``, if it is ``None``. ``own`` are the journal's
    paths: they may lie in a workspace, and are never snapshot nor rewound.
    """

    def __init__(
        self, folder: Path | None, *, own: Sequence[Path] = (), keep_turns: int | None = DEFAULT_KEEP_TURNS
    ) -> None:
        self._folder = folder
        self._own = tuple(own)
        self._keep_turns = keep_turns
        self._store: ContentStore | None = None
        self._recorders: dict[tuple[str, str], WorkspaceRecorder] = {}
        self._temporary: str | None = None

    def __call__(self, run: str, root: str) -> WorkspaceRecorder:
        """The workspace of ``run`` over the folder ``root``. Raises ``workspace.refused`` and ``snapshot.store-*``."""
        recorder = self._recorders.get((run, root))
        if recorder is None:
            recorder = self._recorder(run, root)
            self._recorders[run, root] = recorder
        return recorder

    def stored(self, run: str, root: str) -> WorkspaceRecorder:
        """The workspace of ``run`` for looking at what is stored of it, also when its folder is gone."""
        if (run, root) in self._recorders:
            return self._recorders[run, root]
        return self._recorder(run, root, may_be_gone=True)

    def _recorder(self, run: str, root: str, *, may_be_gone: bool = False) -> WorkspaceRecorder:
        return WorkspaceRecorder(
            root, self._contents(), owner=run, keep_turns=self._keep_turns, own=self._own, may_be_gone=may_be_gone
        )

    def forget(self, runs: Sequence[str]) -> None:
        """Give up the snapshots of ``runs``, with the bytes that nothing else needs."""
        if self._store is None and (self._folder is None or not self._folder.exists()):
            return
        store = self._contents()
        with store.turn, store.guard(alone=True):
            for run in runs:
                Register(store, run).forget()
            store.commit()
            store.sweep(needed_digests(store))

    def _contents(self) -> ContentStore:
        if self._store is None:
            if self._folder is None:
                self._temporary = tempfile.mkdtemp(prefix="forkpoint-files-")
            self._store = ContentStore(self._folder or Path(self._temporary or ""))
        return self._store

    def close(self) -> None:
        """Keep what the next process can use, and let go of the store."""
        for recorder in self._recorders.values():
            recorder.close()
        self._recorders.clear()
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
