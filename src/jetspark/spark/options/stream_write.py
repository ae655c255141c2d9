"""The options of a streaming write: those of a batch write, and what is done about micro-batches that are run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jetspark.jetstream.errors import ConfigError
from jetspark.spark.options import table
from jetspark.spark.options.batch import WriteOptions, make_write_options
from jetspark.spark.options.parsed import Given, contradiction
from jetspark.spark.options.table import Use

__all__ = ["StreamWriteOptions", "stream_write_options"]


@dataclass(frozen=True, slots=True)
class StreamWriteOptions:
    """What a streaming write was asked for.

    Attributes
    ----------
    write
        What it has in common with a batch write.
    progress_stream
        Stream that holds how far each task has come; None for none.
    progress_retention
        Seconds for which it holds that of a task that does not run again.
    max_replay_delay
        Seconds after which a micro-batch may be run again.
    """

    write: WriteOptions
    progress_stream: str | None
    progress_retention: float
    max_replay_delay: float


def stream_write_options(options: Mapping[str, str]) -> StreamWriteOptions:
    """Check the options of a streaming write. Raises ConfigError."""
    given = Given(options, Use.WRITE_STREAM)
    write = make_write_options(given)
    progress = given[table.PROGRESS_STREAM]
    if progress is not None and not write.dedup:
        raise contradiction(table.PROGRESS_STREAM, table.DEDUP, " = off")
    retention, delay = given[table.PROGRESS_RETENTION], given[table.MAX_REPLAY_DELAY]
    if progress is None and table.PROGRESS_RETENTION in given:
        raise ConfigError(
            f"option {table.PROGRESS_RETENTION.name} needs option {table.PROGRESS_STREAM.name} beside it: the stream "
            "of the records"
        )
    if progress is not None and retention < delay:
        raise ConfigError(
            f"options {table.PROGRESS_RETENTION.name} ({retention:g} s) and {table.MAX_REPLAY_DELAY.name} ({delay:g} "
            "s) contradict each other: a record would go while its micro-batch may still be run again"
        )
    return StreamWriteOptions(write, progress, retention, delay)
