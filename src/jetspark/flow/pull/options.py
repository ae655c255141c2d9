"""What a fetch or a consume is asked for: the options of ADR-37 with their names, defaults and limits.

Times are seconds. Whatever the server would refuse, or would take for something else, is refused here before anything
is sent; the body of the pull itself is checked by `jetspark.jetstream.api.PullRequest`.
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
    "MAX_BATCH",
    "ConsumeFields",
    "Priority",
    "PriorityFields",
    "PullOptions",
    "check_group",
    "consume_options",
    "fetch_options",
]

MAX_BATCH: Final = 1_000_000
"""Batch of a pull that is limited by bytes: the server takes a missing one as a single message (FET-02, CNS-03)."""

DEFAULT_MAX_MESSAGES: Final = 500
DEFAULT_EXPIRES: Final = 30.0
SHORTEST_CONSUME: Final = 1.0
SHORTEST_HEARTBEAT: Final = 0.5
LONGEST_HEARTBEAT: Final = 30.0
FETCH_HEARTBEAT: Final = 5.0
"""Heartbeat of a fetch that says nothing of it and lasts longer than `DEFAULT_EXPIRES` (FET-03)."""
GRACE: Final = 1.0
"""Seconds that a fetch waits beyond `expires` for the server's word (FET-04)."""
NO_WAIT_PATIENCE: Final = 5.0
"""Seconds in which the server must answer a pull that does not wait."""


class PriorityFields(TypedDict, total=False):
    """What each pull may say of its priority group: the fields of `Priority`."""

    group: str | None
    min_pending: int | None
    min_ack_pending: int | None
    priority: int | None


class ConsumeFields(PriorityFields, total=False):
    """Options of `consume`; see `consume_options`."""

    max_messages: int | None
    max_bytes: int | None
    expires: float
    idle_heartbeat: float | None
    threshold_messages: int | None
    threshold_bytes: int | None
    verify_on_reconnect: bool
    auto_in_progress: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """How a pull stands among those of its priority group (ADR-42)."""

    group: str | None = None
    """Priority group."""
    min_pending: int | None = None
    """Overflow: serve only when so many messages are pending."""
    min_ack_pending: int | None = None
    """Overflow: serve only when so many messages wait for acknowledgement."""
    priority: int | None = None
    """Prioritized: 0 (first) to 9."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOptions:
    """Options with their defaults filled in. Made by `fetch_options` and `consume_options`."""

    max_messages: int
    """Most messages: of the fetch, or in the buffer of consume."""
    max_bytes: int | None = None
    """Most bytes of the same; with it, consume counts bytes instead of messages."""
    expires: float | None = DEFAULT_EXPIRES
    """Seconds for which a pull stays open; None for a pull that does not wait."""
    idle_heartbeat: float | None = None
    """Seconds of silence after which the server sends a heartbeat."""
    threshold_messages: int = 0
    """Consume pulls again when fewer messages than that are pending."""
    threshold_bytes: int = 0
    """The same in bytes."""
    repeats: bool = False
    """It is consume: it goes on until it is stopped."""
    endless: bool = False
    """A fetch that waits without a limit, by one pull after the other."""
    priority: Priority = Priority()
    """Place within a priority group."""
    verify_on_reconnect: bool = False
    """Look the consumer up after a reconnect (revision 1 of ADR-37)."""
    auto_in_progress: bool = False
    """Report what waits in the buffer, and what is worked on, as in progress."""

    @property
    def patience(self) -> float | None:
        """Seconds that a fetch waits for messages, or at least for an answer; None for no limit."""
        if self.repeats or self.endless:
            return None
        return NO_WAIT_PATIENCE if self.expires is None else self.expires

    def deadline(self, began: float) -> float | None:
        """When a fetch that began then gives up, None for no time at all (FET-04)."""
        patience = self.patience
        if patience is None:
            return None
        return began + patience + (0.0 if self.expires is None else GRACE)

    def after(self, count: int, size: int = 0) -> PullOptions | None:
        """The options for what is left of a fetch when so much is there already, None where that is nothing.

        One that waits without a limit for bytes does so only while it has nothing.
        """
        if not count:
            return self
        messages = self.max_messages - count
        if self.max_bytes is None:
            return replace(self, max_messages=messages) if messages > 0 else None
        left = self.max_bytes - size
        more = messages > 0 and left > 0
        return replace(self, max_messages=messages, max_bytes=left, endless=False) if more else None

    def template(self, stream: str, consumer: str) -> PullRequest:
        """The first pull.

        Raises
        ------
        ConfigError, BadNameError
            The server would refuse it.
        """
        return _template(self, stream, consumer)


def fetch_options(
    max_messages: int | None = None,
    *,
    max_bytes: int | None = None,
    expires: float | None = DEFAULT_EXPIRES,
    idle_heartbeat: float | None = None,
    no_wait: bool = False,
    **priority: Unpack[PriorityFields],
) -> PullOptions:
    """Options of `fetch`, `fetch_bytes`, `fetch_no_wait` and `next` (FET-01 to FET-09).

    Parameters
    ----------
    expires
        Seconds; None waits without a limit.

    Raises
    ------
    ConfigError
        Neither `max_messages` nor `max_bytes` is given, or a value makes no sense.
    """
    if max_messages is None and max_bytes is None:
        raise ConfigError("a fetch needs max_messages or max_bytes")
    endless = expires is None and not no_wait
    seconds = DEFAULT_EXPIRES if expires is None else expires
    if seconds <= 0:
        raise ConfigError(f"expires of a fetch must be positive, not {seconds:g} s; fetch_no_wait does not wait")
    if idle_heartbeat is None and (endless or seconds > DEFAULT_EXPIRES):
        idle_heartbeat = FETCH_HEARTBEAT
    return PullOptions(
        max_messages=MAX_BATCH if max_messages is None else max_messages,
        max_bytes=max_bytes,
        expires=None if no_wait else seconds,
        idle_heartbeat=None if no_wait else idle_heartbeat,
        endless=endless,
        priority=Priority(**priority),
    )


def consume_options(
    *,
    max_messages: int | None = None,
    max_bytes: int | None = None,
    expires: float = DEFAULT_EXPIRES,
    idle_heartbeat: float | None = None,
    threshold_messages: int | None = None,
    threshold_bytes: int | None = None,
    verify_on_reconnect: bool = False,
    auto_in_progress: bool = False,
    **priority: Unpack[PriorityFields],
) -> PullOptions:
    """Options of `consume` (CNS-01 to CNS-03).

    Parameters
    ----------
    max_messages
        Messages in the buffer, which were delivered and wait: 500, unless `max_bytes` is given. What waits there longer
        than the consumer's `ack_wait` is delivered again (R26), so slow handlers want few, or `auto_in_progress`.
    max_bytes
        Limit of the buffer in bytes instead, as the server counts them: subject, ack subject, headers and payload.
    expires
        Seconds that the server keeps each pull open, at least 1.
    idle_heartbeat
        Seconds of silence after which the server sends a heartbeat: 0.5 to 30, at most half of `expires`, which is the
        default. Silence for twice that time is a warning, and a new pull is sent.
    threshold_messages, threshold_bytes
        Pull again when less than that is pending. Half of the limit, rounded up.
    verify_on_reconnect
        Look the consumer up after a reconnect, and end with an error when it is gone, as revision 1 of ADR-37 has it.
        By default it is not looked up, and one that is made anew under its name is picked up (REC-05, REC-06).
    auto_in_progress
        Say `in_progress` of the messages in the buffer, and of the one that the callback, or each iterator, is at,
        three times within the consumer's `ack_wait`, so that none of them is delivered again meanwhile (R26). An
        iterator is at a message until it is asked for the next. A message that was left without an acknowledgement is
        delivered again. The server then no longer takes a message from a handler that hangs. Does nothing where the
        consumer wants no acknowledgements.
    group, min_pending, min_ack_pending, priority
        Priority group, and the place within it (ADR-42).

    Raises
    ------
    ConfigError
        `max_messages` and `max_bytes` together, a threshold above its limit, `expires` below a second, a heartbeat
        outside of 0.5 to 30 s or above half of `expires`.
    """
    if max_messages is not None and max_bytes is not None:
        raise ConfigError("consume takes max_messages or max_bytes, not both")
    if expires < SHORTEST_CONSUME:
        raise ConfigError(f"expires of consume must be at least {SHORTEST_CONSUME:g} s, not {expires:g} s")
    heartbeat = min(expires / 2, LONGEST_HEARTBEAT) if idle_heartbeat is None else idle_heartbeat
    if not SHORTEST_HEARTBEAT <= heartbeat <= min(LONGEST_HEARTBEAT, expires / 2):
        raise ConfigError(
            f"idle_heartbeat of consume must be {SHORTEST_HEARTBEAT:g} to {LONGEST_HEARTBEAT:g} s and at most half of "
            f"expires, {expires:g} s; it is {heartbeat:g} s"
        )
    limit = DEFAULT_MAX_MESSAGES if max_messages is None else max_messages
    most = limit if max_bytes is None else MAX_BATCH
    if threshold_bytes is not None and max_bytes is None:
        raise ConfigError("threshold_bytes needs max_bytes")
    if threshold_messages is not None and max_bytes is not None:
        raise ConfigError("threshold_messages does not go with max_bytes; give threshold_bytes")
    return PullOptions(
        max_messages=most,
        max_bytes=max_bytes,
        expires=expires,
        idle_heartbeat=heartbeat,
        threshold_messages=_threshold("messages", threshold_messages, most),
        threshold_bytes=_threshold("bytes", threshold_bytes, max_bytes or 0),
        repeats=True,
        priority=Priority(**priority),
        verify_on_reconnect=verify_on_reconnect,
        auto_in_progress=auto_in_progress,
    )


def check_group(config: ConsumerConfig | None, priority: Priority) -> None:
    """Check the priority group against the consumer's, as far as its configuration is known (PRI-02).

    Raises
    ------
    ConfigError
        The consumer has groups and none was named, or it does not have the one named.
    """
    if config is None:
        return
    groups = config.priority_groups or []
    if priority.group is None and groups:
        raise ConfigError(f"the consumer has priority groups; name one of them as `group`: {', '.join(groups)}")
    if priority.group is not None and priority.group not in groups:
        known = f"it has {', '.join(groups)}" if groups else "it has none"
        raise ConfigError(f"the consumer has no priority group {priority.group!r}; {known}")


@lru_cache(maxsize=128)
def _template(options: PullOptions, stream: str, consumer: str) -> PullRequest:
    """Kept, as one call after the other is made with the same options."""
    place = options.priority
    return PullRequest(
        stream,
        consumer,
        batch=options.max_messages,
        expires=None if options.expires is None else timedelta(seconds=options.expires),
        no_wait=options.expires is None,
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
        raise ConfigError(f"threshold_{what} must be 1 to {limit}, which is max_{what}; it is {threshold}")
    return threshold
