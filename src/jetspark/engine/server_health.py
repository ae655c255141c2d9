"""When a connection leaves a server whose JetStream does not serve. The caller passes the time, and asks the server.

A server that is cut off from its cluster keeps its clients. It answers PING, but its JetStream is silent, then says
that it is unavailable. A silent stream alone is no proof: the stream may have lost its quorum, which another server
does not mend. So a sign of trouble only starts a check: the client asks for the account's information, which the leader
of the whole JetStream cluster answers through each server that is in contact with it. The connection leaves if no such
answer comes for `LEAVE_AFTER` seconds, and never because of the first sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from jetspark.engine.retry import ExponentialBackoff
from jetspark.jetstream.errors import (
    APIError,
    Error,
    JetStreamNotEnabledError,
    JetStreamNotEnabledForAccountError,
    JetStreamUnavailableError,
    MissedHeartbeatError,
    NoRespondersError,
    RequestTimeoutError,
)

__all__ = [
    "LEAVE_AFTER",
    "PROBE_TIMEOUT",
    "SUSPECT_AFTER",
    "EndCheck",
    "LeaveServer",
    "ProbeAgain",
    "ProbeResult",
    "ServerHealth",
    "is_sign_of_trouble",
    "result_of_error",
    "worst_result",
]

SUSPECT_AFTER: Final = 2.5
"""Seconds without an answer after which a request or a publish is a sign of trouble."""
PROBE_TIMEOUT: Final = 2.0
"""Seconds to wait for the answer to a probe."""
LEAVE_AFTER: Final = 7.0
"""Seconds of trouble after which a server is left. Most elections in a healthy cluster are over by then."""
PROBE_INTERVAL: Final = 1.0
"""Seconds between an answer that says that JetStream is unavailable and the next probe."""
HEALTHY_FOR: Final = 5.0
"""Seconds after a good answer in which there is no other check."""
SHORTEST_WAIT: Final = 5.0
LONGEST_WAIT: Final = 300.0
"""First and longest wait in seconds before a server is left again. A cluster that is down as a whole would otherwise
make its clients go from server to server."""


class ProbeResult(Enum):
    """Result of a probe."""

    ANSWERED = auto()
    """The server is in contact with its JetStream cluster."""
    UNAVAILABLE = auto()
    """The server says that JetStream is unavailable."""
    CUT_OFF = auto()
    """The server answers, but has lost most of its cluster: a leader that is cut off answers for some seconds more."""
    SILENT = auto()
    """The server has received the probe and does not answer it."""
    UNKNOWN = auto()
    """The probe may not have arrived, or the answer could not be read: the network or this program is slow."""
    REFUSED = auto()
    """The probe cannot say anything about this server, such as without the permission for it."""


_BY_WEIGHT: Final = (
    ProbeResult.CUT_OFF,
    ProbeResult.SILENT,
    ProbeResult.UNAVAILABLE,
    ProbeResult.UNKNOWN,
    ProbeResult.ANSWERED,
    ProbeResult.REFUSED,
)

_REASONS: Final = {
    ProbeResult.UNAVAILABLE: "JetStream is unavailable on this server",
    ProbeResult.CUT_OFF: "this server has lost most of its cluster",
    ProbeResult.SILENT: "JetStream is silent on this server",
}


@dataclass(frozen=True, slots=True)
class ProbeAgain:
    """Probe again after `delay` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class LeaveServer:
    """Leave the server; probe the next one."""

    reason: str


@dataclass(frozen=True, slots=True)
class EndCheck:
    """The check is over."""


class ServerHealth:
    """The state of the checks of one connection.

    Attributes
    ----------
    checking
        Whether a check is in progress.
    """

    def __init__(self) -> None:
        self.checking = False
        self._since = 0.0  # begin of the trouble
        self._quiet_until = 0.0  # no check before that time
        self._not_before = 0.0  # no server is left before that time
        self._backoff = ExponentialBackoff(SHORTEST_WAIT, LONGEST_WAIT)

    def suspect(self, now: float, since: float | None = None) -> bool:
        """Handle a sign of trouble that began at `since`; return whether to start a check."""
        if self.checking or now < self._quiet_until:
            return False
        self.checking = True
        self._since = now if since is None else since
        return True

    def lost_cluster(self) -> None:
        """Note that the server reports the loss of its cluster: an earlier good answer says nothing any more."""
        self._quiet_until = 0.0

    def probed(self, now: float, result: ProbeResult, *, others_known: bool) -> ProbeAgain | LeaveServer | EndCheck:
        """Handle the result of a probe. `others_known` says whether there is another server to go to."""
        if result is ProbeResult.ANSWERED:
            self._backoff.reset()
            self._not_before = 0.0
        if result in {ProbeResult.ANSWERED, ProbeResult.REFUSED} or not others_known:
            self.stop(now)
            return EndCheck()
        if result is ProbeResult.UNKNOWN:
            return ProbeAgain(PROBE_INTERVAL)
        due = max(self._since + LEAVE_AFTER, self._not_before)
        if now < due:
            # At least one more probe is asked before the server is left.
            wait = 0.0 if result is ProbeResult.SILENT else PROBE_INTERVAL
            return ProbeAgain(max(wait, self._not_before - PROBE_TIMEOUT - now))
        delay = self._backoff.next_delay(now)
        assert delay is not None  # it has no limit
        self._since = now  # the trouble of the next server
        self._not_before = now + delay
        return LeaveServer(_REASONS[result])

    def stop(self, now: float) -> None:
        """End the check."""
        self.checking = False
        self._quiet_until = now + HEALTHY_FOR


def worst_result(results: Sequence[ProbeResult]) -> ProbeResult:
    """Return the result for the server. Each of the prefixes that a program uses was probed; one may be wrong."""
    return min(results, key=_BY_WEIGHT.index, default=ProbeResult.REFUSED)


def is_sign_of_trouble(error: BaseException | None) -> bool:
    """Return whether an error of a JetStream call may mean that JetStream is away on this server."""
    if isinstance(error, JetStreamNotEnabledForAccountError):
        return False
    signs = (
        JetStreamUnavailableError,
        JetStreamNotEnabledError,
        MissedHeartbeatError,
        NoRespondersError,
        RequestTimeoutError,
    )
    return isinstance(error, signs)


def result_of_error(error: Error, *, read_by_server: bool, answered_before: bool) -> ProbeResult:
    """Return the result of a probe that failed.

    Parameters
    ----------
    read_by_server
        Whether the server has read the probe, or has sent nothing at all since.
    answered_before
        Whether JetStream has answered on this connection before. Otherwise nobody listens because of the settings.
    """
    if isinstance(error, RequestTimeoutError):
        return ProbeResult.SILENT if read_by_server else ProbeResult.UNKNOWN
    if isinstance(error, JetStreamNotEnabledForAccountError):
        return ProbeResult.ANSWERED
    if isinstance(error, JetStreamUnavailableError):
        return ProbeResult.UNAVAILABLE
    if isinstance(error, JetStreamNotEnabledError | NoRespondersError):
        return ProbeResult.UNAVAILABLE if answered_before else ProbeResult.REFUSED
    return ProbeResult.ANSWERED if isinstance(error, APIError) else ProbeResult.REFUSED
