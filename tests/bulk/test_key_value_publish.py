"""Writing messages of rows into a bucket: expected revisions, repeats, the order of a key, and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.bulk.proxy import Proxy, cut_after
from tests.bulk.streams import Streams, create, read

from jetspark import bulk
from jetspark.bulk import Connection
from jetspark.bulk.key_value_bucket import BucketTarget, find_bucket
from jetspark.bulk.key_value_publish import BucketWriteReport, _rounds, publish_messages
from jetspark.bulk.key_value_rows import messages_of_rows
from jetspark.bulk.publish_report import BulkPublishOptions, PublishRefusedError
from jetspark.errors import (
    BadBucketError,
    BadHeadersError,
    BucketNotFoundError,
    KeyExistsError,
    MaxControlLineError,
    MaxPayloadError,
    StreamStoreFailedError,
    ValueTooLargeError,
    WrongLastRevisionError,
)
from jetspark.jetstream import StreamSource
from jetspark.jetstream.api import StreamPurgeRequest
from jetspark.jetstream.key_value import KeyValueConfig
from jetspark.jetstream.key_value.config import stream_config
from jetspark.server import NatsServer

SECRET = "classified"


def make(streams: Streams, **config: Any) -> BucketTarget:
    name = streams.new_name()
    streams.make_as(stream_config(KeyValueConfig(bucket=name, **config)))
    return find_bucket(streams.connection, name)


def write(
    connection: Connection, bucket: BucketTarget, *batches: dict[str, Any], skip: bool = False, **settings: Any
) -> BucketWriteReport:
    messages = (messages_of_rows(pa.record_batch(columns), bucket.write_prefix) for columns in batches)
    options = BulkPublishOptions(**settings)
    return publish_messages(connection, bucket, messages, options, skip_conflicts=skip)


def stored(streams: Streams, bucket: BucketTarget) -> list[tuple[str, bytes]]:
    """Return keys and values in the order of their revisions."""
    table, _ = read(streams.connection, bucket.stream, columns=["subject", "data"])
    rows = table.to_pylist()
    return [(row["subject"].removeprefix(bucket.stored_prefix), row["data"]) for row in rows]


def ids(count: int) -> list[str]:
    return [f"id{number}" for number in range(count)]


def test_values_are_stored_and_deleted(connection: Connection, streams: Streams) -> None:
    bucket = make(streams, history=5)
    rows = {"key": ["a", "b", "a"], "value": ["1", "", None]}
    report = write(connection, bucket, rows, {"key": ["c"], "value": ["2"]})
    assert report.published.count == 4
    assert sorted(stored(streams, bucket)) == [("a", b""), ("a", b"1"), ("b", b""), ("c", b"2")]
    table, _ = read(streams.connection, bucket.stream, columns=["headers"])
    assert table.column("headers").to_pylist().count([("KV-Operation", ["DEL"])]) == 1


@pytest.mark.conformance("KSP-15")
def test_the_rows_of_a_key_keep_their_order(connection: Connection, streams: Streams) -> None:
    bucket = make(streams, history=64)
    count, keys = 2_000, 50
    rows = {"key": [f"k{number * 7 % keys}" for number in range(count)], "value": [str(each) for each in range(count)]}
    write(connection, bucket, rows, rows)
    found: dict[str, list[int]] = {}
    for key, value in stored(streams, bucket):
        found.setdefault(key, []).append(int(value))
    wanted = {key: [number for number in range(count) if number * 7 % keys == int(key[1:])] for key in found}
    assert len(found) == keys
    assert found == {key: (numbers * 2)[-64:] for key, numbers in wanted.items()}


@pytest.mark.conformance("KSP-12")
def test_expected_revisions_create_update_and_delete(connection: Connection, streams: Streams) -> None:
    bucket = make(streams)
    write(connection, bucket, {"key": ["a", "b", "gone"], "value": ["1", "2", None]})
    rows = {
        "key": ["a", "b", "new", "gone", "free"],
        "value": ["10", None, "n", "again", "f"],
        "expected_revision": [1, 2, 0, 0, None],
    }
    report = write(connection, bucket, rows)
    assert (report.published.count, report.published.duplicates, report.conflicts) == (5, 0, 0)
    assert sorted(stored(streams, bucket)) == [
        ("a", b"10"),
        ("b", b""),
        ("free", b"f"),
        ("gone", b"again"),
        ("new", b"n"),
    ]


def test_a_conflict_is_an_error_with_the_newest_revision(connection: Connection, streams: Streams) -> None:
    bucket = make(streams)
    write(connection, bucket, {"key": ["a", "b"], "value": ["1", "2"]})
    with pytest.raises(WrongLastRevisionError) as caught:
        write(connection, bucket, {"key": ["b", "a"], "value": ["x", SECRET], "expected_revision": [2, 7]})
    assert (caught.value.key, caught.value.expected, caught.value.actual) == ("a", 7, 1)
    assert SECRET not in str(caught.value)
    with pytest.raises(WrongLastRevisionError) as caught:
        write(connection, bucket, {"key": ["none"], "value": [SECRET], "expected_revision": [7]})
    assert (caught.value.key, caught.value.expected, caught.value.actual) == ("none", 7, 0)
    with pytest.raises(KeyExistsError) as exists:
        write(connection, bucket, {"key": ["a"], "value": [SECRET], "expected_revision": [0]})
    assert (exists.value.key, exists.value.actual) == ("a", 1)
    assert sorted(stored(streams, bucket)) == [("a", b"1"), ("b", b"x")]


def test_conflicts_can_be_skipped_and_are_counted(connection: Connection, streams: Streams) -> None:
    bucket = make(streams)
    keys = [f"k{number}" for number in range(100)]
    write(connection, bucket, {"key": keys, "value": ["old"] * 100})
    expected = [number + 1 if number % 2 else 500 for number in range(100)]
    report = write(connection, bucket, {"key": keys, "value": ["new"] * 100, "expected_revision": expected}, skip=True)
    assert (report.published.count, report.conflicts) == (50, 50)
    assert report.conflict_keys == keys[:20:2]
    assert dict(stored(streams, bucket)) == {key: b"new" if at % 2 else b"old" for at, key in enumerate(keys)}


def test_a_repeat_stores_nothing_twice_with_and_without_expected_revisions(
    connection: Connection, streams: Streams
) -> None:
    bucket = make(streams, history=5)
    write(connection, bucket, {"key": ["a", "gone"], "value": ["1", None]})
    rows = {
        "key": ["a", "gone", "new", "free"],
        "value": ["2", "3", "4", "5"],
        "expected_revision": [1, 2, 0, None],
        "msg_id": ids(4),
    }
    write(connection, bucket, rows)
    before = stored(streams, bucket)
    report = write(connection, bucket, rows)
    assert (report.published.count, report.published.duplicates, report.conflicts) == (4, 4, 0)
    assert stored(streams, bucket) == before
    # Another id is another row, and a conflict.
    with pytest.raises(WrongLastRevisionError, match="key 'a': revision 1 was expected, and the newest is 3"):
        write(connection, bucket, {**rows, "msg_id": [f"x{each}" for each in range(4)]})


def test_a_repeated_row_counts_as_stored_if_a_later_row_of_the_write_has_its_key(
    connection: Connection, streams: Streams
) -> None:
    bucket = make(streams)
    write(connection, bucket, {"key": ["a"], "value": ["1"]})
    rows: dict[str, list[Any]] = {"key": ["a", "a"], "value": ["2", "3"], "expected_revision": [1, None]}
    rows["msg_id"] = ["x", "y"]
    assert write(connection, bucket, rows).published.duplicates == 0
    assert write(connection, bucket, rows).published.duplicates == 2
    with pytest.raises(WrongLastRevisionError):  # the later row is not known
        write(connection, bucket, {name: column[:1] for name, column in rows.items()})
    assert stored(streams, bucket) == [("a", b"3")]


@pytest.mark.parametrize("cut", [1_000, 20_000, 60_000])
def test_a_lost_connection_stores_each_row_once(server: NatsServer, streams: Streams, cut: int) -> None:
    bucket = make(streams, history=64)
    keys = [f"k{number}" for number in range(500)]
    write(streams.connection, bucket, {"key": keys, "value": ["old"] * 500})
    count = 4_000
    first = {
        "key": keys,
        "value": ["new"] * 500,
        "expected_revision": range(1, 501),
        "msg_id": [f"first{each}" for each in range(500)],
    }
    rest = {"key": [keys[each % 500] for each in range(count)], "value": [str(each) for each in range(count)]}
    with Proxy(server, cut_after(cut)) as proxy, bulk.connect(proxy.url) as own:
        report = write(own, bucket, first, {**rest, "msg_id": ids(count)}, retry_timeout=20)
        assert proxy.connections == 2
    assert (report.published.count, report.conflicts) == (500 + count, 0)
    found: dict[str, list[bytes]] = {}
    for key, value in stored(streams, bucket):
        found.setdefault(key, []).append(value)
    assert found == {
        key: [b"old", b"new", *(b"%d" % number for number in range(at, count, 500))] for at, key in enumerate(keys)
    }


def test_a_value_that_is_too_large_is_not_sent(connection: Connection, streams: Streams) -> None:
    bucket = make(streams, max_value_size=300)
    write(connection, bucket, {"key": ["a"], "value": ["x" * 300]})
    with pytest.raises(ValueTooLargeError, match=r"row 4 \(key 'c'\)") as caught:
        write(
            connection,
            bucket,
            {"key": ["a", "b", "a"], "value": ["1", "2", "3"]},
            {"key": ["x", "c"], "value": ["", SECRET * 36], "msg_id": ["i", None]},
        )
    assert (caught.value.size, caught.value.limit) == (360, 300)
    assert SECRET not in str(caught.value)
    with pytest.raises(ValueTooLargeError) as with_headers:  # the server counts the headers
        write(connection, bucket, {"key": ["c"], "value": ["x" * 290], "msg_id": ["an id"]})
    assert with_headers.value.size == 290 + len("NATS/1.0\r\nNats-Msg-Id: an id\r\n\r\n")
    assert sorted(stored(streams, bucket)) == [("a", b"3"), ("b", b"2")]
    with pytest.raises(MaxPayloadError, match=r"row 0 \(key 'd'\): 2000000 bytes"):
        write(connection, replace(bucket, max_size=None), {"key": ["d"], "value": ["x" * 2_000_000]})


def test_a_key_that_is_too_long_for_the_control_line_is_not_sent(server: NatsServer, streams: Streams) -> None:
    bucket = make(streams)
    with bulk.connect(server.url, max_control_line=1024) as own:
        write(own, bucket, {"key": ["a" * 800], "value": ["1"]})
        with pytest.raises(MaxControlLineError, match=r"^row 1 \(key 'aaa"):
            write(own, bucket, {"key": ["b", "a" * 1000], "value": ["1", "2"]})
    assert [key for key, _ in stored(streams, bucket)] == ["a" * 800]


def test_a_bad_header_shows_the_row_but_no_value(connection: Connection, streams: Streams) -> None:
    bucket = make(streams)
    headers = pa.array([[], [("k", "a\nb")]], pa.map_(pa.string(), pa.string()))
    with pytest.raises(BadHeadersError, match=r"^row 1 \(key 'b'\): ") as caught:
        write(connection, bucket, {"key": ["a", "b"], "value": ["1", SECRET], "headers": headers})
    assert SECRET not in str(caught.value)
    assert not stored(streams, bucket)


def test_other_refusals_name_the_row_of_the_caller(connection: Connection, streams: Streams) -> None:
    bucket = make(streams, max_bytes=2_000)
    with pytest.raises(PublishRefusedError) as caught:
        write(connection, bucket, {"key": ["a", "a", "b"], "value": ["1", SECRET * 500, "2"]})
    assert (caught.value.row, caught.value.subject) == (1, f"{bucket.write_prefix}a")
    assert isinstance(caught.value.error, StreamStoreFailedError)
    assert SECRET not in str(caught.value)


def test_a_bucket_that_does_not_exist_or_is_deleted(connection: Connection, streams: Streams) -> None:
    with pytest.raises(BucketNotFoundError):
        find_bucket(connection, "none")
    other = streams.make_as(stream_config(KeyValueConfig(bucket="other")).replace(name="KV_plain"))
    with pytest.raises(BadBucketError):
        find_bucket(connection, "plain")
    bucket = make(streams)
    streams.delete(bucket.stream)
    with pytest.raises(BucketNotFoundError):
        write(connection, bucket, {"key": ["a"], "value": ["1"]})
    assert other == "KV_plain"


def test_a_mirror_is_written_at_its_origin(connection: Connection, streams: Streams) -> None:
    origin = make(streams)
    name = streams.new_name()
    create(streams.connection, stream_config(KeyValueConfig(bucket=name, mirror=StreamSource(name=origin.bucket))))
    mirror = find_bucket(connection, name)
    assert (mirror.stream, mirror.write_prefix) == (origin.stream, origin.write_prefix)
    write(connection, mirror, {"key": ["a"], "value": ["1"], "expected_revision": [0], "msg_id": ["i"]})
    report = write(connection, mirror, {"key": ["a"], "value": ["1"], "expected_revision": [0], "msg_id": ["i"]})
    assert report.published.duplicates == 1
    assert stored(streams, origin) == [("a", b"1")]


def test_a_key_that_was_created_over_a_marker_is_recognised_in_a_repeat(
    connection: Connection, streams: Streams
) -> None:
    bucket = make(streams)
    write(connection, bucket, {"key": ["a", "b"], "value": [None, None]})
    rows = {"key": ["a", "b"], "value": ["1", "2"], "expected_revision": [0, 0], "msg_id": ids(2)}
    assert write(connection, bucket, rows).published.duplicates == 0
    assert write(connection, bucket, rows).published.duplicates == 2
    assert sorted(stored(streams, bucket)) == [("a", b"1"), ("b", b"2")]
    streams.connection.request(StreamPurgeRequest(bucket.stream))
    assert write(connection, bucket, {**rows, "msg_id": ["x", "y"]}).published.count == 2


@pytest.mark.conformance("KSP-15")
def test_no_key_is_twice_in_a_round_and_each_keeps_its_order() -> None:
    rounds = _rounds(pa.array(list("abacabd")))
    assert [each.tolist() for each in rounds] == [[0, 1, 3, 6], [2, 5], [4]]
    assert [each.tolist() for each in _rounds(pa.array(list("cab")))] == [[0, 1, 2]]
    assert [each.tolist() for each in _rounds(pa.array(["a"] * 3))] == [[0], [1], [2]]
    assert [len(each) for each in _rounds(pa.array([], pa.string()))] == [0]
