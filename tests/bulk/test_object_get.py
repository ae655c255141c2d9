"""Blocking reads of objects over connections that are lost."""

from __future__ import annotations

import os

import pytest
from tests.bulk.object_stores import make
from tests.bulk.proxy import Proxy, cut_after
from tests.bulk.streams import Streams

from jetspark import bulk
from jetspark.bulk import Connection
from jetspark.bulk.object_get import ObjectGetter
from jetspark.bulk.object_put import ObjectWriter, new_object
from jetspark.server import NatsServer


@pytest.mark.parametrize("size", [500_000, 3_000_000])
@pytest.mark.parametrize("cuts", [[1_500], [200_000, 1_000, 300_000]])
def test_a_lost_connection_does_not_end_a_read(
    server: NatsServer, connection: Connection, streams: Streams, cuts: list[int], size: int
) -> None:
    target = make(streams)
    writer = ObjectWriter(connection, target)
    objects = {f"o{number}": os.urandom(size) for number in range(3)}
    for name, data in objects.items():
        writer.put(new_object(target.bucket, name), data)
    with Proxy(server, *map(cut_after, cuts)) as proxy, bulk.connect(proxy.url) as own:
        getter = ObjectGetter(own, retry_timeout=20)
        place = getter.open(target.bucket)
        for name, data in objects.items():
            assert bytes(getter.read(place, getter.get_info(place, name))) == data
        assert proxy.connections > len(cuts)
