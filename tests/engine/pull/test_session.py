"""Silence, lost sessions and priority groups in consume."""

from __future__ import annotations

import pytest
from tests.engine.pull.support import consumer, pulls, warnings

from jetspark.engine.pull import (
    CheckConsumer,
    End,
    PinIds,
    PullEngine,
    SendPull,
    consume_options,
    fetch_options,
)
from jetspark.errors import (
    ConsumerNotFoundError,
    DisconnectedError,
    Error,
    MissedHeartbeatError,
    RequestTimeoutError,
)


def test_each_pair_of_missed_heartbeats_is_reported_and_followed_by_a_new_pull() -> None:
    engine = consumer(timeout=2, idle_heartbeat=0.5)
    for number in range(1, 4):
        assert engine.deadline == pytest.approx(number * 1.0)
        engine.tick(number - 0.1)
        assert engine.poll_actions() == []
        engine.tick(float(number))
        actions = engine.poll_actions()
        assert (warnings(actions), pulls(actions)) == ([MissedHeartbeatError], [500])


def test_heartbeats_and_messages_are_signs_of_life_and_change_nothing_else() -> None:
    engine = consumer(timeout=2, idle_heartbeat=0.5)
    engine.status(0.9, 1, 100, "Idle Heartbeat")
    engine.status(1.0, 1, 100, "FlowControl Request")
    assert engine.deadline == pytest.approx(2.0)
    engine.delivered(1.5, 1)
    assert engine.deadline == pytest.approx(2.5)
    assert engine.poll_actions() == []
    assert engine.pending == (500, 0)


def test_without_an_open_pull_no_heartbeat_is_missed() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.0, 10)  # a slow handler holds all messages, and the server sends nothing
    assert engine.deadline is None
    engine.tick(1000.0)
    assert engine.poll_actions() == []


def test_without_a_session_nothing_is_pulled_and_no_heartbeat_is_missed() -> None:
    engine = consumer(max_messages=10, timeout=2)
    engine.delivered(0.1, 10)
    engine.disconnected()
    engine.consumed(0.2, 10)
    engine.tick(100.0)
    assert (engine.poll_actions(), engine.deadline) == ([], None)
    engine.reconnected(100.0)
    assert pulls(engine.poll_actions()) == [10]
    assert engine.deadline == pytest.approx(102.0)


def test_a_reconnect_pulls_as_many_messages_as_fit_the_buffer() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 8)
    for _ in range(5):  # reconnects never exceed the buffer
        engine.disconnected()
        engine.reconnected(1.0)
    assert (engine.poll_actions(), engine.pending) == ([], (8, 0))
    engine.consumed(1.0, 4)
    assert pulls(engine.poll_actions()) == [6]


def test_more_messages_than_requested_do_no_harm() -> None:
    engine = consumer(max_messages=10)
    engine.disconnected()
    engine.reconnected(1.0)  # the server serves the old pull as well
    engine.poll_actions()
    engine.delivered(1.1, 20)
    engine.consumed(1.2, 20)
    assert pulls(engine.poll_actions()) == [10]
    assert engine.pending == (10, 0)


def test_a_reconnect_ends_a_wait() -> None:
    engine = consumer(max_messages=10)
    engine.status(0.0, 1, 503)
    engine.poll_actions()
    engine.disconnected()
    assert engine.deadline is None
    engine.reconnected(0.1)
    assert pulls(engine.poll_actions()) == [10]


def test_consume_can_start_without_a_session() -> None:
    engine = PullEngine("S", "C", consume_options(max_messages=10))
    engine.start(0.0, online=False)
    assert engine.poll_actions() == []
    engine.reconnected(5.0)
    assert pulls(engine.poll_actions()) == [10]


def test_verify_on_reconnect_looks_up_the_consumer_and_pulls_if_it_exists() -> None:
    engine = consumer(max_messages=10, verify_on_reconnect=True)
    engine.disconnected()
    engine.reconnected(1.0)
    assert engine.poll_actions() == [CheckConsumer()]
    engine.consumed(1.0, 0)
    assert (engine.poll_actions(), engine.deadline) == ([], None)
    engine.consumer_checked(1.5)
    assert pulls(engine.poll_actions()) == [10]
    engine.consumer_checked(1.6, ConsumerNotFoundError(404, 10014))  # a late answer
    assert engine.poll_actions() == []


def test_verify_on_reconnect_asks_again_and_ends_if_the_consumer_stays_missing() -> None:
    engine = consumer(verify_on_reconnect=True)
    engine.disconnected()
    engine.reconnected(0.0)
    missing = ConsumerNotFoundError(404, 10014, "consumer not found")
    answers: list[Error] = [RequestTimeoutError(), missing, DisconnectedError(), missing, missing, missing]
    now = 0.0
    for answer in answers:
        assert engine.poll_actions() == [CheckConsumer()]
        engine.consumer_checked(now, answer)
        if engine.deadline is not None:
            engine.tick(now)
            assert engine.poll_actions() == []
            now = engine.deadline
            engine.tick(now)
    assert engine.poll_actions() == [End(missing)]


def test_verify_on_reconnect_starts_again_with_the_next_session() -> None:
    engine = consumer(verify_on_reconnect=True)
    engine.disconnected()
    engine.reconnected(0.0)
    engine.consumer_checked(0.0, RequestTimeoutError())
    engine.disconnected()
    assert engine.deadline is None
    engine.poll_actions()
    engine.reconnected(1.0)
    assert engine.poll_actions() == [CheckConsumer()]


def test_the_id_of_the_pinned_client_is_sent_with_every_later_pull_of_the_handle() -> None:
    pins = PinIds()
    engine = PullEngine("S", "C", consume_options(max_messages=2, group="g"), pins)
    engine.start(0.0)
    [first] = engine.poll_actions()
    engine.pinned("abc")
    engine.delivered(0.1, 2)
    engine.consumed(0.1, 2)
    [second] = engine.poll_actions()
    other = PullEngine("S", "C", fetch_options(1, group="g"), pins)
    other.start(0.2)
    [third] = other.poll_actions()
    elsewhere = PullEngine("S", "C", fetch_options(1, group="h"), pins)
    elsewhere.start(0.2)
    [fourth] = elsewhere.poll_actions()
    found = [action.request.id for action in (first, second, third, fourth) if isinstance(action, SendPull)]
    assert found == [None, "abc", "abc", None]


@pytest.mark.parametrize("description", ["Nats-Wrong-Pin-Id", "Nats-Pin-Id mismatch"])
def test_a_423_drops_the_id_and_pulls_without_it_at_once(description: str) -> None:
    engine = consumer(max_messages=10, group="g")
    engine.pinned("abc")
    engine.status(1.0, 1, 423, description, (10, 0) if "Wrong" in description else None)
    [action] = engine.poll_actions()
    assert isinstance(action, SendPull)
    assert (action.request.id, action.request.batch) == (None, 10)


def test_ids_without_a_group_are_ignored() -> None:
    pins = PinIds()
    engine = PullEngine("S", "C", fetch_options(1), pins)
    engine.pinned("abc")
    pins.clear(None)
    assert pins.get(None) is None
