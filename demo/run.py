"""The demo: flights are published while Spark's queries run, and the driver is killed in the middle.

publish the first part -> a driver reads it, and continues to run
publish more           -> the driver reads it; SIGKILL
publish the rest       -> a new driver continues from the checkpoints, until the last flight; it counts
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa
from rich.progress import Progress

from demo.checks import Results
from demo.counts import Counts
from demo.driver import Batch, Counted, Driver, DriverFailedError, Running
from demo.publish import DELAYS, Published, create_streams, encode_flights, publish_flights
from demo.queries import ARCHIVE, PARQUET, WINDOWS
from jetspark import bulk
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.server import NatsServer

__all__ = ["LOG_NAME", "run"]

LOG_NAME: Final = "spark.log"
"""File for Spark's own messages, in the output directory."""
_BEFORE: Final = 0.6  # share of the flights that are published before the queries start
_UNTIL_THE_KILL: Final = 0.8


def run(server: NatsServer, flights: pd.DataFrame, output: Path, progress: Progress) -> Results:
    """Run all stages and return their results.

    Parameters
    ----------
    server
        A running server with JetStream, which nothing else uses.
    flights
        The data set, or a part of it.
    output
        Directory for the Parquet files, the checkpoints and Spark's log.
    progress
        Gets a line for each stage.
    """
    for name in (PARQUET, "checkpoints"):
        shutil.rmtree(output / name, ignore_errors=True)
    (output / LOG_NAME).unlink(missing_ok=True)
    with bulk.connect(server.url) as connection:
        create_streams(connection)
    with _line(progress, "flights to JSON", len(flights)) as advance:
        messages = pa.Table.from_batches(encode_flights(flights, advance))
    publisher = _Publisher(server.url, messages, progress)
    watcher = _Watcher(progress, len(flights))
    publisher.publish(_BEFORE)
    log = output / LOG_NAME
    killed = _run_until_killed(Driver(server.url, output, log), publisher, watcher)
    publisher.publish(1.0)
    counts = _run_to_the_end(Driver(server.url, output, log, until=len(flights)), watcher)
    with bulk.connect(server.url) as connection:
        stored = connection.request(StreamInfoRequest(DELAYS)).state.messages
    return Results(flights, publisher.published, counts, stored, killed, watcher.batches, watcher.seconds)


def _run_until_killed(driver: Driver, publisher: _Publisher, watcher: _Watcher) -> bool:
    """Kill the driver as soon as it has read messages that came after its start; return whether it was running."""
    with driver:
        running = False
        for event in driver.events():
            watcher.see(event)
            if isinstance(event, Running):
                running = True
                publisher.publish((_BEFORE + _UNTIL_THE_KILL) / 2)
            elif running and isinstance(event, Batch) and event.rows:
                publisher.publish(_UNTIL_THE_KILL)  # a micro-batch starts at once
                return driver.kill()
    raise DriverFailedError("Spark's driver ended before it was killed")


def _run_to_the_end(driver: Driver, watcher: _Watcher) -> Counts:
    with driver:
        for event in driver.events():
            watcher.see(event)
            if isinstance(event, Counted):
                watcher.finish()
                return event.counts
    raise DriverFailedError("Spark's driver ended before it had counted")


class _Publisher:
    """Publishes the messages in parts. Each part has its own connection, because Spark may take minutes in between."""

    def __init__(self, url: str, messages: pa.Table, progress: Progress) -> None:
        self._url = url
        self._messages = messages
        self._progress = progress
        self._task = progress.add_task("publish FLIGHTS", total=len(messages))
        self.published = Published(0, bulk.PublishReport(), 0.0)

    def publish(self, share: float) -> None:
        """Publish more messages, until that share of all messages is published."""
        done = self.published.sent
        part = self._messages.slice(done, round(len(self._messages) * share) - done)

        def advance(sent: int) -> None:
            self._progress.update(self._task, completed=done + sent)

        with bulk.connect(self._url) as connection:
            self.published = self.published.with_part(publish_flights(connection, part.to_batches(), advance))


class _Watcher:
    """Shows the progress of the queries, and counts the seconds of their micro-batches."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._tasks = {
            name: progress.add_task(title, total=total, start=False)
            for name, title in ((ARCHIVE, "FLIGHTS to Parquet"), (WINDOWS, "delays to DELAYS"))
        }
        self.batches = 0
        self.seconds = dict.fromkeys(self._tasks, 0.0)

    def see(self, event: object) -> None:
        """Process an event."""
        if isinstance(event, Batch):
            self.batches += 1
            self.seconds[event.query] += event.seconds
            self._progress.start_task(self._tasks[event.query])
            self._progress.update(self._tasks[event.query], completed=min(event.end - 1, self._total))

    def finish(self) -> None:
        """Show all stages as complete."""
        for task in self._tasks.values():
            self._progress.update(task, completed=self._total)


@contextmanager
def _line(progress: Progress, title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a line while a stage runs; yields a function that takes the number of finished items."""
    task = progress.add_task(title, total=total)
    yield lambda done: progress.update(task, completed=done)
    progress.update(task, completed=total)
