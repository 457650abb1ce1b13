"""A page of a text file, with numbered lines, from its bytes in pieces. Pure."""

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

MAX_LINE_BYTES = 2000
"""How much of one line is shown."""

SNIFFED_BYTES = 8192
"""How much of a file is looked at to tell text from binary data."""

_BOMS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The lines of a page as text; or in ``binary`` why there are none to show."""

    text: str = ""
    binary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line as far as it can be shown, its size in bytes without its ending, and the ending."""

    head: bytes
    size: int
    ending: bytes


def page_of(pieces: Iterable[bytes], *, offset: int, limit: int, max_bytes: int) -> Page:
    """Lines ``offset`` to ``offset + limit - 1`` of a file, as far as they have ``max_bytes`` together.

    The pieces are read only as far as the page needs. What is left out is said in brackets at the end.
    """
    pieces = iter(pieces)
    first = next(pieces, b"")
    if kind := binary_kind(first):
        return Page(binary=kind)
    shown: list[_Line] = []
    used = number = 0
    more = False
    for number, line in enumerate(_lines(chain((first,), pieces)), 1):
        if number < offset:
            continue
        if len(shown) == limit or (shown and used + len(line.head) > max_bytes):
            more = True
            break
        if kind := binary_kind(line.head):
            return Page(binary=kind)
        used += len(line.head)
        shown.append(line)
    lines = [f"{offset + n:>6}\t{_text(line)}" for n, line in enumerate(shown)]
    return Page(text="\n".join([*lines, *_notes(shown, number, offset, more=more)]))


def binary_kind(data: bytes) -> str:
    """What kind of binary data a file with this beginning is, in words; empty for text."""
    head = data[:SNIFFED_BYTES]
    if b"\0" not in head:
        return ""
    return "UTF-16 text" if head.startswith(_BOMS) else "with NUL bytes"


def text_of(data: bytes) -> tuple[str, int]:
    """The text that a cut-off stretch of bytes begins with, and how many bytes at its end are half a character.

    What is no UTF-8 is spelled ``\\xNN``.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    text = decoder.decode(data)
    return text, len(decoder.getstate()[0])


def _lines(pieces: Iterable[bytes]) -> Iterator[_Line]:
    """Lines with their endings. Of a line of any length, only what can be shown is held."""
    head, size, last = b"", 0, b""
    for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for body in ended:
            head, size, last = _grown(head, size, last, body)
            crlf = last == b"\r"
            yield _Line(head=head[: size - crlf], size=size - crlf, ending=b"\r\n" if crlf else b"\n")
            head, size, last = b"", 0, b""
        head, size, last = _grown(head, size, last, rest)
    if size:
        yield _Line(head=head, size=size, ending=b"")


def _grown(head: bytes, size: int, last: bytes, body: bytes) -> tuple[bytes, int, bytes]:
    return head + body[: MAX_LINE_BYTES - len(head)], size + len(body), body[-1:] or last


def _text(line: _Line) -> str:
    if line.size == len(line.head):
        return line.head.decode("utf-8", "backslashreplace")
    text, half = text_of(line.head)
    return f"{text}[… {line.size - len(line.head) + half} more bytes in this line]"


def _notes(shown: Sequence[_Line], number: int, offset: int, *, more: bool) -> Iterator[str]:
    endings = {line.ending for line in shown}
    if more:
        yield f"[more lines follow; go on with offset={number}]"
    elif not shown:
        yield f"[the file has {number} lines, none from {offset} on]" if number else "[empty file]"
    if b"\r\n" in endings:
        yield "[line endings are mixed, CRLF and LF]" if b"\n" in endings else "[lines end in CRLF]"
    if b"" in endings:
        yield "[no line end at the end of the file]"
    if not all(map(_is_utf8, shown)):
        yield "[not all of it is UTF-8: other bytes are shown as \\xNN, and no text of an edit matches them]"


def _is_utf8(line: _Line) -> bool:
    is_whole = line.size == len(line.head)
    try:
        codecs.getincrementaldecoder("utf-8")("strict").decode(line.head, is_whole)
    except UnicodeDecodeError:
        return False
    return True
