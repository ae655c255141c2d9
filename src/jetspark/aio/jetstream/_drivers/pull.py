"""Drives the pull engine on the event loop: a subscription of its own, a timer, and the changes of the session.

Messages come in socket reads. At the end of a read its messages are counted together and moved to `ready`; only
statuses are handled one by one, in their order. So no code here runs for each message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, cast

from jetspark.aio.jetstream._drivers.carry_over import CarryOver
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.aio.message import Msg
from jetspark.engine.pull import CheckConsumer, End, PinIds, PullEngine, PullOptions, SendPull, Warn
from jetspark.jetstream.ack import ACK_PREFIX, undelivered_error
from jetspark.jetstream.api import ConsumerInfoRequest
from jetspark.jetstream.errors import Error
from jetspark.jetstream.header_names import PENDING_BYTES, PENDING_MESSAGES, PIN_ID
from jetspark.jetstream.message import message_size
from jetspark.wire.messages import Message
from jetspark.wire.reply_tokens import NumberedTokens
from jetspark.wire.subscriptions import SubscriptionState
from jetspark.wire.untrusted import parse_number

__all__ = ["PullDriver"]

_IDLE_HEARTBEAT: Final = 100


class PullDriver:
    """Pulls for one fetch, next or consume.

    Parameters
    ----------
    js
        Context.
    stream, consumer
        Names.
    options
        From `jetspark.engine.pull`.
    pins
        Pin ids of the handle, by priority group.
    acks
        Whether the consumer wants acknowledgements; otherwise the messages' ack calls do nothing (ACK-08).
    on_ready
        Called when messages came, and at the end.
    on_warning
        Called with each warning for the user.
    ready
        Where messages go; messages that it already has are taken over.
    check
        Returns how many of the new messages are good; the others are dropped.
    on_heartbeat
        Called with each heartbeat.
    carry_over
        Receives messages that come after the end of a fetch that has timed out, and the messages of a cancelled call.

    Attributes
    ----------
    ready
        Messages that arrived and were not taken. After taking some, the reader must call `on_consumed`.
    taken_size
        Bytes taken from `ready`; the reader updates it if `counts_bytes`.
    ended, error
        Whether nothing more will come, and why.
    """

    def __init__(
        self,
        js: JetStreamCore,
        stream: str,
        consumer: str,
        options: PullOptions,
        *,
        pins: PinIds | None = None,
        acks: bool = True,
        on_ready: Callable[[], None],
        on_warning: Callable[[Error], None],
        ready: deque[Msg] | None = None,
        check: Callable[[Sequence[Msg]], int] | None = None,
        on_heartbeat: Callable[[Message], None] | None = None,
        carry_over: CarryOver | None = None,
    ) -> None:
        self.engine = PullEngine(stream, consumer, options, pins)
        self.ready: deque[Msg] = deque() if ready is None else ready
        self.taken_size = 0
        self.ended = False
        self.error: Error | None = None
        self._js = js
        self._connection = js.connection
        self._client = js.connection.client
        self._lookup_request = ConsumerInfoRequest(stream, consumer)
        self._group = options.priority.group
        self._acks = acks
        self._on_ready = on_ready
        self._on_warning = on_warning
        self._check = check
        self._on_heartbeat = on_heartbeat
        self._carry_over = carry_over
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._timer: asyncio.TimerHandle | None = None
        self._lookup_task: asyncio.Task[None] | None = None
        self._sub: SubscriptionState | None = None
        self._prefix = b""
        self._tokens = NumberedTokens()
        self._received = self._reported_count = self._reported_size = 0
        self._subject = ""
        self._frames: deque[bytes] = deque(maxlen=4)  # pulls that may still wait to be sent
        if self.ready:
            self._count_prefilled(list(self.ready))  # copied in one step, as another thread may take messages

    def __repr__(self) -> str:
        where = f"{self._lookup_request.stream}/{self._lookup_request.consumer}"
        return f"<PullDriver {where} {'ended' if self.ended else 'open'}>"

    # -- life ----------------------------------------------------------------------------------------------------

    async def wait_started(self) -> None:
        """Return at once: the consumer is there."""

    def start(self, began: float | None = None) -> None:
        """Subscribe and pull. The time of a fetch counts from `began`, or from now.

        Raises
        ------
        ConnectionClosedError
        """
        client = self._client
        inbox = client.new_inbox()
        sub = client.subscribe(f"{inbox}.*")
        sub.unlimited = True  # pulled messages are never dropped (R43): the pulls are the limit
        if not self._acks:
            sub.connection = None
        self._prefix = inbox.encode() + b"."
        self._sub = sub
        sub.on_status = self._on_status
        sub.reply_prefix = ACK_PREFIX
        sub.on_other_reply = self._on_other_reply
        sub.wake = self._on_read
        sub.waiting = True
        client.reply_listeners.add(self)
        client.session_listeners.add(self)
        self.engine.start(self._now(), online=client.outbound.online, began=began)
        self._perform_actions()

    def on_consumed(self) -> None:
        """Note that messages were taken from `ready`, or that a reader waits."""
        self._report_consumed()
        self._perform_actions()

    def stop(self, error: Error | None = None) -> None:
        """End now. Messages that were not taken stay in `ready`."""
        self.engine.stop(error)
        self._perform_actions()

    def detach(self) -> None:
        """End for a cancelled caller: `carry_over` gets the messages in `ready`, and those that still come."""
        self.engine.abandon()
        if self._sub is not None:
            self._perform_actions()
        self.ended = True
        if self._carry_over is not None:
            self._carry_over.put_back(self.ready)
            self.ready.clear()

    def prefill(self, messages: deque[Msg]) -> None:
        """Take over messages that another call has pulled, unless it has ended."""
        if messages and not self.ended:
            self._report_consumed()
            self._count_prefilled(messages)
            self.ready.extend(messages)
            messages.clear()
            if self._sub is not None:
                self._on_ready()

    def drain(self) -> None:
        """Pull no more; messages of open pulls that were sent still come, then it ends."""
        self.engine.drain()
        if self.ended:
            return
        self._set_timer(None)
        assert self._sub is not None
        if self._client.stop_delivery(self._sub) and self._client.outbound.online:
            self._client.ping(lambda _: self._finish(None))
            self._connection.flush_soon()
        else:
            self._finish(None)

    # -- called by the connection --------------------------------------------------------------------------------

    def fail(self, error: Error, subject: str | None = None) -> None:
        """Handle the end of the session, or that the user may not publish the pulls."""
        if subject is None:
            self._report_consumed()
            self._client.outbound.withdraw(self._frames)
            self.engine.disconnected(error)
        elif subject == self._subject:
            self.engine.stop(error)
        self._perform_actions()

    def on_session_restored(self) -> None:
        """Handle that another session is open."""
        self._report_consumed()
        self.engine.reconnected(self._now())
        self._perform_actions()
        self._notify_reader()

    def _on_read(self) -> None:
        """Handle the end of a socket read that brought messages, or of the subscription."""
        sub = self._sub
        assert sub is not None
        sub.waiting = True
        self._collect()
        if sub.ended and not self.ended:
            self.engine.stop(sub.error)
        self._perform_actions()
        self._notify_reader()

    def _on_status(self, message: Message) -> bool:
        subject = message.raw_subject
        if not subject.startswith(self._prefix) or (status := message.status) is None:
            return False
        number = self._tokens.number(subject[len(self._prefix) :])
        if number is None:
            self._client.reply_mux.unmatched_replies += 1
            return True
        self._collect()
        if self._on_heartbeat is not None and status.code == _IDLE_HEARTBEAT:
            self._on_heartbeat(message)
        self.engine.status(self._now(), number, status.code, status.description, _pending_counts(message))
        self._perform_actions()
        self._notify_reader()
        return True

    def _on_other_reply(self, message: Message) -> None:
        """Drop a message that no consumer delivered: it counts for no pull."""
        lookup = self._lookup_request
        self._on_warning(undelivered_error(message.reply, f"consumer {lookup.consumer!r} of stream {lookup.stream!r}"))

    def _notify_reader(self) -> None:
        """Report a change, perhaps only of `messages_until_pull`."""
        if not self.ended:  # `_finish` reports the end
            self._on_ready()

    @property
    def messages_until_pull(self) -> int:
        """How many messages may be taken before `report` must be called."""
        return self.engine.messages_until_pull

    @property
    def counts_bytes(self) -> bool:
        """Whether the reader must update `taken_size`."""
        return self.engine.counts_bytes

    @property
    def received(self) -> int:
        """Messages that were put into `ready` so far."""
        return self._received

    @property
    def taken_count(self) -> int:
        """Messages taken from `ready` so far."""
        return self._received - len(self.ready)

    # -- counting ------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        assert self._sub is not None
        fresh = cast("deque[Msg]", self._sub.pending)
        if not fresh:
            return
        self._report_consumed()
        if self._check is not None:
            good = self._check(fresh)
            while len(fresh) > good:
                fresh.pop()
        if fresh:
            self._note_pin(self._sub.pending)
            self._count_received(fresh)
            self.ready.extend(fresh)
            fresh.clear()
        self._sub.taken_bytes = self._sub.received_bytes

    def _note_pin(self, messages: deque[Message]) -> None:
        if self._group is not None and (pin_id := messages[-1].headers.get(PIN_ID)) is not None:
            self.engine.pinned(pin_id)

    def _count_received(self, messages: deque[Msg]) -> None:
        engine = self.engine
        size = sum(map(message_size, messages)) if engine.counts_bytes else 0
        self._received += len(messages)
        engine.delivered(self._now(), len(messages), size)

    def _count_prefilled(self, messages: Sequence[Msg]) -> None:
        """Count messages in the buffer that another call has pulled."""
        self._received += len(messages)
        self.engine.prefilled(len(messages), sum(map(message_size, messages)) if self.engine.counts_bytes else 0)

    def _report_consumed(self) -> None:
        """Pass to the engine how many messages were taken since the last call."""
        count = self.taken_count - self._reported_count
        if count > 0:
            size = self.taken_size - self._reported_size
            self._reported_count += count
            self._reported_size += size
            self.engine.consumed(self._now(), count, size)

    # -- actions -------------------------------------------------------------------------------------------------

    def _perform_actions(self) -> None:
        for action in self.engine.poll_actions():
            match action:
                case SendPull(number, request):
                    self._send(request.subject(self._js.prefix), request.payload(), number)
                case Warn(error):
                    self._connection.server_check.note(error)
                    self._on_warning(error)
                case CheckConsumer():
                    self._lookup_task = self._loop.create_task(self._check_consumer_exists(), name="jetspark look-up")
                case End(error):
                    self._connection.server_check.note(error)
                    self._finish(error)
        if not self.ended:
            self._set_timer(self.engine.deadline)

    def _send(self, subject: str, payload: bytes, number: int) -> None:
        outbound = self._client.outbound
        frame = outbound.encode(subject, payload, self._prefix + self._tokens.token(number), None)
        self._subject = subject
        self._frames.append(frame)
        outbound.queue_command(frame)
        self._connection.flush_soon()

    def _set_timer(self, when: float | None) -> None:
        """Call `_tick` at that time or earlier; an early call does no harm, so a later time needs no new timer."""
        if self._timer is not None and (when is None or when < self._timer.when()):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and when is not None:
            self._timer = self._loop.call_at(when, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._report_consumed()
        self.engine.tick(self._now())
        if self.engine.pull_left_open:  # the server has not even ended the pull of a fetch
            self._connection.server_check.suspect()
        self._perform_actions()

    async def _check_consumer_exists(self) -> None:
        """Ask the server whether the consumer exists."""
        failure: Error | None = None
        try:
            await self._js.request(self._lookup_request)
        except Error as error:
            failure = error
        if not self.ended:
            self._report_consumed()
            self.engine.consumer_checked(self._now(), failure)
            self._perform_actions()

    def _finish(self, error: Error | None) -> None:
        if self.ended:
            return
        self._collect()
        self.error = error
        self.ended = True  # set after the last messages and `error`, because other threads read those next
        self._set_timer(None)
        if self._lookup_task is not None and self._lookup_task is not asyncio.current_task():
            self._lookup_task.cancel()
        self._client.reply_listeners.discard(self)
        self._client.session_listeners.discard(self)
        sub = self._sub
        assert sub is not None
        sub.wake = sub.on_status = sub.on_other_reply = None
        self._on_ready()
        if sub.ended:
            return
        if self.engine.pull_left_open and self._carry_over is not None and self._client.outbound.online:
            self._carry_over.drain(self._connection, sub, self._note_pin)
        else:
            self._connection.send_next_tick(
                self._client.subscriptions.remove(sub)
            )  # sent with the caller's next frames


def _pending_counts(message: Message) -> tuple[int, int] | None:
    """Return the numbers of the Nats-Pending headers of a status; None if they are missing or not numbers."""
    headers = message.headers
    count, size = parse_number(headers.get(PENDING_MESSAGES)), parse_number(headers.get(PENDING_BYTES))
    return None if count is None or size is None else (count, size)
