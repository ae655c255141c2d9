"""Patterns of dates and times: every expected value is what Spark 4.3 gives for the same pattern and text."""

from __future__ import annotations

import pickle

import pytest

from jetspark import errors
from jetspark.payload.patterns import TimePattern
from jetspark.payload.time_zones import time_zone

DAY = 86_400_000_000
UTC = time_zone("UTC")


@pytest.mark.parametrize(
    ("pattern", "text", "micros"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2020-01-02T03:04:05.123Z", 1577934245123000),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2020-01-02t03:04:05.1z", 1577934245100000),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2020-01-02T03:04:05.1234Z", None),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSSSSSSS", "2020-01-02T03:04:05.123456789", 1577934245123456),
        ("yyyy-MM-dd HH:mm:ss[.SSSSSS][XXX]", "2020-01-02 03:04:05.5", 1577934245500000),
        ("yyyy-MM-dd HH:mm:ss[.SSSSSS][XXX]", "2020-01-02 03:04:05Z", 1577934245000000),
        ("yyyy-MM-dd HH:mm:ss", "2020-1-02 03:04:05", None),
        ("yyyy-MM-dd HH:mm:ss", "12020-01-02 03:04:05", None),
        ("yyyy-MM-dd HH:mm:ss", "+12020-01-02 03:04:05", 317147454245000000),
        ("yyyy-MM-dd HH:mm:ss", "-2020-01-02 03:04:05", -125912177755000000),
        ("d/M/y", "1/2/20", -61533388800000000),
        ("yyyyMMdd", "20200102", 18263 * DAY),
        ("yyyyMMdd", "2020010", None),
        ("yyyyMMddHHmmss", "20200102030405", 1577934245000000),
        ("yyyyMMddHHmmssSSS", "20200102030405123", None),
        ("MMM d, yyyy h:mm:ss a", "jan 2, 2020 12:04:05 am", 1577923445000000),
        ("MMM d, yyyy h:mm:ss a", "Sep 2, 2020 3:04:05 PM", 1599059045000000),
        ("MMM d, yyyy h:mm:ss a", "Sept 2, 2020 3:04:05 PM", None),
        ("MMMM d yyyy", "January 2 2020", 18263 * DAY),
        ("yy-MM-dd", "99-01-02", 47118 * DAY),
        ("yyyy-DDD", "2020-366", 18627 * DAY),
        ("yyyy-DDD", "2021-366", None),
        ("HH:mm", "03:04", 11040000000),
        ("HH:mm", "24:00", None),
        ("hh a", "12 pm", 43200000000),
        ("hh a", "00 am", None),
        ("a", "pm", 43200000000),
        ("hh", "11", 39600000000),
        ("KK:mm", "11:30", 41400000000),
        ("kk", "24", 0),
        ("kk", "00", None),
        ("yyyy-MM-dd HH:mm:ss VV", "2020-01-02 03:04:05 Europe/Berlin", 1577930645000000),
        ("yyyy-MM-dd HH:mm:ss VV", "2020-01-02 03:04:05 PST", None),
        ("yyyy-MM-dd HH:mm:ss O", "2020-01-02 03:04:05 GMT+1", 1577930645000000),
        ("yyyy-MM-dd yyyy", "2020-01-02 2021", None),
        ("''yyyy'year'", "'2020YEAR", 18262 * DAY),
        ("yyyy-MM-ddX", "2020-01-02+0130", 1577917800000000),
        ("yyyy-MM-ddX", "2020-01-02+01:30", None),
        ("yyyy-MM-ddXXXX", "2020-01-02+013015", 1577917785000000),
        ("yyyy-MM-ddx", "2020-01-02Z", None),
        ("yyyy-MM-ddZ", "2020-01-02+0130", 1577917800000000),
        ("yyyy-MM-ddZZZZ", "2020-01-02GMT", 18263 * DAY),
        ("yyyy-MM-ddZZZZZ", "2020-01-02+01:30:15", 1577917785000000),
    ],
)
def test_a_text_is_read_by_its_pattern(pattern: str, text: str, micros: int | None) -> None:
    assert pickle.loads(pickle.dumps(TimePattern(pattern))).timestamp(text, UTC) == micros


def test_a_local_timestamp_names_no_zone() -> None:
    pattern = TimePattern("yyyy-MM-dd[XXX]")
    assert pattern.timestamp("2020-01-02", None) == 18263 * DAY
    assert pattern.timestamp("2020-01-02Z", None) is None


def test_a_date_may_have_a_zone_and_a_time() -> None:
    assert TimePattern("yyyy-MM-dd HH:mmXXX").date("2020-01-02 23:59-05:00") == 18263


@pytest.mark.parametrize(
    "pattern",
    [
        "E", "u", "q", "Q", "w", "G yyyy", "n", "A", "B", "YYYY", "yyyyyyy", "MMMMM", "F", "'x", "v", "z", "SSSSSSSSSS",
        "DDDD", "HHH", "aa", "#", "yyyy]", "VVV", "XXXXXX", "OO",
    ],
)  # fmt: skip
def test_a_pattern_that_spark_or_we_do_not_read_is_refused(pattern: str) -> None:
    with pytest.raises(errors.ConfigError, match="pattern"):
        TimePattern(pattern)
