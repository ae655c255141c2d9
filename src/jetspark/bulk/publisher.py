"""Publishing record batches, and what is sent again.

A row that is refused for the moment (no answer from a stream that elects its leader, or is about to be made, PUB-03)
is sent again a few times. A connection that is lost leaves open what became of the rows under way; with a
`retry_timeout` a new one is made and those rows are sent again, and their message ids tell the stream which it has.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from jetspark.bulk.acks import StreamAcks
from jetspark.bulk.connection import Connection
from jetspark.bulk.flight import Flight, RefusedError
from jetspark.bulk.publishing import RETRY_DELAY, PublishRefusedError, PublishReport, PublishSettings, is_lost
from jetspark.bulk.rows import Rows, check_schema
from jetspark.flow.backoff import Backoff
from jetspark.jetstream.errors import DisconnectedError, Error, PublishTimeoutError

__all__ = ["Publisher"]

_CHUNK_ROWS: Final = 8192
_SINGLE_SERVER_TRIES: Final = 2  # enough to make a stream; a cluster may hold an election


class Publisher:
    """Publishes record batches one after the other; `finish` and `close` must follow, and `report` tells."""

    def __init__(self, connection: Connection, settings: PublishSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._streams: dict[str, StreamAcks] = {}
        self._rows = 0
        self._bytes = 0  # of flights that are over
        self._resent = 0
        self._refusals = 0  # one after the other
        self._lost_before = False
        self._backoff = Backoff(settings.retry_timeout)
        self._schema: pa.Schema | None = None
        self._flight = Flight(connection, settings, self._streams)

    def close(self) -> None:
        """Stop listening."""
        self._flight.close()

    def report(self) -> PublishReport:
        """What was acknowledged so far."""
        count = sum(acks.count for acks in self._streams.values())
        return PublishReport(count, self._bytes + self._flight.bytes, self._resent, self._streams)

    def publish(self, batch: pa.RecordBatch) -> None:
        """Send the rows of a record batch, as the window lets them; the last ones are still under way afterwards."""
        settings = self._settings
        if self._schema is None or not self._schema.equals(batch.schema):
            check_schema(batch.schema, settings.subject)
            self._schema = batch.schema
        limit = self._connection.server_info.max_payload
        rows = Rows.of(batch, settings.subject, self._rows, limit, settings.lines(len(batch)))
        self._rows += len(rows)
        for chunk in rows.chunks(_CHUNK_ROWS, settings.max_bytes, self._flight.reply_length):
            while (at := self._flight.sent - chunk.first) < len(chunk):
                try:
                    self._flight.send(chunk.slice(at, len(chunk) - at))
                except Error as error:
                    self._send_again(error)

    def finish(self) -> None:
        """Wait for the last acknowledgements."""
        try:
            self._flight.finish()
        except Error as error:
            self._send_again(error)

    def _send_again(self, error: Error) -> None:
        """See to what a flight left open when it ended early; the next rows go with another one."""
        ended, recent = self._flight, list(self._flight.recent)
        rows = ended.open_rows()
        self._wait_or_raise(error, rows)
        while rows:
            again: Flight | None = None
            try:
                again = self._take_off(0)
                for part in _parts(recent, rows):
                    again.send(part)
                again.finish()
                break
            except Error as failure:
                left = rows if again is None else [rows[at] for at in _left(again, len(rows))]
                self._wait_or_raise(failure, left, rows)
                rows = left
            finally:
                if again is not None:
                    self._bytes += again.bytes
                    self._resent += again.sent
                    again.close()
        self._refusals = 0
        self._backoff.reset()
        self._bytes += ended.bytes
        ended.close()
        self._flight = self._take_off(ended.sent)

    def _take_off(self, origin: int) -> Flight:
        if self._connection.closed:
            self._connection.reconnect()
        return Flight(self._connection, self._settings, self._streams, origin)

    def _wait_or_raise(self, error: Error, left: list[int], numbers: list[int] | None = None) -> None:
        """Wait before the rows that are left are sent again; raise where that is of no use.

        `numbers` are the rows' own numbers where the flight counted them otherwise.
        """
        if isinstance(error, RefusedError):
            self._refusals += 1
            if not error.passing or self._refusals > self._tries():
                row = error.row if numbers is None else numbers[error.row]
                raise PublishRefusedError(row, error.subject, error.error, self.report()) from error.error
            time.sleep(RETRY_DELAY)  # nothing tells when it is done
            return
        delay = self._backoff.next_delay(time.monotonic()) if is_lost(error) else None
        if delay is None:
            raise _told(error, left) from error
        self._lost_before = True
        if isinstance(error, TimeoutError):
            self._connection.close()  # perhaps it is dead without our knowing
        time.sleep(delay)  # nothing to wait for: the server is away

    def _tries(self) -> int:
        """How often a row is sent again that nobody takes for the moment."""
        if not self._lost_before and not self._connection.server_info.cluster:
            return _SINGLE_SERVER_TRIES
        return int(max(self._settings.ack_timeout, self._settings.retry_timeout) / RETRY_DELAY)


def _left(flight: Flight, total: int) -> Iterable[int]:
    """Of the rows 0 to `total - 1`, those that a flight left open or did not send."""
    return (*flight.open_rows(), *range(flight.sent, total))


def _parts(chunks: list[Rows], rows: list[int]) -> Iterator[Rows]:
    """The rows with these numbers, numbered from 0 on."""
    first = 0
    for chunk in chunks:
        part = [row - chunk.first for row in rows if chunk.first <= row < chunk.first + len(chunk)]
        if part:
            yield chunk.take(part, first)
            first += len(part)


def _told(error: Error, left: list[int]) -> Error:
    """The error with what is certain of the rows that were sent."""
    if type(error) not in {DisconnectedError, PublishTimeoutError} or not left:
        return error
    return type(error)(
        f"{error}; all rows before row {left[0]} are answered, and of {len(left)} that were sent it is not known "
        "whether they are stored"
    )
