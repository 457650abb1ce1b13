"""How content is packed in a store: as it is, by zlib, or by zstd where that is installed."""

import functools
import importlib
import threading
import zlib
from collections.abc import Callable
from typing import Any

RAW, ZLIB, ZSTD = 0, 1, 2
"""The packings by the number that stands beside each stored content."""

Pack = Callable[[bytes], bytes]


class PackingInvalid(ValueError):
    """Packed bytes that do not unpack to what they should."""


def best_packing() -> int:
    """``ZSTD`` where a zstd is installed (Python 3.14 or the ``zstandard`` package), else ``ZLIB``."""
    return ZSTD if _zstd_module() is not None else ZLIB


def pack(packing: int, data: bytes) -> tuple[int, bytes]:
    """``data`` packed, and how; ``RAW`` where packing gains less than a sixteenth."""
    if len(data) < 128 or packing == RAW:
        return RAW, data
    packed = _zstd().compress(data) if packing == ZSTD else zlib.compress(data, 1)
    return (packing, packed) if len(packed) < len(data) - len(data) // 16 else (RAW, data)


def packer(packing: int) -> tuple[Pack, Callable[[], bytes]]:
    """Two functions to pack a long content piece by piece: one for each piece, one for the end."""
    if packing == ZSTD:
        stream = _zstd().stream()
        return stream.compress, stream.flush
    if packing == ZLIB:
        deflate = zlib.compressobj(1)
        return deflate.compress, deflate.flush
    return (lambda piece: piece), (lambda: b"")


def unpack(packing: int, data: bytes, size: int) -> bytes:
    """The content again, ``size`` bytes long. Raises ``PackingInvalid`` for anything else.

    Never makes more than ``size`` bytes and one, whatever the packed bytes claim.
    """
    try:
        content = _unpacked(packing, data, size)
    except (zlib.error, RuntimeError, OSError) as error:
        raise PackingInvalid(f"can't be unpacked: {error}") from error
    except Exception as error:
        if type(error).__name__ not in ("ZstdError",):
            raise
        raise PackingInvalid(f"can't be unpacked: {error}") from error
    if len(content) != size:
        raise PackingInvalid(f"unpacks to another size than the {size} bytes on record")
    return content


def _unpacked(packing: int, data: bytes, size: int) -> bytes:
    if packing == RAW:
        return data
    if packing == ZLIB:
        return zlib.decompressobj().decompress(data, size + 1)
    if packing == ZSTD:
        if _zstd_module() is None:
            raise PackingInvalid("is packed by zstd, which is not installed here")
        return _zstd().decompress(data, size)
    raise PackingInvalid(f"is packed in a way numbered {packing} that this version does not know")


class _Zstandard:
    """The ``zstandard`` package, one compressor for each Python thread (they are not shared)."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.compress: Pack = module.ZstdCompressor(level=1).compress

    def stream(self) -> Any:
        return self._module.ZstdCompressor(level=1).compressobj()

    def decompress(self, data: bytes, size: int) -> bytes:
        with self._module.ZstdDecompressor().stream_reader(data) as reader:
            content: bytes = reader.read(size + 1)
        return content


class _StandardZstd:
    """The zstd of Python 3.14's standard library."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def compress(self, data: bytes) -> bytes:
        packed: bytes = self._module.compress(data, level=1)
        return packed

    def stream(self) -> Any:
        return self._module.ZstdCompressor(level=1)

    def decompress(self, data: bytes, size: int) -> bytes:
        content: bytes = self._module.ZstdDecompressor().decompress(data, size + 1)
        return content


_own = threading.local()


def _zstd() -> _Zstandard | _StandardZstd:
    zstd: _Zstandard | _StandardZstd | None = getattr(_own, "zstd", None)
    if zstd is None:
        module = _zstd_module()
        if module is None:
            raise PackingInvalid("needs zstd, which is not installed here")
        zstd = _Zstandard(module) if module.__name__ == "zstandard" else _StandardZstd(module)
        _own.zstd = zstd
    return zstd


@functools.cache
def _zstd_module() -> Any:
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
