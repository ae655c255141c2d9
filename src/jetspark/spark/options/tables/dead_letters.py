"""Options of dead letters: what happens to rows that cannot be decoded or stored."""

from __future__ import annotations

from typing import Final

from jetspark.jetstream.names import check_publish_subject
from jetspark.spark.options.option import NONE, Option
from jetspark.spark.options.values import parse_count

__all__ = ["DEAD_LETTER_SUBJECT", "MAX_DEAD_LETTERS"]

# The options are formatted by hand, so that each has two or three lines.
# fmt: off

DEAD_LETTER_SUBJECT: Final = Option[str | None](
    "deadLetterSubject", "subject", check_publish_subject, None, NONE,
    "Subject to which bad rows are published: those that a read cannot decode, and those that a write can never store. "
    "A stream must take it. See `maxDeadLetters`.",
)
MAX_DEAD_LETTERS: Final = Option[int | None](
    "maxDeadLetters", "number", parse_count, None, "write: 1000, read: none",
    "Most dead letters of a task. A task with more bad rows fails.",
)
# fmt: on
