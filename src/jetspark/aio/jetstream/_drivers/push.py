"""Feeds a push subscription: moves messages from the subscription of the server to the subscription of the user.

The engine (`jetspark.engine.push`) handles the messages of one socket read together, and they are moved in one step. So
taking a message costs the same as in a core subscription. The first subscription may be replaced without the user's
knowledge: an ordered subscription (`ordered_push`) gets its next consumer on a new inbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final, TypeVar, cast

from jetspark.aio.jetstream._drivers.consumer_deletion import delete_later, request_or_delete_later
from jetspark.aio.jetstream._drivers.heartbeat_timer import HeartbeatTimer
from jetspark.aio.jetstream._drivers.push_options import PushDriverOptions
from jetspark.aio.jetstream._drivers.workflow import run_in_background, run_workflow
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.engine.push import (
    Action,
    Deliver,
    FlowControl,
    FlowControlRequest,
    GapDetector,
    HeartbeatMonitor,
    PushEngine,
    ReportError,
)
from jetspark.engine.subscribe import Binding, Step, Subscribe, Unsubscribe
from jetspark.jetstream.api import ConsumerInfoRequest
from jetspark.jetstream.errors import BadSubjectError, ConsumerNotFoundError, Error, MissedHeartbeatError
from jetspark.jetstream.message import JetStreamMessage, settle
from jetspark.jetstream.times import duration_ns
from jetspark.wire.events import ErrorOccurred
from jetspark.wire.messages import Message
from jetspark.wire.subscriptions import NO_LIMIT, SubscriptionState

__all__ = ["PushDriver"]

T = TypeVar("T")

_PENDING_BYTES: Final = 256 << 20


class PushDriver:
    """The feed of one push subscription; see the module.

    Attributes
    ----------
    binding
        Stream and consumer.
    flow_reply_at
        How many messages must be taken before the next answer to flow control; None if no answer is open.
    """

    def __init__(self, js: JetStreamCore, options: PushDriverOptions) -> None:
        self._js = js
        self._connection = js.connection
        self._client = js.connection.client
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._run_in_background = partial(run_in_background, js.connection)
        self._inner: SubscriptionState | None = None
        self._engine = PushEngine("")
        self._flow_control = FlowControl()
        self._heartbeat_timer = HeartbeatTimer(None, self._is_paused, self._alarm)
        self._online = self._client.outbound.online
        self._existence_checked = self._receiving_stopped = False
        self.flow_reply_at: int | None = None
        self.binding: Binding
        self.sub: SubscriptionState

    # -- life ----------------------------------------------------------------------------------------------------

    async def run(
        self,
        workflow: Generator[Step, Any, T],
        perform_step: Callable[[Step], Coroutine[Any, Any, None]] | None = None,
    ) -> T:
        """Drive a workflow on this subscription.

        `perform_step` replaces the built-in handling of steps that are no requests.
        """
        return await run_workflow(
            workflow,
            partial(request_or_delete_later, self._js),
            perform_step or self._perform_step,
            self._run_in_background,
        )

    def delete_later(self) -> None:
        """Delete the consumer without waiting, if this subscription created it."""
        if (request := self.binding.deletion) is not None:
            delete_later(self._js, request)

    async def open(self, workflow: Generator[Step, Any, Binding]) -> None:
        """Subscribe. After an error no subscription is left."""
        try:
            self.binding = await self.run(workflow)
        except BaseException:
            self._unsubscribe_inner()
            raise
        self.sub = self._make_state()
        self._set_engine()
        self._online = self._client.outbound.online
        self._client.reply_listeners.add(self)
        self._client.session_listeners.add(self)
        self._start_receiving()

    def limit(self, max_msgs: int) -> None:
        """End after that many messages in total."""
        self.sub.max_msgs = max_msgs
        if self.sub.received >= max_msgs:
            self.close()

    def stop_receiving(self) -> None:
        """Ask the server to send nothing more."""
        self._stop_monitoring()
        if self._inner is not None and self._client.stop_delivery(self._inner):
            self._connection.flush_soon()

    def finish(self) -> None:
        """Move the remaining messages and end; nothing more can come."""
        self.collect()
        self.close()

    def close(self, error: Error | None = None) -> None:
        """End. Messages that were not taken stay."""
        self._stop_monitoring()
        self._unsubscribe_inner()
        self._client.reply_listeners.discard(self)
        self._client.session_listeners.discard(self)
        self.sub.end(error)

    @property
    def resetting(self) -> bool:
        """Whether it is between two consumers; True only for an ordered subscription."""
        return False

    @property
    def sid(self) -> int:
        """Id of the present subscription on the connection."""
        return self._inner.sid if self._inner is not None else self.sub.sid

    # -- steps of the workflows ----------------------------------------------------------------------------------

    async def _perform_step(self, step: Step) -> None:
        if isinstance(step, Subscribe):
            self._subscribe_inner(step)
        elif isinstance(step, Unsubscribe):
            self._unsubscribe_inner()

    def _subscribe_inner(self, step: Subscribe) -> None:
        """Begin the subscription of the server."""
        self._inner = self._client.subscribe(
            step.subject, step.queue, pending_msgs_limit=NO_LIMIT, pending_bytes_limit=NO_LIMIT, overflow="pause"
        )
        self._connection.flush_soon()

    def _unsubscribe_inner(self) -> None:
        """End the present subscription of the server."""
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.wake = inner.on_status = None
            if not inner.ended:
                self._client.unsubscribe(inner)
                self._connection.flush_soon()

    # -- set up --------------------------------------------------------------------------------------------------

    def _make_state(self) -> SubscriptionState:
        """Return the subscription of the user. It has an id of its own, which the server does not know."""
        config, options = self.binding.config, self._options
        messages = options.pending_msgs_limit
        if messages is None:
            messages = max(self._connection.options.pending_msgs_limit, config.max_ack_pending or 0)
        size = _PENDING_BYTES if options.pending_bytes_limit is None else options.pending_bytes_limit
        return SubscriptionState(
            self._client.subscriptions.next_sid(),
            self.binding.deliver_subject.encode(),
            self.binding.deliver_group.encode(),
            pending_msgs_limit=messages if messages > 0 else NO_LIMIT,
            pending_bytes_limit=size if size > 0 else NO_LIMIT,
            overflow=options.overflow,
        )

    def _set_engine(self) -> None:
        binding = self.binding
        alone = self._options.manage_status and not binding.deliver_group
        self._engine = PushEngine(
            self._name,
            gaps=GapDetector(0 if binding.created else None) if alone and binding.ordered is None else None,
            control=alone,
        )
        interval = binding.config.idle_heartbeat
        if alone and interval:
            monitor = HeartbeatMonitor(duration_ns(interval) / 1e9, self._options.alarm_factor)
            self._heartbeat_timer = HeartbeatTimer(monitor, self._is_paused, self._alarm)

    def _is_paused(self) -> bool:
        return bool(self._client.full_subscriptions.paused)

    @property
    def _name(self) -> str:
        return f"consumer {self.binding.consumer!r} of stream {self.binding.stream!r}"

    def _start_receiving(self) -> None:
        """Take the messages that the present consumer has already sent, and start to receive."""
        inner = self._inner
        assert inner is not None, "bound without a subscription"
        early = list(inner.pending)
        inner.pending.clear()
        inner.taken_bytes = inner.received_bytes
        if not self.binding.acknowledged:
            inner.connection = None
            for message in early:
                settle(cast("JetStreamMessage", message))
        self.sub.subject = inner.subject
        self._resume()
        inner.wake = self._on_read
        if self._options.manage_status:
            inner.on_status = self._on_status
        for message in early:
            if inner.on_status is None or not message.raw_header or message.payload or not self._on_status(message):
                inner.pending.append(message)
                inner.received_bytes += len(message.raw_header) + len(message.payload)
        self._on_read()

    # -- receiving -----------------------------------------------------------------------------------------------

    def _on_read(self) -> None:
        """Handle the end of a socket read that brought messages, or of the subscription."""
        inner = self._inner
        if inner is None:
            return
        self.collect()
        if inner.ended and inner is self._inner:
            self.close(inner.error)
            if self._client.closed:
                self.sub.discard_pending()
        inner.waiting = True

    def collect(self) -> None:
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
        self.collect()
        self._seen()
        for action in self._engine.receive_status(message, status):
            self._perform(action)
        return True

    def _perform(self, action: Action) -> None:
        if isinstance(action, FlowControlRequest):
            try:
                self._connection.outbound.check_reply(action.subject)
            except BadSubjectError as error:
                self._connection.emit(ErrorOccurred(BadSubjectError(f"{self._name}: flow control: {error}")))
                return
            self._flow_control.request(action.subject, self.sub.received - self.sub.dropped)
            self._send_flow_replies()
        elif isinstance(action, ReportError):
            self._connection.emit(ErrorOccurred(action.error))

    def _deliver(self, messages: list[Message], size: int | None) -> None:
        """Give the messages to the user, as far as there is room."""
        sub = self.sub
        if sub.max_msgs and sub.received + len(messages) >= sub.max_msgs:
            messages, size = messages[: sub.max_msgs - sub.received], None
        if size is None:
            size = sum(len(each.raw_header) + len(each.payload) for each in messages)
        if (
            len(sub.pending) + len(messages) <= sub.pending_msgs_limit
            and sub.pending_bytes + size <= sub.pending_bytes_limit
        ):
            sub.pending.extend(messages)
            sub.received += len(messages)
            sub.received_bytes += size
        else:
            self._deliver_until_full(messages)
        sub.notify()
        if sub.max_msgs and sub.received >= sub.max_msgs:
            self.close()

    def _deliver_until_full(self, messages: list[Message]) -> None:
        """Give the user the messages that there is room for."""
        sub = self.sub
        for message in messages:
            sub.received += 1
            if not sub.full or self._client.on_subscription_full(sub):
                sub.pending.append(message)
                sub.received_bytes += len(message.raw_header) + len(message.payload)
            else:
                sub.dropped += 1

    # -- taking --------------------------------------------------------------------------------------------------

    @property
    def taken_count(self) -> int:
        """Messages that the user has taken. May be read from any thread; then it may be slightly too low."""
        sub = self.sub
        return sub.received - sub.dropped - len(sub.pending)

    def on_consumed(self) -> None:
        """Note that a message was taken while `notify_on_take` was set."""
        sub = self.sub
        if self.flow_reply_at is not None and self.taken_count >= self.flow_reply_at:
            self._send_flow_replies()
        if sub.over_limit and sub.below_resume_level:
            self._connection.on_consumed(sub)
            sub.over_limit = False
            self._on_below_limit()
            self._update_notify_on_take()

    def _send_flow_replies(self) -> None:
        """Answer the flow-control requests whose messages were all taken."""
        while True:
            for subject in self._flow_control.due(self.taken_count):
                if self._connection.connected:  # otherwise the server asks again
                    self._connection.send_reply(subject, b"")
            self.flow_reply_at = self._flow_control.next_due
            self._update_notify_on_take()
            if self.flow_reply_at is None or self.taken_count < self.flow_reply_at:
                return  # another thread may have taken a message before `notify_on_take` was set

    def _update_notify_on_take(self) -> None:
        sub = self.sub
        sub.notify_on_take = self.flow_reply_at is not None or sub.over_limit or sub.ended or self._receiving_stopped

    # -- silence and loss ----------------------------------------------------------------------------------------

    def fail(self, error: Error, subject: str | None = None) -> None:  # noqa: ARG002 (for all dependents)
        """Handle the end of the session; silence is expected then."""
        if subject is None:
            self._online = False
            self._flow_control.disconnected()
            self._heartbeat_timer.pause()

    def on_session_restored(self) -> None:
        """Handle that another session is open."""
        self._online = True
        self._resume()

    def _seen(self) -> None:
        self._heartbeat_timer.seen()
        self._existence_checked = False

    def _resume(self) -> None:
        if self._online:
            self._heartbeat_timer.resume()

    def _alarm(self, seconds: float) -> None:
        """Report that the server was silent for that long."""
        error = MissedHeartbeatError(f"{self._name}: neither a message nor a heartbeat came within {seconds:g} s")
        self._connection.server_check.note(error)
        self._connection.emit(ErrorOccurred(error))
        if not self._existence_checked:
            self._existence_checked = True
            self._run_in_background(self._check_consumer_exists())

    async def _check_consumer_exists(self) -> None:
        """Check whether the consumer still exists: a deleted one is silent, too."""
        try:
            await self._js.request(ConsumerInfoRequest(self.binding.stream, self.binding.consumer))
        except ConsumerNotFoundError as error:
            self._connection.emit(ErrorOccurred(error))

    def _stop_monitoring(self) -> None:
        self._receiving_stopped = True
        self._heartbeat_timer.stop()
        self._flow_control.clear()
        self.flow_reply_at = None

    def _on_below_limit(self) -> None:
        """Handle that there is room again."""
