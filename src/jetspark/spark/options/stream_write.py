"""The options of a streaming write: those of a batch write, and the handling of repeated micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jetspark.jetstream.errors import ConfigError
from jetspark.spark.options import table
from jetspark.spark.options.batch import WriteOptions, make_write_options
from jetspark.spark.options.option import Use
from jetspark.spark.options.parsed import ParsedOptions, conflicting_options

__all__ = ["StreamWriteOptions", "stream_write_options"]


@dataclass(frozen=True, slots=True)
class StreamWriteOptions:
    """The checked options of a streaming write.

    Attributes
    ----------
    write
        Options that it shares with a batch write.
    ledger_stream
        Stream that records the progress of each task; None without a ledger.
    ledger_retention
        Seconds after which the record of a task expires, unless it is written again.
    max_replay_delay
        Longest time in seconds after which a micro-batch may be run again.
    """

    write: WriteOptions
    ledger_stream: str | None
    ledger_retention: float
    max_replay_delay: float


def stream_write_options(options: Mapping[str, str]) -> StreamWriteOptions:
    """Check the options of a streaming write. Raises ConfigError."""
    parsed = ParsedOptions(options, Use.WRITE_STREAM)
    write = make_write_options(parsed)
    ledger = parsed[table.LEDGER_STREAM]
    if ledger is not None and not write.dedup:
        raise conflicting_options(table.LEDGER_STREAM, table.DEDUP, " = off")
    retention, delay = parsed[table.LEDGER_RETENTION], parsed[table.MAX_REPLAY_DELAY]
    if ledger is None and table.LEDGER_RETENTION in parsed:
        raise ConfigError(
            f"option {table.LEDGER_RETENTION.name} needs option {table.LEDGER_STREAM.name}, the stream of the records; "
            "give both"
        )
    if ledger is not None and retention < delay:
        raise ConfigError(
            f"options {table.LEDGER_RETENTION.name} ({retention:g} s) and {table.MAX_REPLAY_DELAY.name} ({delay:g} "
            "s) contradict each other: a record would expire while its micro-batch may be run again; raise the first"
        )
    return StreamWriteOptions(write, ledger, retention, delay)
