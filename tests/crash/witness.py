"""The world as a file that outlives every process: one line for all that really happened."""

import os
from pathlib import Path

from .clerk import World


class Witness(World):
    """A world whose entries are lines of a file. Each is one write to a descriptor opened to append, so that lines of
    several processes do not mix, and what was written stays when the writer is killed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @property
    def entries(self) -> list[tuple[str, str, str]]:
        """Everything so far, by whichever process."""
        lines = self._path.read_text().splitlines()
        return [(what, name, key) for what, name, key in (line.split(" ") for line in lines)]

    def note(self, what: str, name: str, key: str) -> None:
        """Let something have happened."""
        os.write(self._descriptor, f"{what} {name} {key}\n".encode())

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)
