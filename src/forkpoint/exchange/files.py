"""Files that exports are written to: whole or not at all, never through a link, never over another one unasked."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from forkpoint.errors import ExportExists, ExportFailed, ExportNotAFile

_KINDS = ((stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"))


def write_file(path: str | Path, data: bytes, *, force: bool = False) -> None:
    """Write ``data`` to exactly ``path``, readable by its user only (0600).

    It is written beside and put into place in one move, so that nobody ever sees half of it. ``force`` replaces a
    regular file that is there. Raises ``export.exists``, ``export.not-a-file`` or ``export.failed``.
    """
    target = Path(path)
    try:
        _check(target, force)
        beside = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.new")
        try:
            _write(beside, data)
            if force:
                beside.replace(target)
            else:
                os.link(beside, target, follow_symlinks=False)
        finally:
            with suppress(FileNotFoundError):
                beside.unlink()
    except FileExistsError as error:
        raise ExportExists(path=str(target)) from error
    except (OSError, ValueError) as error:
        detail = getattr(error, "strerror", None) or str(error)
        raise ExportFailed(path=str(target), detail=detail) from error


def _check(target: Path, force: bool) -> None:
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        found = next((name for is_kind, name in _KINDS if is_kind(mode)), "no regular file")
        raise ExportNotAFile(path=str(target), found=found)
    if not force:
        raise ExportExists(path=str(target))


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
