"""Meaning of the status messages of a pull: one table, and one function that searches it.

A consumer ends a pull, or reports on it, by a message with an inline status (ADR-13, ADR-37). The code is compared
first, then the description, case-insensitively and by "contains", because some descriptions have a reason or a limit
after the fixed words. All code that handles a status calls `classify`; no other place compares texts.

`fetch` and `next` are one pull, so each status except heartbeats and flow control ends them, with or without an error.
`consume` continues unless the status is permanent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from jetspark.jetstream.errors import (
    BadPullRequestError,
    ConsumerDeletedError,
    ConsumerIsPushError,
    LeadershipChangeError,
    MessageExceedsMaxBytesError,
    NoConsumerResponseError,
    PinIdMismatchError,
    PullLimitExceededError,
    ServerShutdownError,
    StatusError,
)

__all__ = ["STATUS_RULES", "ConsumeEffect", "FetchEffect", "StatusRule", "StatusSeverity", "classify"]


class StatusSeverity(Enum):
    """How serious a status is (ADR-37)."""

    CONTROL = "control"
    """Not about a pull's messages: heartbeat and flow control."""
    SILENT = "silent"
    """A normal end, which is not reported to the user."""
    WARNING = "warning"
    """Reported to the user; consuming can continue."""
    ERROR = "error"
    """Reported to the user; the cause is not expected to go away by itself."""


class FetchEffect(Enum):
    """Effect on `fetch` and `next`."""

    IGNORE = "ignore"
    TIMER = "timer"
    """Only restart the heartbeat timer."""
    END = "end"
    """End with the received messages."""
    END_WITH_ERROR = "end with error"
    """End; the error is raised after the received messages."""


class ConsumeEffect(Enum):
    """Effect on `consume`."""

    IGNORE = "ignore"
    TIMER = "timer"
    """Only restart the heartbeat timer."""
    PULL = "pull"
    """Pull again if a pull is due."""
    WARN_AND_PULL = "warn and pull"
    """Warn the user, then pull again if a pull is due."""
    WARN = "warn"
    """Warn the user; the open pull may not have ended."""
    END = "end"
    """End with the error."""


@dataclass(frozen=True, slots=True)
class StatusRule:
    """One line of the table."""

    id: str
    """Id of the requirement that it fulfils."""
    code: int | None
    """Code; None in the line for all other codes."""
    contains: str
    """Text that the description must contain, in lower case; empty for any."""
    severity: StatusSeverity
    """How serious it is."""
    fetch: FetchEffect
    """Effect on `fetch` and `next`."""
    consume: ConsumeEffect
    """Effect on `consume`."""
    has_pending: bool = False
    """Whether it has Nats-Pending-Messages and -Bytes: the messages and bytes that the pull did not get. Without these
    headers, the status of an ended pull does not say how many they are."""
    delays_next_pull: bool = False
    """Whether a new pull would probably get the same answer: wait before it, unless messages came meanwhile."""
    message_too_large: bool = False
    """Whether the next message is larger than the rest of the pull. If a pull for all of `max_bytes` got no message,
    consume makes no progress: the user is warned, although the status is silent."""
    ends_all_pulls: bool = False
    """Whether all pulls of the consumer have ended, not only the one it came for."""
    clears_pin: bool = False
    """Whether the id of the pinned client is no longer valid."""
    error: type[StatusError] = StatusError
    """Class of the error or warning for the user."""

    @property
    def ends_pull(self) -> bool:
        """Whether the pull has ended."""
        return self.consume in {ConsumeEffect.PULL, ConsumeEffect.WARN_AND_PULL, ConsumeEffect.END}

    def make_error(self, code: int, description: str = "", *, where: str = "") -> StatusError:
        """Return the error for a status that this line matched."""
        return self.error(code, description, where=where)


_C, _F, _K = ConsumeEffect, FetchEffect, StatusSeverity

# The first matching line of a code counts, so the line for any description comes last.
STATUS_RULES: Final[tuple[StatusRule, ...]] = (
    StatusRule("STA-02", 100, "flowcontrol request", _K.CONTROL, _F.IGNORE, _C.IGNORE),
    StatusRule("STA-01", 100, "", _K.CONTROL, _F.TIMER, _C.TIMER),
    StatusRule("STA-03", 400, "", _K.ERROR, _F.END_WITH_ERROR, _C.END, error=BadPullRequestError),
    StatusRule("STA-04", 404, "", _K.SILENT, _F.END, _C.PULL),
    StatusRule("STA-06", 408, "requests pending", _K.SILENT, _F.END, _C.PULL),
    StatusRule("STA-07", 408, "interest expired", _K.SILENT, _F.END, _C.PULL, has_pending=True),
    StatusRule("STA-05", 408, "", _K.SILENT, _F.END, _C.PULL, has_pending=True),
    StatusRule(
        "STA-08",
        409,
        "message size exceeds maxbytes",
        _K.SILENT,
        _F.END,
        _C.PULL,
        has_pending=True,
        delays_next_pull=True,
        message_too_large=True,
        error=MessageExceedsMaxBytesError,
    ),
    StatusRule("STA-09", 409, "batch completed", _K.SILENT, _F.END, _C.PULL, has_pending=True),
    StatusRule(
        "STA-10",
        409,
        "exceeded maxrequestbatch",
        _K.WARNING,
        _F.END_WITH_ERROR,
        _C.WARN_AND_PULL,
        delays_next_pull=True,
        error=PullLimitExceededError,
    ),
    StatusRule(
        "STA-11",
        409,
        "exceeded maxrequestexpires",
        _K.WARNING,
        _F.END_WITH_ERROR,
        _C.WARN_AND_PULL,
        delays_next_pull=True,
        error=PullLimitExceededError,
    ),
    StatusRule(
        "STA-12",
        409,
        "exceeded max",  # MaxRequestMaxBytes and MaxWaiting
        _K.WARNING,
        _F.END_WITH_ERROR,
        _C.WARN_AND_PULL,
        delays_next_pull=True,
        error=PullLimitExceededError,
    ),
    StatusRule(
        "STA-13",
        409,
        "leadership change",
        _K.WARNING,
        _F.END_WITH_ERROR,
        _C.WARN_AND_PULL,
        ends_all_pulls=True,
        error=LeadershipChangeError,
    ),
    StatusRule("STA-14", 409, "consumer deleted", _K.ERROR, _F.END_WITH_ERROR, _C.END, error=ConsumerDeletedError),
    StatusRule("STA-15", 409, "consumer is push based", _K.ERROR, _F.END_WITH_ERROR, _C.END, error=ConsumerIsPushError),
    StatusRule(
        "STA-16",
        409,
        "server shutdown",
        _K.WARNING,
        _F.END_WITH_ERROR,
        _C.WARN_AND_PULL,
        has_pending=True,
        delays_next_pull=True,
        error=ServerShutdownError,
    ),
    StatusRule("STA-21", 409, "", _K.ERROR, _F.END_WITH_ERROR, _C.WARN),
    StatusRule(
        "STA-17",
        423,
        "nats-wrong-pin-id",
        _K.SILENT,
        _F.END,
        _C.PULL,
        has_pending=True,
        clears_pin=True,
        error=PinIdMismatchError,
    ),
    StatusRule("STA-18", 423, "", _K.SILENT, _F.END, _C.PULL, clears_pin=True, error=PinIdMismatchError),
    StatusRule("STA-19", 412, "", _K.ERROR, _F.END_WITH_ERROR, _C.WARN_AND_PULL, delays_next_pull=True),
    StatusRule(
        "STA-20",
        503,
        "",
        _K.ERROR,
        _F.END_WITH_ERROR,
        _C.WARN_AND_PULL,
        delays_next_pull=True,
        ends_all_pulls=True,
        error=NoConsumerResponseError,
    ),
    StatusRule("STA-21", None, "", _K.ERROR, _F.END_WITH_ERROR, _C.WARN),
)

_BY_CODE: Final[dict[int | None, tuple[StatusRule, ...]]] = {
    code: tuple(rule for rule in STATUS_RULES if rule.code == code) for code in {rule.code for rule in STATUS_RULES}
}


def classify(code: int, description: str = "") -> StatusRule:
    """Return the line of the table for a status. All unknown codes share one line."""
    rules = _BY_CODE.get(code) or _BY_CODE[None]
    text = description.lower()
    return next(rule for rule in rules if rule.contains in text)
