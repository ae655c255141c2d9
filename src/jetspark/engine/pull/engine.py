"""The pull engine: one state machine for fetch, fetch_bytes, fetch_no_wait, next and consume (ADR-37, ADR-42).

Events are method calls, with the time if it matters; `poll_actions` returns the actions. The engine counts as the
server does. Requested messages are in one of two states, which ADR-37 together calls pending:

    outstanding    requested and not arrived: at the server
    held           arrived and not handed to the user: in the client's buffer

When pending falls below the threshold, consume pulls the difference to its maximum; the pull before may still be open.
A fetch is one pull and ends with it.

Each pull has a token, which its statuses return. After a reset (a reconnect, missed heartbeats, a change of the leader)
only held messages count, and statuses of earlier pulls are ignored.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from jetspark.engine.pull.actions import Action, CheckConsumer, End, SendPull, Warn
from jetspark.engine.pull.open_pulls import OpenPulls
from jetspark.engine.pull.options import BYTES_PULL_BATCH, GRACE, NO_WAIT_TIMEOUT, PullOptions
from jetspark.engine.pull.pins import PinIds
from jetspark.engine.pull.unanswered import UnansweredPulls
from jetspark.engine.retry import ExponentialBackoff
from jetspark.jetstream.errors import (
    DisconnectedError,
    Error,
    MissedHeartbeatError,
    NoConsumerResponseError,
    NotFoundError,
    RequestTimeoutError,
)
from jetspark.jetstream.status import ConsumeEffect, FetchEffect, StatusRule, StatusSeverity, classify

__all__ = ["PullEngine"]

MAX_NOT_FOUND: Final = 3
"""Number of consecutive not-found answers after a reconnect at which the consumer counts as deleted."""
UNLIMITED: Final = 1 << 62
_SOON: Final = 0.05
"""Seconds in which a pull ends without messages only if the server does not serve it: pulls take longer to expire."""
ROUNDING: Final = 1e-6
"""Rounding error of a sum of times, in seconds."""


class PullEngine:
    """The engine; see the module.

    Parameters
    ----------
    stream, consumer
        Names of the stream and the consumer.
    options
        From `fetch_options` or `consume_options`.
    pins
        Ids of the handle's pinned clients.
    retry_503
        Whether a fetch pulls again, within its timeout, if nobody answers for a consumer that may exist.

    Raises
    ------
    ConfigError, BadNameError
        The server would refuse the pull.

    Attributes
    ----------
    ended
        Whether it has ended: no more pulls and no more actions.
    received
        Number of messages that arrived so far.
    pull_left_open
        Whether it has ended before its pull; the server may still serve the pull until it is informed.
    """

    def __init__(
        self, stream: str, consumer: str, options: PullOptions, pins: PinIds | None = None, *, retry_503: bool = False
    ) -> None:
        self.options = options
        self.ended = False
        self.received = 0
        self.pull_left_open = False
        self.draining = False
        self._template = options.template(stream, consumer)
        self._where = self._template.endpoint
        self._pins = PinIds() if pins is None else pins
        self._by_bytes = options.is_consume and options.max_bytes is not None
        self._buffered = self._buffered_bytes = 0
        self._open = OpenPulls()
        self._received_since_pull = True  # messages came since the last pull
        self._needs_full_max_bytes = False  # the next message may need a pull for all of max_bytes
        self._backoff = ExponentialBackoff(0.25, 2.0)  # before a pull that would get the same answer (ALG-06)
        self._not_before = 0.0
        self._pulled_at = 0.0  # time of the last pull
        self._last_activity = 0.0
        self._fetch_deadline: float | None = None  # a fetch's own deadline
        self._online = True
        self._verifying = False
        self._unanswered = UnansweredPulls(self._where, retry=retry_503, limit=options.timeout)
        self._not_found_count = 0  # consecutive not-found answers since the last reconnect
        self._next_check: float | None = None
        self._actions: list[Action] = []

    def poll_actions(self) -> list[Action]:
        """Return the new actions, in order; each is returned once."""
        actions, self._actions = self._actions, []
        return actions

    # -- what the driver asks ------------------------------------------------------------------------------------

    @property
    def pending(self) -> tuple[int, int]:
        """Messages and bytes that were requested and not handed out yet, as ADR-37 counts them."""
        return self._open.messages + self._buffered, self._open.size + self._buffered_bytes

    @property
    def counts_bytes(self) -> bool:
        """Whether the engine needs the sizes of messages."""
        return self.options.max_bytes is not None

    @property
    def messages_until_pull(self) -> int:
        """Number of messages after which `consumed` must be called; 1 means after the next one."""
        if self._by_bytes:
            return 1
        if not self.options.is_consume or self.draining or self.ended:
            return UNLIMITED
        return max(self._open.messages + self._buffered - self.options.threshold_messages + 1, 1)

    @property
    def deadline(self) -> float | None:
        """Time at which to call `tick`; None if there is none."""
        if self.ended:
            return None
        times = []
        if self._fetch_deadline is not None:
            times.append(self._fetch_deadline)
        if (heartbeat := self._heartbeat_deadline()) is not None:
            times.append(heartbeat)
        if self._not_before and self._online and not self.draining:
            times.append(self._not_before)
        if self._next_check is not None:
            times.append(self._next_check)
        return min(times, default=None)

    def _heartbeat_deadline(self) -> float | None:
        """Return when a heartbeat counts as missed (ALG-07). The server sends heartbeats only for an open pull."""
        heartbeat = self.options.idle_heartbeat
        if heartbeat is None or not self._online or self.draining or not self._is_open():
            return None
        return self._last_activity + 2 * heartbeat

    def _is_open(self) -> bool:
        return (self._open.size if self._by_bytes else self._open.messages) > 0

    # -- events --------------------------------------------------------------------------------------------------

    def start(self, now: float, *, online: bool = True, began: float | None = None) -> None:
        """Begin. Without a session, the pull waits for one. A fetch's timeout counts from `began`, or from now."""
        self._online = online
        self._last_activity = now
        self._fetch_deadline = self.options.deadline(now if began is None else began)
        self._pull_if_due(now)

    def prefilled(self, count: int, size: int = 0) -> None:
        """Count messages in the buffer that another call pulled."""
        self._buffered += count
        self._buffered_bytes += size

    def delivered(self, now: float, count: int, size: int = 0) -> None:
        """Count `count` messages that arrived; `size` is their bytes as the server counts them (SIZ-01)."""
        self._last_activity = now
        self._received_since_pull = True
        self._unanswered.end()
        self._backoff.reset()
        self.received += count
        self._buffered += count
        self._buffered_bytes += size
        self._open.arrived(count, size)
        if not self._is_open():
            self._open.clear()
        if not self.options.is_consume and self.received >= self.options.max_messages:
            self._end(None)

    def pinned(self, pin_id: str) -> None:
        """Store the pin id of a message: this client is the pinned one (PRI-05)."""
        if self.options.priority.group is not None:
            self._pins.set(self.options.priority.group, pin_id)

    def consumed(self, now: float, count: int, size: int = 0) -> None:
        """Count `count` messages that were handed to the user (ALG-02)."""
        self._buffered = max(self._buffered - count, 0)
        self._buffered_bytes = max(self._buffered_bytes - size, 0)
        self._pull_if_due(now)

    def status(
        self, now: float, token: int, code: int, description: str = "", pending: tuple[int, int] | None = None
    ) -> None:
        """Handle a status for a pull; `pending` are messages and bytes from its Nats-Pending headers."""
        if self.ended:
            return
        rule = classify(code, description)
        self._last_activity = now
        if rule.severity is StatusSeverity.CONTROL or not self._open.is_current(token):
            return
        if rule.clears_pin:
            if self._pins.get(self.options.priority.group) is not None:
                self._pulled_at = -_SOON  # the next pull is another one, without this pin
            self._pins.clear(self.options.priority.group)
        error = rule.make_error(code, description, where=self._where)
        if self.options.is_consume:
            self._consume_status(now, token, rule, error, pending)
        else:
            self._fetch_status(now, rule, error)

    def disconnected(self, error: Error | None = None) -> None:
        """Handle the loss of the session. A fetch ends with its messages so far (REC-08), consume waits (REC-03)."""
        self._online = self._verifying = False
        self._next_check = None
        if not self.options.is_consume and self._open:
            lost = DisconnectedError(f"{self._where}: the connection was lost while the pull was open: {error}")
            self._end(lost)

    def reconnected(self, now: float) -> None:
        """Handle a new session: counters and timer start again, and one pull is sent (REC-04)."""
        self._online = True
        if self.ended:
            return
        self._reset(now)
        self._backoff.reset()
        self._not_before = 0.0
        if self.options.verify_on_reconnect and not self.draining:
            self._verifying = True
            self._not_found_count = 0
            self._actions.append(CheckConsumer())
        self._pull_if_due(now)

    def consumer_checked(self, now: float, error: Error | None = None) -> None:
        """Handle a look-up: the consumer exists (None), is gone, or the look-up failed, for example after a restart."""
        if not self._verifying:
            return
        if not self.options.is_consume:
            self._verifying = False
            self._not_before = self._retry_time(now)
            if (failure := self._unanswered.end_of_fetch(now, error)) is not None:
                self._end(failure)
            return
        self._not_found_count = self._not_found_count + 1 if isinstance(error, NotFoundError) else 0
        if error is None:
            self._verifying = False
            self._last_activity = now
            self._backoff.reset()
            self._pull_if_due(now)
        elif self._not_found_count >= MAX_NOT_FOUND:
            self._end(error)
        else:
            self._next_check = self._retry_time(now)

    def tick(self, now: float) -> None:
        """Handle the deadlines that have passed."""
        if self.ended:
            return
        if self._fetch_deadline is not None and now >= self._fetch_deadline:
            self.abandon(self._timeout_error())
            return
        heartbeat = self._heartbeat_deadline()
        if heartbeat is not None and now >= heartbeat:
            self._missed(now)
        if self._not_before and now >= self._not_before:
            self._not_before = 0.0
        if self._next_check is not None and now >= self._next_check:
            self._next_check = None
            self._actions.append(CheckConsumer())
        self._pull_if_due(now)

    def drain(self) -> None:
        """Stop pulling; held messages are still handed out."""
        self.draining = True

    def stop(self, error: Error | None = None) -> None:
        """End: the user stopped it, or the connection closed."""
        self._end(error)

    def abandon(self, error: Error | None = None) -> None:
        """End before the server has ended the pull: the fetch has timed out, or its caller does not wait any more."""
        self.pull_left_open = bool(self._open)
        self._end(error)

    # -- statuses ------------------------------------------------------------------------------------------------

    def _fetch_status(self, now: float, rule: StatusRule, error: Error) -> None:
        if isinstance(error, NoConsumerResponseError) and not self._buffered and not self.received:
            self._reset(now)
            self._unanswered.begin(now)
            self._verifying = True
            self._actions.append(CheckConsumer())
            return
        self._unanswered.end()
        if rule.fetch is FetchEffect.END_WITH_ERROR:
            self._end(error)
        elif self.options.no_timeout and not rule.message_too_large and not (self.counts_bytes and self.received):
            self._reset(now)
            self._delay_next_pull(now, rule)
            self._pull_if_due(now)
        else:
            self._end(None)

    def _consume_status(
        self, now: float, token: int, rule: StatusRule, error: Error, pending: tuple[int, int] | None
    ) -> None:
        if rule.consume is ConsumeEffect.END:
            self._end(error)
            return
        if rule.ends_pull and self._open.close(token, rule, pending):
            self._reset(now)
        if rule.message_too_large and self._buffered and not self._received_since_pull:
            self._needs_full_max_bytes = True  # the message may fit into a pull for all of max_bytes
        elif rule.ends_pull:
            self._delay_next_pull(now, rule)
        if rule.consume is not ConsumeEffect.PULL or (rule.message_too_large and self._not_before > now):
            self._actions.append(Warn(error))
        self._pull_if_due(now)

    def _delay_next_pull(self, now: float, rule: StatusRule) -> None:
        at_once = now < self._pulled_at + _SOON  # no pull of ours can expire so early
        if (rule.delays_next_pull or at_once) and not self._received_since_pull:
            self._not_before = self._retry_time(now)

    def _retry_time(self, now: float) -> float:
        delay = self._backoff.next_delay()
        assert delay is not None  # it has no limit
        return now + delay

    def _missed(self, now: float) -> None:
        assert self.options.idle_heartbeat is not None
        silence = 2 * self.options.idle_heartbeat
        error = MissedHeartbeatError(f"{self._where}: no message and no heartbeat for {silence:g} s")
        if self.options.is_consume:
            self._actions.append(Warn(error))
            self._reset(now)
        else:
            self.pull_left_open = True
            self._end(error)

    def _timeout_error(self) -> Error | None:
        """Return the error of a fetch that timed out before the server ended the pull, None for no error."""
        if not self._open.latest:
            return DisconnectedError(f"{self._where}: the pull was not sent, because there was no connection in time")
        if self.options.timeout is None and not self.received and self._unanswered.error is None:
            return RequestTimeoutError(f"{self._where}: no answer within {NO_WAIT_TIMEOUT:g} s")
        return self._unanswered.error

    # -- pulls ---------------------------------------------------------------------------------------------------

    def _pull_if_due(self, now: float) -> None:
        if self.ended or self.draining or not self._online or self._verifying or now < self._not_before:
            return
        options = self.options
        if not options.is_consume:
            if not self._open and self.received < options.max_messages:
                self._send(now, options.max_messages - self.received, options.max_bytes)
        elif options.max_bytes is not None:
            pending = self._open.size + self._buffered_bytes
            if pending < options.threshold_bytes and not (self._needs_full_max_bytes and self._buffered):
                self._send(now, BYTES_PULL_BATCH, options.max_bytes - pending)
        else:
            pending = self._open.messages + self._buffered
            if pending < options.threshold_messages:
                self._send(now, options.max_messages - pending, None)

    def _send(self, now: float, batch: int, max_bytes: int | None) -> None:
        """Count first, then request the publish, so that nothing is pulled twice."""
        token = self._open.add(batch, max_bytes or 0)
        self._received_since_pull = self._needs_full_max_bytes = False
        self._last_activity = self._pulled_at = now
        self._not_before = 0.0
        request, pin_id = self._template, self._pins.get(self._template.group)
        if batch != request.batch or max_bytes != request.max_bytes or pin_id is not None:
            request = replace(request, batch=batch, max_bytes=max_bytes, id=pin_id)
        if self._fetch_deadline is not None and self.options.timeout is not None:
            left = max(self._fetch_deadline - GRACE - now, 0.001)
            if left < self.options.timeout - ROUNDING:  # the pull had to wait for a session
                request = request.shortened(timedelta(seconds=left))
        self._actions.append(SendPull(token, request))

    def _reset(self, now: float) -> None:
        """Forget all open pulls; their later statuses are ignored."""
        self._open.reset()
        self._last_activity = now

    def _end(self, error: Error | None) -> None:
        if not self.ended:
            self.ended = True
            self._actions.append(End(error))
