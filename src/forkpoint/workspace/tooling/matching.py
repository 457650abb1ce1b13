"""The program that matches lines against a pattern. It runs in a process of its own, so that it can be stopped.

It is started by its path and imports nothing of ours. It reads frames (four bytes of length, then that many bytes) and
answers each with one. The first is JSON: ``pattern``, ``ignore_case``, ``limit`` and ``seconds``; each later one holds
files, every file with its own length before it. An answer is JSON: ``error``, or ``found`` as ``[file, line, text]``.
"""

import json
import re
import signal
import struct
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

LENGTH = struct.Struct(">I")
SHOWN_BEFORE, SHOWN_AFTER = 100, 300
"""Of a long line, how many characters before the match and from its beginning on are shown."""

_PLAIN = re.compile(r"[\w ]+\Z")


def frame(data: bytes) -> bytes:
    """A message as it is sent."""
    return LENGTH.pack(len(data)) + data


def read_frame(source: BinaryIO) -> bytes | None:
    """The next message; ``None`` when there is no more."""
    head = source.read(LENGTH.size)
    return source.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else None


def matches(data: bytes, pattern: re.Pattern[str], *, plain: str | None, limit: int) -> Iterator[tuple[int, str]]:
    """The lines that match, each with its number, from 1. ``plain`` is a text that every match holds."""
    text = data.decode("utf-8", "surrogateescape")
    if plain is not None and plain not in text:
        return
    for number, line in enumerate(text.split("\n"), 1):
        if limit <= 0:
            return
        if found := pattern.search(line.removesuffix("\r")):
            limit -= 1
            yield number, _shown(line.removesuffix("\r"), found.start())


def _shown(line: str, place: int) -> str:
    begin = max(0, place - SHOWN_BEFORE)
    end = place + SHOWN_AFTER
    return ("…" if begin else "") + line[begin:end] + ("…" if end < len(line) else "")


def _answer(frame_: bytes, pattern: re.Pattern[str], plain: str | None, limit: int) -> dict[str, Any]:
    found: list[tuple[int, int, str]] = []
    place = number = 0
    while place < len(frame_):
        size = LENGTH.unpack_from(frame_, place)[0]
        place += LENGTH.size
        data = frame_[place : place + size]
        found += [(number, *match) for match in matches(data, pattern, plain=plain, limit=limit - len(found))]
        place += size
        number += 1
    return {"found": found}


def _compiled(asked: dict[str, Any]) -> tuple[re.Pattern[str], str | None]:
    pattern, ignore_case = asked["pattern"], asked["ignore_case"]
    plain = pattern if _PLAIN.match(pattern) and not ignore_case else None
    return re.compile(pattern, re.IGNORECASE if ignore_case else 0), plain


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer until there are no more questions."""

    def tell(answer: dict[str, Any]) -> None:
        sink.write(frame(json.dumps(answer).encode()))
        sink.flush()

    asked = json.loads(read_frame(source) or b"")
    # The kernel ends this process when its time is up, also in the middle of a match and if whoever asked is gone.
    signal.setitimer(signal.ITIMER_REAL, asked["seconds"])
    try:
        pattern, plain = _compiled(asked)
    except (re.error, RecursionError, OverflowError, ValueError) as error:
        tell({"error": str(error)})
        return
    tell({"found": []})
    limit = asked["limit"]
    while (files := read_frame(source)) is not None:
        answer = _answer(files, pattern, plain, limit)
        limit -= len(answer["found"])
        tell(answer)


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
