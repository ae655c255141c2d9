"""Keys, and filters of keys (ADR-6, ADR-8).

A bucket is a stream whose name is `KV_` and the bucket's name. The entries of a key are its messages with the subject
`$KV.<bucket>.<key>`. The server stores more names than these rules allow, so the checks are made here, before anything
is sent. Keys that others wrote are read as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from jetspark.jetstream.buckets import KEY_VALUE, MAX_SUBJECT
from jetspark.jetstream.config import StreamSource
from jetspark.jetstream.errors import ArgumentError, ConfigError, InvalidKeyError
from jetspark.jetstream.names import API_PREFIX
from jetspark.jetstream.subject_filters import reduce_filters

__all__ = [
    "MAX_FILTERS",
    "check_filters",
    "check_key",
    "is_filter",
    "key_subjects",
]

MAX_FILTERS: Final = 256
"""Maximum number of filters of one watch."""
_RESERVED: Final = "_kv"

_KEY: Final = re.compile(r"[-/_=A-Za-z0-9]+(?:\.[-/_=A-Za-z0-9]+)*", re.ASCII)
_BAD_IN_KEY: Final = re.compile(r"[^-/_=.A-Za-z0-9]", re.ASCII)
_WILDCARDS: Final = frozenset("*>")


def key_subjects(bucket: str, mirror: StreamSource | None, api_prefix: str) -> tuple[str, str]:
    """Return the subjects up to the key of stored entries, and of writes.

    A mirror has the subjects of its origin, and writes go to the origin. In another domain, or with an imported API,
    only subjects below the API's prefix reach the bucket.

    Parameters
    ----------
    mirror
        The origin, if the bucket is a mirror.
    api_prefix
        Prefix of the API's subjects, with its final dot.
    """
    stored = KEY_VALUE.subjects_of(KEY_VALUE.origin_of(bucket, mirror))
    if mirror is not None and mirror.external is not None and mirror.external.api:
        return stored, f"{mirror.external.api}.{stored}"
    return stored, stored if api_prefix == API_PREFIX else api_prefix + stored


def check_key(key: str, prefix: str, *, writing: bool = False) -> str:
    """Return a key if it is valid.

    Parameters
    ----------
    prefix
        The subject before the key; both together must not be too long.
    writing
        Whether it is to be written: keys that begin with `_kv` are reserved.

    Raises
    ------
    InvalidKeyError
        The key cannot be used.
    """
    _check_text(key, "key", prefix)
    if _KEY.fullmatch(key) is None:
        if bad := _BAD_IN_KEY.search(key):
            raise InvalidKeyError(f"key {key!r} has {bad[0]!r}; a key is made of letters, digits and - / _ = .")
        raise InvalidKeyError(f"key {key!r} has a dot at its start, at its end or next to a dot")
    if writing and key.startswith(_RESERVED):
        raise InvalidKeyError(f"key {key!r} begins with {_RESERVED}, which is reserved")
    return key


def check_filters(filters: Iterable[str], prefix: str) -> tuple[str, ...]:
    """Return filters of keys without those that others cover; `>` alone if none is given.

    A filter is a key, or has the wildcard `*` for a whole token, or `>` as its last token.

    Raises
    ------
    InvalidKeyError
        A filter cannot be used.
    ConfigError
        There are more than 256 filters.
    """
    if isinstance(filters, str):
        filters = (filters,)
    checked = reduce_filters(_check_filter(each, prefix) for each in filters)
    if len(checked) > MAX_FILTERS:
        raise ConfigError(f"{len(checked)} filters of keys are given; at most {MAX_FILTERS} are allowed")
    return checked or (">",)


def is_filter(text: str) -> bool:
    """Return whether a checked filter has wildcards."""
    return not _WILDCARDS.isdisjoint(text)


def _check_filter(text: str, prefix: str) -> str:
    _check_text(text, "filter", prefix)
    tokens = text.split(".")
    for token in tokens:
        if not token:
            raise InvalidKeyError(f"filter {text!r} has a dot at its start, at its end or next to a dot")
        if token not in _WILDCARDS and (bad := _BAD_IN_KEY.search(token)):
            raise InvalidKeyError(
                f"filter {text!r} has {bad[0]!r} in a token; * and > stand for whole tokens, and other tokens are made "
                f"of letters, digits and - / _ ="
            )
    if ">" in tokens[:-1]:
        raise InvalidKeyError(f"filter {text!r} has '>' before its end; '>' can only be the last token")
    return text


def _check_text(text: str, noun: str, prefix: str) -> None:
    if not isinstance(text, str):
        raise ArgumentError(f"a {noun} must be text, not {type(text).__name__}")
    if not text:
        raise InvalidKeyError(f"the {noun} is empty")
    if len(prefix) + len(text) > MAX_SUBJECT:  # only ASCII is allowed
        raise InvalidKeyError(
            f"a {noun} has {len(text)} characters; with {prefix!r} its subject may have {MAX_SUBJECT} bytes"
        )
