"""Which server a blocking connection uses next, without a server."""

from __future__ import annotations

import pytest

from jetspark.bulk.server_choice import ServerChoice
from jetspark.errors import JetStreamUnavailableError, NoStreamResponseError, PublishTimeoutError, StreamNotFoundError
from jetspark.wire.options import ConnectOptions
from jetspark.wire.session import ServerInfo

UNAVAILABLE = JetStreamUnavailableError(503, 10008, "JetStream system temporarily unavailable")


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr("jetspark.bulk.server_choice.time", clock)
    return clock


def _choice(*urls: str, reported: tuple[str, ...] = (), **options: bool) -> ServerChoice:
    """Return the choice of a connection to the first server."""
    choice = ServerChoice(ConnectOptions.of(list(urls), **{"randomize": False, **options}))
    choice.on_session_opened(choice.to_try()[0], ServerInfo(connect_urls=list(reported)))
    return choice


def _ports(choice: ServerChoice) -> list[int]:
    return [server.address.port for server in choice.to_try()]


def test_servers_are_tried_in_the_given_order_unless_they_are_shuffled() -> None:
    urls = [f"nats://a:{port}" for port in range(1, 9)]
    fixed = ServerChoice(ConnectOptions.of(urls, randomize=False))
    assert _ports(fixed) == list(range(1, 9))
    orders = {tuple(_ports(ServerChoice(ConnectOptions.of(urls)))) for _ in range(5)}
    assert len(orders) > 1
    assert all(sorted(order) == list(range(1, 9)) for order in orders)


def test_a_connection_that_leaves_its_server_tries_this_one_last() -> None:
    choice = _choice("nats://a:1", "nats://a:2", reported=("a:1", "a:2", "a:3"))
    choice.leave()
    assert _ports(choice) == [2, 3, 1]


def test_a_lost_connection_tries_the_servers_of_the_options_before_discovered_ones() -> None:
    choice = _choice(
        "nats://a:1",
        reported=("a:1", "a:2", "a:3"),
    )
    assert _ports(choice)[0] == 1
    assert sorted(_ports(choice)) == [1, 2, 3]
    assert _ports(_choice("nats://a:1", reported=("a:1", "a:2"), discover_servers=False)) == [1]


def test_servers_that_a_cut_off_server_does_not_report_any_more_are_still_tried() -> None:
    choice = _choice("nats://a:1", reported=("a:1", "a:2", "a:3"))
    choice.on_info(ServerInfo(connect_urls=["a:1"]))
    choice.leave()
    assert sorted(_ports(choice)[:2]) == [2, 3]


@pytest.mark.parametrize("error", [UNAVAILABLE, NoStreamResponseError("x")])
def test_an_unavailable_server_is_left_after_five_seconds(clock: _Clock, error: Exception) -> None:
    choice = _choice("nats://a:1", "nats://a:2")
    for _ in range(5):
        choice.on_error(error)
        assert not choice.should_leave()
        clock.now += 1
    assert choice.should_leave()


def test_a_silent_server_is_left_after_one_timeout_of_five_seconds(clock: _Clock) -> None:
    choice = _choice("nats://a:1", "nats://a:2")
    choice.on_error(PublishTimeoutError("x"), 5.0)
    assert choice.should_leave()


def test_an_answer_ends_the_trouble(clock: _Clock) -> None:
    choice = _choice("nats://a:1", "nats://a:2")
    choice.on_error(PublishTimeoutError("x"), 5.0)
    choice.on_answer()
    assert not choice.should_leave()
    choice.on_error(UNAVAILABLE)
    assert not choice.should_leave()


def test_an_answer_of_a_server_that_has_lost_its_cluster_does_not_end_the_trouble(clock: _Clock) -> None:
    choice = _choice("nats://a:1", reported=("a:1", "a:2", "a:3"))
    choice.on_info(ServerInfo(connect_urls=["a:1", "a:2"]))
    choice.on_info(ServerInfo(connect_urls=["a:1"]))
    assert not choice.should_leave()
    clock.now += 60
    choice.on_answer()
    assert choice.should_leave()
    choice.on_info(ServerInfo(connect_urls=["a:1", "a:2", "a:3"]))
    choice.on_answer()
    assert not choice.should_leave()


def test_an_old_error_says_nothing_about_the_next_one(clock: _Clock) -> None:
    choice = _choice("nats://a:1", "nats://a:2")
    choice.on_error(UNAVAILABLE)
    clock.now += 60
    assert not choice.should_leave()
    choice.on_error(UNAVAILABLE)
    assert not choice.should_leave()


def test_other_errors_are_no_reason_to_leave(clock: _Clock) -> None:
    choice = _choice("nats://a:1", "nats://a:2")
    choice.on_error(StreamNotFoundError(404, 10059, "x"), 60.0)
    assert not choice.should_leave()


def test_waits_between_two_leavings_double(clock: _Clock) -> None:
    choice = _choice("nats://a:1", "nats://a:2")
    waits = []
    for _ in range(9):
        began = clock.now
        while not choice.should_leave():
            choice.on_error(PublishTimeoutError("x"), 5.0)
            clock.now += 1
        waits.append(clock.now - began)
        choice.leave()
        choice.on_session_opened(choice.to_try()[0], ServerInfo())
    assert waits == sorted(waits)
    assert waits[-1] >= 300


@pytest.mark.parametrize(("urls", "leave"), [(["nats://a:1"], True), (["nats://a:1", "nats://a:2"], False)])
def test_a_server_stays_without_another_one_or_if_the_option_says_so(
    clock: _Clock, urls: list[str], leave: bool
) -> None:
    choice = _choice(*urls, leave_unavailable_server=leave)
    choice.on_error(PublishTimeoutError("x"), 60.0)
    assert not choice.should_leave()


def test_the_wait_before_a_session_grows_while_sessions_are_lost_soon(clock: _Clock) -> None:
    choice = _choice("nats://a:1")
    waits = []
    for _ in range(60):
        clock.now += 0.005
        waits.append(choice.reopen_delay())
        assert choice.reopen_delay() == 0.0  # no other session was opened meanwhile
        clock.now += waits[-1]
        choice.on_session_opened(choice.to_try()[0], ServerInfo())
    assert waits[:8] == [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    assert sum(waits) > 100
    clock.now += 5.0
    assert choice.reopen_delay() == 0.0
    choice.on_session_opened(choice.to_try()[0], ServerInfo())
    assert choice.reopen_delay() == 0.05
