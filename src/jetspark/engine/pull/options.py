"""Options of fetch and consume: the options of ADR-37 with their names, defaults and limits.

Times are seconds. Values that the server would refuse or misread are refused here before anything is sent.
`jetspark.jetstream.api.PullRequest` checks the body of the pull.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from typing import Final, TypedDict, Unpack

from jetspark.jetstream.api import PullRequest
from jetspark.jetstream.config import ConsumerConfig
from jetspark.jetstream.errors import ConfigError

__all__ = [
    "BYTES_PULL_BATCH",
    "ConsumeFields",
    "Priority",
    "PriorityFields",
    "PullOptions",
    "check_group",
    "consume_options",
    "fetch_options",
]

BYTES_PULL_BATCH: Final = 1_000_000
"""Batch of a pull that is limited by bytes: without a batch, the server sends a single message (FET-02, CNS-03)."""

DEFAULT_MAX_MESSAGES: Final = 500
DEFAULT_EXPIRES: Final = 30.0
SHORTEST_CONSUME: Final = 1.0
SHORTEST_HEARTBEAT: Final = 0.5
LONGEST_HEARTBEAT: Final = 30.0
FETCH_HEARTBEAT: Final = 5.0
"""Default heartbeat in seconds of a fetch that is longer than `DEFAULT_EXPIRES` or has no timeout (FET-03)."""
GRACE: Final = 1.0
"""Seconds that a fetch waits beyond `timeout` for the server's status (FET-04)."""
NO_WAIT_TIMEOUT: Final = 5.0
"""Seconds in which the server must answer a pull that does not wait."""


class PriorityFields(TypedDict, total=False):
    """Priority group options of each pull: the fields of `Priority`."""

    group: str | None
    min_pending: int | None
    min_ack_pending: int | None
    priority: int | None


class ConsumeFields(PriorityFields, total=False):
    """Options of `consume`; see `consume_options`."""

    max_messages: int | None
    max_bytes: int | None
    timeout: float
    idle_heartbeat: float | None
    threshold_messages: int | None
    threshold_bytes: int | None
    verify_on_reconnect: bool
    auto_in_progress: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """Priority of a pull in its priority group (ADR-42)."""

    group: str | None = None
    """Priority group."""
    min_pending: int | None = None
    """Policy overflow: serve the pull only if at least so many messages are pending."""
    min_ack_pending: int | None = None
    """Policy overflow: serve the pull only if at least so many messages wait for acknowledgement."""
    priority: int | None = None
    """Policy prioritized: 0 (first) to 9."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOptions:
    """Options with their defaults filled in. Created by `fetch_options` and `consume_options`."""

    max_messages: int
    """Maximum number of messages of the fetch, or in the buffer of consume."""
    max_bytes: int | None = None
    """Maximum of their bytes; if set, consume counts bytes instead of messages."""
    timeout: float | None = DEFAULT_EXPIRES
    """Seconds for which a pull stays open; None for a pull that does not wait."""
    idle_heartbeat: float | None = None
    """Seconds of silence after which the server sends a heartbeat."""
    threshold_messages: int = 0
    """Consume pulls again when fewer messages are pending."""
    threshold_bytes: int = 0
    """Consume pulls again when fewer bytes are pending."""
    is_consume: bool = False
    """Whether it is consume, which continues until it is stopped."""
    no_timeout: bool = False
    """Whether it is a fetch without a timeout, which sends one pull after the other."""
    priority: Priority = Priority()
    """Priority in a priority group."""
    verify_on_reconnect: bool = False
    """Whether to look up the consumer after a reconnect (revision 1 of ADR-37)."""
    auto_in_progress: bool = False
    """Whether to report messages that wait in the buffer or are being processed as in progress."""

    @property
    def wait_limit(self) -> float | None:
        """Timeout of a fetch in seconds, for messages or at least for an answer; None for no timeout."""
        if self.is_consume or self.no_timeout:
            return None
        return NO_WAIT_TIMEOUT if self.timeout is None else self.timeout

    def deadline(self, began: float) -> float | None:
        """Return when a fetch that began at `began` times out; None for no timeout (FET-04)."""
        limit = self.wait_limit
        if limit is None:
            return None
        return began + limit + (0.0 if self.timeout is None else GRACE)

    def remaining(self, count: int, size: int = 0) -> PullOptions | None:
        """Return the options for the rest of a fetch that already has `count` messages, None if nothing is left.

        A fetch by bytes without a timeout waits without a timeout only while it has no message.
        """
        if not count:
            return self
        messages = self.max_messages - count
        if self.max_bytes is None:
            return replace(self, max_messages=messages) if messages > 0 else None
        left = self.max_bytes - size
        more = messages > 0 and left > 0
        return replace(self, max_messages=messages, max_bytes=left, no_timeout=False) if more else None

    def template(self, stream: str, consumer: str) -> PullRequest:
        """Return the first pull.

        Raises
        ------
        ConfigError, BadNameError
            The server would refuse the pull.
        """
        return _template(self, stream, consumer)


def fetch_options(
    max_messages: int | None = None,
    *,
    max_bytes: int | None = None,
    timeout: float | None = DEFAULT_EXPIRES,
    idle_heartbeat: float | None = None,
    no_wait: bool = False,
    **priority: Unpack[PriorityFields],
) -> PullOptions:
    """Return the options of `fetch`, `fetch_bytes`, `fetch_no_wait` and `next` (FET-01 to FET-09).

    Parameters
    ----------
    timeout
        Timeout in seconds; None has no timeout.

    Raises
    ------
    ConfigError
        Neither `max_messages` nor `max_bytes` is given, or a value is not valid.
    """
    if max_messages is None and max_bytes is None:
        raise ConfigError("a fetch needs max_messages or max_bytes")
    endless = timeout is None and not no_wait
    seconds = DEFAULT_EXPIRES if timeout is None else timeout
    if seconds <= 0:
        raise ConfigError(
            f"timeout of a fetch must be positive, not {seconds:g} s; use fetch_no_wait to fetch without waiting"
        )
    if idle_heartbeat is None and (endless or seconds > DEFAULT_EXPIRES):
        idle_heartbeat = FETCH_HEARTBEAT
    return PullOptions(
        max_messages=BYTES_PULL_BATCH if max_messages is None else max_messages,
        max_bytes=max_bytes,
        timeout=None if no_wait else seconds,
        idle_heartbeat=None if no_wait else idle_heartbeat,
        no_timeout=endless,
        priority=Priority(**priority),
    )


def consume_options(
    *,
    max_messages: int | None = None,
    max_bytes: int | None = None,
    timeout: float = DEFAULT_EXPIRES,
    idle_heartbeat: float | None = None,
    threshold_messages: int | None = None,
    threshold_bytes: int | None = None,
    verify_on_reconnect: bool = False,
    auto_in_progress: bool = False,
    **priority: Unpack[PriorityFields],
) -> PullOptions:
    """Return the options of `consume` (CNS-01 to CNS-03).

    Parameters
    ----------
    max_messages
        Maximum number of messages in the buffer, 500 by default unless `max_bytes` is given. Messages that wait there
        longer than the consumer's `ack_wait` are redelivered (R26). So use a small number for slow handlers, or
        `auto_in_progress`.
    max_bytes
        Limit of the buffer in bytes instead, as the server counts them: subject, ack subject, headers and payload.
    timeout
        Seconds that the server keeps each pull open, at least 1.
    idle_heartbeat
        Seconds of silence after which the server sends a heartbeat: 0.5 to 30, at most half of `timeout`. The default
        is half of `timeout`, at most 30. After twice that time without anything, consume warns and sends a new pull.
    threshold_messages, threshold_bytes
        Pull again when less than this is pending. The default is half of the limit, rounded up.
    verify_on_reconnect
        Look up the consumer after a reconnect, and end with an error if it is gone (revision 1 of ADR-37). By default
        there is no look-up, and consume continues with a consumer created again under the same name (REC-05, REC-06).
    auto_in_progress
        Send `in_progress` for the messages in the buffer and for the current message of the callback or of each
        iterator, three times within the consumer's `ack_wait`, so that they are not redelivered meanwhile (R26). A
        message is current until the next one is requested from its iterator. After that, it is redelivered if it was
        not acknowledged. With this option, the server does not redeliver a message whose handler hangs. It has no
        effect if the consumer needs no acknowledgements.
    group, min_pending, min_ack_pending, priority
        Priority group, and the priority in it (ADR-42).

    Raises
    ------
    ConfigError
        `max_messages` and `max_bytes` are both given, a threshold is above its limit, `timeout` is below a second, or
        the heartbeat is outside of 0.5 to 30 s or above half of `timeout`.
    """
    if max_messages is not None and max_bytes is not None:
        raise ConfigError("consume takes max_messages or max_bytes, not both")
    if timeout < SHORTEST_CONSUME:
        raise ConfigError(f"timeout of consume must be at least {SHORTEST_CONSUME:g} s, not {timeout:g} s")
    heartbeat = min(timeout / 2, LONGEST_HEARTBEAT) if idle_heartbeat is None else idle_heartbeat
    if not SHORTEST_HEARTBEAT <= heartbeat <= min(LONGEST_HEARTBEAT, timeout / 2):
        raise ConfigError(
            f"idle_heartbeat of consume must be {SHORTEST_HEARTBEAT:g} to {LONGEST_HEARTBEAT:g} s and at most half of "
            f"timeout ({timeout:g} s); it is {heartbeat:g} s"
        )
    limit = DEFAULT_MAX_MESSAGES if max_messages is None else max_messages
    most = limit if max_bytes is None else BYTES_PULL_BATCH
    if threshold_bytes is not None and max_bytes is None:
        raise ConfigError("threshold_bytes needs max_bytes")
    if threshold_messages is not None and max_bytes is not None:
        raise ConfigError("threshold_messages cannot be combined with max_bytes; use threshold_bytes")
    return PullOptions(
        max_messages=most,
        max_bytes=max_bytes,
        timeout=timeout,
        idle_heartbeat=heartbeat,
        threshold_messages=_threshold("messages", threshold_messages, most),
        threshold_bytes=_threshold("bytes", threshold_bytes, max_bytes or 0),
        is_consume=True,
        priority=Priority(**priority),
        verify_on_reconnect=verify_on_reconnect,
        auto_in_progress=auto_in_progress,
    )


def check_group(config: ConsumerConfig | None, priority: Priority) -> None:
    """Check the priority group against the consumer's, as far as its configuration is known (PRI-02).

    Raises
    ------
    ConfigError
        The consumer has groups and none is given, or it does not have the given one.
    """
    if config is None:
        return
    groups = config.priority_groups or []
    if priority.group is None and groups:
        raise ConfigError(f"the consumer has priority groups; set `group` to one of them: {', '.join(groups)}")
    if priority.group is not None and priority.group not in groups:
        known = f"it has {', '.join(groups)}" if groups else "it has none"
        raise ConfigError(f"the consumer has no priority group {priority.group!r}; {known}")


@lru_cache(maxsize=128)
def _template(options: PullOptions, stream: str, consumer: str) -> PullRequest:
    """Return the first pull; cached, because many calls have the same options."""
    place = options.priority
    return PullRequest(
        stream,
        consumer,
        batch=options.max_messages,
        expires=None if options.timeout is None else timedelta(seconds=options.timeout),
        no_wait=options.timeout is None,
        max_bytes=options.max_bytes,
        idle_heartbeat=None if options.idle_heartbeat is None else timedelta(seconds=options.idle_heartbeat),
        group=place.group,
        min_pending=place.min_pending,
        min_ack_pending=place.min_ack_pending,
        priority=place.priority,
    )


def _threshold(what: str, threshold: int | None, limit: int) -> int:
    if threshold is None:
        return -(-limit // 2)
    if not 1 <= threshold <= limit:
        raise ConfigError(f"threshold_{what} must be from 1 to max_{what} ({limit}); it is {threshold}")
    return threshold
