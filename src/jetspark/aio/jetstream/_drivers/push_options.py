"""Options of the driver of a push subscription."""

from dataclasses import dataclass

from jetspark.engine.push import ALARM_FACTOR, HeartbeatMonitor
from jetspark.engine.retry import create_backoff
from jetspark.wire.subscriptions import Overflow

__all__ = ["PushDriverOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PushDriverOptions:
    """Options of a push subscription's feed."""

    pending_msgs_limit: int | None = None
    """Most messages that wait; None: the connection's option, or the consumer's `max_ack_pending` if that is more."""
    pending_bytes_limit: int | None = None
    """Most bytes of them; None for 256 MiB."""
    overflow: Overflow = "drop"
    """Action when a limit is reached."""
    manage_status: bool = True
    """Whether statuses are handled here; otherwise the user gets them."""
    alarm_factor: float = ALARM_FACTOR
    """Heartbeat intervals without a message or heartbeat before an alarm."""
    max_reset_attempts: int | None = None
    """Most tries in a row to give an ordered subscription its next consumer; None for no limit."""

    def __post_init__(self) -> None:
        """Check the numbers before anything is sent. Raises ConfigError."""
        HeartbeatMonitor(0.0, self.alarm_factor)
        create_backoff(self.max_reset_attempts)
