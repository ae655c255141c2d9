"""Schedules as data (ADR-51): a message that the server publishes later, or again and again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from jetspark.jetstream import header_names as names
from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.publish import schedule_at, schedule_every
from jetspark.jetstream.stored_message import StoredMessage
from jetspark.wire.headers import Headers

__all__ = ["Schedule", "schedule_text", "stored_schedule"]

_CRON_FIELDS: Final = 6
_CRON_NAMES: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule that a stream has."""

    subject: str
    """Its subject; a subject has one schedule at most."""
    schedule: str
    """When it publishes: `@at <time>`, `@every <duration>`, six cron fields, or a name such as `@hourly`."""
    target: str
    """Subject to which it publishes."""
    payload: bytes
    """Content of the messages."""
    headers: Headers
    """Headers, also those of the schedule."""
    revision: int
    """Sequence in the stream."""


def schedule_text(at: datetime | None, every: timedelta | None, cron: str | None, time_zone: str | None = None) -> str:
    """Return the value of the header `Nats-Schedule`.

    Raises
    ------
    ConfigError
        Not exactly one of the three is given, the time has no zone, the interval is below a second, the cron text has
        not six fields, or a time zone is given without it.
    """
    given = [name for name, value in (("at", at), ("every", every), ("cron", cron)) if value is not None]
    if len(given) != 1:
        raise ConfigError(f"a schedule takes one of at, every and cron, not {' and '.join(given) or 'none'}")
    if time_zone is not None and cron is None:
        raise ConfigError(f"time_zone is for cron; {given[0]} needs none")
    if at is not None:
        if at.utcoffset() is None:
            raise ConfigError(f"at has no time zone: {at.isoformat()}; add tzinfo=timezone.utc or another one")
        return schedule_at(at)
    if every is not None:
        return schedule_every(every)
    assert cron is not None
    if cron not in _CRON_NAMES and (cron.startswith("@") or len(cron.split()) != _CRON_FIELDS):
        raise ConfigError(
            f"cron has six fields (second, minute, hour, day, month, weekday) or is one of "
            f"{', '.join(sorted(_CRON_NAMES))}, not {cron!r}"
        )
    return cron


def stored_schedule(message: StoredMessage) -> Schedule | None:
    """Return the schedule that a stored message is; None for another message."""
    text = message.headers.get(names.SCHEDULE)
    if text is None:
        return None
    return Schedule(
        message.subject,
        text,
        message.headers.get(names.SCHEDULE_TARGET, "") or "",
        message.payload,
        message.headers,
        message.sequence,
    )
