"""The text of a schedule, without a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from jetspark.errors import ConfigError
from jetspark.jetstream import StoredMessage
from jetspark.jetstream.schedule import schedule_text, stored_schedule
from jetspark.wire.headers import Headers

NOON = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.conformance("SCH-02")
def test_a_time_an_interval_or_cron_fields() -> None:
    assert schedule_text(NOON, None, None) == "@at 2026-05-01T10:00:00Z"
    assert schedule_text(NOON.replace(microsecond=250_000), None, None) == "@at 2026-05-01T10:00:00.25Z"
    assert schedule_text(None, timedelta(minutes=90), None) == "@every 1h30m0s"
    assert schedule_text(None, None, "0 30 14 * * *", "Europe/Berlin") == "0 30 14 * * *"
    assert schedule_text(None, None, "@hourly") == "@hourly"


@pytest.mark.conformance("SCH-02", "SCH-03")
@pytest.mark.parametrize(
    "arguments",
    [
        (None, None, None),
        (NOON, timedelta(hours=1), None),
        (NOON, None, "@hourly"),
        (datetime(2026, 5, 1, 12), None, None),  # noqa: DTZ001 (it is refused)
        (None, timedelta(milliseconds=999), None),
        (None, timedelta(0), None),
        (None, None, "30 14 * * *"),
        (None, None, "@sometimes"),
        (None, None, ""),
        (None, timedelta(hours=1), None, "Europe/Berlin"),
        (NOON, None, None, "Europe/Berlin"),
    ],
)
def test_anything_else_is_refused(arguments: tuple[None, ...]) -> None:
    with pytest.raises(ConfigError):
        schedule_text(*arguments)


@pytest.mark.conformance("SCH-07")
def test_only_messages_with_the_header_are_schedules() -> None:
    headers = Headers([("Nats-Schedule", "@hourly"), ("Nats-Schedule-Target", "t")])
    time = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    found = stored_schedule(StoredMessage("S", "s.a", 3, time, headers, b"x"))
    assert found is not None
    assert (found.subject, found.schedule, found.target, found.payload, found.revision) == (
        "s.a",
        "@hourly",
        "t",
        b"x",
        3,
    )
    assert stored_schedule(StoredMessage("S", "s.a", 3, time, Headers(), b"x")) is None
