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
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.headers import HeadersLike
from jetspark.wire.outbound import Payload

__all__ = ["BatchPublisher"]


@checks_arguments()
class BatchPublisher(BatchAddMixin, LoopProxy):
    """Publishes an atomic batch; created by `JetStream.atomic_batch`.

    The end of its `with` block commits the batch; an exception discards it.

        with js.atomic_batch() as batch:
            batch.add("orders.7.header", header)
            batch.add("orders.7.line", line)
        print(batch.ack.sequence)

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
        """Acknowledgement of the commit: `sequence` is the last message's sequence, `count` the number of messages.

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
        """Add a message. The first call waits until the stream has opened the batch; later calls wait only while the
        server accepts no data.

        Parameters
        ----------
        headers, fields
            As for `publish`. `expected_last_sequence` is allowed in the first message only, `expected_last_msg_id` in
            none.
        confirm
            Wait until the stream has this message. The stream checks it only at the commit.
        timeout
            Seconds, if it waits; None takes the timeout of the batch.

        Raises
        ------
        AtomicPublishDisabledError
            The stream does not set `allow_atomic` (10174).
        TooManyRequestsError
            The stream, or the server, has too many open batches (10210).
        IncompleteBatchError
            The stream has dropped the batch: a message was lost, or ten seconds passed (10176).
        ConfigError
            The batch has a thousand messages, or the stream would certainly refuse the message. Nothing was sent.
        BatchClosedError
            The batch is committed or discarded, or it has failed.
        NoStreamResponseError, PublishTimeoutError, DisconnectedError
            As for `publish`. The batch has failed and stores nothing.
        """
        self._add(subject, payload, headers=headers, confirm=confirm, timeout=timeout, **fields)

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
