"""Atomic batches: all messages are stored, one after the other, or none (ADR-50).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.batch_publisher`: change that, then `make sync`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self, Unpack

from jetspark.aio.jetstream import batch_publisher as aio
from jetspark.jetstream.info import PubAck
from jetspark.jetstream.publish import PublishFields
from jetspark.sync._handwritten.async_publisher import BatchAddMixin
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.wire.headers import HeadersLike
from jetspark.wire.outbound import Payload

__all__ = ["BatchPublisher"]


class BatchPublisher(BatchAddMixin, LoopProxy):
    """Publishes an atomic batch; created by `JetStream.atomic_batch`.

    The end of its `with` block commits the batch; an exception discards it.

        with js.atomic_batch() as batch:
            batch.add("orders.7.header", header)
            batch.add("orders.7.line", line)
        print(batch.ack.seq)

    The commit is a message that is not stored (`eob`), which needs nats-server 2.14 or newer. With an older server,
    give the last message to `commit`.
    """

    _inner: aio.BatchPublisher

    @property
    def id(self) -> str:
        """Batch id in the messages' headers."""
        return self._inner.id

    @property
    def count(self) -> int:
        """Messages added so far."""
        return self._inner.count

    @property
    def ack(self) -> PubAck:
        """Acknowledgement of the commit: `seq` is the last message's sequence, `count` the number of messages.

        Raises
        ------
        BatchClosedError
            The batch is not committed.
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
        """Commit the batch: store all of it.

        Parameters
        ----------
        subject, payload, headers, fields
            A last message to add; without a subject no message is added.
        timeout
            Seconds; None takes the timeout of the batch.

        Raises
        ------
        WrongLastSequenceError, DuplicateInBatchError, IncompleteBatchError, BatchError, APIError
            The stream refuses the batch; no message of it is stored.
        PublishTimeoutError, DisconnectedError
            Whether all messages or none are stored is not known.
        InvalidAckError
            The answer does not belong to this batch.
        ConfigError, BatchClosedError
            There is nothing to commit.
        """
        return self._call(self._inner.commit(subject, payload, headers=headers, timeout=timeout, **fields))

    def discard(self) -> None:
        """Discard the batch: store nothing of it. Does nothing after a commit or a failure."""
        self._call(self._inner.discard())
