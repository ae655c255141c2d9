"""One pull: fetch, fetch_bytes, fetch_no_wait and next."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.engine.pull.support import ends, fetcher, pulls, sizes

from jetspark.engine.pull import (
    BYTES_PULL_BATCH,
    CheckConsumer,
    End,
    PullEngine,
    PullOptions,
    SendPull,
    fetch_options,
)
from jetspark.errors import (
    ConsumerNotFoundError,
    ConsumerUnavailableError,
    DisconnectedError,
    Error,
    JetStreamNotEnabledError,
    JetStreamUnavailableError,
    MissedHeartbeatError,
    NoConsumerResponseError,
    PermissionsViolationError,
    RequestTimeoutError,
)
from jetspark.jetstream.status import STATUS_RULES, FetchEffect, StatusRule


def test_a_fetch_sends_one_pull_and_ends_when_it_is_full() -> None:
    engine = PullEngine("S", "C", fetch_options(10))
    engine.start(0.0)
    [action] = engine.poll_actions()
    assert isinstance(action, SendPull)
    assert (action.request.batch, action.request.expires) == (10, timedelta(seconds=30))
    assert action.request.idle_heartbeat is None
    engine.delivered(0.1, 9)
    assert engine.poll_actions() == []
    engine.delivered(0.2, 1)
    assert engine.poll_actions() == [End(None)]


def test_a_fetch_by_bytes_ends_when_the_server_ends_the_pull() -> None:
    engine = PullEngine("S", "C", fetch_options(max_bytes=1000))
    engine.start(0.0)
    [action] = engine.poll_actions()
    assert isinstance(action, SendPull)
    assert (action.request.batch, action.request.max_bytes) == (BYTES_PULL_BATCH, 1000)
    engine.delivered(0.1, 3, 1000)
    assert engine.poll_actions() == []
    engine.status(0.2, 1, 409, "Message Size Exceeds MaxBytes", (BYTES_PULL_BATCH - 3, 0))
    assert engine.poll_actions() == [End(None)]


@pytest.mark.parametrize("rule", STATUS_RULES, ids=lambda rule: f"{rule.id}-{rule.code}")
def test_a_fetch_follows_every_row_of_the_status_table(rule: StatusRule) -> None:
    engine = fetcher()
    engine.status(1.0, 1, 499 if rule.code is None else rule.code, rule.contains)
    actions = engine.poll_actions()
    if rule.code == 503:
        assert actions == [CheckConsumer()]
        engine.consumer_checked(1.1, ConsumerNotFoundError(404, 10014))
        actions = engine.poll_actions()
    if rule.fetch is FetchEffect.END:
        assert actions == [End(None)]
    elif rule.fetch is FetchEffect.END_WITH_ERROR:
        [error] = ends(actions)
        assert type(error) is rule.error
    else:
        assert actions == []


def test_a_fetch_waits_one_second_after_its_timeout_for_the_server() -> None:
    engine = fetcher(timeout=2)
    assert engine.deadline == 3.0
    engine.tick(2.9)
    assert engine.poll_actions() == []
    engine.tick(3.0)
    assert engine.poll_actions() == [End(None)]
    assert engine.pull_left_open


def test_missed_heartbeats_end_a_fetch() -> None:
    engine = fetcher(timeout=10, idle_heartbeat=1)
    engine.status(1.0, 1, 100, "Idle Heartbeat")
    engine.tick(2.9)
    assert engine.poll_actions() == []
    engine.tick(3.0)
    [error] = ends(engine.poll_actions())
    assert isinstance(error, MissedHeartbeatError)
    assert engine.pull_left_open


def test_no_late_messages_are_expected_if_the_server_ended_the_pull_or_never_received_it() -> None:
    full, timed_out, cut, unsent = fetcher(2), fetcher(2), fetcher(2), PullEngine("S", "C", fetch_options(2, timeout=4))
    full.delivered(0.1, 2)
    timed_out.status(0.1, 1, 408, "Request Timeout")
    cut.disconnected(DisconnectedError("reset by peer"))
    unsent.start(0.0, online=False)
    unsent.tick(5.0)
    for engine in (full, timed_out, cut, unsent):
        assert engine.ended
        assert not engine.pull_left_open


def test_a_fetch_ends_with_the_session() -> None:
    engine = fetcher()
    engine.delivered(0.1, 3)
    engine.disconnected(DisconnectedError("reset by peer"))
    [error] = ends(engine.poll_actions())
    assert isinstance(error, DisconnectedError)
    assert "reset by peer" in str(error)
    engine.reconnected(0.2)
    assert engine.poll_actions() == []


def test_a_fetch_that_starts_without_a_session_pulls_for_the_rest_of_its_time() -> None:
    engine = PullEngine("S", "C", fetch_options(10, timeout=4, idle_heartbeat=2))
    engine.start(0.0, online=False)
    engine.disconnected()
    assert engine.poll_actions() == []
    engine.reconnected(1.0)
    [action] = engine.poll_actions()
    assert isinstance(action, SendPull)
    assert action.request.expires == timedelta(seconds=3)
    assert action.request.idle_heartbeat is None  # it would be more than half


def test_the_heartbeat_is_kept_if_it_fits_the_rest_of_the_time() -> None:
    engine = PullEngine("S", "C", fetch_options(10, timeout=4, idle_heartbeat=1))
    engine.start(0.0, online=False)
    engine.reconnected(1.0)
    [action] = engine.poll_actions()
    assert isinstance(action, SendPull)
    assert action.request.idle_heartbeat == timedelta(seconds=1)


def test_a_fetch_that_never_gets_a_session_reports_it() -> None:
    engine = PullEngine("S", "C", fetch_options(10, timeout=4))
    engine.start(0.0, online=False)
    engine.tick(5.0)
    [error] = ends(engine.poll_actions())
    assert isinstance(error, DisconnectedError)


def test_a_fetch_without_wait_needs_an_answer() -> None:
    engine = PullEngine("S", "C", fetch_options(10, no_wait=True))
    engine.start(0.0)
    [action] = engine.poll_actions()
    assert isinstance(action, SendPull)
    assert (action.request.no_wait, action.request.expires) == (True, None)
    engine.tick(5.0)
    [error] = ends(engine.poll_actions())
    assert isinstance(error, RequestTimeoutError)
    answered = fetcher(no_wait=True)
    answered.delivered(1.0, 3)
    answered.tick(5.0)
    assert answered.poll_actions() == [End(None)]


def test_a_fetch_without_a_timeout_sends_one_limited_pull_after_the_other() -> None:
    engine = fetcher(timeout=None)
    assert engine.deadline == pytest.approx(10.0)  # that of the heartbeat
    engine.delivered(5.0, 4)
    engine.status(30.0, 1, 408, "Request Timeout", (6, 0))
    assert pulls(engine.poll_actions()) == [6]
    engine.delivered(31.0, 6)
    assert engine.poll_actions() == [End(None)]


def test_a_fetch_by_bytes_without_a_timeout_ends_with_the_received_messages() -> None:
    engine = fetcher(None, max_bytes=1000, timeout=None)
    engine.status(30.0, 1, 408, "Request Timeout", (BYTES_PULL_BATCH, 1000))
    assert sizes(engine.poll_actions()) == [1000]
    engine.delivered(31.0, 2, 800)
    engine.status(60.0, 2, 408, "Request Timeout", (BYTES_PULL_BATCH - 2, 200))
    assert engine.poll_actions() == [End(None)]


def test_a_fetch_without_a_timeout_ends_at_a_message_that_does_not_fit() -> None:
    engine = fetcher(None, max_bytes=1000, timeout=None)
    engine.status(1.0, 1, 409, "Message Size Exceeds MaxBytes", (BYTES_PULL_BATCH, 1000))
    assert engine.poll_actions() == [End(None)]


def test_the_timeout_of_a_fetch_runs_from_its_start() -> None:
    engine = PullEngine("S", "C", fetch_options(10, timeout=4))
    engine.start(3.0, began=0.0)
    [action] = engine.poll_actions()
    assert isinstance(action, SendPull)
    assert action.request.expires == timedelta(seconds=1)
    assert engine.deadline == 5.0


def test_a_fetch_can_be_cancelled_from_outside() -> None:
    engine = fetcher()
    refused = PermissionsViolationError("no")
    engine.stop(refused)
    assert engine.poll_actions() == [End(refused)]


def _unanswered(options: PullOptions, failure: Error | None, *, retry_503: bool) -> PullEngine:
    """Return a fetch whose first pull nobody answers at 0.5 s; the look-up of the consumer ends with `failure`."""
    engine = PullEngine("S", "C", options, retry_503=retry_503)
    engine.start(0.0)
    engine.poll_actions()
    engine.status(0.5, 1, 503)
    assert engine.poll_actions() == [CheckConsumer()]
    engine.consumer_checked(0.5, failure)
    return engine


@pytest.mark.parametrize("retry_503", [False, True])
@pytest.mark.parametrize(
    "failure", [ConsumerNotFoundError(404, 10014), PermissionsViolationError("no permission to look it up")]
)
def test_a_fetch_of_a_consumer_that_is_gone_ends_at_once(failure: Error, retry_503: bool) -> None:
    engine = _unanswered(fetch_options(10), failure, retry_503=retry_503)
    [error] = ends(engine.poll_actions())
    assert type(error) is NoConsumerResponseError
    assert "no such consumer" in str(error)
    assert not engine.pull_left_open


TROUBLE = [None, RequestTimeoutError(), JetStreamUnavailableError(503, 10008), JetStreamNotEnabledError(503, 0)]


@pytest.mark.parametrize("failure", TROUBLE)
def test_a_fetch_that_nobody_answers_does_not_say_that_the_consumer_is_gone(failure: Error | None) -> None:
    [error] = ends(_unanswered(fetch_options(10), failure, retry_503=False).poll_actions())
    assert type(error) is ConsumerUnavailableError
    assert error.transient
    assert "no such consumer" not in str(error)


@pytest.mark.parametrize("failure", TROUBLE)
def test_a_fetch_that_may_pull_again_gets_its_messages_later(failure: Error | None) -> None:
    engine = _unanswered(fetch_options(10, timeout=20), failure, retry_503=True)
    assert (engine.poll_actions(), engine.deadline) == ([], 0.75)
    engine.tick(0.75)
    [pull] = engine.poll_actions()
    assert isinstance(pull, SendPull)
    assert (pull.request.batch, pull.request.expires) == (10, timedelta(seconds=19.25))
    engine.delivered(1.0, 10)
    assert engine.poll_actions() == [End(None)]


@pytest.mark.parametrize("options", [{"timeout": 4}, {"timeout": None}, {"no_wait": True}])
def test_a_fetch_that_nobody_answers_until_its_deadline_says_so(options: dict[str, Any]) -> None:
    engine = _unanswered(fetch_options(10, **options), None, retry_503=True)
    pulls_sent = 1
    found: list[Error | None] = []
    while not engine.ended:
        assert engine.deadline is not None
        now = engine.deadline
        engine.tick(now)
        while last := engine.poll_actions():
            for action in last:
                if isinstance(action, SendPull):
                    pulls_sent += 1
                    engine.status(now, action.token, 503)
                elif isinstance(action, CheckConsumer):
                    engine.consumer_checked(now, RequestTimeoutError())
            found += ends(last)
    [error] = found
    assert type(error) is ConsumerUnavailableError
    assert pulls_sent >= 3


def test_a_fetch_that_has_messages_ends_with_them() -> None:
    engine = fetcher()
    engine.delivered(0.1, 3)
    engine.status(0.2, 1, 503)
    [error] = ends(engine.poll_actions())
    assert type(error) is NoConsumerResponseError
