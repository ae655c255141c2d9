"""Publishing more than a server can take: rows that it refuses temporarily are stored later, without other errors.

A flooded server refuses a message before it has answered earlier ones. So the order of the answers does not say which
rows were refused; their reply subjects do.
"""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.bulk.streams import Streams, is_wanted, read, rows, until

from jetspark import bulk
from jetspark.bulk import Connection
from jetspark.errors import MessageSizeExceedsMaximumError, TooManyRequestsError
from jetspark.jetstream import StreamConfig
from jetspark.server import NatsCluster, NatsServer

COUNT = 5000
FLOODED = {"jetstream": {"max_buffered_msgs": 100}}
PAYLOADS = [b"%d" % number for number in range(COUNT)]


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    """Refuses messages while 100 wait to be stored."""
    with NatsServer(config=FLOODED) as running:
        yield running


def stored(streams: Streams, name: str) -> list[bytes]:
    data: list[bytes] = read(streams.connection, name, columns=["data"])[0].column("data").to_pylist()
    return data


def flood(
    connection: Connection,
    name: str,
    *,
    ids: bool,
    headed: bool = False,
    most: int | None = None,
) -> bulk.PublishReport:
    batch = rows(f"{name}.x", PAYLOADS)
    keys = [f"{name}-{number}" for number in range(COUNT)]
    if ids:
        batch = batch.append_column("msg_id", pa.array(keys))
    if headed:
        maps = [[("First", "1"), ("Nats-Msg-Id", key)] for key in keys]
        batch = batch.append_column("headers", pa.array(maps, pa.map_(pa.string(), pa.string())))
    return bulk.publish(connection, batch, max_pending=most, control_headers="keep")


@pytest.mark.parametrize("most", [768, 1500, None])
def test_rows_that_a_flooded_server_refuses_are_stored_once(
    connection: Connection, streams: Streams, most: int | None
) -> None:
    name = streams.make()
    report = flood(connection, name, ids=True, most=most)
    assert (report.count, report.first_sequence, report.last_sequence) == (COUNT, 1, COUNT)
    assert 0 < report.resent < COUNT
    assert sorted(stored(streams, name), key=int) == PAYLOADS


def test_ids_in_the_headers_protect_rows_as_well(connection: Connection, streams: Streams) -> None:
    name = streams.make()
    report = flood(connection, name, ids=False, headed=True)
    assert (report.count, report.resent > 0) == (COUNT, True)
    assert sorted(stored(streams, name), key=int) == PAYLOADS


@pytest.mark.parametrize("most", [400, None])
def test_refused_rows_without_ids_are_known_and_stored_once(
    connection: Connection, streams: Streams, most: int | None
) -> None:
    name = streams.make()
    report = flood(connection, name, ids=False, most=most)
    assert (report.count, report.duplicates, report.further_answers) == (COUNT, 0, 0)
    assert sorted(stored(streams, name), key=int) == PAYLOADS


@pytest.mark.matrix
def test_publishing_through_a_leaf_node_is_as_safe() -> None:
    with NatsServer(jetstream=False, config={"leafnodes": {"port": -1}}) as hub:
        listening = hub.monitor("/varz")["leaf"]
        assert isinstance(listening, dict)
        remote = {"url": f"nats-leaf://{hub.host}:{listening['port']}"}
        with (
            NatsCluster(config={**FLOODED, "leafnodes": {"remotes": [remote]}}) as leaves,
            bulk.connect(leaves.urls) as own,
            bulk.connect(hub.url) as connection,
        ):
            streams = Streams(own)
            name = streams.make_as(
                StreamConfig(name="FAR", subjects=["FAR.>"], num_replicas=3, max_msg_size=200, allow_direct=True)
            )
            assert until(lambda: is_wanted(hub, "FAR.>"))
            report = flood(connection, name, ids=True)
            assert (report.count, connection.server_info.cluster) == (COUNT, "")
            assert sorted(stored(streams, name), key=int) == PAYLOADS
            large = rows(f"{name}.x", [b"x"] * 999 + [b"y" * 300] + [b"x"] * 1000)
            with pytest.raises(bulk.PublishRefusedError) as caught:
                bulk.publish(connection, large, max_pending=2000)
            assert isinstance(caught.value.error, MessageSizeExceedsMaximumError | TooManyRequestsError)
            assert len(stored(streams, name)) == COUNT + caught.value.report.count
