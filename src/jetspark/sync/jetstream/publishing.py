"""Publishing into streams: one message and its acknowledgement, or many under way at a time (PUB-01 to PUB-13).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.publishing`: change that, then `make sync`.
"""

from __future__ import annotations

from typing import Unpack

from jetspark.aio.jetstream import publishing as aio
from jetspark.flow.publish_window import PublishStats
from jetspark.jetstream.info import PubAck
from jetspark.jetstream.publish import RETRY_ATTEMPTS, RETRY_WAIT, PublishFields
from jetspark.sync.jetstream.api import JetStreamAPI
from jetspark.sync.jetstream.batch_publisher import BatchPublisher
from jetspark.sync.jetstream.publisher import PublishAsync
from jetspark.wire.headers import HeadersLike
from jetspark.wire.outbound import Payload

__all__ = ["Publishing"]


class Publishing(PublishAsync, JetStreamAPI):
    """What a context does to publish.

    What JetStream shall do with a message is said by keywords, those of `jetspark.jetstream.PublishOptions`: `msg_id`,
    `expected_stream`, `expected_last_sequence`, `expected_last_subject_sequence`, `ttl`, `rollup`, `increment`,
    `schedule` and so on. They become headers, in place of the caller's own of the same name.
    """

    _inner: aio.Publishing

    def publish(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: float | None = None,
        retry_attempts: int = RETRY_ATTEMPTS,
        retry_wait: float = RETRY_WAIT,
        **fields: Unpack[PublishFields],
    ) -> PubAck:
        """Publish a message and wait until a stream has stored it.

        For more than a few messages, `publish_async` is many times as fast: it does not wait for each answer.

        Parameters
        ----------
        headers
            They are sent along, and left as they are.
        timeout
            Seconds for all of it; None takes `timeout` of the context.
        retry_attempts, retry_wait
            When no stream takes the subject, try so often again (twice by default), after so many seconds each time
            (0.25; PUB-03).
        fields
            See the class.

        Raises
        ------
        NoStreamResponseError
            No stream takes the subject, retries included; nothing was stored.
        WrongLastSequenceError, WrongStreamError, StreamStoreFailedError, APIError
            The stream refuses the message.
        PublishTimeoutError
            No acknowledgement in time. Whether the message is stored is not known; it is not sent any more. Publish it
            again with the same `msg_id`, and it is stored once.
        DisconnectedError
            The session was lost meanwhile; as for a time-out.
        InvalidAckError
            Somebody answered, but no stream.
        MaxPayloadError, BadSubjectError, BadHeadersError, ConfigError
            It cannot be sent; nothing was.
        """
        return self._call(
            self._inner.publish(
                subject,
                payload,
                headers=headers,
                timeout=timeout,
                retry_attempts=retry_attempts,
                retry_wait=retry_wait,
                **fields,
            )
        )

    @property
    def publish_async_pending(self) -> int:
        """How many publishes of `publish_async` are not answered yet."""
        return self._inner.publish_async_pending

    @property
    def publish_async_stats(self) -> PublishStats:
        """What became of the publishes of `publish_async` so far."""
        return self._inner.publish_async_stats

    def publish_async_completed(self, timeout: float | None = None) -> None:
        """Wait until every publish of `publish_async` is acknowledged or has failed.

        Parameters
        ----------
        timeout
            Seconds; None waits for as long as it takes, which `ack_timeout` bounds.

        Raises
        ------
        PublishTimeoutError
            Some are still under way, and stay so.
        """
        self._call(self._inner.publish_async_completed(timeout))

    def batch(self, batch_id: str | None = None, *, timeout: float | None = None) -> BatchPublisher:
        """Begin an atomic batch, of up to a thousand messages for one stream that sets `allow_atomic` (ADR-50).

        Parameters
        ----------
        batch_id
            Up to 64 characters; a fresh one by default.
        timeout
            Seconds to wait for each answer; None takes `timeout` of the context.

        Raises
        ------
        ConfigError
            The id is too long.
        """
        return BatchPublisher(self._connection, self._run(lambda: self._inner.batch(batch_id, timeout=timeout)))
