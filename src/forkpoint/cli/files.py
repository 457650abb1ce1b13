"""Files that commands write: whole or not at all, never through a link, never over another one unasked."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from forkpoint.errors import CommandFileExists, CommandFileUnusable


def write_new(path: Path, data: bytes, *, force: bool) -> None:
    """Write ``data`` to ``path``, readable by its user only. Raises ``cli.file-exists`` or ``cli.file-unusable``.

    It is written beside and put into place in one move, so that nobody ever sees half of it. A link at ``path`` is
    not followed: it counts as a file that is there, and ``force`` replaces the link itself.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        try:
            _write(beside, data)
            if force:
                beside.replace(path)
            else:
                os.link(beside, path)
        finally:
            with suppress(FileNotFoundError):
                beside.unlink()
    except FileExistsError:
        raise CommandFileExists(path=str(path)) from None
    except OSError as error:
        raise CommandFileUnusable(path=str(path), detail=error.strerror or str(error)) from error


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
