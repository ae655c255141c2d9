"""The state machines of the connection, without a socket and without a clock."""

from __future__ import annotations

from random import Random

import pytest

from jetspark.errors import (
    AuthenticationError,
    BadSubjectError,
    ConfigError,
    ConnectError,
    ConnectionClosedError,
    DisconnectedError,
    Error,
)
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.connection_status import ConnectionStatus
from jetspark.wire.events import Closed, Connected, Disconnected, ErrorOccurred, Event, EventQueue, Reconnected
from jetspark.wire.messages import Message
from jetspark.wire.options import ConnectOptions
from jetspark.wire.pings import PingTracker
from jetspark.wire.server_pool import Server, ServerPool
from jetspark.wire.session import ServerInfo
from jetspark.wire.subscriptions import SubscriptionTable

THREE = ("nats://a:1", "nats://b:2", "nats://c:3")
FAILURE = ConnectError("no")


def _pool(**changes: object) -> ServerPool:
    return ServerPool(ConnectOptions.of(list(THREE), **changes), Random(1))


def _next(pool: ServerPool) -> tuple[Server, float]:
    tried = pool.next()
    assert tried is not None
    return tried


# -- reconnect attempts ----------------------------------------------------------------------------------------


@pytest.mark.conformance("REC-01")
def test_servers_are_tried_in_random_order_unless_disabled() -> None:
    orders = {
        tuple(server.address.host for server in ServerPool(ConnectOptions(servers=THREE), Random(seed)).servers)
        for seed in range(50)
    }
    assert len(orders) == 6
    assert [server.address.host for server in _pool(randomize=False).servers] == ["a", "b", "c"]


@pytest.mark.conformance("REC-01")
def test_the_first_round_starts_at_once_and_later_waits_grow_with_jitter() -> None:
    pool = _pool(reconnect_wait=0.1, reconnect_wait_max=1.0)
    pool.restart_rounds()
    delays = [_next(pool)[1] for _ in range(3 * 12)]
    assert delays[:3] == [0, 0, 0]
    waits = delays[3::3]
    assert all(delay == 0 for at, delay in enumerate(delays) if at % 3)
    for number, wait in enumerate(waits):
        full = min(0.1 * 1.5**number, 1.0)
        assert full / 2 <= wait <= full
    assert len(set(waits)) == len(waits)
    pool.restart_rounds()
    assert _next(pool)[1] == 0


def test_waits_stay_finite_however_many_rounds_fail() -> None:
    pool = _pool(reconnect_wait_max=5.0)
    assert all(_next(pool)[1] <= 5.0 for _ in range(10_000))


def test_a_server_is_given_up_after_the_given_number_of_failures() -> None:
    pool = _pool(max_reconnects=2, randomize=False)
    for _ in range(6):
        pool.count_failure(_next(pool)[0], FAILURE)
    assert pool.next() is None


def test_only_consecutive_failures_count() -> None:
    pool = _pool(max_auth_failures=2, randomize=False)
    server, _ = _next(pool)
    for error in (AuthenticationError("no"), FAILURE, AuthenticationError("no")):
        pool.count_failure(server, error)
    assert server in pool.servers
    pool.reset_failures(server)
    assert server.auth_failures == server.failures == 0
    pool.count_failure(server, AuthenticationError("no"))
    pool.count_failure(server, AuthenticationError("no"))
    assert server not in pool.servers


def test_discovered_servers_come_and_go_but_configured_ones_stay() -> None:
    pool = ServerPool(ConnectOptions(servers=("tls://user:word@start:1",)), Random(1))
    current, _ = _next(pool)
    fresh = pool.update_discovered(["10.0.0.2:4222", "named:4222", "bad port:x", "start:1"], current)
    assert sorted(address.host for address in fresh) == ["10.0.0.2", "named"]
    assert all(address.tls and address.user == "user" for address in fresh)
    assert {address.host: address.tls_name for address in fresh} == {"10.0.0.2": "start", "named": None}
    assert pool.update_discovered(["10.0.0.2:4222", "named:4222"], current) == []
    pool.update_discovered(["named:4222"], current)
    assert sorted(server.address.host for server in pool.servers) == ["named", "start"]
    assert not any("word" in str(server) for server in pool.servers)


def test_servers_that_a_cut_off_server_loses_one_by_one_are_tried_again() -> None:
    pool, current = _discovered("start:1", "b:2", "c:3")
    pool.update_discovered(["start:1", "b:2"], current)
    pool.update_discovered(["start:1"], current)
    assert pool.others_known
    pool.restart_rounds()
    assert _hosts(pool) == ["b", "c", "start"]
    pool.begin_session()  # the next session is with the same server
    pool.update_discovered(["start:1"], current)
    pool.restart_rounds()
    assert _hosts(pool) == ["b", "c", "start"]


def test_servers_that_left_the_cluster_are_forgotten_after_the_next_session() -> None:
    pool, current = _discovered("start:1", "b:2", "c:3")
    pool.update_discovered(["start:1", "b:2"], current)
    pool.restart_rounds()
    assert _hosts(pool) == ["b", "c", "start"]
    pool.begin_session()
    pool.update_discovered(["start:1", "b:2"], current)
    pool.restart_rounds()
    assert _hosts(pool) == ["b", "start"]


def test_a_cluster_whose_addresses_change_all_the_time_does_not_fill_the_memory() -> None:
    pool, current = _discovered("start:1", *(f"host{number}:1" for number in range(9)))
    for number in range(1000):
        pool.update_discovered(["start:1", f"other{number}:1"], current)
    pool.restart_rounds()
    assert len(pool.servers) < 200


def _discovered(*urls: str) -> tuple[ServerPool, Server]:
    pool = ServerPool(ConnectOptions(servers=(urls[0],)), Random(1))
    current, _ = _next(pool)
    pool.update_discovered(urls, current)
    return pool, current


def _hosts(pool: ServerPool) -> list[str]:
    return sorted(server.address.host for server in pool.servers)


# -- pings -------------------------------------------------------------------------------------------------------


def test_a_connection_is_dead_after_too_many_pings_without_an_answer() -> None:
    pings = PingTracker(2)
    assert [pings.tick(0) for _ in range(3)] == [True, True, False]


def test_an_answer_or_any_other_data_is_a_sign_of_life() -> None:
    pings = PingTracker(2)
    for _ in range(10):
        assert pings.tick(0)
        pings.on_pong()
    for _ in range(10):
        assert pings.tick(0)
        pings.received += 1


def test_answers_are_matched_to_pings_in_order() -> None:
    pings, seen = PingTracker(2), list[tuple[str, Error | None]]()
    pings.add_ping(5, lambda error: seen.append(("first", error)))
    pings.tick(7)
    pings.add_ping(9, lambda error: seen.append(("second", error)))
    pings.on_pong()
    assert (seen, pings.confirmed_publishes) == ([("first", None)], 5)
    pings.on_pong()
    assert pings.confirmed_publishes == 7
    lost = DisconnectedError("lost")
    pings.on_session_lost(lost)
    assert seen == [("first", None), ("second", lost)]
    pings.on_pong()  # an extra pong


# -- subscriptions -----------------------------------------------------------------------------------------------


def test_only_open_subscriptions_are_restored() -> None:
    client = ConnectionState(ConnectOptions(), lambda event: None)
    plain = client.subscribe("a", "q")
    few = client.subscribe("b", max_msgs=5)
    few.received = 2
    client.stop_delivery(client.subscribe("c"))
    client.unsubscribe(client.subscribe("d"))
    assert client.subscriptions.restore() == b"SUB a q %d\r\nSUB b %d\r\nUNSUB %d 3\r\n" % (plain.sid, few.sid, few.sid)


def test_ids_are_never_reused() -> None:
    table = SubscriptionTable()
    assert [table.next_sid() for _ in range(3)] == [1, 2, 3]


# -- the life of a connection ----------------------------------------------------------------------------------


def _opened(client: ConnectionState) -> Server:
    server, _ = _next(client.servers)
    client.begin_session()
    client.on_session_opened(server, ServerInfo(server_id="X", headers=True))
    return server


def test_a_connection_emits_its_states_and_events() -> None:
    seen: list[Event] = []
    client = ConnectionState(ConnectOptions(), seen.append)
    states = [client.status]
    server = _opened(client)
    states.append(client.status)
    error = DisconnectedError("gone")
    client.on_session_lost(error)
    states.append(client.status)
    client.on_session_refused(server, FAILURE)
    _opened(client)
    client.close()
    client.close()
    states.append(client.status)
    assert states == [
        ConnectionStatus.CONNECTING,
        ConnectionStatus.CONNECTED,
        ConnectionStatus.RECONNECTING,
        ConnectionStatus.CLOSED,
    ]
    address = server.address
    tries = [Disconnected(error), ErrorOccurred(FAILURE), Reconnected(address)]
    assert seen == [Connected(address), *tries, Disconnected(None), Closed(None)]
    with pytest.raises(ConnectionClosedError):
        client.subscribe("a")


def test_the_error_of_the_server_is_the_reason_of_the_loss() -> None:
    seen: list[Event] = []
    client = ConnectionState(ConnectOptions(), seen.append)
    server, _ = _next(client.servers)
    inbound = client.begin_session()
    client.on_session_opened(server, ServerInfo(server_id="X", headers=True))
    inbound.feed(b"-ERR 'Stale Connection'\r\n")
    client.on_session_lost(DisconnectedError("the server closed the connection"))
    assert isinstance(seen[-1], Disconnected)
    assert "Stale Connection" in str(seen[-1].error)


def test_a_loss_with_unconfirmed_publishes_is_remembered() -> None:
    client = ConnectionState(ConnectOptions(), lambda event: None)
    _opened(client)
    client.outbound.queue_publish(b"PUB a 0\r\n\r\n")
    client.ping(lambda error: None)
    client.outbound.take_all()
    client.pings.on_pong()
    client.on_session_lost(FAILURE)
    assert not client.has_unconfirmed_publishes
    _opened(client)
    client.outbound.queue_publish(b"PUB a 0\r\n\r\n")
    client.outbound.take_all()
    client.on_session_lost(FAILURE)
    assert client.has_unconfirmed_publishes


def test_the_final_ping_is_answered_after_open_pings_and_their_callers_fail_at_once() -> None:
    outcomes: list[Error | None] = []
    client = ConnectionState(ConnectOptions(), lambda event: None)
    _opened(client)
    client.ping(outcomes.append)
    client.close()
    assert [type(error) for error in outcomes] == [ConnectionClosedError]
    assert client.final_ping() == b"PING\r\n"
    left = []
    for _ in range(2):
        client.pings.on_pong()
        left.append(len(client.pings))
    assert left == [1, 0]
    assert len(outcomes) == 1


def test_a_requested_reconnect_tries_all_servers_at_once_and_counts_until_the_next_session() -> None:
    client = ConnectionState(ConnectOptions.of(list(THREE), randomize=False), lambda _: None)
    client.begin_session()
    server, _ = _next(client.servers)
    client.on_session_opened(server, ServerInfo(server_id="X", headers=True))
    client.on_session_lost(DisconnectedError("cable cut"))
    delays = [_next(client.servers)[1] for _ in range(4)]
    assert delays[:3] == [0, 0, 0]
    assert delays[3] > 0
    assert "the program called reconnect" in str(client.request_reconnect())
    assert [_next(client.servers)[1] for _ in range(3)] == [0, 0, 0]
    assert client.reconnect_requested
    client.begin_session()
    client.on_session_opened(server, ServerInfo(server_id="X", headers=True))
    assert not client.reconnect_requested


@pytest.mark.parametrize("end", ["close", "drain"])
def test_a_connection_that_ends_refuses_to_reconnect(end: str) -> None:
    client = ConnectionState(ConnectOptions(), lambda _: None)
    getattr(client, end)()
    with pytest.raises(ConnectionClosedError, match="closed" if end == "close" else "draining"):
        client.request_reconnect()
    assert not client.reconnect_requested


def test_a_closed_connection_does_not_drain() -> None:
    client = ConnectionState(ConnectOptions(), lambda event: None)
    client.close()
    with pytest.raises(ConnectionClosedError):
        client.drain()
    assert client.status is ConnectionStatus.CLOSED


# -- events and messages -----------------------------------------------------------------------------------------


def test_too_many_errors_replace_old_errors_and_never_states() -> None:
    queue = EventQueue(max_errors=3)
    queue.put(Closed(None))
    for number in range(10):
        queue.put(ErrorOccurred(ValueError(number)))
    assert (len(queue), queue.dropped) == (4, 7)
    assert queue.take() == Closed(None)
    rest = [queue.take() for _ in range(3)]
    assert [event.error.args[0] for event in rest if isinstance(event, ErrorOccurred)] == [7, 8, 9]


@pytest.mark.conformance("WIR-03")
def test_a_status_is_a_code_on_the_version_line_of_a_message_without_payload() -> None:
    def message(header: bytes, payload: bytes = b"") -> Message:
        return Message(b"a", b"", header, payload, None)

    status = message(b"NATS/1.0 503\r\n\r\n").status
    assert status is not None
    assert (status.code, status.description) == (503, "")
    status = message(b"NATS/1.0 404 No Messages\r\nA: b\r\n\r\n").status
    assert status is not None
    assert (status.code, status.description) == (404, "No Messages")
    assert message(b"NATS/1.0 404 No\r\nA: b\r\n\r\n").headers == {"A": "b"}
    assert message(b"NATS/1.0 503\r\n\r\n", b"x").status is None
    assert message(b"NATS/1.0\r\nStatus: 404\r\n\r\n").status is None


def test_the_repr_of_messages_shows_no_content() -> None:
    assert "secret" not in repr(Message(b"a", b"r", b"NATS/1.0\r\nsecret: x\r\n\r\n", b"secret", None))


@pytest.mark.parametrize(
    "changes",
    [
        {"ping_interval": 0}, {"max_outstanding_pings": 0}, {"reconnect_wait": -1}, {"reconnect_buffer_size": -1},
        {"pending_msgs_limit": 0}, {"inbox_prefix": "a b"}, {"inbox_prefix": ">"},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_options_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises((ConfigError, BadSubjectError)):
        ConnectOptions.of(None, **changes)
