"""Feeds a push subscription: moves messages from the route of the server to the route of the user.

The engine (`jetspark.flow.push`) handles the messages of one socket read together, and they are moved in one step. So
taking a message costs the same as in a core subscription. The first route may be replaced without the user's
knowledge: an ordered subscription (`ordered_feed`) gets its next consumer on a new inbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jetspark.aio.jetstream.driving import drive, spawn
from jetspark.aio.jetstream.silence import SilenceWatch
from jetspark.flow.push import (
    ALARM_FACTOR,
    Action,
    Alert,
    Deliver,
    FlowControl,
    FlowRequest,
    GapDetector,
    HeartbeatMonitor,
    PushEngine,
    Reset,
)
from jetspark.flow.subscribing import Binding, Step, Subscribe, Unsubscribe
from jetspark.jetstream.api import ConsumerInfoRequest
from jetspark.jetstream.errors import ConsumerNotFoundError, Error, MissedHeartbeatError
from jetspark.jetstream.times import duration_ns
from jetspark.wire.events import ErrorOccurred
from jetspark.wire.messages import Message
from jetspark.wire.routes import NO_LIMIT, Overflow, Route

if TYPE_CHECKING:
    from jetspark.aio.jetstream.api import JetStreamAPI

__all__ = ["FeedOptions", "PushFeed"]

T = TypeVar("T")

_PENDING_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedOptions:
    """Options of a push subscription's feed."""

    pending_messages: int | None = None
    """Most messages that wait; None: the connection's option, or the consumer's `max_ack_pending` if that is more."""
    pending_bytes: int | None = None
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
        """Check the factor before anything is sent. Raises ConfigError."""
        HeartbeatMonitor(0.0, self.alarm_factor)


class PushFeed:
    """The feed of one push subscription; see the module.

    Attributes
    ----------
    route
        The route that the user takes from.
    binding
        Stream and consumer.
    mark
        How many messages must be taken before the next answer to flow control; None if no answer is open.
    """

    def __init__(self, js: JetStreamAPI, options: FeedOptions) -> None:
        self._js = js
        self._connection = js.connection
        self._client = js.connection._client
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._spawn = partial(spawn, js.connection)
        self._inner: Route | None = None
        self._engine = PushEngine("")
        self._flow = FlowControl()
        self._silence = SilenceWatch(None, self._excused, self._alarm)
        self._online = asyncio.Event()
        self._asked = self._retired = False
        self.mark: int | None = None
        self.binding: Binding
        self.route: Route

    # -- life ----------------------------------------------------------------------------------------------------

    async def run(
        self,
        workflow: Generator[Step, Any, T],
        timeout: float | None = None,  # noqa: ASYNC109 (of each request)
        act: Callable[[Step], Coroutine[Any, Any, None]] | None = None,
    ) -> T:
        """Drive a workflow on this subscription. `act` replaces the built-in handling of steps that are no requests."""
        return await drive(workflow, partial(self._js.request, timeout=timeout), act or self._act, self._spawn)

    async def open(self, workflow: Generator[Step, Any, Binding]) -> None:
        """Subscribe. After an error no subscription is left."""
        try:
            self.binding = await self.run(workflow)
        except BaseException:
            self._hang_up()
            raise
        self.route = self._make_route()
        self._set_engine()
        if self._client.outbound.online:
            self._online.set()
        self._client.dependents.add(self)
        self._client.watchers.add(self)
        self._begin()

    def limit(self, max_msgs: int) -> None:
        """End after that many messages in total."""
        self.route.max_msgs = max_msgs
        if self.route.received >= max_msgs:
            self.close()

    def retire(self) -> None:
        """Ask the server to send nothing more."""
        self._stop_watching()
        if self._inner is not None and self._client.retire(self._inner):
            self._connection._send_soon()

    def finish(self) -> None:
        """Move the remaining messages and end; nothing more can come."""
        self.absorb()
        self.close()

    def close(self, error: Error | None = None) -> None:
        """End. Messages that were not taken stay."""
        self._stop_watching()
        self._hang_up()
        self._client.dependents.discard(self)
        self._client.watchers.discard(self)
        self.route.end(error)

    @property
    def resetting(self) -> bool:
        """Whether it is between two consumers; True only for an ordered subscription."""
        return False

    @property
    def sid(self) -> int:
        """Id of the present subscription on the connection."""
        return self._inner.sid if self._inner is not None else self.route.sid

    # -- steps of the workflows ----------------------------------------------------------------------------------

    async def _act(self, step: Step) -> None:
        if isinstance(step, Subscribe):
            self._inner = self._client.subscribe(
                step.subject, step.queue, limit_msgs=NO_LIMIT, limit_bytes=NO_LIMIT, overflow="pause"
            )
            self._connection._send_soon()
        elif isinstance(step, Unsubscribe):
            self._hang_up()

    def _hang_up(self) -> None:
        """End the present subscription of the server."""
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.wake = inner.on_status = None
            if not inner.ended:
                self._client.unsubscribe(inner)
                self._connection._send_soon()

    # -- set up --------------------------------------------------------------------------------------------------

    def _make_route(self) -> Route:
        """Return the route of the user. It has an id of its own, which the server does not know."""
        config, options = self.binding.config, self._options
        messages = options.pending_messages
        if messages is None:
            messages = max(self._connection.options.pending_messages, config.max_ack_pending or 0)
        size = _PENDING_BYTES if options.pending_bytes is None else options.pending_bytes
        return Route(
            self._client.routes.next_sid(),
            self.binding.deliver_subject.encode(),
            self.binding.deliver_group.encode(),
            limit_msgs=messages if messages > 0 else NO_LIMIT,
            limit_bytes=size if size > 0 else NO_LIMIT,
            overflow=options.overflow,
        )

    def _set_engine(self) -> None:
        binding = self.binding
        alone = self._options.manage_status and not binding.deliver_group
        self._engine = PushEngine(
            self._name,
            gaps=GapDetector(0 if binding.created else None) if alone else None,
            control=alone,
            ordered=binding.ordered is not None,
        )
        interval = binding.config.idle_heartbeat
        if alone and interval:
            monitor = HeartbeatMonitor(duration_ns(interval) / 1e9, self._options.alarm_factor)
            self._silence = SilenceWatch(monitor, self._excused, self._alarm)

    def _excused(self) -> bool:
        return bool(self._client.congested)

    @property
    def _name(self) -> str:
        return f"consumer {self.binding.consumer!r} of stream {self.binding.stream!r}"

    def _begin(self) -> None:
        """Take the messages that the present consumer has already sent, and start to receive."""
        inner = self._inner
        assert inner is not None, "bound without a subscription"
        early = list(inner.pending)
        inner.pending.clear()
        inner.taken_bytes = inner.received_bytes
        if not self.binding.acknowledged:
            inner.owner = None
            for message in early:
                message.owner = None
        self.route.subject = inner.subject
        self._resume()
        inner.wake = self._read
        if self._options.manage_status:
            inner.on_status = self._on_status
        for message in early:
            if inner.on_status is None or not message.raw_header or message.payload or not self._on_status(message):
                inner.pending.append(message)
                inner.received_bytes += len(message.raw_header) + len(message.payload)
        self._read()

    # -- receiving -----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Handle the end of a socket read that brought messages, or of the subscription."""
        inner = self._inner
        if inner is None:
            return
        self.absorb()
        if inner.ended and inner is self._inner:
            self.close(inner.error)
            if self._client.closed:
                self.route.discard()
        inner.waiting = True

    def absorb(self) -> None:
        """Move the messages that came."""
        inner = self._inner
        if inner is not None and inner.pending:
            messages = list(inner.pending)
            inner.pending.clear()
            size = inner.received_bytes - inner.taken_bytes
            inner.taken_bytes += size
            self._seen()
            for action in self._engine.receive(messages):
                if isinstance(action, Deliver):
                    self._deliver(action.messages, size if action.messages is messages else None)
                else:
                    self._perform(action)

    def _on_status(self, message: Message) -> bool:
        status = message.status
        if status is None:
            return False
        self.absorb()
        self._seen()
        for action in self._engine.receive_status(message, status):
            self._perform(action)
        return True

    def _perform(self, action: Action) -> None:
        if isinstance(action, FlowRequest):
            self._flow.request(action.subject, self.route.received - self.route.dropped)
            self._answer()
        elif isinstance(action, Alert):
            self._connection._tell(ErrorOccurred(action.error))
        elif isinstance(action, Reset):
            self._begin_reset()

    def _deliver(self, messages: list[Message], size: int | None) -> None:
        """Give the messages to the user, as far as there is room."""
        route = self.route
        if route.max_msgs and route.received + len(messages) >= route.max_msgs:
            messages, size = messages[: route.max_msgs - route.received], None
        if size is None:
            size = sum(len(each.raw_header) + len(each.payload) for each in messages)
        if len(route.pending) + len(messages) <= route.limit_msgs and route.pending_bytes + size <= route.limit_bytes:
            route.pending.extend(messages)
            route.received += len(messages)
            route.received_bytes += size
        else:
            self._squeeze(messages)
        route.alarm()
        if route.max_msgs and route.received >= route.max_msgs:
            self.close()

    def _squeeze(self, messages: list[Message]) -> None:
        """Give the user the messages that there is room for."""
        route = self.route
        for message in messages:
            route.received += 1
            if not route.full or self._client.full(route):
                route.pending.append(message)
                route.received_bytes += len(message.raw_header) + len(message.payload)
            else:
                route.dropped += 1

    # -- taking --------------------------------------------------------------------------------------------------

    @property
    def handed_out(self) -> int:
        """Messages that the user has taken. May be read from any thread; then it may be slightly too low."""
        route = self.route
        return route.received - route.dropped - len(route.pending)

    def taken(self) -> None:
        """Note that a message was taken while the route was watched."""
        route = self.route
        if self.mark is not None and self.handed_out >= self.mark:
            self._answer()
        if route.slow and route.relaxed:
            self._connection._relax(route)
            route.slow = False
            self._relaxed()
            self._watch()

    def _answer(self) -> None:
        """Answer the flow-control requests whose messages were all taken."""
        while True:
            for subject in self._flow.due(self.handed_out):
                if self._connection.connected:  # otherwise the server asks again
                    self._connection._answer(subject, b"")
            self.mark = self._flow.mark
            self._watch()
            if self.mark is None or self.handed_out < self.mark:
                return  # another thread may have taken a message before `watched` was set

    def _watch(self) -> None:
        route = self.route
        route.watched = self.mark is not None or route.slow or route.ended or self._retired

    # -- silence and loss ----------------------------------------------------------------------------------------

    def fail(self, error: Error, subject: str | None = None) -> None:  # noqa: ARG002 (for all dependents)
        """Handle the end of the session; silence is expected then."""
        if subject is None:
            self._online.clear()
            self._flow.session_lost()
            self._silence.pause()

    def session_restored(self) -> None:
        """Handle that another session is open."""
        self._online.set()
        self._resume()

    def _seen(self) -> None:
        self._silence.seen()
        self._asked = False

    def _resume(self) -> None:
        if self._online.is_set():
            self._silence.resume()

    def _alarm(self, seconds: float) -> None:
        """Report that the server was silent for that long."""
        error = MissedHeartbeatError(f"{self._name}: neither a message nor a heartbeat came within {seconds:g} s")
        self._connection._tell(ErrorOccurred(error))
        if not self._asked:
            self._asked = True
            self._spawn(self._ask())

    async def _ask(self) -> None:
        """Check whether the consumer still exists: a deleted one is silent, too."""
        try:
            await self._js.request(ConsumerInfoRequest(self.binding.stream, self.binding.consumer))
        except ConsumerNotFoundError as error:
            self._connection._tell(ErrorOccurred(error))

    def _stop_watching(self) -> None:
        self._retired = True
        self._silence.stop()
        self._flow.forget()
        self.mark = None

    # -- for ordered subscriptions -------------------------------------------------------------------------------

    def _begin_reset(self) -> None:
        """Handle the loss of the order."""

    def _relaxed(self) -> None:
        """Handle that there is room again."""
