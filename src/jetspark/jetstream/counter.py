"""Counters as data (ADR-49): a subject whose messages hold a sum, and what each of them added."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from jetspark.jetstream import header_names as names
from jetspark.jetstream.config import StreamConfig
from jetspark.jetstream.errors import BadCounterError, ConfigError
from jetspark.jetstream.stored_message import StoredMessage
from jetspark.jetstream.times import Timestamp

__all__ = ["CounterValue", "check_counter_stream", "counter_value", "read_number"]

_MAX_DIGITS: Final = 4000
"""Python refuses to convert much longer numbers."""
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class _Body(msgspec.Struct):
    val: str


_body: Final = msgspec.json.Decoder(_Body)
_sources: Final = msgspec.json.Decoder(dict[str, dict[str, str]])


@dataclass(frozen=True, slots=True)
class CounterValue:
    """The value of a counter after one addition."""

    subject: str
    """Subject of the counter."""
    value: int
    """The sum, of any size."""
    increment: int | None
    """The last addition; None if the message does not say."""
    sources: dict[str, dict[str, int]]
    """The part of the value that came from other streams: stream name -> subject -> value there."""
    sequence: int
    """Sequence of the message in the stream."""
    timestamp_ns: int
    """When it was stored, nanoseconds since 1970 UTC."""

    @property
    def timestamp(self) -> datetime:
        """When it was stored, as a UTC `Timestamp`: a `datetime` that keeps the nanoseconds."""
        return Timestamp.from_ns(self.timestamp_ns)


def check_counter_stream(config: StreamConfig) -> None:
    """Check that a stream has counters.

    Raises
    ------
    ConfigError
        It lacks `allow_msg_counter` or `allow_direct`.
    """
    for name in ("allow_msg_counter", "allow_direct"):
        if not getattr(config, name):
            raise ConfigError(f"stream {config.name!r} has no counters: {name} is not set")


def counter_value(message: StoredMessage) -> CounterValue:
    """Return the value that a stored message of a counter is.

    Raises
    ------
    BadCounterError
        The message has another form.
    """
    where = f"{message.subject} (sequence {message.sequence})"
    increment = message.headers.get(names.INCREMENT)
    sources = message.headers.get(names.COUNTER_SOURCES)
    try:
        value = _body.decode(message.payload).val
        parts = {} if sources is None else _sources.decode(sources)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadCounterError(f"{where}: not a value of a counter ({error})") from None
    return CounterValue(
        message.subject,
        read_number(value, where),
        None if increment is None else read_number(increment, where),
        {stream: {name: read_number(text, where) for name, text in each.items()} for stream, each in parts.items()},
        message.sequence,
        message.timestamp_ns,
    )


def read_number(text: str, where: str) -> int:
    """Return a whole number that the server wrote. Raises BadCounterError."""
    if len(text) > _MAX_DIGITS or not _NUMBER.fullmatch(text):
        raise BadCounterError(f"{where}: not a whole number of at most {_MAX_DIGITS} digits: {text[:40]!r}")
    return int(text)
