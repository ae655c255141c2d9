"""The messages of a stream, read and deleted one by one or in numbers, without a consumer.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.stream_messages`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from jetspark.aio.jetstream import stream_messages as aio
from jetspark.flow.direct_read import PAGE, PAGE_BYTES
from jetspark.jetstream.stored import StoredMessage
from jetspark.sync.blocking import Blocking
from jetspark.sync.jetstream.results import Results

__all__ = ["StreamMessages"]


class StreamMessages(Blocking):
    """What a stream does with its messages."""

    _inner: aio.StreamMessages

    @property
    def name(self) -> str:
        """Its name."""
        return self._inner.name

    def get_msg(
        self,
        seq: int | None = None,
        *,
        last_by_subject: str | None = None,
        next_by_subject: str | None = None,
        start_time: datetime | None = None,
        direct: bool | None = None,
        timeout: float | None = None,
    ) -> StoredMessage:
        """Get one message (STM-03, DIR-01).

        Parameters
        ----------
        seq
            Its sequence; with `next_by_subject` the first one that is looked at.
        last_by_subject
            The last message of that subject; wildcards are allowed.
        next_by_subject
            The first message of that subject, from `seq` or `start_time` on; wildcards are allowed.
        start_time
            The first message from that time on.
        direct
            Take it from any replica, which may lag behind the last write, instead of the leader. None does so where
            the stream has `allow_direct`.
        timeout
            Seconds; None takes `timeout` of the context.

        Raises
        ------
        MessageNotFoundError
            There is no such message (10037).
        ConfigError
            The choice is not one of those above.
        NoDirectGetError
            With `direct=True`: the stream does not allow it, or is gone.
        StreamNotFoundError
            The stream is gone (10059).
        """
        return self._call(
            self._inner.get_msg(
                seq,
                last_by_subject=last_by_subject,
                next_by_subject=next_by_subject,
                start_time=start_time,
                direct=direct,
                timeout=timeout,
            )
        )

    def get_last_msg(self, subject: str, *, direct: bool | None = None, timeout: float | None = None) -> StoredMessage:
        """Get the last message of a subject; wildcards are allowed. The rest is as in `get_msg`."""
        return self._call(self._inner.get_last_msg(subject, direct=direct, timeout=timeout))

    def get_batch(
        self,
        batch: int | None = None,
        *,
        seq: int | None = None,
        start_time: datetime | None = None,
        subject: str | None = None,
        max_bytes: int = PAGE_BYTES,
        timeout: float | None = None,
    ) -> Results[StoredMessage]:
        """Read messages in order by direct get, without a consumer (DIR-05). Needs `allow_direct`.

            for message in stream.get_batch(1000, subject="orders.eu.>"):
                ...

        Requests of 1,000 messages and `max_bytes` at most follow one another as the messages are read, so that memory
        is bounded whatever the stream holds. Any replica may answer; what was stored last may be missing.

        Parameters
        ----------
        batch
            Most messages in all; None takes what there is.
        seq, start_time
            Where to begin, at one of the two; by default at the first message.
        subject
            Only messages of that subject; wildcards are allowed.
        max_bytes
            Bytes that one request brings; may be exceeded by one message.
        timeout
            Seconds of silence after which an answer counts as lost; None takes `timeout` of the context.

        Raises
        ------
        NoDirectGetError
            The stream does not allow direct get, or is gone.
        RequestTimeoutError
            The answer stopped, and stopped again when asked anew: what came is not all.
        """
        return Results(
            self._connection,
            self._run(
                lambda: self._inner.get_batch(
                    batch, seq=seq, start_time=start_time, subject=subject, max_bytes=max_bytes, timeout=timeout
                )
            ),
        )

    def get_last_many(
        self,
        subjects: str | Sequence[str] = ">",
        *,
        up_to_seq: int | None = None,
        up_to_time: datetime | None = None,
        batch: int = PAGE,
        max_bytes: int = PAGE_BYTES,
        timeout: float | None = None,
    ) -> Results[StoredMessage]:
        """Read the last message of each of many subjects, as they were at one moment (DIR-08). Needs `allow_direct`.

        They come in the order of their sequences. All pages are of the moment of the first one, whatever is written
        meanwhile (DIR-09). The server refuses when more than 1,024 subjects match.

        Parameters
        ----------
        subjects
            Subjects; wildcards are allowed.
        up_to_seq, up_to_time
            The moment, as one of the two; now by default.
        batch, max_bytes
            Messages and bytes that one request brings; the bytes may be exceeded by one message.
        timeout
            Seconds of silence after which an answer counts as lost; None takes `timeout` of the context.

        Raises
        ------
        TooManyResultsError
            More than 1,024 subjects match.
        NoDirectGetError
            The stream does not allow direct get, or is gone.
        RequestTimeoutError, DisconnectedError
            The answer stopped before the moment of the read was known.
        """
        return Results(
            self._connection,
            self._run(
                lambda: self._inner.get_last_many(
                    subjects,
                    up_to_seq=up_to_seq,
                    up_to_time=up_to_time,
                    batch=batch,
                    max_bytes=max_bytes,
                    timeout=timeout,
                )
            ),
        )

    def purge(
        self,
        *,
        subject: str | None = None,
        seq: int | None = None,
        keep: int | None = None,
        timeout: float | None = None,
    ) -> int:
        """Delete messages, all of them or some; returns how many (STM-03).

        Parameters
        ----------
        subject
            Only messages of that subject; wildcards are allowed.
        seq
            Only messages before that sequence.
        keep
            Leave so many of the newest. Not together with `seq`.

        Raises
        ------
        ConfigError
            `seq` and `keep` are both given.
        StreamSealedError, StreamConfigError, APIError
            The stream cannot be purged.
        """
        return self._call(self._inner.purge(subject=subject, seq=seq, keep=keep, timeout=timeout))

    def delete_msg(self, seq: int, *, timeout: float | None = None) -> None:
        """Delete a message; its bytes stay in the store until they are written over.

        Raises
        ------
        MessageNotFoundError
            There is no such message (10043).
        """
        self._call(self._inner.delete_msg(seq, timeout=timeout))

    def secure_delete_msg(self, seq: int, *, timeout: float | None = None) -> None:
        """Delete a message and write random bytes over it. Slower; errors are those of `delete_msg`."""
        self._call(self._inner.secure_delete_msg(seq, timeout=timeout))
