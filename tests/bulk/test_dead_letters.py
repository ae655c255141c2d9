"""Rows that can never be stored are published as dead letters, and the other rows of their batch are stored."""

import json
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.bulk.streams import Streams, read

from jetspark import bulk
from jetspark.bulk import Connection, PublishRefusedError, PublishReport
from jetspark.bulk.dead_letters import (
    DeadLetterPublisher,
    TooManyDeadLettersError,
    publish_storable,
    row_as_json,
    split_rows,
)
from jetspark.bulk.publish_report import BulkPublishOptions
from jetspark.errors import BadSubjectError, NoStreamResponseError, PayloadError, StreamStoreFailedError
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import StreamNamesRequest
from jetspark.jetstream.config import DiscardPolicy
from jetspark.server import NatsServer

Row = tuple[str | None, bytes | None, Sequence[tuple[str, str | None]], str | None]


def batch(*made: Row) -> pa.RecordBatch:
    subjects, data, headers, ids = zip(*made, strict=True)
    return pa.record_batch(
        {
            "subject": pa.array(subjects, pa.string()),
            "data": pa.array(data, pa.binary()),
            "headers": pa.array(headers, pa.map_(pa.string(), pa.string())),
            "msg_id": pa.array(ids, pa.string()),
        }
    )


def publish(
    connection: Connection,
    dead: str,
    *batches: pa.RecordBatch,
    limit: int | None = None,
    max_size: int | None = None,
    asked: list[str] | None = None,
    **settings: str | None,
) -> tuple[PublishReport, DeadLetterPublisher]:
    letters = DeadLetterPublisher(f"{dead}.orders", "query-1", limit, max_size)

    def has_stream(subject: str) -> bool:
        if asked is not None:
            asked.append(subject)
        return bool(connection.request(StreamNamesRequest(subject_filter=subject)).items)

    options = BulkPublishOptions(**settings)  # type: ignore[arg-type]  # by name
    return publish_storable(connection, batches, options, letters, has_stream), letters


def stored(connection: Connection, stream: str) -> list[bytes]:
    table, _ = read(connection, stream, columns=["data"])
    data: list[bytes] = table.column("data").to_pylist()
    return data


def letters_in(connection: Connection, stream: str) -> list[tuple[bytes, dict[str, list[str]]]]:
    table, _ = read(connection, stream, columns=["data", "headers"])
    return [(row["data"], dict(row["headers"])) for row in table.to_pylist()]


def test_every_kind_of_bad_row_is_a_dead_letter(server: NatsServer, connection: Connection, streams: Streams) -> None:
    name = streams.make_as(StreamConfig(name=streams.new_name(), max_msg_size=1_000))
    other, dead = streams.make(), streams.make()
    limit = connection.server_info.max_payload
    good: list[Row] = [(f"{name}.{number}", b"%d" % number, [("k", "v")], f"id-{number}") for number in range(500)]
    bad: dict[str, Row] = {
        "the subject is null": (None, b"null", [], "null"),
        "must not contain": (f"{name}.a b", b"blank", [("k", "v")], "blank"),
        "control line": (f"{name}.{'x' * 5_000}", b"long", [], "long"),
        "KEY": (f"{name}.a", b"header", [("a b", "c"), ("k", "v")], "header"),
        "max_payload": (f"{name}.a", bytes(limit), [], "max_payload"),
        "10054": (f"{name}.a", bytes(2_000), [("k", "v")], "max_msg_size"),
        "10060": (f"{other}.a", b"other", [("k", "v")], "other"),
    }
    rows = [*good[:100], *bad.values(), *good[100:]]
    report, letters = publish(connection, dead, batch(*rows[:300]), batch(*rows[300:]), expected_stream=name)
    assert (report.count, letters.count) == (500, len(bad))
    assert sorted(stored(connection, name)) == sorted(b"%d" % number for number in range(500))
    assert stored(connection, other) == []
    found = {headers["Jetspark-Msg-Id"][0]: (data, headers) for data, headers in letters_in(connection, dead)}
    assert found.keys() == {row[3] for row in bad.values()}
    for msg_id, (data, headers) in found.items():
        row = next(each for each in bad.values() if each[3] == msg_id)
        assert row[1] is not None
        assert row[1].startswith(data)
        assert len(data) == len(row[1]) or headers["Jetspark-Payload-Size"] == [str(len(row[1]))]
        assert headers["Jetspark-Query"] == ["query-1"]
        assert headers["Jetspark-Stream"] == [name]
        assert ("k" in headers) == (("k", "v") in row[2])
    reasons = {msg_id: headers["Jetspark-Error"][0] for msg_id, (_, headers) in found.items()}
    assert "row 100 " in reasons["null"]
    assert "null" in reasons["null"]
    assert "control line" in reasons["long"]
    assert "max_payload" in reasons["max_payload"]
    assert "10054" in reasons["max_msg_size"]
    assert "10060" in reasons["other"]
    assert letters.first_reason == reasons["null"]


def test_a_row_whose_subject_no_stream_takes_is_a_dead_letter(connection: Connection, streams: Streams) -> None:
    name, dead = streams.make(), streams.make()
    nowhere = [f"{name}x.{number % 3}" for number in range(30)]
    rows: list[Row] = [(subject, b"lost", [], None) for subject in nowhere]
    kept: list[Row] = [(f"{name}.a", b"kept", [], None)] * 30
    mixed = [row for pair in zip(rows, kept, strict=True) for row in pair]
    asked: list[str] = []
    report, letters = publish(connection, dead, *[batch(*mixed[at : at + 10]) for at in range(0, 60, 10)], asked=asked)
    assert (report.count, letters.count) == (30, 30)
    assert stored(connection, name) == [b"kept"] * 30
    subjects = Counter(headers["Jetspark-Subject"][0] for _, headers in letters_in(connection, dead))
    assert subjects == Counter(nowhere)
    assert sorted(asked) == sorted(set(nowhere))  # each subject once: its later rows are not retried


def test_a_row_whose_stream_does_not_answer_is_no_dead_letter(connection: Connection, streams: Streams) -> None:
    dead = streams.make()
    letters = DeadLetterPublisher(f"{dead}.orders", "query-1")
    row = batch(("nowhere.at.all", b"x", [], None))
    with pytest.raises(PublishRefusedError, match="no stream captures the subject") as caught:
        publish_storable(connection, [row], BulkPublishOptions(), letters, lambda _: True)
    assert isinstance(caught.value.error, NoStreamResponseError)
    assert stored(connection, dead) == []


def test_a_full_stream_ends_the_write_without_dead_letters(connection: Connection, streams: Streams) -> None:
    config = StreamConfig(name=streams.new_name(), max_msgs=3, discard=DiscardPolicy.NEW)
    name, dead = streams.make_as(config), streams.make()
    with pytest.raises(PublishRefusedError) as caught:
        publish(connection, dead, batch(*[(f"{name}.a", b"x", [], None)] * 10))
    assert isinstance(caught.value.error, StreamStoreFailedError)
    assert stored(connection, dead) == []


@pytest.mark.parametrize("discard_new_per_subject", [True, False])
def test_a_condition_in_the_headers_ends_the_write_without_dead_letters(
    connection: Connection, streams: Streams, discard_new_per_subject: bool
) -> None:
    config = StreamConfig(name=streams.new_name())
    if discard_new_per_subject:
        config.discard, config.discard_new_per_subject, config.max_msgs_per_subject = DiscardPolicy.NEW, True, 1
    name, dead = streams.make_as(config), streams.make()
    headers = [] if discard_new_per_subject else [("Nats-Expected-Last-Sequence", "0")]
    with pytest.raises(PublishRefusedError):
        publish(connection, dead, batch(*[(f"{name}.a", b"x", headers, None)] * 2))
    assert stored(connection, dead) == []


def test_a_repeat_publishes_each_dead_letter_once(connection: Connection, streams: Streams) -> None:
    name, dead = streams.make_as(StreamConfig(name=streams.new_name(), max_msg_size=100)), streams.make()
    rows: list[Row] = [(f"{name}.a", bytes(200 if number % 5 else 1), [], f"id-{number}") for number in range(20)]
    for _ in range(2):
        report, letters = publish(connection, dead, batch(*rows))
        assert (report.count, letters.count) == (4, 16)
    assert (len(stored(connection, name)), len(stored(connection, dead))) == (4, 16)
    without_ids: list[Row] = [(f"{name}.a", bytes(200), [], None)] * 2
    publish(connection, dead, batch(*without_ids))
    assert len(stored(connection, dead)) == 18


def test_the_id_in_the_headers_of_a_row_counts_too(connection: Connection, streams: Streams) -> None:
    name, dead = streams.make_as(StreamConfig(name=streams.new_name(), max_msg_size=100)), streams.make()
    for _ in range(2):
        publish(connection, dead, batch((f"{name}.a", bytes(200), [("Nats-Msg-Id", "own")], None)))
    [(_, headers)] = letters_in(connection, dead)
    assert headers["Jetspark-Msg-Id"] == ["own"]


def test_too_many_dead_letters_end_the_write(connection: Connection, streams: Streams) -> None:
    name, dead = streams.make_as(StreamConfig(name=streams.new_name(), max_msg_size=100)), streams.make()
    good: list[Row] = [(f"{name}.a", b"ok", [], None)] * 5
    bad: list[Row] = [(f"{name}.a", bytes(200), [], None)] * 6
    with pytest.raises(
        TooManyDeadLettersError, match=r"12 bad rows or more, and may publish 10.*first reason.*10054"
    ) as e:
        publish(connection, dead, batch(*good, *bad), batch(*good, *bad), batch(*good), limit=10)
    assert (e.value.count, e.value.limit) == (12, 10)
    assert (len(stored(connection, name)), len(stored(connection, dead))) == (10, 10)


def test_as_many_dead_letters_as_allowed_are_no_error(connection: Connection, streams: Streams) -> None:
    name, dead = streams.make_as(StreamConfig(name=streams.new_name(), max_msg_size=100)), streams.make()
    _, letters = publish(connection, dead, batch(*[(f"{name}.a", bytes(200), [], None)] * 10), limit=10)
    assert letters.count == 10


def test_a_dead_letter_fits_the_stream_of_dead_letters(connection: Connection, streams: Streams) -> None:
    name = streams.make_as(StreamConfig(name=streams.new_name(), max_msg_size=100))
    dead = streams.make_as(StreamConfig(name=streams.new_name(), max_msg_size=2_000))
    headers = [("large", "x" * 1_000), ("small", "y")]
    publish(connection, dead, batch((f"{name}.a", bytes(5_000), headers, "a")), max_size=2_000)
    [(data, found)] = letters_in(connection, dead)
    assert 500 < len(data) < 2_000
    assert found["Jetspark-Payload-Size"] == ["5000"]
    assert found["Jetspark-Headers-Left-Out"] == ["1"]
    assert found["small"] == ["y"]


def test_a_dead_letter_that_is_refused_ends_the_write(connection: Connection, streams: Streams) -> None:
    name = streams.make_as(StreamConfig(name=streams.new_name(), max_msg_size=100))
    config = StreamConfig(name=streams.new_name(), max_msgs=1, discard=DiscardPolicy.NEW)
    dead = streams.make_as(config)
    with pytest.raises(PublishRefusedError, match=f"{dead}.orders"):
        publish(connection, dead, batch(*[(f"{name}.a", bytes(200), [], None)] * 3))


def test_strings_and_lists_of_headers_are_dead_letters_too(connection: Connection, streams: Streams) -> None:
    name, dead = streams.make_as(StreamConfig(name=streams.new_name(), max_msg_size=100)), streams.make()
    rows = pa.record_batch(
        {
            "data": pa.array(["ä" * 100, None]),
            "headers": pa.array(
                [[("k", ["1", "2"])], [("bad name", ["1"])]], pa.map_(pa.string(), pa.list_(pa.string()))
            ),
        }
    )
    publish(connection, dead, rows, subject=f"{name}.all")
    found = dict(letters_in(connection, dead))
    assert found["ä".encode() * 100]["k"] == ["1", "2"]
    assert found[b""]["Jetspark-Headers-Left-Out"] == ["1"]
    assert {headers["Jetspark-Subject"][0] for headers in found.values()} == {f"{name}.all"}


def test_one_bad_row_of_many_costs_few_checks() -> None:
    rows = pa.record_batch({"data": pa.array(range(10_000))})
    checks = []

    def check(part: pa.RecordBatch, first: int) -> None:
        checks.append(first)
        if 7_777 in part.column("data").to_pylist():
            raise PayloadError("bad")

    places, bad = split_rows(rows, check)
    assert [row for row, _ in bad] == [7_777]
    assert len(places) == 9_999
    assert len(checks) < 40


def test_an_error_that_is_not_of_a_row_is_raised() -> None:
    def check(part: pa.RecordBatch, first: int) -> None:
        raise NoStreamResponseError("no stream")

    with pytest.raises(NoStreamResponseError):
        split_rows(pa.record_batch({"data": pa.array([1, 2])}), check)


def test_rows_may_all_be_bad(connection: Connection, streams: Streams) -> None:
    dead = streams.make()
    report, letters = publish(connection, dead, batch(*[("a b", b"x", [], None)] * 10))
    assert (report.count, letters.count, len(stored(connection, dead))) == (0, 10, 10)
    with pytest.raises(BadSubjectError):
        bulk.publish(connection, batch(("a b", b"x", [], None)))


def test_a_row_of_any_types_becomes_json() -> None:
    row = pa.record_batch(
        {
            "bytes": pa.array([b"\xff"]),
            "decimal": pa.array([Decimal("1.10")]),
            "time": pa.array([0], pa.timestamp("us", "UTC")),
            "late": pa.array([2**62], pa.timestamp("us")),
            "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
            "struct": pa.array([{"a": [1.5, None]}]),
            "nan": pa.array([float("nan")]),
            "null": pa.nulls(1),
        }
    )
    assert json.loads(row_as_json(row, 0)) == {
        "bytes": "/w==",
        "decimal": "1.10",
        "time": "1970-01-01T00:00:00Z",
        "late": str(2**62),
        "map": [["a", 1]],
        "struct": {"a": [1.5, None]},
        "nan": None,
        "null": None,
    }
