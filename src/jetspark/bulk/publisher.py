"""Publishes record batches, and sends rows again.

A row that is refused for the moment is sent again a few times: no answer from a stream that elects its leader or is
about to be created (PUB-03), or a flooded server. If rows share a reply subject and only some were refused, it is not
known which. Then all of them are sent again, if they have message ids by which the stream detects repeats. From then on
each row has a reply subject of its own, so that the next refusals are known. A flooded server gets fewer rows at a
time.

When the connection is lost, the rows in flight may or may not be stored. With a `retry_timeout` a new connection is
opened and those rows are sent again; the stream detects repeats by their message ids.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa

from jetspark.bulk.acks import StreamAcks
from jetspark.bulk.connection import Connection
from jetspark.bulk.flight import Flight, OpenRows, RefusedError
from jetspark.bulk.patience import Patience
from jetspark.bulk.publishing import BulkSettings, PublishRefusedError, PublishReport, is_lost
from jetspark.bulk.rows import Rows, check_schema
from jetspark.jetstream.errors import DisconnectedError, Error, NoStreamResponseError, PublishTimeoutError
from jetspark.jetstream.publish import RETRY_ATTEMPTS, RETRY_WAIT

__all__ = ["Publisher"]

_CHUNK_ROWS: Final = 8192


class Publisher:
    """Publishes record batches one after the other. Call `finish` and `close` at the end; `report` has the result."""

    def __init__(self, connection: Connection, settings: BulkSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._streams: dict[str, StreamAcks] = {}
        self._rows = 0
        self._bytes = 0  # of finished flights
        self._resent = 0
        self._refusals = 0  # in a row
        self._lost_before = False
        self._shared = True
        self._patience = Patience(settings.retry_timeout)
        self._schema: pa.Schema | None = None
        self._flight = self._next_flight(0)

    def close(self) -> None:
        """End the subscription."""
        self._flight.close()

    def report(self) -> PublishReport:
        """Return the counts of the acknowledgements so far."""
        count = sum(acks.count for acks in self._streams.values())
        return PublishReport(count, self._bytes + self._flight.bytes, self._resent, self._streams)

    def publish(self, batch: pa.RecordBatch) -> None:
        """Send the rows of a record batch, as the window allows; afterwards the last ones are still in flight."""
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
        """Send the rows that an early ended flight left open, and start a new flight for the next rows."""
        ended, recent = self._flight, list(self._flight.recent)
        left = ended.open_rows()
        self._wait_or_raise(error, ended, left.rows, recent)
        while left.rows:
            self._take_back(left.acknowledged)
            rows = left.rows
            again: Flight | None = None
            try:
                again = self._take_off(0)
                for part in _parts(recent, rows):
                    again.send(part)
                again.finish()
                break
            except Error as failure:
                left = OpenRows(rows) if again is None else _left(again, rows)
                self._wait_or_raise(failure, again, left.rows, recent, rows)
            finally:
                if again is not None:
                    self._bytes += again.bytes
                    self._resent += again.sent
                    again.close()
        self._refusals = 0
        self._bytes += ended.bytes
        ended.close()
        self._flight = self._next_flight(ended.sent)
        self._patience.reset()

    def _next_flight(self, origin: int) -> Flight:
        """Return a new flight, when no rows are open."""
        while True:
            try:
                return self._take_off(origin)
            except Error as error:
                self._wait_or_raise(error, None, [], [])

    def _take_off(self, origin: int) -> Flight:
        if self._connection.closed and self._settings.retry_timeout > 0:
            self._connection.reconnect()
        return Flight(self._connection, self._settings, self._streams, origin, shared=self._shared)

    def _take_back(self, acknowledged: int) -> None:
        """Subtract rows that were counted and are sent again; they will be counted then."""
        if len(self._streams) == 1:  # of several streams, it is not known which one has the rows
            next(iter(self._streams.values())).count -= acknowledged

    def _wait_or_raise(
        self, error: Error, flight: Flight | None, left: list[int], recent: list[Rows], numbers: list[int] | None = None
    ) -> None:
        """Wait before the rows in `left` are sent again; raise if that would not help.

        `numbers` are the original row numbers if the flight has counted the rows from 0.
        """
        if isinstance(error, RefusedError):
            assert flight is not None
            self._refusals += 1
            if not self._may_try_again(error, left, recent):
                row = error.row if numbers is None else numbers[error.row]
                raise PublishRefusedError(row, error.subject, error.error, self.report()) from error.error
            self._shared = self._shared and error.known
            if error.flooded:
                self._settings = replace(self._settings, max_pending=flight.narrower)
            time.sleep(RETRY_WAIT)  # nothing reports that the cause has passed
            return
        doubtful = self._connection.close if isinstance(error, TimeoutError) else None
        if not (is_lost(error) and self._patience.wait(doubtful)):
            raise _told(error, left) from error
        self._lost_before = True

    def _may_try_again(self, error: RefusedError, left: list[int], recent: list[Rows]) -> bool:
        if not error.passing or self._refusals > self._tries(error.error):
            return False
        return error.known or self._settings.retry_timeout > 0 or all(part.have_ids() for part in _parts(recent, left))

    def _tries(self, error: Error) -> int:
        """Return how often a temporarily refused row is sent again."""
        electing = self._lost_before or self._connection.server_info.cluster
        if isinstance(error, NoStreamResponseError) and not electing:
            return RETRY_ATTEMPTS  # enough to create a stream; a cluster may hold an election
        return int(max(self._settings.ack_timeout, self._settings.retry_timeout) / RETRY_WAIT)


def _left(flight: Flight, rows: list[int]) -> OpenRows:
    """Return the rows that the flight left open or did not send; the flight has numbered them from 0."""
    left = flight.open_rows()
    return OpenRows([rows[at] for at in (*left.rows, *range(flight.sent, len(rows)))], left.acknowledged)


def _parts(chunks: list[Rows], rows: list[int]) -> Iterator[Rows]:
    """Yield the rows with these numbers, renumbered from 0."""
    first = 0
    for chunk in chunks:
        part = [row - chunk.first for row in rows if chunk.first <= row < chunk.first + len(chunk)]
        if part:
            yield chunk.take(part, first)
            first += len(part)


def _told(error: Error, left: list[int]) -> Error:
    """Return the error with the facts that are certain about the rows that were sent."""
    if type(error) not in {DisconnectedError, PublishTimeoutError} or not left:
        return error
    return type(error)(
        f"{error}; all rows before row {left[0]} are answered, and of {len(left)} that were sent it is not known "
        "whether they are stored"
    )
