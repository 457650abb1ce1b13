"""What an MCP server lists and answers, in our words: names of tools, recovery classes, values."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

NAME_CHARS = 64
"""How long the name of a tool may be; providers take no longer ones."""

_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


def names_for(theirs: Iterable[str], prefix: str = "") -> dict[str, str]:
    """A name that every provider takes for each of a server's, with ``prefix`` in front.

    What is no letter, digit, ``_`` or ``-`` becomes ``_``. A name that is too long by then, or that two would have,
    is cut where needed and ends in ``_`` and eight digits of the hash of the server's own name. It depends on what
    the server has, not on the order in which it tells it.
    """
    plain = {one: prefix + _UNFIT.sub("_", one) for one in theirs}
    count = Counter(plain.values())
    return {
        one: made if fits(made) and (made == prefix + one or count[made] == 1) else _told_apart(made, one)
        for one, made in plain.items()
    }


def fits(name: str) -> bool:
    """Whether a model's provider takes it as the name of a tool."""
    return 0 < len(name) <= NAME_CHARS and not _UNFIT.search(name)


def _told_apart(made: str, theirs: str) -> str:
    digits = hashlib.sha256(theirs.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{made[: NAME_CHARS - 9]}_{digits}"


def value_of(result: Any) -> Any:
    """What a call came to, as JSON: the structured content if there is any, else the parts.

    A part that is text is a text; an image, a sound, a resource or a link to one is the object that MCP writes for
    it, its bytes in base64. No part is ``None``, one part is itself, several are a list. Parts other than text that
    come with structured content stand after it, in a list.
    """
    parts = [_part(one) for one in result.content]
    if result.structured_content is None:
        return parts[0] if len(parts) == 1 else parts or None
    others = [part for part, one in zip(parts, result.content, strict=True) if one.type != "text"]
    return [result.structured_content, *others] if others else result.structured_content


def _part(part: Any) -> Any:
    if part.type == "text":
        return part.text
    return part.model_dump(mode="json", by_alias=True, exclude_none=True)


def error_text(result: Any) -> str:
    """What a server says in a result that is an error."""
    texts = [one.text for one in result.content if one.type == "text" and one.text]
    if texts:
        return "\n".join(texts)
    return "an error without a text" if result.structured_content is None else str(result.structured_content)


def progress_text(progress: float, total: float | None, message: str | None) -> str:
    """A notice of progress as a line."""
    amount = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
    return f"{amount} {message}\n" if message else f"{amount}\n"


def hinted(annotations: Any) -> str | None:
    """The recovery class that a server's hints amount to, by the name of its option; ``None`` if to none."""
    if annotations is None:
        return None
    if annotations.read_only_hint:
        return "read_only"
    return "idempotent" if annotations.idempotent_hint else None


class Mask:
    """Takes values out of texts: what a server was given as environment or headers is shown in no error."""

    def __init__(self, values: Mapping[str, str] | None) -> None:
        found: dict[str, str] = {}
        for name, value in (values or {}).items():
            # A header is often a scheme and a key, and a server quotes the key alone.
            found.update(dict.fromkeys((value, *value.split()), name))
        self._values = sorted(((one, name) for one, name in found.items() if len(one) >= 6), key=lambda it: -len(it[0]))

    def __call__(self, text: str) -> str:
        for value, name in self._values:
            text = text.replace(value, f"[{name}]")
        return text
