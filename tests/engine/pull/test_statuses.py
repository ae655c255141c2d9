"""The effect of each status on consume."""

from __future__ import annotations

import pytest
from tests.engine.pull.support import consumer, ends, pulls, sizes, warnings

from jetspark.engine.pull import (
    BYTES_PULL_BATCH,
)
from jetspark.errors import (
    BadPullRequestError,
    ConsumerDeletedError,
    ConsumerIsPushError,
    Error,
    LeadershipChangeError,
    MessageExceedsMaxBytesError,
    NoConsumerResponseError,
    PullLimitExceededError,
    ServerShutdownError,
    StatusError,
)
from jetspark.jetstream.status import STATUS_RULES


def test_undelivered_messages_of_a_pull_are_no_longer_pending() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 4)
    engine.consumed(0.1, 4)
    assert engine.pending == (6, 0)
    engine.status(1.0, 1, 408, "Request Timeout", (6, 0))
    assert pulls(engine.poll_actions()) == [10]


def test_two_open_pulls_are_distinguished() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 6)
    engine.consumed(0.1, 6)
    assert pulls(engine.poll_actions()) == [6]  # 4 of the first are open, and 6 of the second
    engine.status(1.0, 1, 408, "Request Timeout", (4, 0))
    assert (pulls(engine.poll_actions()), engine.pending) == ([], (6, 0))
    engine.status(1.0, 2, 408, "Request Timeout", (6, 0))
    assert pulls(engine.poll_actions()) == [10]


@pytest.mark.parametrize("left", [(-1, 0), (20, 0), (0, 0), None])
def test_counters_never_become_negative_and_consume_never_gets_stuck(left: tuple[int, int] | None) -> None:
    engine = consumer(max_messages=10)
    engine.status(1.0, 1, 408, "Request Timeout", left)
    assert pulls(engine.poll_actions()) == [10]
    assert engine.pending == (10, 0)


@pytest.mark.parametrize("description", ["No Messages", "Request Timeout", "Batch Completed", "Interest Expired"])
@pytest.mark.parametrize("code", [404, 408, 409])
def test_a_normal_end_of_a_pull_is_followed_by_the_next_one(code: int, description: str) -> None:
    engine = consumer(max_messages=10)
    engine.status(1.0, 1, code, description if code != 409 else "Batch Completed", (10, 0))
    actions = engine.poll_actions()
    assert (pulls(actions), warnings(actions)) == ([10], [])


@pytest.mark.parametrize("code", [404, 408])
def test_pulls_that_are_ended_at_once_are_delayed_until_a_message_comes(code: int) -> None:
    engine = consumer(max_messages=10)
    now, waits = 0.0, []
    for token in range(1, 7):
        engine.status(now, token, code, "", (10, 0))
        assert pulls(engine.poll_actions()) == []
        assert engine.deadline is not None
        waits.append(engine.deadline - now)
        now = engine.deadline
        engine.tick(now)
        assert pulls(engine.poll_actions()) == [10]
    assert waits == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]
    engine.delivered(now, 1, 9)
    engine.status(now, 7, code, "", (9, 0))
    assert pulls(engine.poll_actions()) == [9]


@pytest.mark.parametrize(
    ("code", "description", "kind"),
    [
        (400, "Bad Request - heartbeat value too large", BadPullRequestError),
        (409, "Consumer Deleted", ConsumerDeletedError),
        (409, "Consumer is push based", ConsumerIsPushError),
    ],
)
def test_a_permanent_error_ends_consume(code: int, description: str, kind: type[Error]) -> None:
    engine = consumer()
    engine.status(1.0, 1, code, description)
    [error] = ends(engine.poll_actions())
    assert type(error) is kind
    assert "CONSUMER.MSG.NEXT.S.C" in str(error)
    assert engine.deadline is None


def test_a_change_of_the_leader_is_reported_and_followed_by_a_pull_at_once() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 6)
    engine.consumed(0.1, 6)
    engine.poll_actions()
    engine.status(1.0, 1, 409, "Leadership Change")
    actions = engine.poll_actions()
    assert (warnings(actions), pulls(actions)) == ([LeadershipChangeError], [10])
    engine.status(1.0, 2, 409, "Leadership Change")  # of the other pull, which is known to be gone
    assert engine.poll_actions() == []
    assert engine.pending == (10, 0)


@pytest.mark.parametrize(
    ("code", "description", "kind"),
    [
        (409, "Exceeded MaxRequestBatch of 10", PullLimitExceededError),
        (409, "Exceeded MaxRequestExpires of 1s", PullLimitExceededError),
        (409, "Exceeded MaxWaiting", PullLimitExceededError),
        (409, "Server Shutdown", ServerShutdownError),
        (412, "Required Api Level", StatusError),
        (503, "", NoConsumerResponseError),
    ],
)
def test_pulls_after_repeatable_errors_are_delayed(code: int, description: str, kind: type[Error]) -> None:
    engine = consumer(max_messages=10)
    now, sent = 0.0, 0
    token = 1
    while now < 10.0:
        engine.status(now, token, code, description)
        actions = engine.poll_actions()
        assert (warnings(actions), pulls(actions)) == ([kind], [])
        assert engine.pending == (0, 0)
        deadline = engine.deadline
        assert deadline is not None
        engine.tick((now + deadline) / 2)
        assert engine.poll_actions() == []
        now = deadline
        engine.tick(now)
        assert pulls(engine.poll_actions()) == [10]
        token += 1
        sent += 1
    assert 5 <= sent <= 10  # a few per second at first, then one every two seconds
    engine.delivered(now, 1)
    engine.status(now, token, code, description)  # a message came meanwhile: this is not a busy loop
    assert pulls(engine.poll_actions()) == [10 - 1]


def test_the_first_delay_is_short_again_after_a_message() -> None:
    engine = consumer(max_messages=10)
    engine.status(0.0, 1, 503)
    engine.poll_actions()
    engine.tick(0.25)
    assert pulls(engine.poll_actions()) == [10]
    engine.delivered(0.3, 10)
    engine.consumed(0.3, 10)
    assert pulls(engine.poll_actions()) == [10]
    engine.status(0.4, 3, 503)
    engine.poll_actions()
    assert engine.deadline == pytest.approx(0.65)


def test_a_message_larger_than_max_bytes_is_reported_and_pulls_are_delayed() -> None:
    engine = consumer(max_bytes=100)
    engine.status(0.0, 1, 409, "Message Size Exceeds MaxBytes", (BYTES_PULL_BATCH, 100))
    actions = engine.poll_actions()
    assert (warnings(actions), pulls(actions)) == ([MessageExceedsMaxBytesError], [])
    engine.tick(0.3)
    assert sizes(engine.poll_actions()) == [100]


def test_a_message_larger_than_the_rest_of_max_bytes_waits_for_a_full_pull() -> None:
    engine = consumer(max_bytes=1000, threshold_bytes=1000)
    engine.delivered(0.0, 2, 800)
    engine.status(0.0, 1, 409, "Message Size Exceeds MaxBytes", (BYTES_PULL_BATCH - 2, 200))
    assert sizes(engine.poll_actions()) == [200]  # a message came since the last pull
    engine.status(0.1, 2, 409, "Message Size Exceeds MaxBytes", (BYTES_PULL_BATCH, 200))
    assert engine.poll_actions() == []
    engine.consumed(0.2, 1, 400)
    assert engine.poll_actions() == []
    engine.consumed(0.3, 1, 400)
    actions = engine.poll_actions()
    assert (sizes(actions), warnings(actions)) == ([1000], [])


def test_an_unknown_status_is_reported_and_changes_nothing() -> None:
    engine = consumer(max_messages=10)
    for code, text in ((499, "Foo"), (409, "something new")):
        engine.status(1.0, 1, code, text)
        actions = engine.poll_actions()
        assert (warnings(actions), pulls(actions), engine.pending) == ([StatusError], [], (10, 0))
    engine.delivered(1.0, 10)
    engine.consumed(1.0, 6)
    assert pulls(engine.poll_actions()) == [6]


def test_statuses_of_pulls_before_a_reset_do_not_affect_the_new_ones() -> None:
    engine = consumer(max_messages=10)
    engine.disconnected()
    engine.reconnected(1.0)
    assert pulls(engine.poll_actions()) == [10]
    for token in (0, 1, 99):
        engine.status(1.1, token, 408, "Request Timeout", (10, 0))
    assert (engine.poll_actions(), engine.pending) == ([], (10, 0))


def test_only_the_size_of_recent_pulls_is_remembered() -> None:
    engine = consumer(max_messages=1000, threshold_messages=1000)
    for _ in range(200):  # each brings one message, so that none is seen as complete
        engine.delivered(0.0, 1)
        engine.consumed(0.0, 1)
    engine.poll_actions()
    assert engine.pending == (1000, 0)
    engine.status(0.0, 2, 409, "Exceeded MaxRequestBatch of 10")  # too old: everything counts as lost
    engine.poll_actions()
    assert engine.pending == (0, 0)


def test_after_every_row_of_the_status_table_consume_has_ended_or_a_pull_will_follow() -> None:
    for rule in STATUS_RULES:
        engine = consumer(max_messages=10)
        code = 499 if rule.code is None else rule.code
        engine.status(1.0, 1, code, rule.contains, (10, 0) if rule.has_pending else None)
        engine.poll_actions()
        assert engine.ended or engine.pending == (10, 0) or engine.deadline == pytest.approx(1.25), rule.id
