"""Publishing into streams: one message and its acknowledgement, or many at a time (PUB-01 to PUB-13)."""

from __future__ import annotations

from typing import Unpack

from jetspark.aio.jetstream._drivers.publish_request import publish
from jetspark.aio.jetstream.api import JetStreamAPI
from jetspark.aio.jetstream.async_publisher import AsyncPublisher, PubAckFuture
from jetspark.aio.jetstream.batch_publisher import BatchPublisher
from jetspark.engine.publish_window import PublishStats
from jetspark.engine.retry import RetryPolicy
from jetspark.jetstream.info import PubAck
from jetspark.jetstream.publish import RETRY_ATTEMPTS, RETRY_WAIT, PublishFields, publish_headers
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.headers import HeadersLike
from jetspark.wire.outbound import Payload

__all__ = ["Publishing"]

_USUAL_RETRY = RetryPolicy()
_NO_STATS = PublishStats(0, 0, 0, 0, 0)


@checks_arguments(unchecked=("publish_async",))
class Publishing(JetStreamAPI):
    """The publishing calls of a context.

    Keyword arguments set the JetStream options of a message, the fields of `jetspark.jetstream.PublishOptions`:
    `msg_id`, `expected_stream`, `expected_last_sequence`, `expected_last_subject_sequence`, `ttl`, `rollup`,
    `increment`, `schedule` and so on. They become headers, and replace headers of the same name.
    """

    async def publish(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        retry_attempts: int = RETRY_ATTEMPTS,
        retry_wait: float = RETRY_WAIT,
        **fields: Unpack[PublishFields],
    ) -> PubAck:
        """Publish a message and wait until a stream has stored it.

        For more than a few messages, `publish_async` is many times faster: it does not wait for each answer.

        Parameters
        ----------
        headers
            Headers to send; the object is not changed.
        timeout
            Seconds for all of it; None takes `timeout` of the context.
        retry_attempts, retry_wait
            Number of retries while no stream takes the subject (default 2), and seconds before each (default 0.25;
            PUB-03).
        fields
            See the class.

        Raises
        ------
        NoStreamResponseError
            No stream takes the subject, also after the retries; nothing was stored.
        WrongLastSequenceError, WrongStreamError, StreamStoreFailedError, APIError
            The stream refuses the message.
        PublishTimeoutError
            No acknowledgement came in time. Whether the message is stored is not known; it is not sent again. Publish
            it again with the same `msg_id` to store it only once.
        DisconnectedError
            The session was lost meanwhile; the same holds as for a timeout.
        InvalidAckError
            The answer did not come from a stream, or from another one than `expected_stream`.
        MaxPayloadError, BadSubjectError, BadHeadersError, ConfigError
            The message cannot be sent. Nothing was sent.
        """
        seconds = self.timeout if timeout is None else timeout
        together = publish_headers(headers, fields)
        usual = retry_attempts is RETRY_ATTEMPTS and retry_wait is RETRY_WAIT
        plan = _USUAL_RETRY if usual else RetryPolicy(retry_attempts, retry_wait)
        expected = fields.get("expected_stream")
        ack = await publish(self._core.connection, subject, payload, together, seconds, plan, expected)
        self._core.api_prefix.answered = True
        return ack

    async def publish_async(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        **fields: Unpack[PublishFields],
    ) -> PubAckFuture:
        """Publish a message; the returned future gets its acknowledgement (PUB-10).

            acks = [await js.publish_async("orders.new", order) for order in orders]
            await js.publish_async_completed()
            sequences = [ack.result().sequence for ack in acks]

        It waits while `max_pending` publishes are open, or while the server accepts no data. When the session is lost,
        all open publishes fail (PUB-13); those not sent by then are never sent.

        Parameters
        ----------
        headers, fields
            As for `publish`.

        Raises
        ------
        TooManyStalledError
            `max_pending` publishes were open, and none was acknowledged within `stall_wait` (PUB-11).
        OutboundBufferLimitError, ConnectionClosedError
            There is no session and the buffer is full, or the connection is closed.
        MaxPayloadError, BadSubjectError, BadHeadersError, ConfigError
            The message cannot be sent. Nothing was sent.
        """
        core = self._core
        publisher = core.publisher
        if publisher is None or publisher.ended:
            core.connection.check_loop()
            publisher = core.publisher = AsyncPublisher(core.connection, core.publish_options, core.api_prefix)
        if fields:
            headers = publish_headers(headers, fields)
        expected = fields.get("expected_stream")
        while (future := publisher.send(subject, payload, headers, expected)) is None:
            await publisher.wait_writable()
        return future

    @property
    def publish_async_pending(self) -> int:
        """Number of publishes of `publish_async` that are not answered yet."""
        return 0 if self._core.publisher is None else self._core.publisher.pending

    @property
    def publish_async_stats(self) -> PublishStats:
        """Counts of the outcomes of `publish_async` so far."""
        return _NO_STATS if self._core.publisher is None else self._core.publisher.stats

    async def publish_async_completed(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait until every publish of `publish_async` is acknowledged, or has failed and `on_error` has handled it.

        In `on_error` itself it waits for acknowledgements only.

        Parameters
        ----------
        timeout
            Seconds; None means no limit (`ack_timeout` limits each publish).

        Raises
        ------
        PublishTimeoutError
            Some publishes are still open, and stay open; or `on_error` still runs.
        """
        if (publisher := self._core.publisher) is not None:
            await publisher.wait_completed(timeout)

    def atomic_batch(self, batch_id: str | None = None, *, timeout: float | None = None) -> BatchPublisher:
        """Return a new atomic batch, of up to a thousand messages for one stream with `allow_atomic` (ADR-50).

        Parameters
        ----------
        batch_id
            Up to 64 characters; generated by default.
        timeout
            Seconds to wait for each answer; None takes `timeout` of the context.

        Raises
        ------
        ConfigError
            The id is too long.
        """
        seconds = self.timeout if timeout is None else timeout
        return BatchPublisher(self._core.connection, batch_id, seconds, self._core.publish_options.retry)
