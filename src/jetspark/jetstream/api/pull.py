"""The body of a pull.

A pull is not a request with one reply: messages and statuses come to an inbox, which `jetspark.engine` handles. So
there is no reply to read here. `jetspark.jetstream.status` has the meaning of the statuses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from typing import Final

from jetspark.jetstream.api.base import encode_fields
from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.names import API_PREFIX, check_consumer_name, check_stream_name
from jetspark.jetstream.times import format_go_duration
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.checked_fields import ChecksFields

__all__ = ["PullRequest"]

_MAX_PRIORITY: Final = 9


@checks_arguments()
@dataclass(frozen=True, slots=True)
class PullRequest(ChecksFields):
    """Ask a pull consumer for messages (ADR-13, ADR-42).

    The constructor raises ConfigError for values that the server would refuse or misread.
    """

    stream: str
    """Name of the stream."""
    consumer: str
    """Name of the consumer."""
    batch: int = 1
    """Maximum number of messages."""
    expires: timedelta | None = None
    """How long the server keeps the pull open; None keeps it open until it is complete."""
    no_wait: bool = False
    """Whether to end at once if there are no more messages; with `expires` the server still waits."""
    max_bytes: int | None = None
    """Maximum bytes of all messages together."""
    idle_heartbeat: timedelta | None = None
    """Time without a message after which the server sends a heartbeat; at most half of `expires`."""
    group: str | None = None
    """Priority group."""
    min_pending: int | None = None
    """Policy overflow: serve the pull only if at least so many messages are pending."""
    min_ack_pending: int | None = None
    """Policy overflow: serve the pull only if at least so many messages wait for acknowledgement."""
    id: str | None = None
    """Policy pinned client: its id, as last received."""
    priority: int | None = None
    """Policy prioritized: 0 (first) to 9."""

    def __post_init__(self) -> None:
        """Check names and options."""
        check_stream_name(self.stream)
        check_consumer_name(self.consumer)
        if self.batch < 1:
            raise ConfigError(f"batch of a pull must be at least 1, not {self.batch}")
        if self.max_bytes is not None and self.max_bytes < 1:
            raise ConfigError(f"max_bytes of a pull must be positive, not {self.max_bytes}")
        if self.priority is not None and not 0 <= self.priority <= _MAX_PRIORITY:
            raise ConfigError(f"priority of a pull must be 0 to {_MAX_PRIORITY}, not {self.priority}")
        if self.idle_heartbeat is not None and 2 * self.idle_heartbeat > (self.expires or timedelta()):
            expires = "no expires" if self.expires is None else f"expires {format_go_duration(self.expires)}"
            raise ConfigError(
                f"idle_heartbeat {format_go_duration(self.idle_heartbeat)} of a pull must be at most half of its "
                f"expires; the pull has {expires}"
            )

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return f"CONSUMER.MSG.NEXT.{self.stream}.{self.consumer}"

    def subject(self, prefix: str = API_PREFIX) -> str:
        """Return the subject to publish to."""
        return prefix + self.endpoint

    def shortened(self, expires: timedelta) -> PullRequest:
        """Return the pull with less time; it has no heartbeat if two of them do not fit."""
        fits = self.idle_heartbeat is not None and 2 * self.idle_heartbeat <= expires
        return replace(self, expires=expires, idle_heartbeat=self.idle_heartbeat if fits else None)

    def payload(self) -> bytes:
        """Return the request as JSON; never empty, as the server does not check an empty one."""
        return _payload(self)


@lru_cache(maxsize=128)
def _payload(request: PullRequest) -> bytes:
    """Return the request as JSON; cached, because the same pulls are sent often."""
    return encode_fields(
        batch=request.batch,
        expires=request.expires,
        no_wait=request.no_wait,
        max_bytes=request.max_bytes,
        idle_heartbeat=request.idle_heartbeat,
        group=request.group,
        min_pending=request.min_pending,
        min_ack_pending=request.min_ack_pending,
        id=request.id,
        priority=request.priority,
    )
