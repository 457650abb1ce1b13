"""One way to write a value down, and one way to name it by its content."""

import hashlib
from binascii import b2a_base64
from typing import Any

import msgspec

_sha256 = hashlib.sha256
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_canonical = msgspec.json.Encoder(order="sorted")


def canonical(value: Any) -> bytes:
    """``value`` as JSON with sorted keys and no spaces: equal values, equal bytes."""
    return _canonical.encode(value)


def content_digest(data: bytes) -> str:
    """The name of ``data`` by its content: ``sha256:`` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def value_digest(value: Any) -> str:
    """The name of a JSON value by its canonical form."""
    return content_digest(canonical(value))


def link(before: bytes, *parts: bytes) -> bytes:
    """The next digest of a chain: SHA-256 over the one before and what is new, 32 bytes."""
    return _sha256(b"".join((before, *parts))).digest()


def short(digest: bytes) -> str:
    """A digest as URL-safe base64, for where bytes are dear: 43 characters for 32 bytes, 22 for 16."""
    return b2a_base64(digest, newline=False).translate(_URL_SAFE, b"=").decode("ascii")
