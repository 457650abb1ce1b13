"""The head and the tail of an output of any length, told on as it comes. Pure but for who is told."""

import codecs
from collections.abc import Callable

from forkpoint.workspace.tooling.paging import text_of


class Kept:
    """An output as far as it is kept: ``limit`` bytes, half of them from its beginning, half from its end."""

    def __init__(self, *, limit: int, tell: Callable[[str], None]) -> None:
        self._room = max(limit // 2, 1)
        self._tell = tell
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head, self._tail = bytearray(), bytearray()
        self._size = 0

    def add(self, data: bytes) -> None:
        """Take the next piece, and tell it on as text."""
        self._size += len(data)
        fits = self._room - len(self._head)
        self._head += data[:fits]
        self._tail += data[fits:]
        del self._tail[: -self._room]
        if text := self._decoder.decode(data):
            self._tell(text)

    def text(self) -> tuple[str, int]:
        """What is kept, and how many bytes are missing in between. What is no UTF-8 is spelled ``\\xNN``."""
        cut = self._size - len(self._head) - len(self._tail)
        if not cut:
            return (self._head + self._tail).decode("utf-8", "backslashreplace"), 0
        head, half = text_of(bytes(self._head))
        tail = bytes(self._tail)
        begin = next((n for n, byte in enumerate(tail[:3]) if byte & 0xC0 != 0x80), min(len(tail), 3))
        cut += half + begin
        return f"{head}\n[… {cut} bytes cut …]\n{tail[begin:].decode('utf-8', 'backslashreplace')}", cut
