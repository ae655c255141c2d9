"""Times and durations, exact to the nanosecond in both directions."""

import copy
import operator
import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.jetstream.times import (
    Duration,
    Timestamp,
    datetime_from_ns,
    duration_ns,
    format_go_duration,
    format_rfc3339,
    parse_go_duration,
    parse_rfc3339,
    time_ns,
)

FIRST_NS = -62_135_596_800_000_000_000  # 0001-01-01T00:00:00Z
LAST_NS = 253_402_300_799_999_999_999  # 9999-12-31T23:59:59.999999999Z

times_ns = st.integers(FIRST_NS, LAST_NS)
durations_ns = st.integers(-(2**63) + 1, 2**63 - 1)
zones = st.integers(-14 * 60, 14 * 60)


@given(times_ns)
def test_a_written_time_is_read_as_the_same_nanosecond(ns: int) -> None:
    assert parse_rfc3339(format_rfc3339(ns)) == ns
    assert Timestamp.parse(format_rfc3339(ns)).ns == ns
    assert Timestamp.from_ns(ns).rfc3339() == format_rfc3339(ns)


@given(times_ns, zones)
def test_a_time_in_any_zone_is_the_same_moment(ns: int, minutes: int) -> None:
    shifted = ns + minutes * 60_000_000_000
    if not FIRST_NS <= shifted <= LAST_NS:
        return
    sign = "-" if minutes < 0 else "+"
    hours, rest = divmod(abs(minutes), 60)
    text = format_rfc3339(shifted).removesuffix("Z") + f"{sign}{hours:02d}:{rest:02d}"
    assert parse_rfc3339(text) == ns
    assert Timestamp.parse(text) == Timestamp.from_ns(ns)


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_datetime_is_converted_to_nanoseconds_and_back_without_a_float(moment: datetime) -> None:
    assert datetime_from_ns(time_ns(moment)) == moment
    assert Timestamp.from_ns(time_ns(moment)) == moment
    assert hash(Timestamp.from_ns(time_ns(moment))) == hash(moment)


@given(times_ns, times_ns)
def test_timestamps_are_ordered_by_nanosecond(one: int, other: int) -> None:
    a, b = Timestamp.from_ns(one), Timestamp.from_ns(other)
    assert (a < b, a <= b, a > b, a >= b, a == b) == (
        one < other,
        one <= other,
        one > other,
        one >= other,
        one == other,
    )


@given(times_ns)
def test_a_timestamp_survives_pickling_and_copying(ns: int) -> None:
    moment = Timestamp.from_ns(ns)
    for again in (pickle.loads(pickle.dumps(moment)), copy.deepcopy(moment)):
        assert again == moment
        assert again.ns == ns


def test_a_timestamp_in_another_zone_keeps_its_nanoseconds() -> None:
    moment = Timestamp.parse("2024-05-06T07:08:09.123456789Z")
    local = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert local.isoformat() == "2024-05-06T12:38:09.123456+05:30"
    assert local.ns == moment.ns
    assert local.nanosecond == 789
    assert local == moment
    assert pickle.loads(pickle.dumps(local)).utcoffset() == timedelta(hours=5, minutes=30)


def test_a_timestamp_is_a_datetime() -> None:
    moment: datetime = Timestamp.parse("2024-05-06T07:08:09.5Z")
    assert moment == datetime(2024, 5, 6, 7, 8, 9, 500_000, tzinfo=UTC)
    assert moment - datetime(2024, 5, 6, tzinfo=UTC) == timedelta(hours=7, minutes=8, seconds=9.5)
    assert repr(moment) == "Timestamp('2024-05-06T07:08:09.5Z')"
    assert moment != "2024-05-06T07:08:09.5Z"
    with pytest.raises(TypeError):
        assert moment < datetime(2024, 5, 6)  # noqa: DTZ001 - naive on purpose
    assert not moment != moment.replace()  # noqa: SIM202 - the operator itself is what is tested


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T00:00:00.1Z", 100_000_000),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T19:00:00.000000001-05:00", 1),
        ("2022-10-14 11:03:24.123456789 +0000 UTC", 1_665_745_404_123_456_789),  # the format of Go, from older servers
        ("0001-01-01T00:00:00Z", FIRST_NS),
    ],
)
def test_a_time_may_have_several_formats(text: str, ns: int) -> None:
    assert parse_rfc3339(text) == ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-01-01T00:00:00.Z",
        "2024-01-01T00:00:00.1234567890Z",
        "2024-13-01T00:00:00Z",
        "2024-02-30T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "２０２４-01-01T00:00:00Z",  # noqa: RUF001 - digits of another script
        "2024-01-01T00:00:00Z\n",
    ],
)
def test_other_text_is_not_a_time(text: str) -> None:
    with pytest.raises(ValueError):
        parse_rfc3339(text)
    with pytest.raises(ValueError):
        Timestamp.parse(text)


def test_a_time_outside_the_calendar_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        Timestamp.from_ns(LAST_NS + 1)


def test_a_datetime_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        time_ns(datetime(2024, 1, 1))  # noqa: DTZ001 - naive on purpose


@given(durations_ns)
def test_a_duration_keeps_every_nanosecond(ns: int) -> None:
    duration = Duration.from_ns(ns)
    assert duration.ns == ns
    assert duration_ns(duration) == ns
    assert pickle.loads(pickle.dumps(duration)) == duration
    assert copy.deepcopy(duration).ns == ns
    assert parse_go_duration(format_go_duration(ns)) == ns


@given(durations_ns, durations_ns)
def test_durations_are_ordered_by_nanosecond(one: int, other: int) -> None:
    a, b = Duration.from_ns(one), Duration.from_ns(other)
    assert (a < b, a <= b, a > b, a >= b, a == b) == (
        one < other,
        one <= other,
        one > other,
        one >= other,
        one == other,
    )


@given(st.integers(-(2**63) // 1000 + 1, 2**63 // 1000 - 1))
def test_a_duration_of_whole_microseconds_is_a_plain_timedelta(micros: int) -> None:
    plain = timedelta(microseconds=micros)
    assert Duration.from_ns(micros * 1000) == plain
    assert hash(Duration.from_ns(micros * 1000)) == hash(plain)
    assert Duration.from_ns(micros * 1000 + 1) != plain
    assert duration_ns(plain) == micros * 1000


def test_a_duration_that_the_server_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="292 years"):
        duration_ns(timedelta(days=150_000))


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (250_000_000, "250ms"),
        (1_500_000_000, "1.5s"),
        (90_000_000_000, "1m30s"),
        (5_400_000_000_000, "1h30m0s"),
        (-1_000_000_000, "-1s"),
        (3_600_000_000_007, "1h0m0.000000007s"),
    ],
)
def test_durations_in_the_format_of_the_server_are_read(ns: int, text: str) -> None:
    assert format_go_duration(ns) == text
    assert format_go_duration(Duration.from_ns(ns)) == text
    assert parse_go_duration(text) == ns
    assert repr(Duration.from_ns(ns)) == f"Duration({text!r})"


@pytest.mark.parametrize(
    ("text", "ns"), [("0", 0), ("+5s", 5_000_000_000), (".5s", 500_000_000), ("1.h", 3_600_000_000_000), ("2us", 2000)]
)
def test_other_formats_of_a_duration_are_read(text: str, ns: int) -> None:
    assert parse_go_duration(text) == ns


@pytest.mark.parametrize("text", ["", "-", "5", "5 s", "s", "1x", "1s2", ".s", "1.2.3s"])
def test_other_text_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a Go duration"):
        parse_go_duration(text)


def test_times_and_durations_do_not_compare_with_other_things() -> None:
    moment, duration = Timestamp.from_ns(1), Duration.from_ns(1)
    assert moment != 1
    assert duration != 1
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        with pytest.raises(TypeError):
            compare(moment, moment.date())
        with pytest.raises(TypeError):
            compare(duration, 1)
