"""The options of a streaming write: those of a batch write, and what is done about micro-batches that are run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jetspark.spark import option_table as table
from jetspark.spark.given import Given, contradiction
from jetspark.spark.option_table import Use
from jetspark.spark.options import WriteOptions, make_write_options

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
    max_replay_delay
        Seconds after which a micro-batch may be run again.
    """

    write: WriteOptions
    progress_stream: str | None
    max_replay_delay: float


def stream_write_options(options: Mapping[str, str]) -> StreamWriteOptions:
    """Check the options of a streaming write. Raises ConfigError."""
    given = Given(options, Use.WRITE_STREAM)
    write = make_write_options(given)
    progress = given[table.PROGRESS_STREAM]
    if progress is not None and not write.dedup:
        raise contradiction(table.PROGRESS_STREAM, table.DEDUP, " = off")
    return StreamWriteOptions(write, progress, given[table.MAX_REPLAY_DELAY])
