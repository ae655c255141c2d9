"""Writes of a key that depend on its newest revision: create, update, delete and purge (ADR-8).

Each generator yields the next step. The front performs it and sends in the result, or throws in the error. The
generator returns the new revision.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from jetspark.jetstream import header_names as names
from jetspark.jetstream.errors import ConfigError, Error, KeyExistsError, WrongLastRevisionError, WrongLastSequenceError
from jetspark.jetstream.key_value.entry import KeyValueEntry

__all__ = [
    "MAX_ROUNDS",
    "ROUND",
    "ReadNewest",
    "Step",
    "Write",
    "after_refusal",
    "create_key",
    "original_id",
    "round_id",
    "update_key",
    "write_marker",
]

MAX_ROUNDS: Final = 5
"""Number of tries to write a key while others write and delete it."""
ROUND: Final = "~jetspark-round-"
"""Separates the message id of a write from the number of a later try."""


@dataclass(frozen=True, slots=True)
class Write:
    """Publish the entry. Its result is the new revision."""

    expected: int
    """Newest revision that the key must have; 0 for none."""
    msg_id: str | None = None
    """Message id, so that a repeat is not stored twice."""
    repeatable: bool = False
    """Whether it is repeated if no answer comes; then it waits for half of the time that is left."""


@dataclass(frozen=True, slots=True)
class ReadNewest:
    """Read the newest entry of the key from the leader. Its result is the entry, or None."""


Step: TypeAlias = Write | ReadNewest
Writing: TypeAlias = Generator[Step, Any, int]


def create_key(bucket: str, key: str) -> Writing:
    """Store the first value of a key, also after it was deleted or has expired (KVS-26).

    Raises
    ------
    KeyExistsError
        The key has a value.
    WrongLastRevisionError
        Others wrote and deleted the key in each of five rounds.
    """
    expected = actual = 0
    for _ in range(MAX_ROUNDS):
        try:
            return (yield from _write_or_repeat(expected))
        except WrongLastSequenceError:
            newest: KeyValueEntry | None = yield ReadNewest()
        actual = 0 if newest is None else newest.revision
        if newest is not None and not newest.is_marker:
            raise KeyExistsError(bucket, key, actual)
        wrong, expected = expected, actual
    raise WrongLastRevisionError(bucket, key, wrong, actual)


def update_key(bucket: str, key: str, revision: int) -> Writing:
    """Store a value if the newest revision of the key is `revision` (KVS-28).

    Raises
    ------
    WrongLastRevisionError
        It is another one.
    ConfigError
        The revision is not positive.
    """
    _check_revision(revision)
    try:
        return (yield from _write_or_repeat(revision))
    except WrongLastSequenceError as error:
        refusal = error
    raise (yield from _wrong_revision(bucket, key, revision, refusal))


def write_marker(bucket: str, key: str, revision: int) -> Writing:
    """Store a marker if the newest revision of the key is `revision` (KVS-29, KVS-30). Errors are as above."""
    _check_revision(revision)
    try:
        stored: int = yield Write(revision)
    except WrongLastSequenceError as error:
        refusal = error
    else:
        return stored
    raise (yield from _wrong_revision(bucket, key, revision, refusal))


def after_refusal(
    bucket: str, key: str, expected: int, newest: KeyValueEntry | None, *, tried: int, is_own: Callable[[str], bool]
) -> Write | int | WrongLastRevisionError:
    """Say what follows if a write with an expected revision was refused, and this is now the newest entry of the key.

    It is for many writes at once, which are sent without waiting for each.

    Parameters
    ----------
    expected
        The revision that the caller expects; 0 creates the key, also after it was deleted or has expired.
    newest
        The newest entry by the leader, None if there is none.
    tried
        The revision that the refused message expected.
    is_own
        Whether a message id is that of this write, or of a later one of the key by the same writer. Then an earlier
        attempt has stored it.

    Returns
    -------
    Write | int | WrongLastRevisionError
        How to write it again, at most `MAX_ROUNDS` times in all; or the revision at which it is stored; or the error.
    """
    actual = 0 if newest is None else newest.revision
    if newest is not None and is_own(original_id(newest.headers.get(names.MSG_ID) or "")):
        return actual
    if actual == tried:  # the refusal was because of a message that was not stored in the end, or not yet
        return Write(tried)
    if expected:
        return WrongLastRevisionError(bucket, key, expected, actual)
    if newest is None or newest.is_marker:
        return Write(actual)
    return KeyExistsError(bucket, key, actual)


def round_id(msg_id: str, number: int) -> str:
    """Return the message id of the next try of a write; the first one, number 0, has the id itself.

    A server may remember the id of a message that it has refused.
    """
    return f"{msg_id}{ROUND}{number}" if number else msg_id


def original_id(msg_id: str) -> str:
    """Return the message id of the first try of a write."""
    return msg_id.partition(ROUND)[0]


def _write_or_repeat(expected: int) -> Writing:
    """Write, and once again if the outcome is unknown (KVS-31).

    The server does not store a message id twice, but it may check the expected revision first. Then it refuses the
    repeat, and the newest entry has the id.
    """
    write = Write(expected, secrets.token_hex(16), repeatable=True)
    stored: int
    try:
        stored = yield write
    except Error as error:
        if not error.outcome_unknown:
            raise
    else:
        return stored
    try:
        stored = yield replace(write, repeatable=False)
    except WrongLastSequenceError:
        newest: KeyValueEntry | None = yield ReadNewest()
        if newest is None or newest.headers.get(names.MSG_ID) != write.msg_id:
            raise
        stored = newest.revision
    return stored


def _wrong_revision(
    bucket: str, key: str, expected: int, refusal: WrongLastSequenceError
) -> Generator[Step, Any, WrongLastRevisionError]:
    """Return the error with the newest revision, which the leader is asked for if the answer does not have it."""
    actual = refusal.last_sequence
    if actual is None:
        try:
            newest: KeyValueEntry | None = yield ReadNewest()
        except Error:
            pass  # it stays unknown
        else:
            actual = 0 if newest is None else newest.revision
    return WrongLastRevisionError(bucket, key, expected, actual, err_code=refusal.err_code)


def _check_revision(revision: int) -> None:
    if revision < 1:
        raise ConfigError(f"revision must be positive, not {revision}; to store the first value of a key, use create")
