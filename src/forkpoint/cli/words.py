"""How values read on a terminal: times, sizes, costs, and text that came from a run made harmless. Pure."""

import datetime
import re
from typing import Any

import msgspec

from forkpoint._canon import canonical

# Everything that a terminal may act on, or that reorders or hides what is read: control characters but tab and line
# feed, direction marks, line separators, lone surrogates, tag characters.
_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_HIDDEN = "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f"
_UNSAFE = re.compile(f"[{_CONTROL}{_HIDDEN}]")

CUT = 200
"""How many characters of a value a line shows before it is cut."""


def safe(text: str) -> str:
    """``text`` with whatever a terminal may act on spelled out: ``\\x1b`` for an escape, and so on."""
    return _UNSAFE.sub(_spelled, text.replace("\r\n", "\n"))


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def harmless_json(value: Any) -> str:
    """``value`` as indented JSON in which what a terminal may act on is escaped, as JSON allows."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return _UNSAFE.sub(_json_escape, text)


def json_line(value: Any) -> str:
    """``value`` as JSON on one line, escaped likewise."""
    return _UNSAFE.sub(_json_escape, msgspec.json.encode(value).decode())


def _json_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def one_line(text: str, limit: int = CUT) -> str:
    """``text`` made safe, on one line, cut with an ellipsis after ``limit`` characters."""
    # What is far over the limit is cut first, so that a huge text costs nothing.
    line = " ".join(safe(text[: limit * 4]).split())
    if len(line) > limit:
        return line[: limit - 1].rstrip() + "…"
    return line + " …" if len(text) > limit * 4 else line


def paragraph(text: str, limit: int | None) -> str:
    """``text`` made safe with its lines kept, cut after ``limit`` characters with a word on how much is left."""
    if limit is None or len(text) <= limit:
        return safe(text)
    return f"{safe(text[:limit])}… ({len(text) - limit:,} more characters)"


def brief(value: Any, limit: int = CUT) -> str:
    """A JSON value on one line: a text bare, anything else as compact JSON."""
    if isinstance(value, str):
        return one_line(value, limit)
    return one_line(canonical(value).decode(), limit)


def full(value: Any, limit: int | None = None) -> str:
    """A JSON value to be read at length: a text as it is, anything else as indented JSON."""
    if isinstance(value, str):
        return paragraph(value, limit)
    return paragraph(msgspec.json.format(msgspec.json.encode(value), indent=2).decode(), limit)


def called(name: str, arguments: Any, limit: int = 100) -> str:
    """A call as people write one: ``charge(number="17", cents=4200)``."""
    if arguments is None or arguments == {}:
        return f"{one_line(name, 60)}()"
    if isinstance(arguments, dict):
        inside = ", ".join(f"{key}={canonical(value).decode()}" for key, value in arguments.items())
    else:
        inside = arguments if isinstance(arguments, str) else canonical(arguments).decode()
    return f"{one_line(name, 60)}({one_line(inside, limit)})"


def ago(at_ms: int, now_ms: int) -> str:
    """How long before ``now_ms`` it was, in the largest unit that fits."""
    seconds = (now_ms - at_ms) // 1000
    if seconds < 0:
        return "in the future"
    if seconds < 5:
        return "just now"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def iso(at_ms: int) -> str:
    """The time as ISO 8601 in UTC, to the millisecond."""
    moment = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local(at_ms: int) -> str:
    """The time where the reader is, to the second."""
    return datetime.datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def lasting(ms: int) -> str:
    """A duration: ``12 ms``, ``1.2 s``, ``3 min 20 s``; nothing for none."""
    if ms <= 0:
        return ""
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size(count: int) -> str:
    """A number of bytes: ``980 B``, ``12.0 MB``."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 1000:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"


def cost(known: float, unknown: int) -> str:
    """What is known to have been paid, and how many calls have a cost that nobody knows. Empty for nothing."""
    words = [f"${known:.4f}"] if known else []
    if unknown:
        words.append(f"{count(unknown, 'call')} of unknown cost")
    return " + ".join(words)


def count(number: int, noun: str) -> str:
    """``1 step``, ``2 steps``, ``1,200 steps``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def spent_line(tokens: int, known: float, unknown: int) -> str:
    """Tokens and cost on one line; empty for none."""
    words = [f"{tokens:,} tokens"] if tokens else []
    paid = cost(known, unknown)
    return " · ".join([*words, paid] if paid else words)
