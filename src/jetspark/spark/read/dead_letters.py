"""The dead letters of a read: messages that a task cannot decode. They are published before the rows around them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext

from jetspark.jetstream.errors import Error
from jetspark.spark.connections import borrow_connection
from jetspark.spark.options.batch import ReadOptions
from jetspark.spark.options.dead_letters import DeadLetterOptions
from jetspark.spark.streams.dead_letters import count_dead_letters, find_dead_letter_stream
from jetspark.spark.streams.listing import list_streams

if TYPE_CHECKING:
    import pyarrow as pa

    from jetspark.bulk import Connection
    from jetspark.bulk.dead_letters import DeadLetterPublisher

__all__ = ["DeadLetterCount", "ReadDeadLetters", "check_dead_letters"]

_log: Final = logging.getLogger(__name__)

_QUERY: Final = "sql.streaming.queryId"


def check_dead_letters(options: ReadOptions, added: Sequence[str] = ()) -> DeadLetterOptions | None:
    """Check before the first row that a stream takes the dead letters, and that the read does not read this stream.

    Return the options with that stream; None without dead letters.

    Parameters
    ----------
    added
        Streams that are read from now on; empty for all streams of the options.

    Raises
    ------
    ConfigError
        No stream takes them, or the read would read its own dead letters.
    """
    if options.dead_letters is None:
        return None
    from jetspark.bulk.retry import request_with_retry

    with borrow_connection(options.server.connect, options.retry_timeout, first_contact=True) as connection:
        streams = added or options.streams
        pattern = options.stream_pattern
        if pattern is not None and not added:
            streams = request_with_retry(
                connection, lambda: list_streams(connection, options.server, pattern), options.retry_timeout
            )
        return find_dead_letter_stream(
            connection, options.server, options.retry_timeout, options.dead_letters, streams, options.subjects
        )


class DeadLetterCount:
    """The number of messages on the subject of a query's dead letters, for its progress.

    The tasks that publish dead letters run in other processes than the source, and Spark has no way for their counts.
    So the source asks the server, once for each micro-batch.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._found: DeadLetterOptions | None = None
        self._count: int | None = None
        self._reached: object = None

    def check(self) -> None:
        """Check the stream of the dead letters before the first row; see `check_dead_letters`."""
        self._found = check_dead_letters(self._options)

    def check_added(self, streams: Collection[str]) -> None:
        """Check the streams of a pattern: one that was found while the query runs may have the dead letters."""
        if self._found is not None:
            self._found = check_dead_letters(self._options, sorted(streams))

    def at(self, reached: object) -> dict[str, object]:
        """Return an entry for the document that Spark shows as the latest offset; empty if there is no number.

        The server is asked when the query has reached another offset.
        """
        if self._found is None:
            return {}
        if reached != self._reached:
            self._reached = reached
            self._ask(self._found)
        return {} if self._count is None else {"deadLetters": {self._found.subject: self._count}}

    def _ask(self, found: DeadLetterOptions) -> None:
        options = self._options
        try:
            with borrow_connection(options.server.connect) as connection:
                self._count = count_dead_letters(connection, options.server, found)
        except Error as error:
            self._count = None
            _log.warning("cannot count the dead letters on subject %s: %s", found.subject, error)


class ReadDeadLetters:
    """Publishes the dead letters of one partition of a stream.

    Parameters
    ----------
    options
        Options of the read.
    stream
        Name of the stream.
    job
        Id of the read, if it is no streaming query.
    created_ns
        When the stream was created, in nanoseconds since 1970.
    """

    def __init__(self, options: ReadOptions, stream: str, job: str, created_ns: int = 0) -> None:
        assert options.dead_letters is not None
        self.subject = options.dead_letters.subject
        self.created_ns = created_ns
        self._options = options
        self._stream = stream
        context = TaskContext.get()
        self._query = None if context is None else context.getLocalProperty(_QUERY)
        self._job = self._query or job
        self._publisher: DeadLetterPublisher | None = None

    @property
    def count(self) -> int:
        """Number of dead letters that were published."""
        return 0 if self._publisher is None else self._publisher.count

    def publish(self, records: pa.RecordBatch, reasons: Sequence[str]) -> None:
        """Publish messages, and wait for their acknowledgements.

        Parameters
        ----------
        records
            Their `subject`, `sequence`, `data` and `headers`.
        reasons
            The fault of each.

        Raises
        ------
        TooManyDeadLettersError
            There are more than `maxDeadLetters` in this task.
        PublishRefusedError, PublishTimeoutError, DisconnectedError
            Not all of them are stored.
        """
        from jetspark.bulk.dead_letters import message_letters

        # A batch has no id that a second read of the same messages would have, too.
        where = ("read", self._query or "", str(self.created_ns))
        letters = message_letters(records, reasons, self._stream, where)
        options = self._options
        with borrow_connection(options.server.connect, options.retry_timeout) as connection:
            if self._publisher is None:
                self._publisher = self._make_publisher(connection)
            self._publisher.publish(connection, letters)

    def _make_publisher(self, connection: Connection) -> DeadLetterPublisher:
        from jetspark.bulk.dead_letters import DeadLetterPublisher

        options, dead = self._options, self._options.dead_letters
        assert dead is not None
        found = find_dead_letter_stream(connection, options.server, options.retry_timeout, dead)
        return DeadLetterPublisher(
            found.subject,
            self._job,
            found.limit,
            found.max_size,
            options.server.request_timeout,
            options.retry_timeout,
        )
