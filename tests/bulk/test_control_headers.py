"""Rows of a scan that are published again do not act on the server by their headers."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.bulk.streams import HEADERS, Streams, read, rows

from jetspark import bulk
from jetspark.bulk import Connection, PublishRefusedError
from jetspark.errors import ConfigError
from jetspark.jetstream import StreamConfig


@pytest.mark.parametrize("publish", [bulk.publish, bulk.publish_atomic])
def test_a_copy_of_a_scan_leaves_out_headers_that_command_the_server(
    connection: Connection, streams: Streams, caplog: pytest.LogCaptureFixture, publish: Callable[..., object]
) -> None:
    origin = streams.make()
    copy = streams.make_as(StreamConfig(name=streams.new_name(), allow_atomic=True, allow_direct=True))
    maps = [[("Nats-Expected-Last-Sequence", [str(at)]), ("Nats-Msg-Id", ["one"]), ("Kind", ["a"])] for at in range(2)]
    given = rows(f"{origin}.x", [b"0", b"1"]).append_column("headers", pa.array([maps[0], maps[1][:1]], HEADERS))
    bulk.publish(connection, given, control_headers="keep")
    bulk.publish(connection, rows(f"{copy}.x", [b"before"]))
    table, _ = read(connection, origin)
    assert not caplog.records
    publish(connection, table.drop_columns(["subject"]), subject=f"{copy}.x")
    assert len(caplog.records) == 1
    assert "were left out: Nats-Expected-Last-Sequence, Nats-Msg-Id; give control_headers='keep'" in caplog.text
    copied, _ = read(connection, copy)
    names = [[key for key, _ in each or []] for each in copied.column("headers").to_pylist()[1:]]
    kept = [[key for key in each if not key.startswith("Nats-Batch-")] for each in names]  # of the atomic batch itself
    assert kept == [["Kind"], []]
    with pytest.raises(PublishRefusedError):
        publish(connection, table, subject=f"{copy}.x", control_headers="keep")
    with pytest.raises(ConfigError, match="control_headers takes one of 'drop', 'keep'"):
        publish(connection, table, control_headers="none")
