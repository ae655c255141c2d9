"""How consume counts, and when it pulls."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.engine.pull.support import consumer, pulls, sizes

from jetspark.engine.pull import (
    BYTES_PULL_BATCH,
    End,
    PinIds,
    PullEngine,
    SendPull,
    consume_options,
)
from jetspark.errors import (
    ConsumerDeletedError,
)


def test_the_first_pull_has_all_options_of_consume() -> None:
    engine = PullEngine(
        "S", "C", consume_options(timeout=4, group="g", min_pending=5, min_ack_pending=6, priority=0), PinIds()
    )
    engine.start(0.0)
    [action] = engine.poll_actions()
    assert isinstance(action, SendPull)
    request = action.request
    assert (request.stream, request.consumer, request.batch, request.max_bytes) == ("S", "C", 500, None)
    assert (request.expires, request.idle_heartbeat) == (timedelta(seconds=4), timedelta(seconds=2))
    assert (request.group, request.min_pending, request.min_ack_pending, request.priority) == ("g", 5, 6, 0)
    assert not request.no_wait
    assert action.token == 1


def test_missing_messages_are_pulled_once_less_than_half_is_pending() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 10)
    asked = []
    for _ in range(18):
        engine.consumed(0.2, 1)
        for batch in pulls(engine.poll_actions()):
            asked.append(batch)
            engine.delivered(0.3, batch)
    assert asked == [6, 6, 6]
    assert engine.pending == (10, 0)


def test_consumed_messages_reduce_the_pending_count_and_delivered_ones_do_not() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 10)
    assert engine.poll_actions() == []
    assert engine.pending == (10, 0)
    engine.consumed(0.1, 5)
    assert (engine.poll_actions(), engine.pending) == ([], (5, 0))
    engine.consumed(0.1, 1)
    assert pulls(engine.poll_actions()) == [6]


def test_pulls_overlap() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 7)  # three messages of the first pull are missing
    engine.consumed(0.1, 6)
    assert pulls(engine.poll_actions()) == [6]
    assert engine.pending == (10, 0)


@pytest.mark.parametrize(("most", "until"), [(10, 6), (1, 1), (3, 2)])
def test_messages_until_pull_is_the_number_before_the_next_pull(most: int, until: int) -> None:
    engine = consumer(max_messages=most)
    engine.delivered(0.0, most)
    assert engine.messages_until_pull == until
    engine.consumed(0.0, until - 1)
    assert engine.poll_actions() == []
    assert engine.messages_until_pull == 1
    engine.consumed(0.0, 1)
    assert len(pulls(engine.poll_actions())) == 1


def test_one_message_at_a_time_never_gets_stuck() -> None:
    engine = consumer(max_messages=1)
    for _ in range(100):
        engine.delivered(0.0, 1)
        engine.consumed(0.0, 1)
        assert pulls(engine.poll_actions()) == [1]


def test_given_thresholds_are_kept() -> None:
    engine = consumer(max_messages=10, threshold_messages=10)
    engine.delivered(0.0, 10)
    engine.consumed(0.0, 1)
    assert pulls(engine.poll_actions()) == [1]


def test_bytes_are_pulled_by_bytes() -> None:
    engine = PullEngine("S", "C", consume_options(max_bytes=1000))
    engine.start(0.0)
    [pull] = engine.poll_actions()
    assert isinstance(pull, SendPull)
    assert (pull.request.batch, pull.request.max_bytes) == (BYTES_PULL_BATCH, 1000)
    assert engine.counts_bytes
    assert engine.messages_until_pull == 1
    engine.delivered(0.1, 2, 900)
    engine.consumed(0.1, 1, 450)
    assert engine.poll_actions() == []  # 550 are pending
    engine.consumed(0.1, 1, 450)
    assert sizes(engine.poll_actions()) == [900]


def test_a_drained_or_stopped_consume_sends_no_pull() -> None:
    for end in (PullEngine.drain, PullEngine.stop):
        engine = consumer(max_messages=2)
        engine.delivered(0.0, 2)
        end(engine)
        engine.consumed(0.0, 2)
        assert not pulls(engine.poll_actions())
        assert engine.messages_until_pull > 1 << 60
        assert engine.deadline is None


def test_the_end_is_reported_once() -> None:
    engine = consumer()
    engine.stop()
    engine.stop(ConsumerDeletedError(409))
    engine.tick(1e9)
    engine.status(1.0, 1, 409, "Consumer Deleted")
    engine.reconnected(2.0)
    assert engine.poll_actions() == [End(None)]
    assert engine.ended


def test_prefilled_messages_count_as_pending_and_not_as_delivered() -> None:
    engine = PullEngine("S", "C", consume_options(max_messages=10), PinIds())
    engine.prefilled(4, 400)
    engine.start(0.0)
    assert pulls(engine.poll_actions()) == [6]
    engine.prefilled(3)
    assert engine.pending == (13, 400)
    engine.delivered(0.1, 6)
    engine.consumed(0.2, 8)
    assert engine.poll_actions() == []
    engine.consumed(0.3, 1)
    assert pulls(engine.poll_actions()) == [6]
