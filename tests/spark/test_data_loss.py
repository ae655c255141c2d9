"""Lost messages are reported with their range, as an error or a warning, during planning and reading."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest
from pyspark.sql.datasource import InputPartition
from tests.spark.support import Nats, running

from jetspark.errors import DataLossError, StreamNotFoundError
from jetspark.spark.options.batch import read_options
from jetspark.spark.read.batch_reader import JetStreamReader
from jetspark.spark.schema import read_schema


def reader(nats: Nats, stream: str, **options: str) -> JetStreamReader:
    given = {"servers": nats.url, "stream": stream, "maxBytesInFlight": "64k", "arrowBatchRows": "10", **options}
    return JetStreamReader(read_schema(include_headers=False), read_options(given))


def planned(nats: Nats, stream: str, **options: str) -> tuple[JetStreamReader, InputPartition]:
    """A reader and its only partition."""
    made = reader(nats, stream, **options)
    (part,) = made.partitions()
    return made, part


def sequences(made: JetStreamReader, part: InputPartition) -> list[int]:
    return [sequence for batch in made.read(part) for sequence in batch.column("sequence").to_pylist()]


def large(nats: Nats, count: int = 100) -> str:
    """A stream with more messages than can be in flight at a time."""
    stream = nats.stream()
    nats.publish([f"{stream}.a"] * count, [bytes(100_000)] * count)
    return stream


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        ({"startingOffsets": 3}, 3, 5),
        ({"endingOffsets": 4}, 1, 3),
        ({"endingOffsets": 15}, 11, 14),
        ({"startingOffsets": 14, "endingOffsets": 17}, 14, 16),
    ],
)
def test_offsets_outside_the_stream_are_an_error_or_a_warning_with_the_missing_sequences(
    nats: Nats, caplog: pytest.LogCaptureFixture, options: dict[str, int], first: int, last: int
) -> None:
    stream = nats.filled(10)
    nats.purge(stream, before=6)
    given = {name: json.dumps({stream: sequence}) for name, sequence in options.items()}
    with pytest.raises(DataLossError) as caught:
        reader(nats, stream, **given).partitions()
    assert (caught.value.stream, caught.value.first, caught.value.last) == (stream, first, last)
    text = f"stream {stream}: sequences {first} to {last} are {'gone' if first < 6 else 'not in it'}"
    assert text in str(caught.value)
    assert "failOnDataLoss" in str(caught.value)
    made = reader(nats, stream, failOnDataLoss="false", **given)
    parts = made.partitions()
    assert text in caplog.text
    read = [sequence for part in parts for sequence in sequences(made, part)]
    wanted = range(options.get("startingOffsets", 1), options.get("endingOffsets", 11))
    assert read == [sequence for sequence in range(6, 11) if sequence in wanted]


def test_the_first_and_the_next_sequence_are_valid_offsets(nats: Nats) -> None:
    stream = nats.filled(10)
    nats.purge(stream, before=6)
    made, part = planned(nats, stream, startingOffsets=json.dumps({stream: 6}), endingOffsets=json.dumps({stream: 11}))
    assert sequences(made, part) == [6, 7, 8, 9, 10]


@pytest.mark.parametrize("start", [11, 14])
def test_a_start_past_the_end_reads_nothing_yet(nats: Nats, start: int) -> None:
    stream = nats.filled(10)
    assert reader(nats, stream, startingOffsets=json.dumps({stream: start})).partitions() == []


def test_a_purge_before_a_task_starts_is_noticed(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    stream = nats.filled(100)
    made, part = planned(nats, stream)
    lenient, same = planned(nats, stream, failOnDataLoss="false")
    nats.purge(stream, before=40)
    with pytest.raises(DataLossError, match=f"stream {stream}: sequences 1 to 39 are gone: .*starts at 40"):
        sequences(made, part)
    assert sequences(lenient, same) == list(range(40, 101))
    assert f"stream {stream}: sequences 1 to 39 are gone" in caplog.text
    nats.purge(stream)
    with pytest.raises(DataLossError, match="sequences 1 to 100 are gone"):
        sequences(made, part)
    assert sequences(lenient, same) == []


def test_a_purge_while_a_task_reads_is_noticed(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    for fail in ("true", "false"):
        stream = large(nats)
        made, part = planned(nats, stream, failOnDataLoss=fail)
        batches = made.read(part)
        read = len(next(batches))
        nats.purge(stream, before=100)
        text = rf"stream {stream}: \d+ messages between sequences 1 and 100 were purged, deleted or expired"
        if fail == "true":
            with pytest.raises(DataLossError, match=text):
                list(batches)
        else:
            read += sum(len(batch) for batch in batches)
            assert 0 < read < 100
            assert f"stream {stream}: {100 - read} messages" in caplog.text


def remake(nats: Nats, stream: str) -> None:
    nats.delete(stream)
    nats.stream(stream)
    nats.publish([f"{stream}.a"] * 100)


@pytest.mark.parametrize("change", [Nats.delete, remake])
def test_a_stream_that_is_deleted_or_recreated_during_a_read_is_noticed(
    nats: Nats, change: Callable[[Nats, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    for fail in ("true", "false"):
        stream = large(nats)
        made, part = planned(nats, stream, failOnDataLoss=fail)
        batches = made.read(part)
        read = len(next(batches))
        change(nats, stream)
        if fail == "true":
            with pytest.raises(DataLossError, match=rf"stream {stream}: sequences \d+ to 100 are gone"):
                list(batches)
        else:
            read += sum(len(batch) for batch in batches)
            assert 0 < read < 100
            assert f"stream {stream}: sequences {read + 1} to 100 are gone" in caplog.text


def test_a_stream_that_is_recreated_before_a_task_starts_is_not_read(
    nats: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    stream = nats.filled(100)
    made, part = planned(nats, stream)
    lenient, same = planned(nats, stream, failOnDataLoss="false")
    remake(nats, stream)
    with pytest.raises(DataLossError, match="sequences 1 to 100 are gone: the stream was deleted and created again"):
        sequences(made, part)
    assert sequences(lenient, same) == []
    assert "deleted and created again" in caplog.text


def test_a_restart_of_the_server_during_a_read_is_no_loss() -> None:
    with running() as nats:
        stream = large(nats)
        made, part = planned(nats, stream)
        batches = made.read(part)
        read = next(batches).column("sequence").to_pylist()
        nats.server.kill()
        nats.server.restart()
        for batch in batches:
            read += batch.column("sequence").to_pylist()
        assert read == list(range(1, 101))


def test_messages_expired_or_deleted_before_planning_are_no_loss(nats: Nats, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    stream = nats.filled(20, max_msgs=7)
    made, part = planned(nats, stream)
    assert sequences(made, part) == list(range(14, 21))
    assert caplog.text == ""


def test_a_missing_stream_is_an_error_for_every_value_of_the_option(nats: Nats) -> None:
    with pytest.raises(StreamNotFoundError, match=r"NOWHERE.*10059"):
        reader(nats, "NOWHERE", failOnDataLoss="false").partitions()
