"""Reads whose payloads become columns: scan, fetch, the last message of every subject."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from tests.bulk.streams import Streams, rows
from tests.bulk.test_fetch import info, made

from jetspark import bulk
from jetspark.bulk import Connection
from jetspark.errors import ConfigError, PayloadError
from jetspark.payload import DecodeOptions, text_format

TEXT = text_format(pa.schema([pa.field("line", pa.string())]))
LINES = [b"one", b"\xff", b"", b"two"]
TEXTS = ["one", None, "", "two"]


@pytest.fixture
def stream(streams: Streams) -> str:
    """A stream with four payloads; the second is no text."""
    name = streams.make()
    bulk.publish(streams.connection, rows(f"{name}.a", LINES))
    return name


@pytest.mark.parametrize("read_method", ["consumer", "direct"])
def test_a_scan_decodes_payloads(connection: Connection, streams: Streams, read_method: str) -> None:
    name = streams.make()
    bulk.publish(streams.connection, rows(f"{name}.a", LINES))
    with bulk.scan(
        connection,
        name,
        columns=["sequence", "data", "subject"],
        decode=TEXT,
        max_batch_rows=3,
        read_method=read_method,
    ) as scanned:
        assert scanned.schema.names == ["sequence", "line", "subject"]
        table = scanned.read_all()
    assert table["line"].to_pylist() == TEXTS
    assert table["sequence"].to_pylist() == [1, 2, 3, 4]
    assert (scanned.report.received, scanned.report.bad_records, scanned.report.complete) == (4, 1, True)


def test_a_scan_leaves_out_bad_records_and_counts_them(connection: Connection, stream: str) -> None:
    decode = DecodeOptions(TEXT, "DROPMALFORMED", metadata_prefix="_")
    with bulk.scan(connection, stream, columns=["data", "sequence"], decode=decode) as scanned:
        assert scanned.read_all().to_pydict() == {"line": ["one", "", "two"], "_sequence": [1, 3, 4]}
    assert (scanned.report.received, scanned.report.bad_records, scanned.report.missing) == (4, 1, 0)


def test_a_scan_that_fails_fast_names_the_message_and_leaves_nothing(
    connection: Connection, streams: Streams, stream: str
) -> None:
    strict = DecodeOptions(TEXT, "FAILFAST")
    scanned = bulk.scan(connection, stream, columns=["data"], decode=strict)
    with pytest.raises(PayloadError, match=f"^stream '{stream}', sequence 2: the payload is not UTF-8"):
        scanned.read_all()
    assert scanned.report.restarts == 0
    assert streams.no_consumers(stream)
    with bulk.scan(
        connection, stream, columns=["data"], end_sequence=2, decode=DecodeOptions(TEXT, "FAILFAST")
    ) as good:
        assert good.read_all().to_pydict() == {"line": ["one"]}


def test_a_fetch_decodes_payloads_and_acknowledges_bad_records_too(
    connection: Connection, streams: Streams, stream: str
) -> None:
    made(streams, stream)
    decode = DecodeOptions(TEXT, "DROPMALFORMED", corrupt_record_column="bad")
    with bulk.fetch(connection, stream, "c", max_messages=4, columns=["data"], decode=decode) as fetched:
        assert fetched.read_all().to_pydict() == {"line": ["one", "", "two"], "bad": [None, None, None]}
        assert (fetched.received, fetched.bad_records) == (4, 1)
        fetched.ack()
    assert info(streams, stream).ack_floor.stream_sequence == 4


def test_a_fetch_that_fails_fast_acknowledges_nothing_of_that_batch(
    connection: Connection, streams: Streams, stream: str
) -> None:
    made(streams, stream)
    decode = DecodeOptions(TEXT, "FAILFAST")
    fetched = bulk.fetch(connection, stream, "c", max_messages=4, columns=["data"], decode=decode)
    with pytest.raises(PayloadError, match=f"^stream '{stream}', sequence 2: "):
        next(fetched)
    assert (fetched.received, fetched.bad_records) == (0, 0)
    fetched.ack()
    fetched.close()
    with bulk.fetch(connection, stream, "c", max_messages=4, columns=["data"], decode=TEXT) as again:
        assert again.read_all()["line"].to_pylist() == TEXTS  # the server delivers them at once
        again.ack()
    assert info(streams, stream).ack_floor.stream_sequence == 4


@pytest.mark.parametrize("read_method", ["consumer", "direct"])
def test_the_last_message_of_every_subject_is_decoded(
    connection: Connection, streams: Streams, read_method: str
) -> None:
    name = streams.make()
    batch = {"subject": [f"{name}.{subject}" for subject in "abca"], "data": [b"old", b"\xff", b"c", b"new"]}
    bulk.publish(streams.connection, pa.record_batch(batch))
    snapshot = bulk.last_per_subject(
        connection, name, columns=["data", "sequence"], decode=TEXT, read_method=read_method
    )
    assert snapshot.table.to_pydict() == {"line": [None, "c", "new"], "sequence": [2, 3, 4]}
    assert snapshot.bad_records == 1
    with pytest.raises(PayloadError, match="sequence 2: "):
        bulk.last_per_subject(connection, name, columns=["data"], decode=DecodeOptions(TEXT, "FAILFAST"))


def test_a_clash_of_names_and_columns_without_payloads_are_refused_at_once(connection: Connection) -> None:
    subject = text_format(pa.schema([pa.field("subject", pa.string())]))
    for begin in (
        lambda columns, decode: bulk.scan(connection, "S", columns=columns, decode=decode),
        lambda columns, decode: bulk.fetch(connection, "S", "c", max_messages=1, columns=columns, decode=decode),
        lambda columns, decode: bulk.last_per_subject(connection, "S", columns=columns, decode=decode),
    ):
        with pytest.raises(ConfigError, match='metadata_prefix="_"'):
            begin(None, subject)
        with pytest.raises(ConfigError, match="decode needs the column data"):
            begin(["sequence"], subject)


def test_options_of_a_read_are_picklable() -> None:
    options = DecodeOptions(TEXT, "FAILFAST", "_", pa.field("bad", pa.binary()))
    assert pickle.loads(pickle.dumps(options)) == options
