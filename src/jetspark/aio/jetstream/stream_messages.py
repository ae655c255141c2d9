"""The messages of a stream, read and deleted one by one or in batches, without a consumer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from jetspark.aio.jetstream._drivers.direct_get import direct_get_batches
from jetspark.aio.jetstream.pager import Pager
from jetspark.engine.direct_read import DIRECT_BATCH, DIRECT_BATCH_BYTES
from jetspark.jetstream.api import MessageDeleteRequest, MessageGetRequest, StreamPurgeRequest
from jetspark.jetstream.direct_get import (
    DirectBatchRequest,
    DirectGetRequest,
    DirectLastRequest,
    DirectMultiLastRequest,
)
from jetspark.jetstream.errors import ConfigError, NoDirectGetError
from jetspark.jetstream.info import StreamInfo
from jetspark.jetstream.stored_message import StoredMessage

if TYPE_CHECKING:
    from jetspark.aio.jetstream.consumer_manager import ConsumerManager

__all__ = ["StreamMessages"]

_WILDCARDS: Final = frozenset("*>")


class StreamMessages:
    """The calls of a stream for its messages."""

    def __init__(self, js: ConsumerManager, info: StreamInfo) -> None:
        self._js = js
        self._info = info

    @property
    def name(self) -> str:
        """Name of the stream."""
        return self._info.config.name

    async def get_msg(
        self,
        seq: int | None = None,
        *,
        last_by_subject: str | None = None,
        next_by_subject: str | None = None,
        start_time: datetime | None = None,
        direct: bool | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> StoredMessage:
        """Get one message (STM-03, DIR-01).

        Parameters
        ----------
        seq
            Sequence of the message; with `next_by_subject`, the first sequence to search.
        last_by_subject
            The last message of that subject; wildcards are allowed.
        next_by_subject
            The first message of that subject, from `seq` or `start_time` on; wildcards are allowed.
        start_time
            The first message from that time on.
        direct
            Take it from any replica, which may lag behind the last write, instead of the leader. None does so if the
            stream has `allow_direct`.
        timeout
            Seconds; None takes `timeout` of the context.

        Raises
        ------
        MessageNotFoundError
            There is no such message (10037).
        ConfigError
            The parameters are none of the combinations above.
        NoDirectGetError
            With `direct=True`: the stream does not allow it, or is gone.
        StreamNotFoundError
            The stream is gone (10059).
        """
        if direct or (direct is None and self._info.config.allow_direct):
            request: DirectGetRequest | DirectLastRequest
            if last_by_subject is not None and not _WILDCARDS & set(last_by_subject) and seq is None:
                request = DirectLastRequest(self.name, last_by_subject)  # permissions by subject
            else:
                request = DirectGetRequest(self.name, seq, last_by_subject, next_by_subject, start_time)
            try:
                return await self._js.direct_get(request, timeout)
            except NoDirectGetError:
                if direct:
                    raise
        asked = MessageGetRequest(self.name, seq, last_by_subject, next_by_subject, start_time)
        return await self._js.request(asked, timeout)

    async def get_last_msg(
        self,
        subject: str,
        *,
        direct: bool | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> StoredMessage:
        """Get the last message of a subject; wildcards are allowed. The rest is as in `get_msg`."""
        return await self.get_msg(last_by_subject=subject, direct=direct, timeout=timeout)

    def get_batch(
        self,
        batch: int | None = None,
        *,
        seq: int | None = None,
        start_time: datetime | None = None,
        subject: str | None = None,
        max_bytes: int = DIRECT_BATCH_BYTES,
        timeout: float | None = None,
    ) -> Pager[StoredMessage]:
        """Read messages in order by direct get, without a consumer (DIR-05). Needs `allow_direct`.

            async for message in stream.get_batch(1000, subject="orders.eu.>"):
                ...

        Requests of at most 1,000 messages and `max_bytes` are sent one after the other as the messages are read, so
        memory is bounded for a stream of any size. Any replica may answer; the last stored messages may be missing.

        Parameters
        ----------
        batch
            Most messages in total; None reads to the end.
        seq, start_time
            First sequence or time, one of the two; default is the first message.
        subject
            Only messages of that subject; wildcards are allowed.
        max_bytes
            Most bytes of one answer; one message may exceed it.
        timeout
            Seconds of silence after which an answer is considered lost; None takes `timeout` of the context.

        Raises
        ------
        NoDirectGetError
            The stream does not allow direct get, or is gone.
        RequestTimeoutError
            The answer stopped, and stopped again after a repeated request: the result is not complete.
        """
        request = DirectBatchRequest(self.name, DIRECT_BATCH, seq, start_time, subject, max_bytes)
        if batch is not None and batch < 1:
            raise ConfigError(f"a batch asks for at least one message, not {batch}")
        return Pager(partial(direct_get_batches, self._js, request, batch, self._timeout_or_default(timeout)))

    def get_last_msgs_for(
        self,
        subjects: str | Sequence[str] = ">",
        *,
        up_to_seq: int | None = None,
        up_to_time: datetime | None = None,
        batch: int = DIRECT_BATCH,
        max_bytes: int = DIRECT_BATCH_BYTES,
        timeout: float | None = None,
    ) -> Pager[StoredMessage]:
        """Read the last message of each of many subjects, as they were at one moment (DIR-08). Needs `allow_direct`.

        They come in the order of their sequences. All pages are of the moment of the first one, also if messages are
        written meanwhile (DIR-09). The server refuses the request if more than 1,024 subjects match.

        Parameters
        ----------
        subjects
            Subjects; wildcards are allowed.
        up_to_seq, up_to_time
            The moment, one of the two; default is now.
        batch, max_bytes
            Most messages and bytes of one answer; one message may exceed the bytes.
        timeout
            Seconds of silence after which an answer is considered lost; None takes `timeout` of the context.

        Raises
        ------
        TooManyResultsError
            More than 1,024 subjects match.
        NoDirectGetError
            The stream does not allow direct get, or is gone.
        RequestTimeoutError, DisconnectedError
            The answer stopped before the moment of the read was known.
        """
        wanted = (subjects,) if isinstance(subjects, str) else tuple(subjects)
        request = DirectMultiLastRequest(self.name, wanted, batch, None, up_to_seq, up_to_time, max_bytes)
        return Pager(partial(direct_get_batches, self._js, request, None, self._timeout_or_default(timeout)))

    async def purge(
        self,
        *,
        subject: str | None = None,
        seq: int | None = None,
        keep: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> int:
        """Delete all or some messages; returns the number of deleted messages (STM-03).

        Parameters
        ----------
        subject
            Only messages of that subject; wildcards are allowed.
        seq
            Only messages before that sequence.
        keep
            Number of the newest messages to keep. Not together with `seq`.

        Raises
        ------
        ConfigError
            `seq` and `keep` are both given.
        StreamSealedError, StreamConfigError, APIError
            The stream cannot be purged.
        """
        return await self._js.request(StreamPurgeRequest(self.name, subject, seq, keep), timeout)

    async def delete_msg(self, seq: int, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Delete a message; its bytes stay in the store until they are overwritten.

        Raises
        ------
        MessageNotFoundError
            There is no such message (10043).
        """
        await self._js.request(MessageDeleteRequest(self.name, seq), timeout)

    async def secure_delete_msg(self, seq: int, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Delete a message and overwrite it with random bytes. Slower; errors are those of `delete_msg`."""
        await self._js.request(MessageDeleteRequest(self.name, seq, secure=True), timeout)

    def _timeout_or_default(self, timeout: float | None) -> float:
        return self._js.timeout if timeout is None else timeout
