"""Blocking puts and deletes of objects: what is stored, what is left out, and what a lost connection leaves."""

from __future__ import annotations

import os

import pytest
from tests.bulk.object_stores import content, make
from tests.bulk.proxy import Proxy, cut_after
from tests.bulk.streams import Streams

from jetspark import bulk
from jetspark.bulk import Connection
from jetspark.bulk.object_put import ObjectWriter, find_object_store, new_object
from jetspark.errors import BadBucketError, BucketNotFoundError, InvalidObjectNameError
from jetspark.jetstream.object_store.config import ObjectStoreConfig, stream_config
from jetspark.server import NatsServer


def test_objects_are_put_replaced_and_deleted(connection: Connection, streams: Streams) -> None:
    target, large = make(streams), os.urandom(700_000)
    writer = ObjectWriter(connection, target)
    described = new_object(target.bucket, "dir/ä").replace(description="d", headers={"k": ["v"]}, metadata={"m": "1"})
    assert writer.put(described, large)
    assert writer.put(new_object(target.bucket, "empty"), b"")
    assert content(streams, target) == {"dir/ä": large, "empty": b""}
    last = streams.info(target.stream).state.last_sequence
    assert not writer.put(described, large)  # nothing is stored again
    assert streams.info(target.stream).state.last_sequence == last
    assert writer.put(described.replace(metadata={}), large)
    assert writer.put(described, b"small")
    assert content(streams, target) == {"dir/ä": b"small", "empty": b""}
    assert [writer.delete(name) for name in ("dir/ä", "dir/ä", "none")] == [True, False, False]
    assert content(streams, target) == {"empty": b""}
    with pytest.raises(InvalidObjectNameError):
        writer.put(new_object(target.bucket, ""), b"x")


@pytest.mark.parametrize("cuts", [[1_500], [3_000, 1_000]])
def test_a_lost_connection_leaves_each_object_whole_and_no_other_chunk(
    server: NatsServer, streams: Streams, cuts: list[int]
) -> None:
    target = make(streams)
    objects = {f"o{number}": os.urandom(400_000) for number in range(6)}
    with Proxy(server, *map(cut_after, cuts)) as proxy, bulk.connect(proxy.url) as own:
        writer = ObjectWriter(own, target, retry_timeout=20)
        for name, data in objects.items():
            writer.put(new_object(target.bucket, name), data)
        assert proxy.connections > len(cuts)
    assert content(streams, target) == objects


def test_a_bucket_that_is_no_object_store_is_refused(connection: Connection, streams: Streams) -> None:
    with pytest.raises(BucketNotFoundError):
        find_object_store(connection, "none")
    streams.make_as(stream_config(ObjectStoreConfig(bucket="x")).replace(name="OBJ_odd", subjects=["odd.>"]))
    with pytest.raises(BadBucketError):
        find_object_store(connection, "odd")
