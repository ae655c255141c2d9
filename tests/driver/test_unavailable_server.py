"""A connection leaves a server whose JetStream does not serve, and stays where it does."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import pytest
from tests.driver.frames import Ping
from tests.driver.jetstream import SILENCE, Answer, JetStreamScript
from tests.driver.server import MemoryNetwork
from tests.driver.unavailable import UNAVAILABLE, Cluster, connect
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.aio.jetstream import JetStream
from jetspark.errors import DisconnectedError, Error, PublishTimeoutError, RequestTimeoutError
from jetspark.wire.events import Disconnected, ErrorOccurred, ServerLeft


async def _publish_until_stored(js: JetStream) -> None:
    while True:
        try:
            await js.publish("orders.new")
        except Error:
            await asyncio.sleep(0.5)
        else:
            return


@pytest.mark.parametrize("answer", [SILENCE, UNAVAILABLE])
async def test_publishes_go_on_at_another_server(world: World, cluster: Cluster, clock: Clock, answer: Answer) -> None:
    connection = await connect(world, cluster)
    js = connection.jetstream()
    await js.publish("orders.new")
    cluster.cut(0, answer=answer)
    await _publish_until_stored(js)
    assert clock.now < 10
    assert len(cluster.streams[1].published) == 1
    [event] = world.events.of(ServerLeft)
    assert event.address.port == 1
    assert ("silent" if answer == SILENCE else "unavailable") in event.reason
    assert world.events.names == ["Connected", "ServerLeft", "Disconnected", "Reconnected"]
    assert event.reason in str(world.events.of(Disconnected)[0].error)
    await clock.advance(60)
    assert len(cluster.probes(1)) == 1  # the next server is checked once


async def test_an_api_call_that_waits_long_is_noticed_before_its_timeout(
    world: World, cluster: Cluster, clock: Clock
) -> None:
    js = (await connect(world, cluster)).jetstream()
    cluster.cut(0)
    info = await js.account_info(timeout=60)
    assert info is not None
    assert clock.now < 10


async def test_each_call_that_waits_long_is_noticed_while_others_are_answered(
    world: World, cluster: Cluster, clock: Clock
) -> None:
    js = (await connect(world, cluster)).jetstream()
    cluster.streams[0].answers = "hold"
    waiting = []
    for _ in range(10):
        assert (await js.account_info()).memory == 0
        waiting.append(asyncio.create_task(js.publish("orders.new", timeout=60)))
        await clock.advance(1)
    await clock.advance(3)
    # Each `account_info` asks like a probe. The probes follow the publishes of 0 s and 5 s: for 5 s after a good answer
    # there is no check.
    asked = [round(at, 3) for at in cluster.probes(0)]
    assert asked == sorted([*range(10), 2.5, 7.5])
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_a_publish_in_progress_has_one_timer(world: World, cluster: Cluster, clock: Clock) -> None:
    js = (await connect(world, cluster)).jetstream()
    cluster.streams[0].answers = "hold"
    await clock.settle()
    before = len(world.left())
    waiting = [asyncio.create_task(js.publish("orders.new")) for _ in range(100)]
    await clock.settle()
    assert len(world.left()) == before + 2 * len(waiting)  # its task and its timer
    for position in range(len(waiting)):
        cluster.streams[0].ack(position)
    await asyncio.gather(*waiting)
    assert len(world.left()) == before


async def test_publish_async_goes_on_long_before_its_ack_timeout(world: World, cluster: Cluster, clock: Clock) -> None:
    js = (await connect(world, cluster)).jetstream()
    cluster.cut(0)
    lost = await js.publish_async("orders.new")
    with pytest.raises(DisconnectedError):
        await lost
    assert clock.now < 12
    await (await js.publish_async("orders.new"))
    assert len(cluster.streams[1].published) == 1


async def test_a_consume_goes_on_after_missed_heartbeats(world: World, cluster: Cluster, clock: Clock) -> None:
    workers = [script.consumer("worker") for script in cluster.scripts]
    js = (await connect(world, cluster)).jetstream()
    consumer = await js.consumer("ORDERS", "worker")
    got: list[bytes] = []
    context = consumer.consume(lambda message: got.append(message.payload), timeout=5, idle_heartbeat=2)
    cluster.cut(0)
    await clock.until(15)
    workers[1].pull.deliver(b"next")
    await clock.settle()
    assert got == [b"next"]
    assert len(world.events.of(ServerLeft)) == 1
    await context.stop()


async def test_a_silent_stream_alone_is_no_reason_to_leave(world: World, cluster: Cluster, clock: Clock) -> None:
    js = (await connect(world, cluster)).jetstream()
    cluster.streams[0].answers = "hold"
    for _ in range(10):
        with pytest.raises(PublishTimeoutError):
            await js.publish("orders.new")
    assert world.events.names == ["Connected"]
    assert 2 <= len(cluster.probes(0)) <= 10


async def test_a_connection_without_jetstream_is_never_checked(world: World, cluster: Cluster, clock: Clock) -> None:
    connection = await connect(world, cluster)
    cluster.cut(0)
    cluster.servers[0].on("slow", lambda *_: None)
    for _ in range(5):
        with pytest.raises(RequestTimeoutError):
            await connection.request("slow", timeout=5)
    cluster.servers[0].session.send(_info(cluster, "a:1", "b:2", "c:3"), _info(cluster, "a:1"))
    await clock.advance(60)
    assert cluster.probes(0) == []
    assert "ServerLeft" not in world.events.names


@pytest.mark.parametrize("options", [{"leave_unavailable_server": False}, {"reconnect": False}])
async def test_a_server_is_not_left_if_the_options_do_not_allow_it(
    world: World, cluster: Cluster, clock: Clock, options: dict[str, bool]
) -> None:
    js = (await connect(world, cluster, **options)).jetstream()
    cluster.cut(0)
    for _ in range(5):
        with pytest.raises(PublishTimeoutError):
            await js.publish("orders.new")
    assert world.events.names == ["Connected"]
    assert cluster.probes(0) == []


async def test_a_cluster_that_is_down_as_a_whole_makes_no_client_go_from_server_to_server(
    world: World, cluster: Cluster, clock: Clock
) -> None:
    js = (await connect(world, cluster)).jetstream()
    cluster.cut(0, 1)
    with pytest.raises(PublishTimeoutError):
        await js.publish("orders.new")
    await clock.until(3600)
    times = world.events.times_of(ServerLeft)
    waits = [later - sooner for sooner, later in pairwise(times)]
    assert times[0] < 10
    assert all(later >= sooner for sooner, later in pairwise(waits))
    assert 300 <= waits[-1] <= 305
    assert len(times) < 20
    assert len(cluster.probes(0)) + len(cluster.probes(1)) < 100


async def test_a_server_that_reports_the_loss_of_its_cluster_is_checked_without_a_call(
    world: World, net: MemoryNetwork, cluster: Cluster, clock: Clock
) -> None:
    connection = await world.connect(cluster.servers[0].url)
    js = connection.jetstream()
    here, there = "localhost:1", "localhost:2"
    cluster.servers[0].session.send(_info(cluster, here, there, "localhost:3"))
    await clock.settle()
    net.server(3).down()
    cluster.cut(0)
    cluster.servers[0].session.send(_info(cluster, here))
    await clock.until(10)
    assert connection.address is not None
    assert connection.address.port == 2
    assert world.events.times_of(ServerLeft) == [8.0]
    await js.publish("orders.new")


async def test_a_leader_that_is_cut_off_and_still_answers_is_left(world: World, cluster: Cluster, clock: Clock) -> None:
    connection = await world.connect(cluster.servers[0].url)
    js = connection.jetstream()
    session = cluster.servers[0].session
    session.send(_info(cluster, "localhost:1", "localhost:2"), _info(cluster, "localhost:1"))
    await clock.until(10)
    [event] = world.events.of(ServerLeft)
    assert event.reason == "this server has lost most of its cluster"
    await js.publish("orders.new")
    assert len(cluster.streams[1].published) == 1


async def test_a_server_that_finds_its_cluster_again_is_not_left(world: World, cluster: Cluster, clock: Clock) -> None:
    connection = await world.connect(cluster.servers[0].url)
    connection.jetstream()
    both = _info(cluster, "localhost:1", "localhost:2")
    cluster.servers[0].session.send(both, _info(cluster, "localhost:1"))
    await clock.until(5)
    cluster.servers[0].session.send(both)
    await clock.until(60)
    assert world.events.of(ServerLeft) == []


async def test_a_server_that_loses_one_of_two_others_is_not_checked(
    world: World, cluster: Cluster, clock: Clock
) -> None:
    connection = await world.connect(cluster.servers[0].url)
    connection.jetstream()
    session = cluster.servers[0].session
    session.send(_info(cluster, "a:1", "b:2", "c:3"), _info(cluster, "a:1", "c:3"), _info(cluster, "a:1", "c:3"))
    await clock.until(60)
    assert cluster.probes(0) == []


async def test_a_server_with_two_addresses_is_left_for_a_really_different_one(
    world: World, net: MemoryNetwork, cluster: Cluster, clock: Clock
) -> None:
    again = net.server(9)
    again.info["server_id"] = cluster.servers[0].info["server_id"]
    JetStreamScript(again).answer(">", SILENCE)
    connection = await world.connect([cluster.servers[0].url, again.url, cluster.servers[1].url], randomize=False)
    js = connection.jetstream()
    cluster.cut(0)
    await _publish_until_stored(js)
    assert clock.now < 10
    assert connection.address is not None
    assert connection.address.port == 2


async def test_a_slow_network_is_no_reason_to_leave(world: World, cluster: Cluster, clock: Clock) -> None:
    js = (await connect(world, cluster)).jetstream()
    cluster.cut(0)
    cluster.servers[0].answers_pings = False  # the server has not read so far
    publishing = asyncio.create_task(_fails(js))
    for _ in range(60):
        await clock.advance(1)
        cluster.servers[0].session.send(b"PING\r\n")  # but data comes
    await publishing
    assert world.events.names == ["Connected"]
    assert len(cluster.servers[0].session.of(Ping)) > 5


async def test_a_server_that_sends_nothing_at_all_is_left(world: World, cluster: Cluster, clock: Clock) -> None:
    js = (await connect(world, cluster)).jetstream()
    cluster.servers[0].session.silent = True  # it is paused
    await _publish_until_stored(js)
    assert clock.now < 10


async def test_a_client_that_reads_nothing_does_not_leave(world: World, cluster: Cluster, clock: Clock) -> None:
    connection = await connect(world, cluster)
    js = connection.jetstream()
    _full = await connection.subscribe("flood", overflow="pause", pending_msgs_limit=1)
    await connection.flush()
    for _ in range(3):
        cluster.servers[0].session.deliver("flood")
    await clock.settle()
    for _ in range(5):
        with pytest.raises(PublishTimeoutError):
            await js.publish("orders.new")
    assert "ServerLeft" not in world.events.names


async def test_without_the_permission_for_the_probe_the_client_stays_and_asks_once(
    world: World, cluster: Cluster, clock: Clock
) -> None:
    js = (await connect(world, cluster)).jetstream()
    cluster.cut(0)
    server = cluster.servers[0]
    server.on("$JS.API.INFO", lambda session, _: session.error('Permissions Violation for Publish to "$JS.API.INFO"'))
    for _ in range(10):
        with pytest.raises(PublishTimeoutError):
            await js.publish("orders.new")
    assert "ServerLeft" not in world.events.names
    assert len(world.events.of(ErrorOccurred)) == 1


async def test_a_server_without_jetstream_is_left_only_after_jetstream_has_answered(
    world: World, cluster: Cluster, clock: Clock
) -> None:
    connection = await connect(world, cluster)
    js = connection.jetstream()
    cluster.cut(0, answer="503")
    for _ in range(20):
        with pytest.raises(Error):
            await js.publish("orders.new")
        await asyncio.sleep(1)
    assert world.events.names == ["Connected"]


async def test_a_check_ends_with_the_connection(world: World, cluster: Cluster, clock: Clock) -> None:
    connection = await connect(world, cluster)
    cluster.cut(0)
    with pytest.raises(PublishTimeoutError):
        await connection.jetstream().publish("orders.new")
    await connection.close()
    await clock.advance(60)
    assert "ServerLeft" not in world.events.names


async def _fails(js: JetStream) -> None:
    for _ in range(10):
        with pytest.raises(PublishTimeoutError):
            await js.publish("orders.new")


def _info(cluster: Cluster, *urls: str) -> bytes:
    return b"INFO " + json.dumps({**cluster.servers[0].info, "connect_urls": list(urls)}).encode() + b"\r\n"
