"""What the workspace tests share: hands on a real folder, and a folder read whole."""

# ruff: noqa: PTH101, PTH103, PTH108, PTH112, PTH114, PTH115, PTH118, PTH120, PTH123, PTH211
# Names here are bytes, which pathlib does not take.

import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from forkpoint.workspace import WorkspaceRecorder


@dataclass(frozen=True)
class Place:
    """A workspace folder and where its store lies."""

    root: Path
    store: Path

    def recorder(self, **options: object) -> WorkspaceRecorder:
        """A recorder that reads in the caller's thread only, so that tests are repeatable."""
        return WorkspaceRecorder(self.root, self.store, **{"threads": 0, **options})


class FolderHands:
    """Edits a real folder, as an agent's shell or a person would."""

    def __init__(self, root: Path) -> None:
        self._root = os.fsencode(root)

    def at(self, path: bytes) -> bytes:
        return os.path.join(self._root, path)

    def write(self, path: bytes, data: bytes, mode: int = 0o644) -> None:
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        with open(self.at(path), "wb") as file:
            file.write(data)
        os.chmod(self.at(path), mode)

    def link(self, path: bytes, target: bytes) -> None:
        os.symlink(target, self.at(path))

    def mkdir(self, path: bytes) -> None:
        os.makedirs(self.at(path), exist_ok=True)

    def chmod(self, path: bytes, mode: int) -> None:
        os.chmod(self.at(path), mode)

    def remove(self, path: bytes) -> None:
        if os.path.isdir(self.at(path)) and not os.path.islink(self.at(path)):
            shutil.rmtree(self.at(path))
        else:
            os.unlink(self.at(path))

    def read(self, path: bytes) -> bytes | None:
        try:
            with open(self.at(path), "rb") as file:
                return file.read()
        except OSError:
            return None


def whole(root: Path | bytes) -> dict[bytes, tuple[object, ...]]:
    """Every path below a folder with all that must come back: kind, mode, bytes or target."""
    base = os.fsencode(root)
    found: dict[bytes, tuple[object, ...]] = {}
    todo = [b""]
    while todo:
        folder = todo.pop()
        for entry in os.scandir(os.path.join(base, folder) if folder else base):
            path = folder + b"/" + entry.name if folder else entry.name
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                found[path] = ("link", os.readlink(entry.path))
            elif stat.S_ISDIR(status.st_mode):
                found[path] = ("folder", stat.S_IMODE(status.st_mode))
                todo.append(path)
            elif stat.S_ISREG(status.st_mode):
                with open(entry.path, "rb") as file:
                    found[path] = ("file", stat.S_IMODE(status.st_mode), file.read())
            else:
                found[path] = ("other", stat.S_IFMT(status.st_mode))
    return found
