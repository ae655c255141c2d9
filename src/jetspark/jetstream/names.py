"""Checks of names and subjects: names that the server would not answer are refused before anything is sent.

A stream or consumer name becomes a token of the request's subject. With a blank, a dot or a wildcard in the name, the
request reaches no server and only times out, so the library must check names. The check functions return their
argument, so that they can be used inline, and raise `BadNameError` or `BadSubjectError` (both a ValueError).
"""

from __future__ import annotations

import re
import secrets
from typing import Final

from jetspark.jetstream.errors import ArgumentError, BadNameError, BadSubjectError
from jetspark.wire.subjects import check_filter_subject, check_publish_subject, subject_matches

__all__ = [
    "API_PREFIX",
    "CONSUMER_PREFIX",
    "api_prefix",
    "check_consumer_name",
    "check_consumer_prefix",
    "check_filter_subject",
    "check_publish_subject",
    "check_stream_name",
    "new_name",
    "subject_matches",
]

API_PREFIX: Final = "$JS.API."
"""Prefix of every request in the account's own JetStream."""

CONSUMER_PREFIX: Final = "jetspark-"
"""Beginning of the names of consumers, if the user gives none."""

_MAX_NAME: Final = 255
_RANDOM_BYTES: Final = 8
_BAD_IN_NAME: Final = re.compile(r"[\s.*>/\\\x00-\x1f\x7f]")


def check_stream_name(name: str) -> str:
    """Return the stream name if it is a valid subject token, else raise BadNameError."""
    return _check_name("stream", name)


def check_consumer_name(name: str) -> str:
    """Return the consumer name if it is a valid subject token, else raise BadNameError."""
    return _check_name("consumer", name)


def check_consumer_prefix(prefix: str) -> str:
    """Return the beginning of consumer names if all such names are valid, else raise BadNameError."""
    if prefix:
        check_consumer_name(prefix + "0" * 2 * _RANDOM_BYTES)
        return prefix
    raise BadNameError("the prefix of consumer names is empty")


def new_name(prefix: str = CONSUMER_PREFIX) -> str:
    """Return a new random name, used if the user gives none."""
    return prefix + secrets.token_hex(_RANDOM_BYTES)


def api_prefix(domain: str | None = None, prefix: str | None = None) -> str:
    """Return the prefix of the API subjects, with its final dot.

    `domain` gives `$JS.<domain>.API.`; `prefix` (for an imported API) is used as given; without both it is `$JS.API.`.
    Raises BadSubjectError if both are given, or if one is not valid in a subject.
    """
    if domain is not None and prefix is not None:
        raise BadSubjectError("give a JetStream domain or an API prefix, not both")
    if domain is not None:
        if not domain or _BAD_IN_NAME.search(domain):
            raise BadSubjectError(
                f"JetStream domain {domain!r} must be one subject token without whitespace or wildcards"
            )
        return f"$JS.{domain}.API."
    if prefix is None:
        return API_PREFIX
    return check_publish_subject(prefix.removesuffix(".")) + "."


def _check_name(kind: str, name: str) -> str:
    if not isinstance(name, str):
        raise ArgumentError(f"the name of a {kind} must be text, not {type(name).__name__}")
    if not name:
        raise BadNameError(f"{kind} name is empty")
    bad = _BAD_IN_NAME.search(name)
    if bad:
        raise BadNameError(f"{kind} name {name!r} has {bad[0]!r}; a name must not contain whitespace or . * > / \\")
    if len(name) > _MAX_NAME:
        raise BadNameError(f"{kind} name has {len(name)} characters; the server allows at most {_MAX_NAME}")
    return name
