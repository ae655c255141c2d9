"""Reads the files that options name: credentials, seeds, contexts, certificates.

A path may come from outside. So only regular files of limited size are read: a named pipe would block the event loop
until somebody writes, and a device may have no end.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

__all__ = ["check_file", "read_text"]

MAX_FILE_SIZE: Final = 1 << 20
"""Bytes; a credentials file has about one thousand."""
MAX_CA_SIZE: Final = 4 << 20
"""Bytes of a file of certificates; that of all public authorities has about a quarter of a million."""


def read_text(path: str | Path, limit: int = MAX_FILE_SIZE) -> str:
    """Return the text of a small file (UTF-8).

    Raises
    ------
    OSError
        It cannot be read, is not a regular file, or has more than `limit` bytes.
    UnicodeDecodeError
        It is not text.
    """
    opened = os.open(Path(path).expanduser(), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check(os.fstat(opened), limit)
        with open(opened, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(opened)
    if len(data) > limit:  # it has grown
        raise OSError(f"it has more than {limit} bytes")
    return data.decode()


def check_file(path: str | Path, limit: int = MAX_CA_SIZE) -> None:
    """Check a file that another library reads. Raises OSError as `read_text` does."""
    _check(Path(path).stat(), limit)


def _check(found: os.stat_result, limit: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a regular file")
    if found.st_size > limit:
        raise OSError(f"it has more than {limit} bytes")
