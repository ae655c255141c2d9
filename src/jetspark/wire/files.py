"""Reads the files that options name: credentials, seeds, contexts, certificates, schemas.

A path may come from outside. So only regular files of limited size are read: a named pipe would block the event loop
until somebody writes, and a device may have no end.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from jetspark.wire.errors import ConfigError

__all__ = ["check_file", "read_file", "read_secret_file"]

MAX_FILE_SIZE: Final = 1 << 20
"""Bytes; a credentials file has about one thousand."""
MAX_CA_SIZE: Final = 4 << 20
"""Bytes of a file of certificates; that of all public authorities has about a quarter of a million."""


_MAX_PATH: Final = 4096
_SECRET: Final = re.compile(r"\s*(S[A-Z2-7]{50}|eyJ\w{50}|-----BEGIN)")  # a seed, a JWT, a section of a file


def read_secret_file(path: str, what: str) -> str:
    """Return the text of a small file (UTF-8); `what` describes it in errors, which have nothing of its content.

    Raises
    ------
    ConfigError
        The file cannot be read, is not a regular file, has more than `MAX_FILE_SIZE` bytes, or is not UTF-8; or `path`
        is the content of such a file.
    """
    if "\n" in path or len(path) > _MAX_PATH or _SECRET.match(path):
        raise ConfigError(f"the path of the {what} is not a path (it is not shown, as it may be the file's content)")
    try:
        data = _read(path, MAX_FILE_SIZE)
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: a NUL character; RuntimeError: no such user
        raise ConfigError(f"cannot read the {what} {path}: {error}") from error
    text = data.decode(errors="replace")
    if text.encode() != data:  # the error of a strict decoder would hold the content
        raise ConfigError(f"cannot read the {what} {path}: it is not UTF-8 text")
    return text


def read_file(path: str, what: str, limit: int) -> bytes:
    """Return the content of a file that has no secrets; `what` describes it in errors.

    Raises
    ------
    ConfigError
        The file cannot be read, is not a regular file, or has more than `limit` bytes.
    """
    if "\n" in path or len(path) > _MAX_PATH:
        raise ConfigError(f"the path of the {what} is not a path: {path[:100]!r}")
    try:
        return _read(path, limit)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(f"cannot read the {what} {path}: {error}") from error


def _read(path: str, limit: int) -> bytes:
    opened = os.open(Path(path).expanduser(), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check(os.fstat(opened), limit)
        with open(opened, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(opened)
    if len(data) > limit:  # it has grown
        raise OSError(f"it has more than {limit} bytes")
    return data


def check_file(path: str | Path, limit: int = MAX_CA_SIZE) -> None:
    """Check a file that another library reads.

    Raises
    ------
    OSError
        It is not a regular file, or has more than `limit` bytes.
    """
    _check(Path(path).stat(), limit)


def _check(found: os.stat_result, limit: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a regular file")
    if found.st_size > limit:
        raise OSError(f"it has more than {limit} bytes")
