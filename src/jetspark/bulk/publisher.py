"""Publishing record batches, and what is sent again.

A row that is refused for the moment (no answer from a stream that elects its leader, or is about to be made, PUB-03; a
server that is flooded) is sent again a few times. Where rows share a reply subject and only some were refused, it is
not known which. Then all of them are sent again, if their message ids tell the stream which it has, and from then on
each row has a reply subject of its own, so that the next refusals are known. A flooded server gets less at a time.

A connection that is lost leaves open what became of the rows under way; with a `retry_timeout` a new one is made and
those rows are sent again, and their message ids tell the stream which it has.
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
    """Publishes record batches one after the other; `finish` and `close` must follow, and `report` tells."""

    def __init__(self, connection: Connection, settings: BulkSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._streams: dict[str, StreamAcks] = {}
        self._rows = 0
        self._bytes = 0  # of flights that are over
        self._resent = 0
        self._refusals = 0  # one after the other
        self._lost_before = False
        self._shared = True
        self._patience = Patience(settings.retry_timeout)
        self._schema: pa.Schema | None = None
        self._flight = self._next_flight(0)

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
        """One that nothing is open before."""
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
        """So many rows that were counted are sent again, and will be counted then."""
        if len(self._streams) == 1:  # of several it is not known whose they are
            next(iter(self._streams.values())).count -= acknowledged

    def _wait_or_raise(
        self, error: Error, flight: Flight | None, left: list[int], recent: list[Rows], numbers: list[int] | None = None
    ) -> None:
        """Wait before the rows that are left are sent again; raise where that is of no use.

        `numbers` are the rows' own numbers where the flight counted them otherwise.
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
            time.sleep(RETRY_WAIT)  # nothing tells when it is done
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
        """How often a row is sent again that is refused for the moment."""
        electing = self._lost_before or self._connection.server_info.cluster
        if isinstance(error, NoStreamResponseError) and not electing:
            return RETRY_ATTEMPTS  # enough to make a stream; a cluster may hold an election
        return int(max(self._settings.ack_timeout, self._settings.retry_timeout) / RETRY_WAIT)


def _left(flight: Flight, rows: list[int]) -> OpenRows:
    """Of the rows, numbered from 0 on for a flight, those that it left open or did not send."""
    left = flight.open_rows()
    return OpenRows([rows[at] for at in (*left.rows, *range(flight.sent, len(rows)))], left.acknowledged)


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
