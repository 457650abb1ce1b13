"""One loop's run in a process of its own: `python -m bench.loops_child ANSWER_FILE REQUEST_JSON`.

A short run in the same store comes first and is not measured: what is loaded and compiled once in a process is no
cost of a step. The store's files are counted before and after the run that is measured.
"""

import json
import os
import sqlite3
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.loops_clock import Clock
from bench.loops_listed import variant_of
from bench.script import script

WARM_STEPS = 5


def main() -> None:
    """Perform what the request says and write the answer as JSON."""
    answer, request = Path(sys.argv[1]), json.loads(sys.argv[2])
    answer.write_text(json.dumps(performed(request)))
    # Without waiting for threads that a framework still holds, and without its exit hooks: it was measured.
    os._exit(0)


def performed(request: dict[str, Any]) -> dict[str, Any]:
    """What one run of `steps` steps cost, and how many bytes it left."""
    loop = variant_of(request["family"], request["name"]).load()
    folder, steps = Path(request["folder"]), request["steps"]
    clock = Clock()
    with loop.opened(durability=request["durability"], folder=folder) as perform:
        perform(script(WARM_STEPS), "warm", Clock())
        before = kept_bytes(folder)
        clock.mark()
        counted = perform(script(steps), "run", clock)
        clock.mark()
    assert clock.steps == steps, (clock.steps, steps)
    return {
        "whole": asdict(clock.whole()),
        "first": asdict(clock.first()),
        "last": asdict(clock.last()),
        "bytes": kept_bytes(folder) - before if counted is None else counted(),
        "settings": loop.settings,
    }


def kept_bytes(folder: Path) -> int:
    """Bytes of all files in `folder`, what waits in write-ahead files moved into its database, which may be open."""
    for database in folder.glob("*.db"):
        connection = sqlite3.connect(database)
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        connection.close()
        assert not busy, f"{database.name} is being written"
    found = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm"))]
    return sum(path.stat().st_size for path in found)


if __name__ == "__main__":
    main()
