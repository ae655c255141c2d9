"""Which streams a query reads: those of its options, which may change between two runs. No code here calls a server.

The offsets of a query have an entry for each stream that it reads. A stream joins with a micro-batch, which may be
empty: from then on the checkpoint has its position. It leaves in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from jetspark.jetstream.errors import ConfigError
from jetspark.spark.options.stream_read import StreamReadOptions
from jetspark.spark.streams.offsets import StreamOffset
from jetspark.spark.streams.ranges import Loss

__all__ = ["check_deleted", "check_named", "deletion", "find_left_out"]


def find_left_out(streams: Iterable[str], options: StreamReadOptions) -> frozenset[str]:
    """Return the streams of a checkpoint that the options leave out. Raises ConfigError unless they may be left out."""
    read = options.read
    names, pattern = read.streams, read.stream_pattern
    found = sorted(each for each in streams if not (pattern.matches(each) if pattern is not None else each in names))
    if found and not options.allow_removed:
        if pattern is not None:
            reads = f"option streamPattern = {pattern} does not match it"
        elif read.bucket is not None or read.objects is not None:
            raise ConfigError(
                f"the checkpoint is of stream {', '.join(found)}, but the query reads {', '.join(names)}; use a new "
                "checkpointLocation, or the former bucket"
            )
        else:
            reads = f"option stream names {', '.join(names)}"
        raise ConfigError(
            f"the checkpoint is of stream {', '.join(found)}, but {reads}; read it again, or set option "
            "allowRemovedStreams = true to continue without it, or use a new checkpointLocation"
        )
    return frozenset(found)


def check_named(named: Iterable[str], present: Collection[str]) -> None:
    """Check that the streams for which the options give positions exist. Raises ConfigError."""
    for stream in named:
        if stream not in present:
            raise ConfigError(f"an option gives a position for stream {stream}, and there is no such stream")


def deletion(stream: str, reached: StreamOffset) -> Loss:
    """Return the loss of a stream that was deleted while a query read it."""
    reason = (
        f"it was deleted; the query has read it up to sequence {reached.next - 1}, and messages after that may be lost"
    )
    return Loss(stream, None, None, reason)


def check_deleted(stream: str, options: StreamReadOptions) -> None:
    """Check that a query may continue without a stream that was deleted. Raises ConfigError."""
    if not options.allow_removed:
        raise ConfigError(
            f"stream {stream} of the checkpoint was deleted; set option allowRemovedStreams = true to continue without "
            "it"
        )
