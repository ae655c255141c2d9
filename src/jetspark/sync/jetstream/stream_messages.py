"""The messages of a stream: get, read in batches, delete, and read as Arrow columns, all without a consumer.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.stream_messages`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from jetspark.aio.jetstream import stream_messages as aio
from jetspark.engine.direct_read import DIRECT_BATCH, DIRECT_BATCH_BYTES
from jetspark.jetstream.stored_message import StoredMessage
from jetspark.payload import DecodeOptions, PayloadFormat
from jetspark.sync._handwritten.arrow import ScanReader
from jetspark.sync._handwritten.pager import Pager
from jetspark.sync.jetstream.stream_base import StreamBase
from jetspark.wire.argument_types import checks_arguments

if TYPE_CHECKING:
    from jetspark import bulk

__all__ = ["StreamMessages"]


@checks_arguments()
class StreamMessages(StreamBase):
    """The calls of a stream for its messages. They need no consumer."""

    _inner: aio.StreamMessages

    def get_msg(
        self,
        sequence: int | None = None,
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
        sequence
            Sequence of the message; with `next_by_subject`, the first sequence to search.
        last_by_subject
            The last message of that subject; wildcards are allowed.
        next_by_subject
            The first message of that subject, from `sequence` or `start_time` on; wildcards are allowed.
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
        return self._call(
            self._inner.get_msg(
                sequence,
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
        sequence: int | None = None,
        start_time: datetime | None = None,
        subject: str | None = None,
        max_bytes: int = DIRECT_BATCH_BYTES,
        timeout: float | None = None,
    ) -> Pager[StoredMessage]:
        """Read messages in order by direct get, without a consumer (DIR-05). Needs `allow_direct`.

            for message in stream.get_batch(1000, subject="orders.eu.>"):
                ...

        Requests of at most 1,000 messages and `max_bytes` are sent one after the other as the messages are read, so
        memory is bounded for a stream of any size. Any replica may answer; the last stored messages may be missing.

        Parameters
        ----------
        batch
            Most messages in total; None reads to the end.
        sequence, start_time
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
        return Pager(
            self._connection,
            self._run(
                lambda: self._inner.get_batch(
                    batch,
                    sequence=sequence,
                    start_time=start_time,
                    subject=subject,
                    max_bytes=max_bytes,
                    timeout=timeout,
                )
            ),
        )

    def get_last_msgs_for(
        self,
        subjects: str | Sequence[str] = ">",
        *,
        up_to_sequence: int | None = None,
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
        up_to_sequence, up_to_time
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
        return Pager(
            self._connection,
            self._run(
                lambda: self._inner.get_last_msgs_for(
                    subjects,
                    up_to_sequence=up_to_sequence,
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
        sequence: int | None = None,
        keep: int | None = None,
        timeout: float | None = None,
    ) -> int:
        """Delete all or some messages; returns the number of deleted messages (STM-03).

        Parameters
        ----------
        subject
            Only messages of that subject; wildcards are allowed.
        sequence
            Only messages before that sequence.
        keep
            Number of the newest messages to keep. Not together with `sequence`.

        Raises
        ------
        ConfigError
            `sequence` and `keep` are both given.
        StreamSealedError, StreamConfigError, APIError
            The stream cannot be purged.
        """
        return self._call(self._inner.purge(subject=subject, sequence=sequence, keep=keep, timeout=timeout))

    def delete_msg(self, sequence: int, *, timeout: float | None = None) -> None:
        """Delete a message; its bytes stay in the store until they are overwritten.

        Raises
        ------
        MessageNotFoundError
            There is no such message (10043).
        """
        self._call(self._inner.delete_msg(sequence, timeout=timeout))

    def secure_delete_msg(self, sequence: int, *, timeout: float | None = None) -> None:
        """Delete a message and overwrite it with random bytes. Slower; errors are those of `delete_msg`."""
        self._call(self._inner.secure_delete_msg(sequence, timeout=timeout))

    def scan(
        self,
        *,
        subjects: Sequence[str] = (),
        start_sequence: int | None = None,
        start_time: datetime | int | None = None,
        end_sequence: int | None = None,
        end_time: datetime | int | None = None,
        columns: Sequence[str] | None = None,
        decode: PayloadFormat | DecodeOptions | None = None,
        max_batch_rows: int = 16384,
    ) -> ScanReader:
        """Read a range of the stream as Arrow record batches, which pandas, polars and DuckDB accept.

        It reads over a connection of its own, acknowledges nothing and leaves nothing on the server. Needs the `arrow`
        extra.

        Parameters
        ----------
        subjects
            Subject filters, with wildcards; they must not overlap. Empty means all subjects.
        start_sequence, start_time
            First sequence, or the time of the first message (`datetime`, or nanoseconds since 1970 UTC). Default: the
            first message.
        end_sequence, end_time
            The sequence, or the time, to stop before. Default: after the message that is the last one now.
        columns
            Any of `subject`, `data`, `headers`, `stream`, `sequence`, `timestamp` and `timestamp_ns`; None means all.
        decode
            Format of the payloads: its fields take the place of `data`; see `jetspark.bulk.scan`.
        max_batch_rows
            Most rows of a record batch.

        Raises
        ------
        ConfigError, StreamNotFoundError, ConnectError, DataLossError, PayloadError
            While reading; see `jetspark.bulk.scan`.
        """
        return ScanReader(
            self._connection,
            self._run(
                lambda: self._inner.scan(
                    subjects=subjects,
                    start_sequence=start_sequence,
                    start_time=start_time,
                    end_sequence=end_sequence,
                    end_time=end_time,
                    columns=columns,
                    decode=decode,
                    max_batch_rows=max_batch_rows,
                )
            ),
        )

    def last_per_subject(
        self,
        *,
        subjects: str | Sequence[str] = (),
        columns: Sequence[str] | None = None,
        decode: PayloadFormat | DecodeOptions | None = None,
        retry_timeout: float = 30.0,
        timeout: float | None = None,
    ) -> bulk.Snapshot:
        """Read the last message of every subject, as they were at one moment, as Arrow columns (DIR-08, DIR-09).

            snapshot = stream.last_per_subject(subjects="orders.>")
            frame = snapshot.to_pandas()

        The number of subjects is not limited. It reads over a connection of its own, in a thread, and leaves nothing on
        the server. The result has `table` (one row for each subject), `to_pandas` and `to_polars`. A deletion marker
        counts as a message. Needs the `arrow` extra.

        Parameters
        ----------
        subjects
            A subject filter or several, with wildcards; they must not overlap. Empty means all subjects.
        columns, decode
            As in `scan`. A message that marks a deletion has an empty payload.
        retry_timeout
            Seconds to keep trying if the server goes away, or if others write faster than we can read.
        timeout
            Seconds for a request to the server; None takes `timeout` of the context.

        Raises
        ------
        StreamNotFoundError, JetStreamNotEnabledError, APIError, ConnectError
            The server refuses the request, or cannot be reached.
        ConfigError
            The stream does not allow direct get, and a consumer would change which messages it keeps.
        RequestTimeoutError
            There was no moment at which all messages were read.
        PayloadError
            A payload cannot be decoded, and the mode is FAILFAST.
        """
        return self._call(
            self._inner.last_per_subject(
                subjects=subjects, columns=columns, decode=decode, retry_timeout=retry_timeout, timeout=timeout
            )
        )
