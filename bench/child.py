"""One measurement in a process of its own, so that nothing leaks from one peer to the next.

`python -m bench.child ANSWER_FILE REQUEST_JSON`: the answer goes to a file because peers print what they like.
"""

import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

from bench.peers import Peer, listed


def main() -> None:
    """Do what the request says and write the answer as JSON."""
    answer, request = Path(sys.argv[1]), json.loads(sys.argv[2])
    peer = listed(request["peer"]).load()
    answer.write_text(json.dumps(_answered(peer, request)))
    # Without waiting for threads that a peer still holds, and without its exit hooks: it was measured.
    os._exit(0)


def _answered(peer: Peer, request: dict[str, Any]) -> dict[str, Any]:
    folder = Path(request["folder"])
    match request["verb"]:
        case "run":
            cost = peer.run(steps=request["steps"], durability=request["durability"], folder=folder)
            return {
                "cpu_us_step": cost.cpu_us / request["steps"],
                "wall_us_step": cost.wall_us / request["steps"],
                "db_bytes": stored_bytes(folder),
                "durability_set_by": peer.durability_set_by,
            }
        case "figures":
            return {"figures": sorted(peer.figures)}
        case "prepare":
            peer.prepare(steps=request["steps"], folder=folder)
            return {}
        case "figure":
            return {"value": peer.figures[request["key"]](folder, request["steps"])}
        case "crash":
            peer.crash(folder=folder, witness=Path(request["witness"]))
            return {}
        case "recover":
            return {"says": peer.recover(folder=folder, witness=Path(request["witness"]))}
        case verb:
            raise ValueError(f"no verb {verb!r}")


def stored_bytes(folder: Path) -> int:
    """Bytes of all files in `folder`, after what waits in write-ahead files is moved into their databases."""
    for database in folder.glob("*.db"):
        connection = sqlite3.connect(database)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
