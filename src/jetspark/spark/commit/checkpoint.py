"""Release the messages of the last commit of a query that has ended.

Spark reports a commit to the source when it creates the next micro-batch. So it reports the last commit only in the
next run. The checkpoint contains it: the newest file under `commits` names the batch, and the file of that number under
`offsets` contains its end. Spark itself reads these files, so the checkpoint may be on any file system.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from jetspark.jetstream.errors import ConfigError
from jetspark.spark.commit.releaser import Releaser
from jetspark.spark.connections import close_idle
from jetspark.spark.options.parsed import RedactedOptions
from jetspark.spark.options.stream_pattern import StreamPattern
from jetspark.spark.options.stream_read import CommitMode, stream_read_options
from jetspark.spark.streams.offsets import StreamOffset, decode_offsets
from jetspark.spark.streams.state import StreamStates
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.untrusted import decode_json, parse_number

__all__ = ["committed_offset", "newest_batch", "release_committed"]

_COMMITS: Final = "commits"
_OFFSETS: Final = "offsets"
_decoder: Final[msgspec.json.Decoder[object]] = msgspec.json.Decoder(object)


@checks_arguments()
def release_committed(
    checkpoint_location: str, options: Mapping[str, str], spark: SparkSession | None = None
) -> dict[str, int] | None:
    """Let the streams of a query that has ended release everything up to its last commit.

    Parameters
    ----------
    checkpoint_location
        The query's `checkpointLocation`.
    options
        The options of its `readStream`, among them `commitMode`.
    spark
        Session that reads the checkpoint; None takes the active one.

    Returns
    -------
    dict[str, int] | None
        By the stream's name, the first sequence that is kept; None if the query has committed nothing yet. A stream
        that was created again, or of which an older state was restored, releases nothing.

    Raises
    ------
    ConfigError
        `commitMode` is `none` or does not fit a stream, or the checkpoint is not of these streams.
    Error
        The server cannot be reached or refuses.
    """
    read = stream_read_options(RedactedOptions(options))
    if read.release.mode is CommitMode.NONE:
        raise ConfigError("option commitMode = none: there is nothing to release; set it to consumer or purge")
    session = spark or SparkSession.active()
    batch = newest_batch(session, f"{checkpoint_location}/{_COMMITS}")
    if batch is None:
        return None
    lines = _read_file(session, f"{checkpoint_location}/{_OFFSETS}/{batch}").splitlines()
    offsets = committed_offset(lines, read.read.streams, checkpoint_location, read.read.stream_pattern)
    states = StreamStates(read)
    releaser = Releaser(read, states)
    try:
        states.refresh(offsets)
        releaser.prepare(states.infos)
        mismatched = releaser.release(offsets, strict=True)
    finally:
        close_idle(read.read.server.connect)
    first = {stream: max(states.infos[stream].state.first_sequence, 1) for stream in mismatched}  # 0: no message ever
    return {stream: first.get(stream, offset.next) for stream, offset in offsets.items() if stream in states.infos}


def committed_offset(
    lines: Iterable[str], streams: Iterable[str], where: str, pattern: StreamPattern | None = None
) -> dict[str, StreamOffset]:
    """Find the offset of these streams among the offsets of all sources of a query.

    Parameters
    ----------
    lines
        A file of the checkpoint's folder `offsets`.
    streams
        Names of the streams.
    where
        The checkpoint, for the error.
    pattern
        Pattern of the names, instead of the names.

    Raises
    ------
    ConfigError
        No source reads exactly these streams, or streams of the pattern; or several do.
    """
    names = sorted(streams)
    fitting = []
    found = []
    for document in _documents(lines):
        entries = document.get("streams")
        if isinstance(entries, dict):
            found.append(", ".join(sorted(entries)))
            if all(map(pattern.matches, entries)) if pattern is not None else sorted(entries) == names:
                fitting.append(document)
    if len(fitting) == 1 or (fitting and pattern is None):
        return decode_offsets(fitting[0], names if pattern is None else None)
    there = "; ".join(found) or "no jetstream source"
    raise ConfigError(
        f"the checkpoint {where} is of {there}, but "
        + (f"option stream names {', '.join(names)}; " if pattern is None else f"option streamPattern is {pattern}; ")
        + "give the options of its query"
    )


def _documents(lines: Iterable[str]) -> Iterator[Mapping[str, object]]:
    """Yield the JSON objects of a file of offsets: a line for each source, which may begin with the source's name."""
    for line in lines:
        try:
            document = decode_json(_decoder, line[max(line.find("{"), 0) :])
        except msgspec.DecodeError:
            continue  # the version of the file, or a source without an offset
        if isinstance(document, dict):
            yield document


def newest_batch(spark: SparkSession, folder: str) -> int | None:
    """Return the highest number of a micro-batch in a folder of a checkpoint; None without one."""
    try:
        files = spark.read.format("binaryFile").load(folder).select("path").collect()
    except AnalysisException:
        return None  # no such folder
    names = [row.path.rpartition("/")[2] for row in files]
    return max((number for name in names if (number := parse_number(name)) is not None), default=None)


def _read_file(spark: SparkSession, path: str) -> str:
    (row,) = spark.read.text(path, wholetext=True).collect()
    text: str = row[0]
    return text
