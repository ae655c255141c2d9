"""Time zones by Java's names."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from jetspark.payload.time_zones import offset_seconds, time_zone


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("+01:00", 3600),
        ("-0130", -5400),
        ("+5", 18_000),
        ("+1:00", 3600),
        ("+01:2", 3720),
        ("UTC+3", 10_800),
        ("GMT-03:30:15", -12_615),
        ("EST", -18_000),
        ("+18:00", 64_800),
    ],
)
def test_an_offset_is_a_time_zone(name: str, seconds: int) -> None:
    assert time_zone(name) == timezone(timedelta(seconds=seconds))


@pytest.mark.parametrize("name", ["Z", "UTC", "GMT", "UT"])
def test_utc_has_many_names(name: str) -> None:
    assert time_zone(name) is UTC


@pytest.mark.parametrize("name", ["", "+19:00", "+01:60", "Nowhere/City", "../etc/passwd", "right/UTC", "+1:0:0", "z"])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"no such time zone|no offset"):
        time_zone(name)


def test_a_local_time_that_does_not_exist_or_exists_twice_has_the_offset_before_the_change() -> None:
    berlin = time_zone("Europe/Berlin")
    assert offset_seconds(berlin, 18_714, 9000) == 3600  # 2021-03-28 02:30 does not exist
    assert offset_seconds(berlin, 18_931, 9000) == 7200  # 2021-10-31 02:30 exists twice


def test_years_that_python_does_not_know_have_an_offset() -> None:
    berlin = time_zone("Europe/Berlin")
    assert offset_seconds(berlin, 146_097 * 100 + 18_800, 0) == 7200
    assert offset_seconds(berlin, -146_097 * 100, 0) == 3208
