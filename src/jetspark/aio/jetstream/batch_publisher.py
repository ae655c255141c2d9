"""Atomic batches: all messages are stored, one after the other, or none (ADR-50)."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Final, Self, Unpack

from jetspark.aio._interfaces import HasCore
from jetspark.aio.core import ConnectionCore
from jetspark.aio.jetstream._drivers.publish_request import publish_request
from jetspark.aio.message import Msg
from jetspark.engine.atomic_batch import AtomicBatch
from jetspark.engine.retry import RetryPolicy
from jetspark.jetstream.errors import (
    BatchClosedError,
    ConnectionClosedError,
    DisconnectedError,
    Error,
    NoStreamResponseError,
    PermissionsViolationError,
    PublishTimeoutError,
)
from jetspark.jetstream.info import PubAck
from jetspark.jetstream.publish import PublishFields
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.headers import HeadersLike
from jetspark.wire.outbound import Payload

__all__ = ["BatchPublisher"]

_ONCE: Final = RetryPolicy(attempts=0)
_UNANSWERED: Final = (
    ConnectionClosedError,
    DisconnectedError,
    NoStreamResponseError,
    PermissionsViolationError,
    PublishTimeoutError,
)


@checks_arguments()
class BatchPublisher(HasCore[AtomicBatch]):
    """Publishes an atomic batch; created by `JetStream.atomic_batch`.

    The end of its `with` block commits the batch; an exception discards it.

        async with js.atomic_batch() as batch:
            await batch.add("orders.7.header", header)
            await batch.add("orders.7.line", line)
        print(batch.ack.sequence)

    The commit is a message that is not stored (`eob`), which needs nats-server 2.14 or newer. With an older server,
    give the last message to `commit`.
    """

    def __init__(self, connection: ConnectionCore, batch_id: str | None, timeout: float, retry: RetryPolicy) -> None:
        super().__init__(AtomicBatch(batch_id))
        self._connection = connection
        self._timeout = timeout
        self._retry = retry
        self._ack: PubAck | None = None
        self._lock = asyncio.Lock()  # messages are numbered, so they are sent one after the other

    def __repr__(self) -> str:
        return f"<BatchPublisher {self.id!r} of {self.count}, {self._core.state.value}>"

    @property
    def id(self) -> str:
        """Batch id in the messages' headers."""
        return self._core.id

    @property
    def count(self) -> int:
        """Messages added so far."""
        return self._core.count

    @property
    def ack(self) -> PubAck:
        """Acknowledgement of the commit: `sequence` is the last message's sequence, `count` the number of messages.

        Raises
        ------
        BatchClosedError
            The batch is not committed.
        """
        if self._ack is None:
            raise BatchClosedError(f"the atomic batch {self.id!r} is not committed, but {self._core.state.value}")
        return self._ack

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            await self.discard()
        elif self._core.is_open and self.count:
            await self.commit()

    async def add(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        confirm: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
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
        async with self._lock:
            state = self._core
            together = state.next_headers(headers, fields)
            if state.next_needs_reply or confirm:
                plan = self._retry if state.next_needs_reply else _ONCE
                answer = await self._publish_request(subject, payload, together, timeout, plan)
                state.sent(subject)
                state.check_reply(answer)
                return
            if self._connection.write_buffer_full:
                await self._wait_writable(timeout)
            self._connection.send_frame(self._connection.client.outbound.encode(subject, payload, "", together))
            state.sent(subject)

    async def commit(
        self,
        subject: str | None = None,
        payload: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
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
        async with self._lock:
            state = self._core
            if subject is None:
                subject, together = state.eob_message()
                answer = await self._publish_request(subject, b"", together, timeout, _ONCE)
            else:
                plan = self._retry if state.next_needs_reply else _ONCE
                together = state.next_headers(headers, fields, "1")
                answer = await self._publish_request(subject, payload, together, timeout, plan)
                state.sent(subject)
            self._ack = state.read_commit_ack(answer)
            return self._ack

    async def discard(self) -> None:
        """Discard the batch: store nothing of it. Does nothing after a commit or a failure."""
        last = self._core.discard()
        if last is not None:
            with contextlib.suppress(Error):  # the server drops the batch by itself, a little later
                self._connection.queue_publish(last[0], b"", "", last[1])

    async def _wait_writable(self, timeout: float | None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        seconds = self._timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(seconds):
                await self._connection.wait_writable()
        except TimeoutError as error:
            if isinstance(error, Error):
                raise
            raise PublishTimeoutError(
                f"the server has read too little within {seconds:g} s, so the message was not added; add it again"
            ) from None

    async def _publish_request(
        self,
        subject: str,
        payload: Payload,
        headers: HeadersLike,
        timeout: float | None,  # noqa: ASYNC109 (the deadline is part of the call)
        retry: RetryPolicy,
    ) -> Msg:
        """Send a message that needs an answer. Without one the batch fails; if it cannot be sent, nothing changes."""
        seconds = self._timeout if timeout is None else timeout
        try:
            expected = self._core.expected_stream
            return await publish_request(self._connection, subject, payload, headers, seconds, retry, expected)
        except _UNANSWERED as error:
            self._core.fail(error)
            raise
        except asyncio.CancelledError:
            self._core.fail(BatchClosedError("the wait for an answer was cancelled"))
            raise
