"""Names of the columns of messages and of entries of buckets, and the check of the columns of a write.

Every write uses this check: `bulk.publish`, `bulk.publish_atomic` and the Spark sink. A column that would not be
written is an error: a message id in a column of another name, for instance, would not prevent duplicates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol, runtime_checkable

from jetspark.jetstream.errors import ConfigError
from jetspark.wire.arguments import nearest_name

__all__ = [
    "ENTRY_READABLE",
    "ENTRY_WRITABLE",
    "READABLE",
    "WRITABLE",
    "ArrowStream",
    "find_column",
    "find_entry_column",
    "find_entry_write_columns",
    "find_write_columns",
]


@runtime_checkable
class ArrowStream(Protocol):
    """Columns of any library that exchanges Arrow data: pyarrow, pandas, polars, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object: ...


READABLE: Final = ("subject", "data", "headers", "stream", "sequence", "timestamp", "timestamp_ns")
"""Columns of a read, in their order."""
WRITABLE: Final = ("subject", "data", "headers", "msg_id")
"""Columns of a write."""
ENTRY_READABLE: Final = ("key", "value", "revision", "created", "operation", "headers")
"""Columns of a read of a bucket, in their order."""
ENTRY_WRITABLE: Final = ("key", "value", "operation", "expected_revision", "ttl", "headers", "msg_id")
"""Columns of a write into a bucket."""

_READ_ONLY: Final = frozenset(READABLE) - frozenset(WRITABLE)
"""Columns of a read that describe the place of a message. A write ignores them, so a read can be written again."""
_ENTRY_READ_ONLY: Final = frozenset(ENTRY_READABLE) - frozenset(ENTRY_WRITABLE)
"""The same for a bucket."""
_MSG_ID_WORDS: Final = ("message_id", "messageid", "msgid", "nats-msg-id", "nats_msg_id", "id", "dedup_id")
_ALIASES: Final = {
    **dict.fromkeys(("body", "content", "message", "msg", "payload", "text", "value"), "data"),
    **dict.fromkeys(("key", "topic", "subjects"), "subject"),
    **dict.fromkeys(_MSG_ID_WORDS, "msg_id"),
    **dict.fromkeys(("header", "metadata", "attributes", "properties"), "headers"),
    **dict.fromkeys(("seq", "stream_seq", "offset"), "sequence"),
    **dict.fromkeys(("time", "date", "ts"), "timestamp"),
}
"""Names in other libraries and in data frames, in lower case."""
_ENTRY_ALIASES: Final = {
    **dict.fromkeys(("data", "body", "content", "message", "msg", "payload", "text"), "value"),
    **dict.fromkeys(("subject", "topic"), "key"),
    **dict.fromkeys(("sequence", "seq", "stream_seq", "offset", "version"), "revision"),
    **dict.fromkeys(("timestamp", "timestamp_ns", "time", "date", "ts"), "created"),
    **dict.fromkeys(("op", "deleted", "expired"), "operation"),
    **dict.fromkeys(("expected", "if_revision", "last_revision"), "expected_revision"),
    **dict.fromkeys(("expires", "expires_in", "max_age"), "ttl"),
    **dict.fromkeys(("header", "metadata", "attributes", "properties"), "headers"),
    **dict.fromkeys(_MSG_ID_WORDS, "msg_id"),
}
"""The same for the columns of a bucket."""


def find_column(
    name: str, columns: Collection[str], verb: str, *, any_case: bool, aliases: Mapping[str, str] = _ALIASES
) -> str:
    """Return the column that `name` means.

    Parameters
    ----------
    verb
        For the message: there is no such column to `read` or to `write`.
    any_case
        Whether upper and lower case are the same, as in Spark.
    aliases
        Other words for the columns, in lower case.

    Raises
    ------
    ConfigError
        There is no such column.
    """
    ours = name.lower() if any_case else name
    if ours in columns:
        return ours
    nearest = nearest_name(name, columns, aliases)
    hint = f"; did you mean {nearest}?" if nearest else "; leave it out."
    raise ConfigError(f"there is no column {name} to {verb}{hint} The columns are: {', '.join(columns)}")


def find_entry_column(name: str, verb: str, *, any_case: bool) -> str:
    """As `find_column`, for the columns of a bucket."""
    return find_column(name, ENTRY_READABLE, verb, any_case=any_case, aliases=_ENTRY_ALIASES)


def find_write_columns(names: Iterable[str], *, any_case: bool = False) -> dict[str, int]:
    """Return the columns to write: name -> position in the rows. Those of a read that a write ignores are left out.

    Raises
    ------
    ConfigError
        A column would not be written, or is there twice.
    """
    return _find_all(names, WRITABLE, _READ_ONLY, _ALIASES, any_case=any_case)


def find_entry_write_columns(names: Iterable[str], *, any_case: bool = False) -> dict[str, int]:
    """As `find_write_columns`, for the columns of a write into a bucket."""
    return _find_all(names, ENTRY_WRITABLE, _ENTRY_READ_ONLY, _ENTRY_ALIASES, any_case=any_case)


def _find_all(
    names: Iterable[str],
    columns: Collection[str],
    read_only: Collection[str],
    aliases: Mapping[str, str],
    *,
    any_case: bool,
) -> dict[str, int]:
    positions: dict[str, int] = {}
    for at, name in enumerate(names):
        if (name.lower() if any_case else name) in read_only:
            continue
        column = find_column(name, columns, "write", any_case=any_case, aliases=aliases)
        if column in positions:
            raise ConfigError(f"the rows have the column {column} twice; keep one of them")
        positions[column] = at
    return positions
