"""Streaming reads: micro-batches are ranges of sequences, planned in one process that runs as long as the query.

Spark asks for the latest offset, stores it, asks for the partitions between two offsets, and runs them. A repeated
batch has the same offsets and reads the same messages. The server does not store the position of the query. Spark asks
every few milliseconds while nothing is new, so the server is asked about an idle stream less often (`IdlePoll`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from jetspark.jetstream.errors import StreamNotFoundError
from jetspark.spark.commit.releaser import Releaser
from jetspark.spark.connections import close_idle
from jetspark.spark.options.stream_read import StreamReadOptions
from jetspark.spark.options.values import Position, PositionKind
from jetspark.spark.parallelism import cores_to_read_with
from jetspark.spark.read.admission import (
    Backlog,
    IdlePoll,
    TriggerPacer,
    Turns,
    allocate,
    default_read_limit,
    effective_limits,
)
from jetspark.spark.read.dead_letters import DeadLetterCount
from jetspark.spark.read.loss_reports import LossReports
from jetspark.spark.read.partitions import StreamPartition, plan_partitions, whole_partition
from jetspark.spark.read.range_reader import RangeReader
from jetspark.spark.read.source_process import exit_on_sigterm
from jetspark.spark.streams.buckets import EntrySelection, history_of, select_entries, warn_of_silent_expiry
from jetspark.spark.streams.lag import encode_ends
from jetspark.spark.streams.membership import check_deleted, check_named, deletion, find_left_out
from jetspark.spark.streams.offsets import (
    InitialSnapshot,
    StreamExtent,
    StreamOffset,
    decode_offsets,
    encode_offsets,
    planned_cores,
)
from jetspark.spark.streams.ranges import StreamRange
from jetspark.spark.streams.resume import (
    Truncation,
    batch_start,
    end_offsets,
    is_repositioned,
    resume,
    same_stream,
    start_offset,
)
from jetspark.spark.streams.state import StreamStates

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["JetStreamStreamReader"]

T = TypeVar("T")
_log: Final = logging.getLogger(__name__)
_MAX_DELETIONS: Final = 3
"""How often planning starts again because a stream was deleted meanwhile."""


class JetStreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads micro-batches. Spark creates it in the source process, and again to send it to the tasks."""

    def __init__(self, schema: StructType, options: StreamReadOptions) -> None:
        self._options = options
        self._ranges = RangeReader(schema, options.read)
        self._states = StreamStates(options)
        self._releaser = Releaser(options, self._states)
        self._poll = IdlePoll(options.poll_interval)
        self._pacer = TriggerPacer()
        self._turns = Turns(options.read.streams)
        self._prepared: set[str] = set()  # streams that were checked for the commit mode
        self._initial: dict[str, object] | None = None
        self._available_now_ends: dict[str, StreamOffset] | None = None
        self._losses = LossReports(options.read)
        self._verified: dict[str, StreamOffset] = {}  # by stream, the last offset up to which it held what was read
        self._reached: Mapping[str, StreamOffset] = {}
        self._has_planned = self._warned_without_snapshot = False
        self._dead_letters = DeadLetterCount(options.read)

    # -- methods that Spark calls, in its order --------------------------------------------------------------------

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Store the ends of the streams. This run reads up to there."""
        self._available_now_ends = end_offsets(self._refresh())
        self._states.end_listing()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that Spark passes to `latestOffset`."""
        return default_read_limit(self._options.limits)

    def initialOffset(self) -> dict[str, object]:  # noqa: N802
        """Return the start of a new query, by the options.

        Raises
        ------
        DataLossError
            Sequences that the options request are lost, and `failOnDataLoss` is true.
        ConfigError
            `commitMode` does not fit a stream.
        """
        if self._initial is None:  # Spark asks twice, and must get the same answer
            self._initial = encode_offsets(self._initial_offsets())
        return self._initial

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        """Return the end of the next micro-batch; `start` itself if none is due.

        Raises
        ------
        DataLossError
            The next messages are lost, and `failOnDataLoss` is true.
        ConfigError
            The checkpoint is of a stream that the options leave out, or that was deleted.
        """
        begin = decode_offsets(start)
        self._warn_without_snapshot(begin)
        time.sleep(self._poll.delay(time.monotonic()))  # Spark asks again at once; the server is asked less often
        self._has_planned = True
        end = self._plan_again_if_deleted(lambda: self._next_end(begin, limit))
        self._poll.mark_poll(time.monotonic(), found=end != begin)
        self._reached = end
        return start if end == begin else encode_offsets(end, cores_to_read_with())

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802
        """Return the ends of the streams at the last refresh, the lag and the filters, for the query's progress."""
        extents = self._refresh() if self._states.extents is None else self._states.extents
        return encode_ends(extents, self._reached, self._subjects()) | self._dead_letters.at(self._reached)

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[InputPartition]:
        """Split the range between two offsets.

        The range of the offsets is split first, and lost messages are left out afterwards. So a repeated micro-batch
        has the same partitions with the same numbers, from which the sink makes its message ids.

        Raises
        ------
        DataLossError
            Messages of the range are lost, and `failOnDataLoss` is true.
        """
        if start == end:
            return []
        begins, ends = decode_offsets(start), decode_offsets(end)
        return self._plan_again_if_deleted(lambda: self._plan(begins, ends, planned_cores(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a partition; see `RangeReader.read`."""
        if isinstance(partition, StreamPartition):  # Spark makes an empty one of its own when there is none
            yield from self._ranges.read(partition)

    def commit(self, end: dict[str, object]) -> None:
        """Release the messages before an offset that Spark has committed."""
        self._poll.mark_batch()  # Spark calls all sources of a query when it creates the next micro-batch
        self._releaser.release(decode_offsets(end))

    def stop(self) -> None:
        """Close the connection."""
        close_idle()

    # -- internals -------------------------------------------------------------------------------------------------

    def _plan(
        self, begins: Mapping[str, StreamOffset], ends: Mapping[str, StreamOffset], cores: int | None
    ) -> list[InputPartition]:
        """Split the micro-batch between two offsets. It has the streams of its end, whatever the options name now."""
        find_left_out(ends, self._options)
        # For a batch that is repeated after a restart, nothing was refreshed, or not up to the end of the batch.
        extents: Mapping[str, StreamExtent] = self._states.extents or {}
        if not self._has_planned or not ends.keys() <= extents.keys():
            extents = self._refresh(ends)
        ranges, there, batches, known = [], {}, {}, {}
        for stream in sorted(ends):
            end = ends[stream]
            batches[stream] = batch = batch_start(begins.get(stream), end)
            if stream in extents:
                known[stream] = extents[stream]
                there[stream] = self._available_range(batch, end, extents[stream])
            else:
                self._losses.report([deletion(stream, batch)])
                known[stream] = StreamExtent(stream, end.created_ns, end.next, end.next, 1)
                there[stream] = end.next, end.next
            ranges.append(StreamRange(stream, batch.next, end.next))
        if any(batch.at_whole_snapshot for batch in batches.values()):
            planned = [replace(whole_partition(each, known[each.stream]), newest_only=True) for each in ranges]
        else:
            planned = plan_partitions(ranges, known, self._options.read, cores or cores_to_read_with())
        parts = [part.clip(*there[part.stream]) for part in planned]
        retaining = self._releaser.retaining_consumer
        return [
            replace(
                part,
                commit_consumer=retaining(part.stream, part.start),
                entries=self._select_entries(batches[part.stream], part.stream),
            )
            for part in parts
        ]

    def _plan_again_if_deleted(self, plan: Callable[[], T]) -> T:
        """Plan, and plan again if a stream of the pattern is deleted meanwhile."""
        for _ in range(_MAX_DELETIONS):
            try:
                return plan()
            except StreamNotFoundError:
                if self._options.read.stream_pattern is None:
                    raise
                self._has_planned = False  # the streams are refreshed
        return plan()

    def _next_end(self, reached: Mapping[str, StreamOffset], limit: ReadLimit) -> Mapping[str, StreamOffset]:
        left_out = find_left_out(reached, self._options)
        kept = {stream: offset for stream, offset in reached.items() if stream not in left_out}
        extents = self._refresh(kept)
        for stream in kept.keys() - extents.keys():
            self._losses.report([deletion(stream, kept[stream])])
            check_deleted(stream, self._options)
        begin = {stream: offset for stream, offset in kept.items() if stream in extents}
        begin.update(self._starts([each for each in extents if each not in kept], self._options.joining))
        self._releaser.start_consumers()
        changed = begin.keys() != reached.keys()
        if changed:
            self._keep_state(begin, reached)
        return self._end_of_batch(begin, extents, limit, time.monotonic(), changed=changed)

    def _keep_state(self, begin: Mapping[str, StreamOffset], reached: Mapping[str, StreamOffset]) -> None:
        """Keep what is known about the streams that are read now, and log which have joined and left."""
        for word, streams in (("joined", begin.keys() - reached.keys()), ("left", reached.keys() - begin.keys())):
            if streams:
                _log.info("streams that have %s the query: %s", word, ", ".join(sorted(streams)))
        self._losses.keep(begin)
        for stream in self._verified.keys() - begin.keys():
            del self._verified[stream]

    def _refresh(self, reached: Mapping[str, StreamOffset] | None = None) -> Mapping[str, StreamExtent]:
        if self._states.extents is None:
            exit_on_sigterm()
            self._dead_letters.check()
        extents = self._states.refresh(reached)
        infos = self._states.infos
        self._prepared &= infos.keys()
        while new := {stream: infos[stream] for stream in infos.keys() - self._prepared}:
            self._dead_letters.check_added(new)
            warn_of_silent_expiry(new, self._options.read.bucket)
            self._releaser.prepare(new)  # before the refresh that is used: interest begins here
            self._prepared.update(new)
            extents = self._states.refresh(reached)
            infos = self._states.infos
        return extents

    def _warn_without_snapshot(self, begin: Mapping[str, StreamOffset]) -> None:
        """Warn once if the checkpoint is of a query that began without the snapshot that the options ask for."""
        bucket = self._options.read.bucket
        if bucket is None or not bucket.initial_snapshot or self._warned_without_snapshot:
            return
        if any(offset.snapshot is None for offset in begin.values()):
            self._warned_without_snapshot = True
            _log.warning(
                "option initialSnapshot is ignored: the query on bucket %s began without it; to begin with a snapshot, "
                "use a new checkpointLocation",
                bucket.name,
            )

    def _subjects(self) -> tuple[str, ...]:
        """Return the filters that the server applies."""
        read = self._options.read
        found = None if read.bucket is None else select_entries(self._states.infos[read.bucket.stream], read)
        return read.subjects if found is None else found.subjects

    def _select_entries(self, batch: StreamOffset, stream: str) -> EntrySelection | None:
        """Return the entries of a micro-batch. The snapshot has no deletes."""
        if self._options.read.bucket is None:
            return None
        found = select_entries(self._states.infos[stream], self._options.read)
        return replace(found, include_deletes=False) if found is not None and batch.in_snapshot else found

    def _initial_offsets(self) -> dict[str, StreamOffset]:
        extents = self._refresh()
        starts = self._options.read.starts
        check_named(starts, extents)
        return self._starts(extents, starts)

    def _starts(self, streams: Iterable[str], positions: Mapping[str, Position]) -> dict[str, StreamOffset]:
        """Return the offsets at which reading begins in streams that were not read before."""
        read, extents = self._options.read, self._states.extents or {}
        begin = {}
        for stream in streams:
            position = positions[stream]
            found = self._states.sequence_at(stream, position.value) if position.kind is PositionKind.TIME else None
            begin[stream], losses = start_offset(extents[stream], position, found)
            if read.bucket is None:  # a bucket replaces revisions; that is no loss
                self._losses.report(losses)
            elif read.bucket.initial_snapshot:
                snapshot = InitialSnapshot(extents[stream].end - 1, history_of(self._states.infos[stream]))
                begin[stream] = replace(begin[stream], snapshot=snapshot)
        self._releaser.set_start(begin)
        return begin

    def _available_range(self, batch: StreamOffset, end: StreamOffset, extent: StreamExtent) -> tuple[int, int]:
        """Return the range of a micro-batch that its stream still has: first sequence, and end (excluded)."""
        stop = end.next
        if not self._has_planned:  # repeated after a restart: the planned messages may have been replaced
            truncation = self._states.truncation(extent, end)
            if truncation is not None:
                self._losses.report([truncation.loss(extent, end)])
                stop = truncation.first_lost
                if stop <= batch.next:
                    return stop, stop
        at = self._resume(batch, extent)
        return (at.next if same_stream(at, batch) else stop), stop  # another stream is not read

    def _resume(self, offset: StreamOffset, extent: StreamExtent) -> StreamOffset:
        at, losses = resume(offset, extent, self._truncation(offset, extent))
        self._losses.report([*losses, *self._releaser.possible_losses(extent.stream, at)])
        return at

    def _truncation(self, offset: StreamOffset, extent: StreamExtent) -> Truncation | None:
        """Find out whether the stream still holds what was read. Asks the server only if something may have changed."""
        if extent.end == offset.next and self._verified.get(extent.stream) == offset:
            return None  # no new messages, so nothing has changed
        truncation = self._states.truncation(extent, offset)
        if truncation is None and offset.time_ns is not None:
            self._verified[extent.stream] = offset
        return truncation

    def _end_of_batch(
        self,
        begin: Mapping[str, StreamOffset],
        extents: Mapping[str, StreamExtent],
        limit: ReadLimit,
        now: float,
        *,
        changed: bool,
    ) -> Mapping[str, StreamOffset]:
        """Return the end of the next micro-batch. If streams have joined or left, it is due, and may be empty."""
        self._turns.update(begin)
        places = {stream: self._resume_in_run(begin[stream], extents[stream]) for stream in self._turns.order}
        backlogs = [
            Backlog(self._readable(at, extents[stream]), extents[stream].message_bytes) for stream, at in places.items()
        ]
        limits = effective_limits(self._options.limits, limit)
        moves = changed or any(is_repositioned(at, begin[stream]) for stream, at in places.items())
        due = self._pacer.is_due(sum(backlog.size for backlog in backlogs), limits, now)
        if not (due or moves or self._available_now_ends):
            return begin
        allocated = [
            backlog.size if at.at_whole_snapshot else count
            for at, backlog, count in zip(places.values(), backlogs, allocate(backlogs, limits), strict=True)
        ]
        if any(allocated):
            self._pacer.mark_batch(now)
            self._turns.mark_batch([stream for stream, count in zip(places, allocated, strict=True) if count])
        elif not moves:
            return begin
        return {
            stream: self._batch_end(begin[stream], at, count, stream)
            for (stream, at), count in zip(places.items(), allocated, strict=True)
        }

    def _batch_end(self, begin: StreamOffset, at: StreamOffset, count: int, stream: str) -> StreamOffset:
        """Return the end of a micro-batch that reads `count` sequences from an offset on."""
        if not count and not is_repositioned(at, begin):  # the offset stays, also where messages before it were deleted
            return replace(begin, start=begin.next)
        end = at.next + count
        time_ns = self._states.time_before(stream, end)
        self._verified[stream] = StreamOffset(at.created_ns, end, at.next, time_ns, snapshot=at.snapshot)
        return self._verified[stream]

    def _resume_in_run(self, begin: StreamOffset, extent: StreamExtent) -> StreamOffset:
        """Return where reading continues. A run with AvailableNow reads no stream that was created after its start."""
        at = self._resume(begin, extent)
        ends = self._available_now_ends
        if ends is None or (extent.stream in ends and same_stream(at, ends[extent.stream])):
            return at
        return begin

    def _readable(self, at: StreamOffset, extent: StreamExtent) -> int:
        """Return the number of sequences from an offset to the end of the stream or of this run."""
        if extent.created_ns != at.created_ns:
            return 0
        if at.snapshot is not None and at.at_whole_snapshot:
            return at.snapshot.revision + 1 - at.next  # also if this run ends before it
        end = extent.end
        if self._available_now_ends is not None:
            known = self._available_now_ends.get(extent.stream)
            end = at.next if known is None else min(end, known.next)
        if at.snapshot is not None and at.in_snapshot:
            end = min(end, at.snapshot.revision + 1)
        return max(end - at.next, 0)
