"""Atomic batches of rows are stored completely or not at all, and a repeat stores each row once."""

import threading

import pyarrow as pa
import pytest
from tests.bulk.proxy import Proxy, cut_after
from tests.bulk.streams import Streams, read, rows

from jetspark import bulk
from jetspark.bulk import Connection
from jetspark.errors import (
    AtomicPublishDisabledError,
    BadSubjectError,
    ConfigError,
    DisconnectedError,
    IncompleteBatchError,
    MessageSizeExceedsMaximumError,
    NoStreamResponseError,
    WrongStreamError,
)
from jetspark.jetstream import StreamConfig
from jetspark.server import NatsServer


def atomic(streams: Streams, **config: object) -> str:
    name = streams.new_name()
    return streams.make_as(StreamConfig(name=name, allow_atomic=True, allow_direct=True, **config))  # type: ignore[arg-type]  # by name


def with_ids(name: str, numbers: range | list[int]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "subject": [f"{name}.{number % 3}" for number in numbers],
            "data": [b"%d" % number for number in numbers],
            "msg_id": [str(number) for number in numbers],
        }
    )


def stored(streams: Streams, name: str) -> list[int]:
    table, _ = read(streams.connection, name, columns=["data"])
    return [int(each) for each in table.column("data").to_pylist()]


@pytest.mark.conformance("BAT-01", "BAT-03", "BAT-06")
def test_rows_are_split_into_atomic_batches_whatever_the_record_batches_are(
    connection: Connection, streams: Streams
) -> None:
    name = atomic(streams)
    whole = with_ids(name, range(2501))
    report = bulk.publish_atomic(connection, [whole.slice(0, 700), whole.slice(700, 1), whole.slice(701)])
    assert (report.count, report.duplicates, report.resent) == (2501, 0, 0)
    assert (report.stream, report.first_sequence, report.last_sequence) == (name, 1, 2501)
    assert report.bytes > 2501 * 50
    table, _ = read(connection, name)
    assert [int(each) for each in table.column("data").to_pylist()] == list(range(2501))
    headers = [dict(each) for each in table.column("headers").to_pylist()]
    numbers = [int(each["Nats-Batch-Sequence"][0]) for each in headers]
    assert numbers == [*range(1, 1001), *range(1, 1001), *range(1, 502)]
    assert [at for at, each in enumerate(headers) if "Nats-Batch-Commit" in each] == [999, 1999, 2500]
    assert len({each["Nats-Batch-Id"][0] for each in headers}) == 3
    single = bulk.publish_atomic(connection, rows(f"{name}.x", [b"1"]), subject=f"{name}.y", expected_stream=name)
    assert single.last_sequence == 2502
    assert bulk.publish_atomic(connection, []).count == 0


@pytest.mark.conformance("BAT-08")
def test_publishing_again_changes_nothing(connection: Connection, streams: Streams) -> None:
    name = atomic(streams)
    whole = with_ids(name, range(1500))
    bulk.publish_atomic(connection, whole)
    again = bulk.publish_atomic(connection, whole)
    assert (again.count, again.duplicates, again.resent) == (1500, 1500, 1500)
    assert (again.stream, again.first_sequence) == (name, None)
    other_order = bulk.publish_atomic(connection, with_ids(name, [*range(1400, 1600), *range(100)]))
    assert (other_order.count, other_order.duplicates) == (300, 200)
    assert sorted(stored(streams, name)) == list(range(1600))


def test_a_duplicate_within_a_batch_is_left_out(connection: Connection, streams: Streams) -> None:
    name = atomic(streams)
    numbers = pa.array([b"1", b"2", b"3", b"4"])
    ids = pa.array(["a", "b", "a", None])
    batch = pa.record_batch({"subject": [f"{name}.x"] * 4, "data": numbers, "msg_id": ids})
    report = bulk.publish_atomic(connection, batch)
    assert (report.count, report.duplicates, report.resent) == (4, 1, 0)
    assert stored(streams, name) == [1, 2, 4]
    nulls = batch.set_column(2, "msg_id", pa.array([None] * 4, pa.string()))
    assert bulk.publish_atomic(connection, nulls).duplicates == 0


@pytest.mark.conformance("BAT-04")
@pytest.mark.parametrize("cut", [820, 860, 1100, 1130, 1400])
def test_a_lost_connection_leaves_only_complete_batches(server: NatsServer, streams: Streams, cut: int) -> None:
    name = atomic(streams)
    whole = with_ids(name, range(5000))
    with Proxy(server, cut_after(cut)) as proxy, bulk.connect(proxy.url) as own:
        with pytest.raises(DisconnectedError):
            bulk.publish_atomic(own, whole)
        own.reconnect()
        report = bulk.publish_atomic(own, whole)
    assert (report.count, report.duplicates % 1000) == (5000, 0)
    assert stored(streams, name) == list(range(5000))


def test_a_lost_connection_is_opened_again_on_request(server: NatsServer, streams: Streams) -> None:
    name = atomic(streams)
    with Proxy(server, cut_after(1000), cut_after(1000)) as proxy, bulk.connect(proxy.url) as own:
        report = bulk.publish_atomic(own, with_ids(name, range(5000)), retry_timeout=10)
        assert proxy.connections == 3
    assert report.count == 5000
    assert report.resent >= 1000
    assert stored(streams, name) == list(range(5000))


def test_a_refused_batch_reports_its_first_row_and_the_stored_rows(connection: Connection, streams: Streams) -> None:
    name = atomic(streams, max_msg_size=300)
    payloads = [b"x"] * 1500
    payloads[1200] = b"x" * 400
    with pytest.raises(bulk.PublishRefusedError) as caught:
        bulk.publish_atomic(connection, rows(f"{name}.x", payloads))
    assert isinstance(caught.value.error, MessageSizeExceedsMaximumError | IncompleteBatchError)
    assert (caught.value.row, caught.value.subject, caught.value.report.count) == (1000, f"{name}.x", 1000)
    assert streams.info(name).state.messages == 1000


@pytest.mark.conformance("BAT-05")
def test_rows_that_cannot_form_a_batch_are_refused(connection: Connection, streams: Streams) -> None:
    plain, one, two = streams.make(), atomic(streams), atomic(streams)
    for batch, error in (
        (rows(f"{plain}.x", [b"1", b"2"]), AtomicPublishDisabledError),
        (pa.concat_batches([rows(f"{one}.x", [b"1"]), rows(f"{two}.x", [b"2"])]), IncompleteBatchError),
        (rows("nobody.x", [b"1"]), NoStreamResponseError),
    ):
        with pytest.raises(bulk.PublishRefusedError, match="row 0, ") as caught:
            bulk.publish_atomic(connection, batch)
        assert isinstance(caught.value.error, error)
    with pytest.raises(bulk.PublishRefusedError) as wrong:
        bulk.publish_atomic(connection, rows(f"{one}.x", [b"1", b"2"]), expected_stream=two)
    assert isinstance(wrong.value.error, WrongStreamError | IncompleteBatchError)
    with pytest.raises(BadSubjectError, match="row 1 "):
        bulk.publish_atomic(connection, pa.record_batch({"subject": [f"{one}.x", "a b"], "data": ["1", "2"]}))
    for batch_rows in (0, 1001):
        with pytest.raises(ConfigError, match="1 to 1000"):
            bulk.publish_atomic(connection, rows(f"{one}.x", [b"1"]), batch_rows=batch_rows)
    assert [streams.info(each).state.messages for each in (plain, one, two)] == [0, 0, 0]


def test_a_server_that_is_killed_meanwhile_loses_and_repeats_nothing() -> None:
    with NatsServer() as server, bulk.connect(server.url) as own:
        streams = Streams(own)
        name = atomic(streams)
        whole = with_ids(name, range(10_000))
        starting = threading.Timer(0.5, server.restart)

        def batches() -> list[pa.RecordBatch]:
            server.kill()
            starting.start()
            return [whole]

        assert bulk.publish_atomic(own, batches(), retry_timeout=20).count == 10_000
        starting.join()
        assert stored(streams, name) == list(range(10_000))
