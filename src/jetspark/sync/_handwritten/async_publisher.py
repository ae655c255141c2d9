"""The short path of the blocking `publish_async`: the caller's thread does everything except sending.

It encodes the message, registers it in the window and stages the frame for the event loop, without waiting. The loop
reads the acknowledgements into the same window. Steps that belong together run under the connection's lock: a publish
is in the window if, and only if, its frame is staged, queued or sent. So when the loop fails a publish, it finds the
frame and does not send it.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, cast

from jetspark.aio.jetstream import async_publisher as aio
from jetspark.aio.server_check import ApiPrefix
from jetspark.engine.publish_window import AsyncPublishOptions, PendingPublish
from jetspark.jetstream.errors import Error, PublishTimeoutError
from jetspark.jetstream.info import PubAck
from jetspark.jetstream.publish import PublishFields, publish_headers
from jetspark.sync._interfaces import core_of
from jetspark.sync.core import ConnectionCore
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.wire.argument_types import check_timeout
from jetspark.wire.headers import HeadersLike
from jetspark.wire.outbound import Payload

if TYPE_CHECKING:
    from jetspark.aio.jetstream.batch_publisher import BatchPublisher
    from jetspark.aio.jetstream.publishing import Publishing

__all__ = ["BatchAddMixin", "PubAckFuture", "PublishAsyncMixin", "ThreadSafePublisher"]

T = TypeVar("T")
_waiter_lock: Final = threading.Lock()  # so that several waiters use one event


class PubAckFuture(PendingPublish, gc=False, eq=False):
    """The result of `publish_async`: call `result` any number of times, in any thread."""

    def result(self, timeout: float | None = None) -> PubAck:
        """Wait for the acknowledgement.

        Parameters
        ----------
        timeout
            Seconds; None means no limit (`ack_timeout` limits each publish).

        Raises
        ------
        PublishTimeoutError
            It has not come in time. The publish stays open, unless `ack_timeout` has passed.
        APIError, NoStreamResponseError, DisconnectedError
            The publish has failed for that reason.
        """
        if timeout is not None:
            check_timeout("result", timeout)
        self._wait(timeout)
        return self._outcome()

    def exception(self, timeout: float | None = None) -> Error | None:
        """Wait until the publish is settled; return why it failed, None if it did not."""
        if timeout is not None:
            check_timeout("exception", timeout)
        self._wait(timeout)
        return self._failure()

    def _wake(self) -> None:
        cast("threading.Event", self._waiter).set()

    def _wait(self, timeout: float | None) -> None:
        if self.done():
            return
        with _waiter_lock:
            if self._waiter is None:
                self._waiter = threading.Event()
        if not self.done() and not cast("threading.Event", self._waiter).wait(timeout):
            raise PublishTimeoutError(f"{self.subject}: no acknowledgement within {timeout:g} s; it stays under way")


class ThreadSafePublisher(aio.AsyncPublisher):
    """The window of a context for threads other than the loop's. It is created on the loop."""

    future_type = PubAckFuture

    def __init__(
        self, sync_connection: ConnectionCore, options: AsyncPublishOptions, api_prefix: ApiPrefix | None
    ) -> None:
        self._sync_connection = sync_connection
        super().__init__(sync_connection.inner, options, api_prefix)

    def publish(
        self, subject: str, payload: Payload, headers: HeadersLike | None, expected_stream: str | None
    ) -> PubAckFuture:
        """Send a message once there is room; runs in the caller's thread."""
        window = self._window
        if len(window.pending) >= window.limit:
            self._sync_connection.call(self.wait_below_limit())
        with self._sync_connection.stage.lock:
            token = window.next_token()
            frame = self._outbound.encode(subject, payload, window.prefix + token, headers)
            self._sync_connection.stage.append(frame)
            # Not the loop's clock: some loops read it once in each turn, and this is another thread.
            future: PubAckFuture = window.add(subject, token, frame, monotonic(), self, expected_stream)
        if self._timer is None:
            self._sync_connection.call_soon(self._set_next_timer)
        if self._sub.ended:  # it ended meanwhile, perhaps before the loop could see this publish
            self._sync_connection.call_soon(self._on_subscription_ended)
        if self._sync_connection.stage.full:
            self._sync_connection.wait_writable()
        return future

    def fail(self, error: Error, subject: str | None = None) -> None:
        with self._sync_connection.stage.lock:
            failed = self._window.fail(error, subject)
        self._report_failed(failed)

    def _report_failed(self, failed: list[tuple[PendingPublish, bytes]]) -> None:
        self._sync_connection.stage.move_to_loop()
        super()._report_failed(failed)


class PublishAsyncMixin(LoopProxy):
    """The hand-written part of `Publishing`."""

    _inner: Publishing

    def _publish_async(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        **fields: Unpack[PublishFields],
    ) -> PubAckFuture:
        publisher = core_of(self._inner).publisher
        if publisher is None or publisher.ended:
            publisher = self._run(self._make_publisher)
        assert isinstance(publisher, ThreadSafePublisher)
        together = publish_headers(headers, fields) if fields else headers
        return publisher.publish(subject, payload, together, fields.get("expected_stream"))

    def _make_publisher(self) -> aio.AsyncPublisher:
        core = core_of(self._inner)
        if core.publisher is None or core.publisher.ended:
            core.publisher = ThreadSafePublisher(self._connection, core.publish_options, core.api_prefix)
        return core.publisher


class BatchAddMixin(LoopProxy):
    """The hand-written part of `BatchPublisher`: messages without an answer use the short path, too."""

    _inner: BatchPublisher

    def __init__(self, connection: ConnectionCore, inner: BatchPublisher) -> None:
        super().__init__(connection, inner)
        self._lock = threading.Lock()  # messages are numbered, so they are sent one after the other, and the end last

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            return super()._call(coroutine)

    def _add(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        confirm: bool = False,
        timeout: float | None = None,
        **fields: Unpack[PublishFields],
    ) -> None:
        state = core_of(self._inner)
        with self._lock:
            if confirm or state.next_needs_reply:
                add = self._inner.add(subject, payload, headers=headers, confirm=confirm, timeout=timeout, **fields)
                self._connection.call(add)
                return
            full = self._connection.queue_publish(subject, payload, "", state.next_headers(headers, fields))
            state.sent(subject)
        if full:
            self._connection.wait_writable()
