"""Checks of subjects: a subject that the server would refuse or misread is refused before anything is sent.

A blank in a subject ends the word on the control line, so the server would read the rest as the reply subject or the
size. A subject with an empty token matches no subscription. A subject that came from the network, such as the reply
subject of a message, must not make this client call an API with its permissions. The checks return their argument, so
that they can be used inline, and raise `BadSubjectError` (a ValueError).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from jetspark.wire.errors import ArgumentError, BadSubjectError
from jetspark.wire.line_limits import line_too_long

__all__ = [
    "check_filter_subject",
    "check_line",
    "check_publish_subject",
    "check_queue",
    "check_reply_subject",
    "subject_matches",
]

_BAD_IN_SUBJECT: Final = re.compile(r"[ \t\r\n\f\v\x00]")
_CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f]")
_UNUSUAL_BYTES: Final = bytes(range(33)) + b"*>\x7f"
_RESERVED: Final = re.compile(
    # Of the system's subjects, clients publish to these three: acknowledgements, flow control, snapshots. A domain may
    # have one of these names, too.
    rb"\$(?:SYS|JSC|NRG)(?:\.|\Z)|\$JS(?:\Z|\.(?!(?:ACK|FC|SNAPSHOT)\.))"
    rb"|\$JS\.[^.]+\.API\.(?:ACCOUNT|CONSUMER|DIRECT|INFO|META|SERVER|STREAM)(?:\.|\Z)"
)


def check_publish_subject(subject: str) -> str:
    """Check a subject to publish to: no blanks, no empty token, no wildcard token."""
    for token in _tokens(subject):
        if token in {"*", ">"}:
            raise BadSubjectError(f"subject {subject!r} has the wildcard {token!r}; a message needs a literal subject")
    return subject


def check_filter_subject(subject: str) -> str:
    """Check a subject used as a filter: no blanks, no empty token, `>` only as the last token."""
    tokens = _tokens(subject)
    if ">" in tokens[:-1]:
        raise BadSubjectError(f"subject {subject!r} has '>' before its end; '>' can only be the last token")
    return subject


def check_reply_subject(subject: bytes, api_prefixes: tuple[bytes, ...] = ()) -> bytes:
    """Check a subject that came from the network, before something is published to it.

    It must be a literal subject without control characters, and must belong neither to the system nor to one of the
    APIs, whose prefixes end with a dot.
    """
    if (  # nearly all are like this, and acknowledgements are frequent
        len(subject.translate(None, _UNUSUAL_BYTES)) != len(subject)
        or b".." in subject
        or subject[-1:] in (b"", b".")
        or subject[:1] == b"."
        or not subject.isascii()
    ):
        try:
            text = subject.decode()
        except UnicodeDecodeError:
            raise BadSubjectError(f"the received subject {_quote(subject)} is not UTF-8") from None
        if _CONTROL_CHARACTER.search(text):
            raise BadSubjectError(f"the received subject {_quote(subject)} has a control character")
        check_publish_subject(text)
    if _RESERVED.match(subject) or subject.startswith(api_prefixes):
        raise BadSubjectError(
            f"the received subject {_quote(subject)} belongs to an API or to the system; nothing was published to it"
        )
    return subject


def _quote(subject: bytes) -> str:
    return repr(subject[:200].decode("utf-8", "backslashreplace"))


def check_line(subject: str, words: Sequence[bytes], limit: int) -> None:
    """Check a subject, perhaps with wildcards, and that with the other words of its control line it is not too long."""
    try:
        line = b" ".join((check_filter_subject(subject).encode(), *words))
    except UnicodeEncodeError as error:
        raise BadSubjectError(f"subject {subject!r}: a lone surrogate cannot be encoded as UTF-8") from error
    if len(line) > limit:
        raise line_too_long(line, limit)


def check_queue(queue: str) -> str:
    """Check the name of a queue group: one word without blanks."""
    if not queue or _BAD_IN_SUBJECT.search(queue):
        raise BadSubjectError(f"queue group {queue!r} must be one word without whitespace")
    return queue


def subject_matches(pattern: str, subject: str) -> bool:
    """Return whether a literal subject matches a filter with `*` and `>`."""
    want = pattern.split(".")
    have = subject.split(".")
    if want[-1] == ">":
        want.pop()
        if len(have) <= len(want):
            return False
    elif len(have) != len(want):
        return False
    return all(w in {"*", h} for w, h in zip(want, have, strict=False))


def _tokens(subject: str) -> list[str]:
    if not isinstance(subject, str):
        raise ArgumentError(f"a subject must be text, not {type(subject).__name__}")
    if not subject:
        raise BadSubjectError("subject is empty")
    bad = _BAD_IN_SUBJECT.search(subject)
    if bad:
        raise BadSubjectError(f"subject {subject!r} has {bad[0]!r}; a subject must not contain whitespace or NUL")
    tokens = subject.split(".")
    if "" in tokens:
        raise BadSubjectError(
            f"subject {subject!r} has an empty token: a dot at its start, at its end or next to a dot"
        )
    return tokens
