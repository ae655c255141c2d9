"""A repeated micro-batch has the same partitions, whatever was deleted from its streams since."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType
from tests.spark.micro_batches import Offset, latest, nexts, reader
from tests.spark.support import Nats

from jetspark.errors import DataLossError
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.read.partitions import StreamPartition
from jetspark.spark.read.stream_reader import JetStreamStreamReader
from jetspark.spark.streams.offsets import decode_offsets
from jetspark.spark.write.ledger import TaskName
from jetspark.spark.write.stream_writer import plan_stream_write

ROWS = StructType().add("subject", "string").add("data", "binary")


def partitions(made: JetStreamStreamReader, start: Offset, end: Offset) -> list[StreamPartition]:
    parts = made.partitions(start, end)
    return [part for part in parts if isinstance(part, StreamPartition)]


def bounds(made: JetStreamStreamReader, start: Offset, end: Offset) -> list[tuple[int, int]]:
    return [(part.start, part.end) for part in partitions(made, start, end)]


def sequences(made: JetStreamStreamReader, part: StreamPartition) -> list[int]:
    return [each for batch in made.read(part) for each in batch.column("sequence").to_pylist()]


@pytest.mark.parametrize(("gone", "there"), [(3, [(4, 6), (6, 11)]), (5, [(6, 6), (6, 11)]), (8, [(6, 6), (9, 11)])])
def test_deleted_messages_move_no_partition(nats: Nats, gone: int, there: list[tuple[int, int]]) -> None:
    stream = nats.filled(10, [f"{key}" for key in range(10)], max_msgs_per_subject=1)
    made = reader(nats, stream, minPartitions="2")
    start = made.initialOffset()
    end = latest(made, start)
    assert bounds(made, start, end) == [(1, 6), (6, 11)]
    nats.publish([f"{stream}.{key}" for key in range(gone)])
    again = reader(nats, stream, minPartitions="2")
    assert bounds(again, start, end) == there
    read = [sequences(again, part) for part in partitions(again, start, end)]
    assert read == [list(range(first, end)) for first, end in there]


def test_a_batch_whose_messages_are_all_deleted_keeps_its_partitions_and_has_no_row(nats: Nats) -> None:
    stream = nats.filled(10)
    made = reader(nats, stream, minPartitions="2")
    start = made.initialOffset()
    end = latest(made, start)
    nats.purge(stream)
    again = reader(nats, stream, minPartitions="2", failOnDataLoss="false")
    assert bounds(again, start, end) == [(6, 6), (11, 11)]
    assert [sequences(again, part) for part in partitions(again, start, end)] == [[], []]
    with pytest.raises(DataLossError, match="sequences 1 to 10 are gone"):
        reader(nats, stream).partitions(start, end)


def test_a_recreated_stream_keeps_the_partition_numbers_of_the_others(nats: Nats) -> None:
    one, two = sorted([nats.filled(10), nats.filled(10)])
    made = reader(nats, one, two, minPartitions="4")
    start = made.initialOffset()
    end = latest(made, start)
    nats.delete(one)
    nats.stream(one)
    nats.publish([f"{one}.a"] * 20)
    again = reader(nats, one, two, minPartitions="4", failOnDataLoss="false")
    assert [sequences(again, part) for part in partitions(again, start, end)] == [
        [],
        [],
        [1, 2, 3, 4, 5],
        [6, 7, 8, 9, 10],
    ]


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_the_first_batch_keeps_its_start_although_spark_asks_again_for_the_initial_offset(
    nats: Nats, starting: str
) -> None:
    """The start of the first micro-batch is not in the checkpoint. With `latest` it would be after its end."""
    stream = nats.filled(4)
    made = reader(nats, stream, startingOffsets=starting)
    start = made.initialOffset()
    nats.publish([f"{stream}.a"] * 6)
    end = latest(made, start)
    expected = bounds(made, start, end)
    nats.publish([f"{stream}.a"] * 5)
    again = reader(nats, stream, startingOffsets=starting, failOnDataLoss="false")
    assert bounds(again, again.initialOffset(), end) == expected
    nats.purge(stream, before=8)
    again = reader(nats, stream, startingOffsets=starting)
    with pytest.raises(DataLossError, match="to 7 are gone"):
        again.partitions(again.initialOffset(), end)


def test_an_empty_first_batch_stays_empty(nats: Nats) -> None:
    stream = nats.filled(4)
    made = reader(nats, stream, startingOffsets="latest")
    end = latest(made, made.initialOffset())
    assert end == made.initialOffset()
    nats.publish([f"{stream}.a"] * 6)
    again = reader(nats, stream, startingOffsets="latest")
    assert bounds(again, again.initialOffset(), end) == []


def test_a_batch_after_a_gap_is_split_evenly_and_keeps_its_split(nats: Nats) -> None:
    stream = nats.filled(20)
    made = reader(nats, stream, failOnDataLoss="false", minPartitions="2", maxOffsetsPerTrigger="6")
    start = made.initialOffset()
    nats.purge(stream, before=11)
    end = latest(made, start)
    assert nexts(end) == [17]
    assert bounds(made, start, end) == [(11, 14), (14, 17)]
    nats.purge(stream, before=13)
    again = reader(nats, stream, failOnDataLoss="false", minPartitions="2")
    assert bounds(again, start, end) == [(13, 14), (14, 17)]


def test_streams_without_new_messages_have_no_partition_in_a_batch(nats: Nats) -> None:
    one, two = sorted([nats.filled(3), nats.filled(3)])
    made = reader(nats, one, two)
    first = latest(made, made.initialOffset())
    nats.publish([f"{two}.a"])
    second = latest(made, first)
    assert [(part.stream, part.start, part.end) for part in partitions(made, first, second)] == [(two, 4, 5)]
    offsets = decode_offsets(second, [one, two])
    assert offsets[one] == replace(decode_offsets(first, [one, two])[one], start=4)


def test_an_offset_without_a_start_counts_from_the_previous_one(nats: Nats) -> None:
    stream = nats.filled(5)
    made = reader(nats, stream)
    start = made.initialOffset()
    end: Offset = json.loads(json.dumps(latest(made, start)))
    del end["streams"][stream]["start"]  # type: ignore[index]  # a dict
    assert bounds(made, start, end) == [(1, 6)]


@given(st.integers(1, 50), st.integers(0, 50), st.integers(0, 110), st.integers(0, 110))
def test_a_clipped_partition_is_its_part_between_two_sequences(start: int, size: int, first: int, end: int) -> None:
    left = StreamPartition("S", 1, start, start + size).clip(first, end)
    assert list(range(left.start, left.end)) == [n for n in range(start, start + size) if first <= n < end]
    assert left.start <= left.end


def test_a_bucket_that_is_copied_again_after_the_window_stores_the_remaining_messages_once(nats: Nats) -> None:
    bucket = nats.filled(1000, [f"{key}" for key in range(1000)], max_msgs_per_subject=1)
    target = nats.stream(duplicate_window=timedelta(milliseconds=100))
    sink = {"servers": nats.url, "subject": f"{target}.x", "ledgerStream": "REPEATED", "expectedStream": target}

    def run(made: JetStreamStreamReader) -> int:
        skipped = 0
        for number, part in enumerate(partitions(made, start, end)):
            batches = (pa.record_batch({"subject": b["subject"], "data": b["data"]}) for b in made.read(part))
            writer = plan_stream_write(ROWS, stream_write_options(sink), overwrite=False)
            skipped += writer.publish(TaskName("bucket", 0, number), batches).skipped
        return skipped

    made = reader(nats, bucket, minPartitions="4")
    start = made.initialOffset()
    end = latest(made, start)
    assert run(made) == 0
    nats.publish([f"{bucket}.{key}" for key in range(250)])  # takes the first partition
    assert run(reader(nats, bucket, minPartitions="4")) == 750
    assert len(nats.rows(target, "data")) == 1000
