"""`python -m bench`: measure, and print tables or JSON rows. Progress goes to standard error."""

import json
import sys
from collections.abc import Sequence

from bench.arguments import Asked, parsed
from bench.crash import crashes, told
from bench.measure import measure
from bench.table import printed


def main(arguments: Sequence[str]) -> None:
    """Do what the command line asks for."""
    asked = parsed(arguments)
    print(_crash_text(asked) if asked.crash else _measure_text(asked))


def _crash_text(asked: Asked) -> str:
    found = crashes(asked.peers, _tell)
    return _json([one.flat() for one in found]) if asked.json else told(found)


def _measure_text(asked: Asked) -> str:
    measured = measure(asked, _tell)
    if not asked.json:
        return printed(measured)
    for note in measured.notes:
        _tell(note)
    return _json([row.flat() for row in measured.rows])


def _json(rows: Sequence[dict[str, object]]) -> str:
    return json.dumps(rows, indent=1)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
