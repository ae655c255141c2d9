"""The pull engine: one state machine for fetch, fetch_bytes, fetch_no_wait, next and consume (ADR-37, ADR-42).

Events are method calls, with the time if it matters; `take` returns the actions. The engine counts as the server does.
Requested messages are in one of two states, which ADR-37 together calls pending:

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

from jetspark.flow.pull.actions import Action, End, LookUp, SendPull, Warn
from jetspark.flow.pull.options import GRACE, MAX_BATCH, NO_WAIT_PATIENCE, PullOptions
from jetspark.flow.pull.pacing import Pacing
from jetspark.flow.pull.pins import PinIds
from jetspark.jetstream.errors import (
    DisconnectedError,
    Error,
    MissedHeartbeatError,
    NotFoundError,
    RequestTimeoutError,
)
from jetspark.jetstream.status import ConsumeEffect, FetchEffect, StatusClass, StatusRule, classify

__all__ = ["PullEngine"]

REMEMBERED: Final = 64
"""Number of open pulls whose size is kept, for the case that one is refused. A refusal comes at once."""
MISSING_IS_GONE: Final = 3
"""Number of consecutive not-found answers after a reconnect at which the consumer counts as deleted."""
FAR: Final = 1 << 62
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
    orphaned
        Whether a fetch has ended by its own timeout; the server may still serve its pull until it is informed.
    """

    def __init__(self, stream: str, consumer: str, options: PullOptions, pins: PinIds | None = None) -> None:
        self.options = options
        self.ended = False
        self.received = 0
        self.orphaned = False
        self.draining = False
        self._template = options.template(stream, consumer)
        self._where = self._template.endpoint
        self._pins = PinIds() if pins is None else pins
        self._by_bytes = options.repeats and options.max_bytes is not None
        self._held = self._held_bytes = 0
        self._outstanding = self._outstanding_bytes = 0
        self._open: dict[int, tuple[int, int]] = {}  # token -> batch and bytes
        self._token = 0
        self._first_token = 1  # of the pulls since the last reset
        self._fresh = True  # messages came since the last pull
        self._whole = False  # the next message may need a pull for all of max_bytes
        self._pacing = Pacing()
        self._not_before = 0.0
        self._heard = 0.0
        self._until: float | None = None  # a fetch's own deadline
        self._online = True
        self._verifying = False
        self._missing = 0  # consecutive not-found answers since the last reconnect
        self._look_at: float | None = None
        self._actions: list[Action] = []

    def take(self) -> list[Action]:
        """Return the new actions, in order; each is returned once."""
        actions, self._actions = self._actions, []
        return actions

    # -- what the driver asks ------------------------------------------------------------------------------------

    @property
    def pending(self) -> tuple[int, int]:
        """Messages and bytes that were requested and not handed out yet, as ADR-37 counts them."""
        return self._outstanding + self._held, self._outstanding_bytes + self._held_bytes

    @property
    def counts_bytes(self) -> bool:
        """Whether the engine needs the sizes of messages."""
        return self.options.max_bytes is not None

    @property
    def until_pull(self) -> int:
        """Number of messages after which `handed_out` must be called; 1 means after the next one."""
        if self._by_bytes:
            return 1
        if not self.options.repeats or self.draining or self.ended:
            return FAR
        return max(self._outstanding + self._held - self.options.threshold_messages + 1, 1)

    @property
    def deadline(self) -> float | None:
        """Time at which to call `tick`; None if there is none."""
        if self.ended:
            return None
        times = []
        if self._until is not None:
            times.append(self._until)
        if (heartbeat := self._heartbeat_deadline()) is not None:
            times.append(heartbeat)
        if self._not_before and self._online and not self.draining:
            times.append(self._not_before)
        if self._look_at is not None:
            times.append(self._look_at)
        return min(times, default=None)

    def _heartbeat_deadline(self) -> float | None:
        """Return when a heartbeat counts as missed (ALG-07). The server sends heartbeats only for an open pull."""
        heartbeat = self.options.idle_heartbeat
        if heartbeat is None or not self._online or self.draining or not self._is_open():
            return None
        return self._heard + 2 * heartbeat

    def _is_open(self) -> bool:
        return (self._outstanding_bytes if self._by_bytes else self._outstanding) > 0

    # -- events --------------------------------------------------------------------------------------------------

    def start(self, now: float, *, online: bool = True, began: float | None = None) -> None:
        """Begin. Without a session, the pull waits for one. A fetch's timeout counts from `began`, or from now."""
        self._online = online
        self._heard = now
        self._until = self.options.deadline(now if began is None else began)
        self._pull_if_due(now)

    def adopted(self, count: int, size: int = 0) -> None:
        """Count messages in the buffer that another call pulled."""
        self._held += count
        self._held_bytes += size

    def delivered(self, now: float, count: int, size: int = 0) -> None:
        """Count `count` messages that arrived; `size` is their bytes as the server counts them (SIZ-01)."""
        self._heard = now
        self._fresh = True
        self._pacing.reset()
        self.received += count
        self._held += count
        self._held_bytes += size
        self._outstanding = max(self._outstanding - count, 0)
        self._outstanding_bytes = max(self._outstanding_bytes - size, 0)
        if not self._is_open():
            self._open.clear()
        if not self.options.repeats and self.received >= self.options.max_messages:
            self._end(None)

    def pinned(self, pin_id: str) -> None:
        """Store the pin id of a message: this client is the pinned one (PRI-05)."""
        if self.options.priority.group is not None:
            self._pins.learn(self.options.priority.group, pin_id)

    def handed_out(self, now: float, count: int, size: int = 0) -> None:
        """Count `count` messages that were handed to the user (ALG-02)."""
        self._held = max(self._held - count, 0)
        self._held_bytes = max(self._held_bytes - size, 0)
        self._pull_if_due(now)

    def status(
        self, now: float, token: int, code: int, description: str = "", pending: tuple[int, int] | None = None
    ) -> None:
        """Handle a status for a pull; `pending` are messages and bytes from its Nats-Pending headers."""
        if self.ended:
            return
        rule = classify(code, description)
        self._heard = now
        if rule.kind is StatusClass.CONTROL or not self._first_token <= token <= self._token:
            return
        if rule.clears_pin:
            self._pins.forget(self.options.priority.group)
        error = rule.make_error(code, description, where=self._where)
        if self.options.repeats:
            self._consume_status(now, token, rule, error, pending)
        else:
            self._fetch_status(now, rule, error)

    def disconnected(self, error: Error | None = None) -> None:
        """Handle the loss of the session. A fetch ends with its messages so far (REC-08), consume waits (REC-03)."""
        self._online = self._verifying = False
        self._look_at = None
        if not self.options.repeats and self._open:
            lost = DisconnectedError(f"{self._where}: the connection was lost while the pull was open: {error}")
            self._end(lost)

    def reconnected(self, now: float) -> None:
        """Handle a new session: counters and timer start again, and one pull is sent (REC-04)."""
        self._online = True
        if self.ended:
            return
        self._reset(now)
        self._pacing.reset()
        self._not_before = 0.0
        if self.options.verify_on_reconnect and not self.draining:
            self._verifying = True
            self._missing = 0
            self._actions.append(LookUp())
        self._pull_if_due(now)

    def looked_up(self, now: float, error: Error | None = None) -> None:
        """Handle a look-up: the consumer exists (None), is gone, or the look-up failed, for example after a restart."""
        if not self._verifying:
            return
        self._missing = self._missing + 1 if isinstance(error, NotFoundError) else 0
        if error is None:
            self._verifying = False
            self._heard = now
            self._pacing.reset()
            self._pull_if_due(now)
        elif self._missing >= MISSING_IS_GONE:
            self._end(error)
        else:
            self._look_at = now + self._pacing.next_delay()

    def tick(self, now: float) -> None:
        """Handle the deadlines that have passed."""
        if self.ended:
            return
        if self._until is not None and now >= self._until:
            self.orphaned = bool(self._open)
            self._end(self._late())
            return
        heartbeat = self._heartbeat_deadline()
        if heartbeat is not None and now >= heartbeat:
            self._missed(now)
        if self._not_before and now >= self._not_before:
            self._not_before = 0.0
        if self._look_at is not None and now >= self._look_at:
            self._look_at = None
            self._actions.append(LookUp())
        self._pull_if_due(now)

    def drain(self) -> None:
        """Stop pulling; held messages are still handed out."""
        self.draining = True

    def stop(self, error: Error | None = None) -> None:
        """End: the user stopped it, or the connection closed."""
        self._end(error)

    # -- statuses ------------------------------------------------------------------------------------------------

    def _fetch_status(self, now: float, rule: StatusRule, error: Error) -> None:
        if rule.fetch is FetchEffect.END_WITH_ERROR:
            self._end(error)
        elif self.options.endless and not rule.by_size and not (self.counts_bytes and self.received):
            self._reset(now)
            self._pace(now, rule)
            self._pull_if_due(now)
        else:
            self._end(None)

    def _consume_status(
        self, now: float, token: int, rule: StatusRule, error: Error, pending: tuple[int, int] | None
    ) -> None:
        if rule.consume is ConsumeEffect.END:
            self._end(error)
            return
        if rule.ends_pull:
            self._close(now, token, rule, pending)
        if rule.by_size and self._held and not self._fresh:
            self._whole = True  # the message may fit into a pull for all of max_bytes
        elif rule.ends_pull:
            self._pace(now, rule)
        if rule.consume is not ConsumeEffect.PULL or (rule.by_size and self._not_before > now):
            self._actions.append(Warn(error))
        self._pull_if_due(now)

    def _close(self, now: float, token: int, rule: StatusRule, pending: tuple[int, int] | None) -> None:
        """Handle the end of a pull: messages that it did not deliver are not outstanding any more (ALG-04, ALG-05)."""
        messages, size = self._open.pop(token, (self._outstanding, self._outstanding_bytes))
        if rule.has_pending and pending is not None:
            messages, size = max(pending[0], 0), max(pending[1], 0)  # -1 has been seen
        self._outstanding = max(self._outstanding - messages, 0)
        self._outstanding_bytes = max(self._outstanding_bytes - size, 0)
        if rule.ends_all_pulls or not self._open:
            self._reset(now)

    def _pace(self, now: float, rule: StatusRule) -> None:
        if rule.paced and not self._fresh:
            self._not_before = now + self._pacing.next_delay()

    def _missed(self, now: float) -> None:
        assert self.options.idle_heartbeat is not None
        silence = 2 * self.options.idle_heartbeat
        error = MissedHeartbeatError(f"{self._where}: neither a message nor a heartbeat for {silence:g} s")
        if self.options.repeats:
            self._actions.append(Warn(error))
            self._reset(now)
        else:
            self.orphaned = True
            self._end(error)

    def _late(self) -> Error | None:
        """Return the error of a fetch that timed out before the server ended the pull, None for no error."""
        if not self._token:
            return DisconnectedError(f"{self._where}: there was no connection in time to send the pull")
        if self.options.expires is None and not self.received:
            return RequestTimeoutError(f"{self._where}: no answer within {NO_WAIT_PATIENCE:g} s")
        return None

    # -- pulls ---------------------------------------------------------------------------------------------------

    def _pull_if_due(self, now: float) -> None:
        if self.ended or self.draining or not self._online or self._verifying or now < self._not_before:
            return
        options = self.options
        if not options.repeats:
            if not self._open and self.received < options.max_messages:
                self._send(now, options.max_messages - self.received, options.max_bytes)
        elif options.max_bytes is not None:
            pending = self._outstanding_bytes + self._held_bytes
            if pending < options.threshold_bytes and not (self._whole and self._held):
                self._send(now, MAX_BATCH, options.max_bytes - pending)
        else:
            pending = self._outstanding + self._held
            if pending < options.threshold_messages:
                self._send(now, options.max_messages - pending, None)

    def _send(self, now: float, batch: int, max_bytes: int | None) -> None:
        """Count first, then request the publish, so that nothing is pulled twice."""
        self._token += 1
        self._outstanding += batch
        self._outstanding_bytes += max_bytes or 0
        self._open[self._token] = (batch, max_bytes or 0)
        if len(self._open) > REMEMBERED:
            del self._open[next(iter(self._open))]
        self._fresh = self._whole = False
        self._heard = now
        self._not_before = 0.0
        request, pin_id = self._template, self._pins.get(self._template.group)
        if batch != request.batch or max_bytes != request.max_bytes or pin_id is not None:
            request = replace(request, batch=batch, max_bytes=max_bytes, id=pin_id)
        if self._until is not None and self.options.expires is not None:
            left = max(self._until - GRACE - now, 0.001)
            if left < self.options.expires - ROUNDING:  # the pull had to wait for a session
                expires, heartbeat = timedelta(seconds=left), request.idle_heartbeat
                fits = heartbeat is not None and 2 * heartbeat <= expires
                request = replace(request, expires=expires, idle_heartbeat=heartbeat if fits else None)
        self._actions.append(SendPull(self._token, request))

    def _reset(self, now: float) -> None:
        """Forget all open pulls; their later statuses are ignored."""
        self._outstanding = self._outstanding_bytes = 0
        self._open.clear()
        self._first_token = self._token + 1
        self._heard = now

    def _end(self, error: Error | None) -> None:
        if not self.ended:
            self.ended = True
            self._actions.append(End(error))
