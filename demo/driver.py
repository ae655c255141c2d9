"""Spark's driver of the demo, in a process of its own, so that it can be killed.

As a program, this module runs the queries and prints a line of JSON for each event. `Driver` starts it and reads them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

import msgspec
from pyspark.sql.streaming.query import StreamingQuery

from demo.counts import Counts, count_all
from demo.publish import FLIGHTS
from demo.queries import ARCHIVE, WINDOWS, Queries
from demo.session import spark_session
from jetspark.spark import QueryProgress

__all__ = ["Batch", "Counted", "Driver", "DriverFailedError", "Event", "Running"]


class Batch(msgspec.Struct, frozen=True, tag="batch"):
    """A micro-batch is done."""

    query: str
    end: int
    """Sequence of FLIGHTS after the last one that it read."""
    rows: int
    seconds: float


class Running(msgspec.Struct, frozen=True, tag="running"):
    """The queries have read all messages that were there at the start; they continue to run."""


class Counted(msgspec.Struct, frozen=True, tag="counted"):
    """The queries have ended, and the results are counted."""

    counts: Counts


Event: TypeAlias = Batch | Running | Counted


class DriverFailedError(RuntimeError):
    """The process ended unexpectedly."""


class Driver:
    """The process of Spark's driver. A context manager: its end kills the process if it still runs.

    Parameters
    ----------
    url
        Address of the server.
    output
        Directory for the Parquet files and the checkpoints.
    log
        File to which Spark's own messages are appended.
    until
        Last sequence of FLIGHTS to read; the process then counts and ends. None runs for ever.
    """

    def __init__(self, url: str, output: Path, log: Path, until: int | None = None) -> None:
        command = [sys.executable, "-m", "demo.driver", url, str(output), *([] if until is None else [str(until)])]
        environment = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, **os.environ}
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, env=environment, start_new_session=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> bool:
        """Send SIGKILL to the driver and its JVM; returns whether it was still running."""
        ran = self._process.poll() is None
        if ran:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return ran

    def events(self) -> Iterator[Event]:
        """Yield the events until the process ends. Raises DriverFailedError if it ends with an error."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):
                yield msgspec.json.decode(line, type=Event)
        if self._process.wait():
            raise DriverFailedError(f"Spark's driver ended with exit code {self._process.returncode}")


def main(url: str, output: str, until: str | None = None) -> None:
    """Run the queries: first the messages that are there, then without an end, or until a sequence; then count."""
    output_lock = threading.Lock()
    ends: dict[str, int] = {}
    moved = threading.Condition()

    def emit(event: Event) -> None:
        with output_lock:
            sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
            sys.stdout.flush()

    def on_progress(progress: QueryProgress) -> None:
        end = progress.streams[FLIGHTS].end
        emit(Batch(progress.name, end, progress.rows, progress.seconds))
        with moved:
            ends[progress.name] = end
            moved.notify_all()

    with spark_session(Path(output)) as spark:
        queries = Queries(spark, url, Path(output), on_progress)
        if until is None:
            queries.run_available()
        running = queries.start()
        emit(Running())
        with moved:
            while until is None or min(ends.get(ARCHIVE, 0), ends.get(WINDOWS, 0)) <= int(until):
                if not moved.wait(1.0):
                    _raise_failure(running)
        for query in running:
            query.stop()
        queries.run_available()  # publishes the windows that the last micro-batch has closed
        emit(Counted(count_all(spark, url, Path(output))))


def _raise_failure(queries: list[StreamingQuery]) -> None:
    for query in queries:
        if (failure := query.exception()) is not None:
            raise failure


if __name__ == "__main__":
    main(*sys.argv[1:])
