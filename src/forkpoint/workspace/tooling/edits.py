"""An edit of a file's bytes: where a text is, what takes its place, and whether it was made already. Pure.

Text is looked for as bytes, so what is no UTF-8 around it stays as it is. A model is shown lines without their
endings and writes a plain LF, which therefore also finds CRLF; what replaces it ends its lines as the file does.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias

Span: TypeAlias = tuple[int, int]

_ENDING = re.compile(rb"\r?\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What is to be replaced by what, and whether wherever it is or only where it is once."""

    old: bytes
    new: bytes
    everywhere: bool = False


def places(data: bytes, edit: Edit) -> tuple[Span, ...]:
    """Where the old text is in ``data``: every place, or, if all are to be replaced, those that do not overlap."""
    return tuple(_found(data, edit.old, overlapping=not edit.everywhere))


def edited(data: bytes, edit: Edit, spans: Sequence[Span]) -> bytes:
    """``data`` with what is at ``spans`` replaced. The new text is literal, whatever signs it holds."""
    parts: list[bytes] = []
    end = 0
    for begin, after in spans:
        parts += (data[end:begin], _fitted(edit, data[begin:after], data))
        end = after
    return b"".join((*parts, data[end:]))


def judged(data: bytes, edit: Edit) -> Literal["before", "after", "either", "neither"]:
    """Whether ``data`` can be a file from before the edit or from after it.

    It is from before if the edit could be made now; it is from after if taking the new text back somewhere gives
    a file in which it could have been made. An edit that deletes leaves nothing to know it by: a file that holds
    the old text is from before it, unless that was nested in itself (deleting ``ab`` in ``aabb`` leaves ``ab``).
    """
    spans = places(data, edit)
    is_before = bool(spans) if edit.everywhere else len(spans) == 1
    is_after = _can_be_after(data, edit, spans)
    if is_before:
        return "either" if is_after else "before"
    return "after" if is_after else "neither"


def _can_be_after(data: bytes, edit: Edit, olds: Sequence[Span]) -> bool:
    if not edit.new:
        return False
    news = _found(data, edit.new, overlapping=True)
    if edit.everywhere:
        return _touch(olds, tuple(news))
    if len(olds) > 1:
        return False
    # Where the old text still is, only a new text that touches it can have come from its being there once.
    near = (span for span in news if all(span[0] <= end and begin <= span[1] for begin, end in olds))
    once = Edit(old=edit.old, new=edit.new)
    before = (data[:begin] + edit.old + data[end:] for begin, end in (near if olds else islice(near, 1)))
    return any(len(places(candidate, once)) == 1 for candidate in before)


def _touch(olds: Sequence[Span], news: Sequence[Span]) -> bool:
    """Whether there are ``news``, and each of ``olds`` touches one, so that it can have come about by it."""
    ends = [end for _, end in news]
    first = ((bisect_left(ends, begin), end) for begin, end in olds)
    return bool(news) and all(place < len(news) and news[place][0] <= end for place, end in first)


def _found(data: bytes, text: bytes, *, overlapping: bool) -> Iterator[Span]:
    pattern = _pattern(text)
    place, last_end = 0, -1
    while found := pattern.search(data, place):
        # A text that begins with a line's end is there once, with the CR and without it.
        if found.end() != last_end:
            yield found.span()
        last_end = found.end()
        place = found.start() + 1 if overlapping else found.end()


def _pattern(text: bytes) -> re.Pattern[bytes]:
    if b"\r" in text:
        return re.compile(re.escape(text))
    return re.compile(rb"\r?\n".join(map(re.escape, text.split(b"\n"))))


def _fitted(edit: Edit, found: bytes, data: bytes) -> bytes:
    """The new text, its lines ended as those it replaces are, and otherwise as most of the file is."""
    if b"\r" in edit.old or b"\r" in edit.new or b"\n" not in edit.new:
        return edit.new
    old, new = edit.old.split(b"\n"), edit.new.split(b"\n")
    endings = _ENDING.findall(found)
    usual = _usual(endings or _ENDING.findall(data))
    head = _same(old, new)
    tail = min(_same(old[::-1], new[::-1]), len(new) - head, len(old) - head)
    fitted = [usual] * (len(new) - 1)
    kept = min(head, len(endings), len(fitted))
    fitted[:kept] = endings[:kept]
    kept = min(tail, len(endings) - kept, len(fitted) - kept)
    if kept > 0:
        fitted[-kept:] = endings[-kept:]
    return b"".join(line + ending for line, ending in zip(new, [*fitted, b""], strict=True))


def _usual(endings: Sequence[bytes]) -> bytes:
    return b"\r\n" if 2 * endings.count(b"\r\n") > len(endings) else b"\n"


def _same(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many lines are the same from the beginning on."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
