"""Checks that a file sink is not ahead of a query's checkpoint.

Spark's file sink keeps a log of the micro-batches that it has (`_spark_metadata`), and skips a micro-batch whose number
is in the log. It does not compare offsets. If the checkpoint is older than the log, or new, Spark plans micro-batches
with numbers that the log has, and the sink drops their rows without a word. A query writes an offset before the sink
writes its log, so the sink is never ahead of the right checkpoint.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

from jetspark.jetstream.errors import ConfigError
from jetspark.spark.commit.checkpoint import newest_batch
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.untrusted import parse_number

__all__ = ["check_file_sink"]

_OFFSETS: Final = "offsets"
_SINK_LOG: Final = "_spark_metadata"
_COMPACT: Final = ".compact"  # Spark merges its log into such a file now and then


@checks_arguments()
def check_file_sink(path: str, checkpoint_location: str, spark: SparkSession | None = None) -> None:
    """Check that a file sink would skip no micro-batch of a query. Call it before the query starts.

    Parameters
    ----------
    path
        Folder that the query writes to.
    checkpoint_location
        The query's `checkpointLocation`.
    spark
        Session that reads both; None takes the active one. It cannot be a session of Spark Connect.

    Raises
    ------
    ConfigError
        The folder has a micro-batch that the checkpoint does not have yet: the checkpoint is older, new, or of another
        query. The sink would drop the rows of the next micro-batches. Or the session is one of Spark Connect.
    """
    session = spark or SparkSession.active()
    written = _newest_in_sink(session, f"{path}/{_SINK_LOG}")
    planned = newest_batch(session, f"{checkpoint_location}/{_OFFSETS}")
    if written is None or written <= (-1 if planned is None else planned):
        return
    ends = "has no micro-batch" if planned is None else f"ends at micro-batch {planned}"
    following = 0 if planned is None else planned + 1
    raise ConfigError(
        f"folder {path} has micro-batches up to {written}, but the checkpoint {checkpoint_location} {ends}: the file "
        f"sink would drop the rows of the micro-batches {following} to {written}; write to another folder, with a new "
        "checkpoint that starts after the last sequence of this folder"
    )


def _newest_in_sink(spark: SparkSession, folder: str) -> int | None:
    """Return the highest number of a micro-batch in the log of a file sink; None if there is no log."""
    session: Any = spark  # Spark's readers hide files under a name that begins with `_`, so its file system is asked
    internal, jvm = getattr(session, "_jsparkSession", None), getattr(session, "_jvm", None)
    if internal is None or jvm is None:
        raise ConfigError("check_file_sink needs the driver's own Spark session; Spark Connect cannot list the folder")
    location = jvm.org.apache.hadoop.fs.Path(folder)
    files = location.getFileSystem(internal.sessionState().newHadoopConf())
    if not files.exists(location):
        return None
    names = [each.getPath().getName().removesuffix(_COMPACT) for each in files.listStatus(location)]
    return max((number for name in names if (number := parse_number(name)) is not None), default=None)
