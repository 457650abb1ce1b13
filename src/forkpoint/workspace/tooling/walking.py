"""A walk over a folder's files through folder handles, which follows no link and says what it passed over."""

import os
from collections.abc import Generator
from dataclasses import dataclass, field
from operator import itemgetter

from forkpoint.workspace.ignore import BULK_FOLDERS
from forkpoint.workspace.tooling.globs import Glob, Where
from forkpoint.workspace.tooling.reach import Reach, Spot
from forkpoint.workspace.tooling.spelling import spelled
from forkpoint.workspace.tree import join

PASSED_OVER = BULK_FOLDERS | {b".git"}
"""Folders that a search does not enter by itself; it can begin in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A path that was met: its name in the open folder ``folder``, and what it is without following links."""

    path: bytes
    name: bytes
    folder: int
    is_file: bool
    is_folder: bool
    matches: bool

    def spot(self, reach: Reach) -> Spot:
        """The place of it, to open it at."""
        status = reach.disk.stat(self.name, dir_fd=self.folder)
        return Spot(folder=self.folder, name=self.name, path=self.path, asked=spelled(self.path), status=status)


@dataclass(slots=True, kw_only=True)
class Walk:
    """Every path below a folder: the names of one folder in the order of their bytes, then what is below them.

    With ``glob`` (tied to where the walk begins), folders in which nothing can match are not entered. Afterwards
    ``passed_over`` has the folders that were not entered although something could, and why.
    """

    reach: Reach
    begin: Spot
    glob: Glob
    passed_over: list[str] = field(default_factory=list)

    def __iter__(self) -> Generator[Found, None, None]:
        waiting: list[tuple[tuple[bytes, ...], Where]] = [((), self.glob.start)]
        while waiting:
            names, where = waiting.pop()
            try:
                folder = self.reach.disk.open_path(names, self.begin.folder)
            except OSError as error:
                self.passed_over.append(f"{spelled(b'/'.join(names))}/ ({error.strerror})")
                continue
            try:
                deeper = yield from self._one(folder, names, where)
            finally:
                os.close(folder)
            waiting.extend(reversed(deeper))

    def _one(
        self, folder: int, names: tuple[bytes, ...], where: Where
    ) -> Generator[Found, None, list[tuple[tuple[bytes, ...], Where]]]:
        """The names of one folder; what is returned are the folders to go on with."""
        deeper: list[tuple[tuple[bytes, ...], Where]] = []
        with os.scandir(folder) as listed:
            entries = sorted(((os.fsencode(entry.name), entry) for entry in listed), key=itemgetter(0))
        for name, entry in entries:
            path = join(self.begin.path, b"/".join((*names, name)))
            there = self.glob.after(where, entry.name)
            if not there or self.reach.is_closed(path):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            yield Found(
                path=path,
                name=name,
                folder=folder,
                is_file=entry.is_file(follow_symlinks=False),
                is_folder=is_folder,
                matches=self.glob.accepts(there),
            )
            if not is_folder or not self.glob.goes_on(there):
                continue
            if name in PASSED_OVER:
                self.passed_over.append(f"{spelled(path)}/")
            else:
                deeper.append(((*names, name), there))
        return deeper
