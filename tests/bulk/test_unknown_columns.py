"""A column that would not be published is refused by every write, with the right name."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.bulk.streams import Streams

from jetspark import bulk
from jetspark.bulk import Connection, PublishReport
from jetspark.errors import ConfigError
from jetspark.jetstream import StreamConfig

PUBLISHES = pytest.mark.parametrize("publish", [bulk.publish, bulk.publish_atomic])


@PUBLISHES
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("message_id", "msg_id"),
        ("Nats-Msg-Id", "msg_id"),
        ("MSG_ID", "msg_id"),
        ("msgid", "msg_id"),
        ("id", "msg_id"),
        ("header", "headers"),
        ("Headers", "headers"),
        ("payload", "data"),
        ("value", "data"),
        ("key", "subject"),
        ("subjects", "subject"),
    ],
)
def test_a_column_of_another_name_is_refused_and_the_right_one_named(
    publish: Callable[..., PublishReport], name: str, meant: str, connection: Connection, streams: Streams
) -> None:
    stream = streams.make()
    table = pa.table({"subject": [f"{stream}.x"] * 3, "data": [b"x"] * 3, name: ["1", "2", "3"]})
    with pytest.raises(ConfigError) as caught:
        publish(connection, table)
    assert str(caught.value) == (
        f"there is no column {name} to write; did you mean {meant}? The columns are: subject, data, headers, msg_id"
    )
    assert streams.info(stream).state.messages == 0


@PUBLISHES
def test_a_column_that_is_like_no_other_is_refused_too(
    publish: Callable[..., PublishReport], connection: Connection
) -> None:
    table = pa.table({"subject": ["a"], "data": [b"x"], "weight": [1]})
    with pytest.raises(ConfigError, match="no column weight to write; leave it out"):
        publish(connection, table)


@PUBLISHES
def test_rows_that_were_read_are_published_as_they_are(
    publish: Callable[..., PublishReport], connection: Connection, streams: Streams
) -> None:
    source, target = streams.make(), streams.new_name()
    streams.make_as(StreamConfig(name=target, allow_atomic=True))
    streams.fill(source, 3)
    with bulk.scan(connection, source) as reading:
        table = pa.Table.from_batches(list(reading))
    assert {"stream", "sequence", "timestamp", "timestamp_ns"} <= set(table.column_names)
    assert publish(connection, table, subject=f"{target}.x").count == 3
