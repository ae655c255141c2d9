"""Atomic batches: all messages are stored, one behind the other, or none (ADR-50).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.batch_publisher`: change that, then `make sync`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self, Unpack

from jetspark.aio.jetstream import batch_publisher as aio
from jetspark.jetstream.info import PubAck
from jetspark.jetstream.publish import PublishFields
from jetspark.sync.blocking import Blocking
from jetspark.wire.headers import HeadersLike
from jetspark.wire.outbound import Payload

__all__ = ["BatchPublisher"]


class BatchPublisher(Blocking):
    """Made by `JetStream.batch`. The end of its `with` block commits the batch; an exception discards it.

        with js.batch() as batch:
            batch.add("orders.7.header", header)
            batch.add("orders.7.line", line)
        print(batch.ack.seq)

    It is committed with a message that is not stored (`eob`), which nats-server knows since 2.14. With an older one,
    give the last message to `commit`.
    """

    _inner: aio.BatchPublisher

    @property
    def id(self) -> str:
        """Id that the messages carry."""
        return self._inner.id

    @property
    def count(self) -> int:
        """Messages added so far."""
        return self._inner.count

    @property
    def ack(self) -> PubAck:
        """Acknowledgement of the commit: `seq` is the last message's, `count` how many there are.

        Raises
        ------
        BatchClosedError
            There is none: the batch is not committed.
        """
        return self._inner.ack

    def __enter__(self) -> Self:
        self._call(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._inner.__aexit__(kind, error, trace))

    def add(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        confirm: bool = False,
        timeout: float | None = None,
        **fields: Unpack[PublishFields],
    ) -> None:
        """Add a message. The first one waits until the stream has opened the batch, the others do not wait.

        Parameters
        ----------
        headers, fields
            As for `publish`. `expected_last_sequence` may stand in the first message only, `expected_last_msg_id` in
            none.
        confirm
            Wait until the stream has this message, though it does not check it before the commit.
        timeout
            Seconds where it waits; None takes that of the batch.

        Raises
        ------
        AtomicPublishDisabledError
            The stream does not set `allow_atomic` (10174).
        TooManyRequestsError
            The stream, or the server, has too many open batches (10210).
        IncompleteBatchError
            The stream does not know the batch any more: a message was lost, or ten seconds passed (10176).
        ConfigError
            A thousand messages are in it, or the stream would refuse the message for sure; nothing was sent.
        BatchClosedError
            The batch is committed, discarded or has failed.
        NoStreamResponseError, PublishTimeoutError, DisconnectedError
            As for `publish`; the batch has failed then, and stores nothing.
        """
        self._call(self._inner.add(subject, payload, headers=headers, confirm=confirm, timeout=timeout, **fields))

    def commit(
        self,
        subject: str | None = None,
        payload: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: float | None = None,
        **fields: Unpack[PublishFields],
    ) -> PubAck:
        """Store all of it.

        Parameters
        ----------
        subject, payload, headers, fields
            A last message to add; without a subject, nothing more is added.
        timeout
            Seconds; None takes that of the batch.

        Raises
        ------
        WrongLastSequenceError, DuplicateInBatchError, IncompleteBatchError, BatchError, APIError
            The stream refuses the batch; nothing of it is stored.
        PublishTimeoutError, DisconnectedError
            Whether all of it is stored, or nothing, is not known.
        InvalidAckError
            The answer is not about this batch.
        ConfigError, BatchClosedError
            There is nothing to commit.
        """
        return self._call(self._inner.commit(subject, payload, headers=headers, timeout=timeout, **fields))

    def discard(self) -> None:
        """Store nothing of it. After the end it does nothing."""
        self._call(self._inner.discard())
