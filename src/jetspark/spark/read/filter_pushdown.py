"""Spark's filters as subject filters and bounds that the server applies.

Spark passes those parts of a condition that compare a column with a literal; all of them must hold. Three kinds go to
the server: subjects (`=`, `IN`, `LIKE 'a.%'`), streams, and bounds of `sequence`, `timestamp` and `timestamp_ns`. Spark
does not evaluate a filter again if the server applies it exactly. A filter is returned to Spark if the server applies
it only in part. The same is true for times: they become sequences, and that is wrong if a clock was set back.

A literal is never used as a pattern: `subject = 'a.*'` stays with Spark, because it would be a filter for the server.

In a read of a bucket, `key`, `revision` and `created` are the subject (without its prefix), sequence and timestamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from jetspark.jetstream.errors import BadSubjectError
from jetspark.jetstream.message_columns import ENTRY_READABLE, READABLE
from jetspark.jetstream.names import check_publish_subject
from jetspark.jetstream.subject_filters import EVERYTHING, common_filters
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.read.entries import MESSAGE_COLUMNS
from jetspark.spark.streams.ranges import Bounds

__all__ = ["PushedFilters", "column_names", "push_filters", "selected_subjects"]

MAX_SUBJECTS: Final = 256
"""Maximum number of subject filters that are sent. The server compares each of them with each other."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NEVER_NULL: Final = frozenset({"subject", "data", "stream", "sequence", "timestamp", "timestamp_ns"})


@dataclass(slots=True)
class PushedFilters:
    """The part of a condition that the server applies.

    Attributes
    ----------
    subjects
        Subject filters, combined with those of the options; empty for all subjects.
    streams
        Names of the streams that can match; None for all streams of the options.
    sequence, time_ns
        Bounds of the sequence and of the time.
    empty
        Whether no message can match. Then nothing is read.
    """

    subjects: tuple[str, ...] = ()
    streams: frozenset[str] | None = None
    sequence: Bounds = field(default_factory=Bounds)
    time_ns: Bounds = field(default_factory=Bounds)
    empty: bool = False


def selected_subjects(options: ReadOptions) -> tuple[str, ...]:
    """Return the subject filters of the options; for a bucket, its filters of keys."""
    return options.subjects if options.bucket is None else options.bucket.keys


def column_names(options: ReadOptions) -> Mapping[str, str]:
    """Return the columns of a read whose names differ from those of messages, and their names there."""
    names = {} if options.bucket is None else MESSAGE_COLUMNS
    if options.payload is None:
        return names
    columns = READABLE if options.bucket is None else ENTRY_READABLE
    return {f"{options.payload.prefix.lower()}{name}": names.get(name, name) for name in columns}


def push_filters(
    filters: Iterable[Filter],
    subjects: Sequence[str],
    native_columns: frozenset[str],
    names: Mapping[str, str] | None = None,
) -> tuple[PushedFilters, list[Filter]]:
    """Divide a condition between the server and Spark.

    Parameters
    ----------
    filters
        The parts of the condition. A row must match all of them.
    subjects
        Subject filters of the options; empty for all subjects.
    native_columns
        Columns of the schema with their native type, in lower case. Filters on other columns stay with Spark.
    names
        Columns of the schema that have another name in messages, and that name.

    Returns
    -------
    tuple[PushedFilters, list[Filter]]
        The part for the server, and the filters (the same objects) that Spark must evaluate.
    """
    push = PushedFilters(tuple(subjects))
    columns = {column: (names or {}).get(column, column) for column in native_columns}
    rest = [each for each in filters if not _push(each, push, columns)]
    push.empty = push.empty or push.sequence.empty or push.time_ns.empty or push.streams == frozenset()
    return push, rest


def _push(part: Filter, push: PushedFilters, columns: Mapping[str, str]) -> bool:
    """Push one filter down as far as possible. Return whether the server applies it completely."""
    column = columns.get(_column(part) or "")
    if column is None:
        return False
    if isinstance(part, IsNotNull | IsNull):
        if column not in _NEVER_NULL:
            return False
        push.empty = push.empty or isinstance(part, IsNull)
        return True
    if column == "subject":
        return _push_subject(part, push)
    if column == "stream":
        return _push_stream(part, push)
    if column == "sequence":
        return _push_number(part, push.sequence)
    if column == "timestamp_ns":
        _push_number(part, push.time_ns)
    elif column == "timestamp":
        _push_timestamp(part, push.time_ns)
    return False


def _column(part: Filter) -> str | None:
    path: tuple[str, ...] = getattr(part, "attribute", ())
    return path[0].lower() if len(path) == 1 else None


def _literals(part: Filter) -> list[object] | None:
    """Return the values of `=`, `<=>` and IN; None for another filter. Nulls are left out: no column is null."""
    if isinstance(part, EqualTo | EqualNullSafe):
        return [] if part.value is None else [part.value]
    if isinstance(part, In):
        return [value for value in part.value if value is not None]
    return None


def _push_subject(part: Filter, push: PushedFilters) -> bool:
    literals = _literals(part)
    if literals is not None:
        subjects = _literal_subjects(literals)
        return subjects is not None and _intersect_subjects(push, subjects)
    if isinstance(part, StringStartsWith):
        prefix, dot, open_end = part.value.rpartition(".")
        if not dot or _literal_subjects([prefix]) is None:
            return False
        return _intersect_subjects(push, (f"{prefix}.{EVERYTHING}",)) and not open_end
    return False


def _literal_subjects(literals: Sequence[object]) -> tuple[str, ...] | None:
    """Return the literals as subjects; None if one of them would not be a literal subject for the server."""
    try:
        return tuple(check_publish_subject(text) if isinstance(text, str) else _refuse(text) for text in literals)
    except BadSubjectError:
        return None


def _refuse(value: object) -> str:
    raise BadSubjectError(f"not text: {value!r}")


def _intersect_subjects(push: PushedFilters, subjects: tuple[str, ...]) -> bool:
    """Keep only selected subjects that match these, too. Return False if that would be too many filters."""
    if len(subjects) > MAX_SUBJECTS:
        return False
    common = common_filters(push.subjects or (EVERYTHING,), subjects)
    if len(common) > MAX_SUBJECTS:
        return False
    push.subjects = common
    push.empty = push.empty or not common
    return True


def _push_stream(part: Filter, push: PushedFilters) -> bool:
    literals = _literals(part)
    if literals is None:
        return False
    names = frozenset(name for name in literals if isinstance(name, str))
    push.streams = names if push.streams is None else push.streams & names
    return True


def _push_number(part: Filter, bounds: Bounds) -> bool:
    literals = _literals(part)
    if literals is not None:
        numbers = [_number(value) for value in literals]
        known = sorted({number for number in numbers if number is not None})
        return None not in numbers and _narrow_to(bounds, known, 1)
    number = _number(getattr(part, "value", None))
    return number is not None and _narrow_by_comparison(part, bounds, number, number + 1)


def _push_timestamp(part: Filter, bounds: Bounds) -> bool:
    """Narrow the bounds. A microsecond of Spark is a range of a thousand nanoseconds of the server."""
    literals = _literals(part)
    if literals is not None:
        micros = [_microseconds(value) for value in literals]
        known = sorted({value for value in micros if value is not None})
        return None not in micros and _narrow_to(bounds, [value * 1000 for value in known], 1000)
    micro = _microseconds(getattr(part, "value", None))
    return micro is not None and _narrow_by_comparison(part, bounds, micro * 1000, (micro + 1) * 1000)


def _narrow_by_comparison(part: Filter, bounds: Bounds, at: int, end: int) -> bool:
    """Narrow the bounds by a comparison with a literal that means `at` to `end` (excluded)."""
    if isinstance(part, GreaterThanOrEqual):
        bounds.narrow(low=at)
    elif isinstance(part, GreaterThan):
        bounds.narrow(low=end)
    elif isinstance(part, LessThan):
        bounds.narrow(high=at)
    elif isinstance(part, LessThanOrEqual):
        bounds.narrow(high=end)
    else:
        return False
    return True


def _narrow_to(bounds: Bounds, values: list[int], width: int) -> bool:
    """Narrow the bounds to these values. Return whether there are no other values between them."""
    if not values:
        bounds.narrow(low=1, high=0)
        return True
    bounds.narrow(low=values[0], high=values[-1] + width)
    return values[-1] - values[0] == (len(values) - 1) * width


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _microseconds(value: object) -> int | None:
    """Microseconds since 1970 of an aware datetime; None for anything else."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        return None
    return (value - _EPOCH) // _MICROSECOND
