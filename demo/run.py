"""The stages of the demo, one after the other, each with its line in the progress bar.

Spark says nothing of how far a task is, but the server does: its monitoring tells how many messages each consumer of a
stream was delivered. A thread looks there while Spark works.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import pandas as pd
from rich.progress import Progress

from demo.analyse import archive_flights, collect_delays, compute_delays, publish_delays, read_delays, warm_up
from demo.checks import Results
from demo.publish import DELAYS, FLIGHTS, Published, create_streams, encode_flights, publish_flights
from demo.session import spark_session
from jetspark import bulk
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.server import NatsServer, ServerError

__all__ = ["LOG_NAME", "run"]

LOG_NAME: Final = "spark.log"
"""Where Spark's own messages go, below the output directory."""
_LOOK: Final = 0.2  # seconds between two looks at the server


def run(server: NatsServer, flights: pd.DataFrame, output: Path, progress: Progress) -> Results:
    """Run the stages.

    Parameters
    ----------
    server
        Started, with JetStream, and of no other use.
    flights
        The data set, or a part of it.
    output
        Directory for the Parquet files and Spark's log.
    progress
        Gets a line for each stage.
    """
    parquet = output / "flights.parquet"
    published = _publish(server, flights, progress)
    with ExitStack() as stack:
        with _line(progress, "start Spark"):
            spark = stack.enter_context(spark_session(output / LOG_NAME))
            warm_up(spark, server.url, len(flights))
        with _line(progress, "FLIGHTS to Parquet", len(flights)) as advance, _watch(server, advance):
            archived = archive_flights(spark, server.url, parquet)
        with _line(progress, "compute the delays"):
            delays = compute_delays(spark, parquet)
            computed = collect_delays(delays)
        with _line(progress, "publish DELAYS", len(computed)):
            delays_seconds = publish_delays(delays, server.url)
        with _line(progress, "read DELAYS", len(computed)):
            returned = read_delays(spark, server.url)
        with bulk.connect(server.url) as connection:
            stored = connection.request(StreamInfoRequest(DELAYS)).state.messages
    return Results(flights, published, archived, computed, stored, delays_seconds, returned)


def _publish(server: NatsServer, flights: pd.DataFrame, progress: Progress) -> Published:
    with bulk.connect(server.url) as connection:
        create_streams(connection)
        with _line(progress, "flights to JSON", len(flights)) as advance:
            messages = encode_flights(flights, advance)
        with _line(progress, "publish FLIGHTS", len(flights)) as advance:
            return publish_flights(connection, messages, advance)


@contextmanager
def _line(progress: Progress, what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show a line while a stage runs; gives a function that takes how far it is."""
    task = progress.add_task(what, total=total)
    yield lambda done: progress.update(task, completed=done)
    done = total if total is not None else 1
    progress.update(task, total=done, completed=done)


class _Consumer(msgspec.Struct):
    name: str = ""
    delivered: dict[str, object] = {}


class _Stream(msgspec.Struct):
    name: str = ""
    consumer_detail: list[_Consumer] = []


class _Account(msgspec.Struct):
    stream_detail: list[_Stream] = []


class _JetStreamDetails(msgspec.Struct):
    account_details: list[_Account] = []


def _delivered(server: NatsServer) -> dict[str, int]:
    """Messages that the consumers of FLIGHTS were delivered, by their names."""
    answer = server.monitor("/jsz", accounts="true", streams="true", consumers="true")
    details = msgspec.convert(answer, _JetStreamDetails)
    return {
        consumer.name: count
        for account in details.account_details
        for stream in account.stream_detail
        if stream.name == FLIGHTS
        for consumer in stream.consumer_detail
        if isinstance(count := consumer.delivered.get("consumer_seq"), int)
    }


@contextmanager
def _watch(server: NatsServer, advance: Callable[[int], None]) -> Iterator[None]:
    """Tell how many messages of FLIGHTS were delivered, for as long as the context lasts."""
    over = threading.Event()

    def look() -> None:
        counts: dict[str, int] = {}  # a consumer is gone when its range is read, its count stays
        while not over.wait(_LOOK):
            try:
                counts.update(_delivered(server))
            except ServerError:
                return  # whatever it is, the stage itself will say so
            advance(sum(counts.values()))

    watcher = threading.Thread(target=look, name="progress")
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
