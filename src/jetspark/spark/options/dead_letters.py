"""The options of dead letters, for reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.modes import ParseMode
from jetspark.spark.options import table
from jetspark.spark.options.parsed import ParsedOptions, conflicting_options

__all__ = ["DeadLetterOptions", "read_dead_letter_options", "write_dead_letter_options"]

_MAX_OF_WRITES: Final = 1_000
"""Default of `maxDeadLetters` for writes: if most rows are refused, the target is wrong, and not the rows."""


@dataclass(frozen=True, slots=True)
class DeadLetterOptions:
    """The checked options of dead letters.

    Attributes
    ----------
    subject
        Subject of the dead letters.
    limit
        Most dead letters of a task; None for no limit.
    stream
        Stream that takes the subject; empty until the server was asked.
    max_size
        Most bytes of a message of that stream; None for no limit of its own.
    """

    subject: str
    limit: int | None
    stream: str = ""
    max_size: int | None = None


def _common_options(parsed: ParsedOptions) -> DeadLetterOptions | None:
    """Check what the options of reads and writes have in common; return None without dead letters.

    Raises
    ------
    ConfigError
        The read or write is of a bucket or of objects, or `maxDeadLetters` is given without `deadLetterSubject`.
    """
    subject = parsed[table.DEAD_LETTER_SUBJECT]
    if subject is None:
        if table.MAX_DEAD_LETTERS in parsed:
            raise ConfigError(
                f"option {table.MAX_DEAD_LETTERS.name} needs option {table.DEAD_LETTER_SUBJECT.name}: the subject of "
                "the dead letters"
            )
        return None
    for option in (table.BUCKET, table.OBJECTS):
        if option in parsed:
            raise ConfigError(
                f"options {option.name} and {table.DEAD_LETTER_SUBJECT.name} contradict each other: only messages of "
                "streams have dead letters; leave the second one out"
            )
    return DeadLetterOptions(subject, parsed[table.MAX_DEAD_LETTERS])


def read_dead_letter_options(parsed: ParsedOptions) -> DeadLetterOptions | None:
    """Check the options of the dead letters of a read. Raises ConfigError."""
    found = _common_options(parsed)
    if found is None:
        return None
    if table.PAYLOAD_FORMAT not in parsed:
        raise ConfigError(
            f"option {table.DEAD_LETTER_SUBJECT.name} of a read needs option {table.PAYLOAD_FORMAT.name}: without "
            "it no payload is decoded, and none is bad"
        )
    if parsed[table.MODE] == ParseMode.FAILFAST.value:
        raise ConfigError(
            f"options {table.DEAD_LETTER_SUBJECT.name} and {table.MODE.name} = {ParseMode.FAILFAST.value} contradict "
            "each other: the read ends at the first payload that cannot be decoded; give one of them"
        )
    return found


def write_dead_letter_options(parsed: ParsedOptions) -> DeadLetterOptions | None:
    """Check the options of the dead letters of a write. Raises ConfigError."""
    found = _common_options(parsed)
    if found is None:
        return None
    if parsed[table.ATOMIC]:
        raise conflicting_options(table.ATOMIC, table.DEAD_LETTER_SUBJECT)
    if parsed[table.SUBJECT] == (found.subject,):
        raise ConfigError(
            f"options {table.SUBJECT.name} and {table.DEAD_LETTER_SUBJECT.name} are both {found.subject}: the dead "
            "letters need a subject of their own"
        )
    limit = _MAX_OF_WRITES if found.limit is None else found.limit
    return DeadLetterOptions(found.subject, limit)
