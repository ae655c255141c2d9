"""Columns of text become dates and timestamps, all rows at once. Only the usual forms are read; others stay unread."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetspark.payload.time_zones import offset_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DATE_PATTERN", "LOCAL_PATTERN", "NOTHING", "PATTERN", "dates", "local_timestamps", "timestamps"]

NOTHING: Final = np.empty(0, np.int64)
"""No rows."""

# Only dates that exist: a cast fails as a whole for one that does not. [0-9] because Python's \d takes more digits.
_LEAP_YEAR: Final = "(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE: Final = (
    "(?:(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9][0-9]|[1-9][0-9]{3})-"
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    f"|{_LEAP_YEAR}-02-29)"
)
_TIME: Final = r"[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_ZONE: Final = "(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])"
_MOST_HOURS: Final = 17


class _Form(NamedTuple):
    """A form of text: its pattern, the length of its shortest text, if it has a zone, and the first value after it."""

    pattern: str
    shortest: int
    zoned: bool
    first: int


_FIRST_DAY: Final = -719_162
_DATES: Final = _Form(_DATE, 10, False, _FIRST_DAY)
_LOCAL_TIMES: Final = _Form(f"{_DATE}{_TIME}", 19, False, _FIRST_DAY * 86_400_000_000)
# One day more: with an offset, the first instant of the year 1 is another.
_INSTANTS: Final = _Form(f"{_DATE}{_TIME}{_ZONE}", 20, True, (_FIRST_DAY + 1) * 86_400_000_000)
DATE_PATTERN: Final = rf"\A{_DATE}\Z"
"""For Python's `re`: the texts that `dates` reads."""
LOCAL_PATTERN: Final = rf"\A{_DATE}{_TIME}\Z"
"""The texts that `local_timestamps` reads."""
PATTERN: Final = rf"\A{_DATE}{_TIME}{_ZONE}?\Z"
"""The texts that `timestamps` reads, unless the offset of the zone changes then."""
_MICROSECONDS: Final = pa.timestamp("us")
# Zones change their offset at most once in such a span, in seconds.
_SPAN: Final = 900


def dates(texts: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the dates of texts as YYYY-MM-DD, and which rows have another form; these are null."""
    return _cast(texts, _DATES, pa.date32())


def local_timestamps(texts: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the timestamps in microseconds of texts without a zone, and which rows have another form."""
    return _cast(texts, _LOCAL_TIMES, _MICROSECONDS)


def timestamps(texts: pa.Array, kind: pa.DataType, zone: tzinfo) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the timestamps in microseconds of texts, and which rows have another form.

    Parameters
    ----------
    texts
        A column of strings.
    kind
        Type of the result, with a time zone.
    zone
        The zone of texts that name none.
    """
    instants, unread = _cast(texts, _INSTANTS, kind)
    if not len(unread):
        return instants, unread
    local, others = _cast(texts.take(pa.array(unread)), _LOCAL_TIMES, _MICROSECONDS)
    values = instants.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).copy()
    nulls = instants.is_null().to_numpy(zero_copy_only=False)
    moved, known = _to_utc(local.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), zone)
    known[others] = False
    read = unread[known]
    values[read], nulls[read] = moved[known], False
    return pa.array(values, mask=nulls).cast(kind), unread[~known]


def _to_utc(local: NDArray[np.int64], zone: tzinfo) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return instants of local times, and which are known: those that are not near to a change of the zone's offset."""
    spans, places = np.unique(local // (_SPAN * 1_000_000), return_inverse=True)
    starts = [divmod(span * _SPAN, 86_400) for span in spans.tolist()]
    first = np.array([offset_seconds(zone, day, second) for day, second in starts], np.int64)
    last = np.array([offset_seconds(zone, day, second + _SPAN - 1) for day, second in starts], np.int64)
    return local - first[places] * 1_000_000, (first == last)[places]


def _cast(texts: pa.Array, form: _Form, kind: pa.DataType) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the texts of a form as another type, null for the others, and which these are."""
    if not len(texts):
        return texts.cast(kind), NOTHING
    if _ends_as(texts, form):
        try:
            column = texts.cast(kind)
        except pa.ArrowInvalid:
            pass
        else:
            first = pc.min(column.cast(pa.int32() if kind == pa.date32() else pa.int64())).as_py()
            if first is None or first >= form.first:
                return column, NOTHING
    fits = pc.match_substring_regex(texts, rf"\A{form.pattern}\z").fill_null(True)
    return pc.if_else(fits, texts, None).cast(kind), np.flatnonzero(~fits.to_numpy(zero_copy_only=False))


def _ends_as(texts: pa.Array, form: _Form) -> bool:
    """Return whether all texts are so long and end so that a cast, if it succeeds, takes the form and no other."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[: len(texts) + 1]
    lengths = np.diff(offsets)
    if texts.null_count:
        given = texts.is_valid().to_numpy(zero_copy_only=False)
        offsets, lengths = offsets[1:][given], lengths[given]
    else:
        offsets = offsets[1:]
    if lengths.min(initial=form.shortest) < form.shortest:
        return False
    if not form.zoned or not len(lengths):
        return True
    characters = np.frombuffer(texts.buffers()[2], np.uint8)
    zulu = characters[offsets - 1] == ord("Z")
    if zulu.all():
        return True
    offsets, lengths = offsets[~zulu], lengths[~zulu]
    hours = characters[offsets - 5].astype(np.int32) * 10 + characters[offsets - 4] - ord("0") * 11
    zoned = (lengths >= form.shortest + 5) & (characters[offsets - 3] == ord(":")) & (hours <= _MOST_HOURS)
    return bool(zoned.all())
