"""Names of objects, and the subjects of their chunks and descriptions (ADR-20)."""

from __future__ import annotations

import os
import re
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jetspark.jetstream.buckets import MAX_SUBJECT
from jetspark.jetstream.errors import InvalidObjectNameError

__all__ = ["ObjectName", "chunk_subject", "is_nuid", "meta_subject", "new_nuid"]

if TYPE_CHECKING:
    ObjectName: TypeAlias = str
    """Name of an object: any text that is not empty."""
else:  # so that a name of another type is an InvalidObjectNameError, and no ArgumentError
    ObjectName = Any

_LETTERS: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_AS_LETTERS: Final = (_LETTERS * 5)[:256]
_NUID_LENGTH: Final = 22
_NUID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def new_nuid() -> str:
    """Return a new id of an object's content: 22 random letters and digits."""
    return os.urandom(_NUID_LENGTH).translate(_AS_LETTERS).decode("ascii")


def is_nuid(text: str) -> bool:
    """Return whether a text can be the id of content. It becomes a part of subjects, also of a purge."""
    return _NUID.fullmatch(text) is not None


def meta_subject(prefix: str, name: str) -> str:
    """Return the subject of the description of an object.

    Parameters
    ----------
    prefix
        The part that all subjects of the bucket begin with.
    name
        Name of the object: any text that is not empty.

    Raises
    ------
    InvalidObjectNameError
        The name cannot be used.
    """
    if not isinstance(name, str):
        raise InvalidObjectNameError(f"the name of an object must be text, not {type(name).__name__}")
    if not name:
        raise InvalidObjectNameError("the name of an object is empty")
    try:
        raw = name.encode()
    except UnicodeEncodeError:
        raise InvalidObjectNameError(f"object name {name[:100]!r} cannot be written as UTF-8") from None
    subject = f"{prefix}M.{urlsafe_b64encode(raw).decode('ascii')}"
    if len(subject) > MAX_SUBJECT:
        raise InvalidObjectNameError(
            f"the name of an object has {len(raw)} bytes; its subject would have {len(subject)} bytes, and "
            f"{MAX_SUBJECT} are allowed"
        )
    return subject


def chunk_subject(prefix: str, nuid: str) -> str:
    """Return the subject of the chunks of an object's content."""
    return f"{prefix}C.{nuid}"
