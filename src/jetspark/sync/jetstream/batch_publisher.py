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
from jetspark.sync.jetstream.publisher import BatchAdd
from jetspark.wire.headers import HeadersLike
from jetspark.wire.outbound import Payload

__all__ = ["BatchPublisher"]


class BatchPublisher(BatchAdd, Blocking):
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
