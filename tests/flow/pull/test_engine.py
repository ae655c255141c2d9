"""The pull engine without a server: every event, every status, every deadline."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jetspark.errors import (
    BadPullRequestError,
    ConsumerDeletedError,
    ConsumerIsPushError,
    ConsumerNotFoundError,
    DisconnectedError,
    Error,
    LeadershipChangeError,
    MessageExceedsMaxBytesError,
    MissedHeartbeatError,
    NoConsumerResponseError,
    PermissionsViolationError,
    PullLimitExceededError,
    RequestTimeoutError,
    ServerShutdownError,
    StatusError,
)
from jetspark.flow.pull import (
    MAX_BATCH,
    Action,
    End,
    LookUp,
    PinIds,
    PullEngine,
    SendPull,
    Warn,
    consume_options,
    fetch_options,
)
from jetspark.jetstream.status import TABLE, FetchEffect, StatusRule


def consumer(**options: object) -> PullEngine:
    """A consume that has started at time 0; its first pull is taken."""
    engine = PullEngine("S", "C", consume_options(**options), PinIds())  # type: ignore[arg-type]
    engine.start(0.0)
    assert pulls(engine.take())
    return engine


def fetcher(max_messages: int | None = 10, **options: object) -> PullEngine:
    """A fetch that has started at time 0; its pull is taken."""
    engine = PullEngine("S", "C", fetch_options(max_messages, **options), PinIds())  # type: ignore[arg-type]
    engine.start(0.0)
    assert len(engine.take()) == 1
    return engine


def pulls(actions: list[Action]) -> list[int]:
    """The batches of the pulls among some actions."""
    return [action.request.batch for action in actions if isinstance(action, SendPull)]


def sizes(actions: list[Action]) -> list[int | None]:
    return [action.request.max_bytes for action in actions if isinstance(action, SendPull)]


def warnings(actions: list[Action]) -> list[type[Error]]:
    return [type(action.error) for action in actions if isinstance(action, Warn)]


def ends(actions: list[Action]) -> list[Error | None]:
    return [action.error for action in actions if isinstance(action, End)]


# -- consume: counting -----------------------------------------------------------------------------------------------


def test_the_first_pull_has_all_options_of_consume() -> None:
    engine = PullEngine(
        "S", "C", consume_options(expires=4, group="g", min_pending=5, min_ack_pending=6, priority=0), PinIds()
    )
    engine.start(0.0)
    [action] = engine.take()
    assert isinstance(action, SendPull)
    request = action.request
    assert (request.stream, request.consumer, request.batch, request.max_bytes) == ("S", "C", 500, None)
    assert (request.expires, request.idle_heartbeat) == (timedelta(seconds=4), timedelta(seconds=2))
    assert (request.group, request.min_pending, request.min_ack_pending, request.priority) == ("g", 5, 6, 0)
    assert not request.no_wait
    assert action.token == 1


def test_it_pulls_what_is_missing_as_soon_as_less_than_half_is_pending() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 10)
    asked = []
    for _ in range(18):
        engine.handed_out(0.2, 1)
        for batch in pulls(engine.take()):
            asked.append(batch)
            engine.delivered(0.3, batch)
    assert asked == [6, 6, 6]
    assert engine.pending == (10, 0)


def test_what_arrives_does_not_lower_what_is_pending_but_what_is_handed_out_does() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 10)
    assert engine.take() == []
    assert engine.pending == (10, 0)
    engine.handed_out(0.1, 5)
    assert (engine.take(), engine.pending) == ([], (5, 0))
    engine.handed_out(0.1, 1)
    assert pulls(engine.take()) == [6]


def test_pulls_overlap() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 7)  # three are still to come from the first pull
    engine.handed_out(0.1, 6)
    assert pulls(engine.take()) == [6]
    assert engine.pending == (10, 0)


@pytest.mark.parametrize(("most", "until"), [(10, 6), (1, 1), (3, 2)])
def test_it_says_how_many_may_be_handed_out_before_it_wants_to_know(most: int, until: int) -> None:
    engine = consumer(max_messages=most)
    engine.delivered(0.0, most)
    assert engine.until_pull == until
    engine.handed_out(0.0, until - 1)
    assert engine.take() == []
    assert engine.until_pull == 1
    engine.handed_out(0.0, 1)
    assert len(pulls(engine.take())) == 1


def test_one_message_at_a_time_never_sticks() -> None:
    engine = consumer(max_messages=1)
    for _ in range(100):
        engine.delivered(0.0, 1)
        engine.handed_out(0.0, 1)
        assert pulls(engine.take()) == [1]


def test_own_thresholds_are_kept() -> None:
    engine = consumer(max_messages=10, threshold_messages=10)
    engine.delivered(0.0, 10)
    engine.handed_out(0.0, 1)
    assert pulls(engine.take()) == [1]


def test_bytes_are_pulled_by_bytes() -> None:
    engine = PullEngine("S", "C", consume_options(max_bytes=1000))
    engine.start(0.0)
    [pull] = engine.take()
    assert isinstance(pull, SendPull)
    assert (pull.request.batch, pull.request.max_bytes) == (MAX_BATCH, 1000)
    assert engine.counts_bytes
    assert engine.until_pull == 1
    engine.delivered(0.1, 2, 900)
    engine.handed_out(0.1, 1, 450)
    assert engine.take() == []  # 550 are pending
    engine.handed_out(0.1, 1, 450)
    assert sizes(engine.take()) == [900]


def test_a_drained_or_stopped_one_pulls_no_more() -> None:
    for end in (PullEngine.drain, PullEngine.stop):
        engine = consumer(max_messages=2)
        engine.delivered(0.0, 2)
        end(engine)
        engine.handed_out(0.0, 2)
        assert not pulls(engine.take())
        assert engine.until_pull > 1 << 60
        assert engine.deadline is None


def test_the_end_is_said_once() -> None:
    engine = consumer()
    engine.stop()
    engine.stop(ConsumerDeletedError(409))
    engine.tick(1e9)
    engine.status(1.0, 1, 409, "Consumer Deleted")
    engine.reconnected(2.0)
    assert engine.take() == [End(None)]
    assert engine.ended


# -- consume: statuses -----------------------------------------------------------------------------------------------


def test_what_a_pull_did_not_bring_is_not_pending_any_more() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 4)
    engine.handed_out(0.1, 4)
    assert engine.pending == (6, 0)
    engine.status(1.0, 1, 408, "Request Timeout", (6, 0))
    assert pulls(engine.take()) == [10]


def test_two_open_pulls_are_told_apart() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 6)
    engine.handed_out(0.1, 6)
    assert pulls(engine.take()) == [6]  # 4 of the first are open, and 6 of the second
    engine.status(1.0, 1, 408, "Request Timeout", (4, 0))
    assert (pulls(engine.take()), engine.pending) == ([], (6, 0))
    engine.status(1.0, 2, 408, "Request Timeout", (6, 0))
    assert pulls(engine.take()) == [10]


@pytest.mark.parametrize("left", [(-1, 0), (20, 0), (0, 0), None])
def test_counters_never_go_below_nothing_and_never_starve(left: tuple[int, int] | None) -> None:
    engine = consumer(max_messages=10)
    engine.status(1.0, 1, 408, "Request Timeout", left)
    assert pulls(engine.take()) == [10]
    assert engine.pending == (10, 0)


@pytest.mark.parametrize("description", ["No Messages", "Request Timeout", "Batch Completed", "Interest Expired"])
@pytest.mark.parametrize("code", [404, 408, 409])
def test_an_ordinary_end_of_a_pull_is_followed_by_the_next_one(code: int, description: str) -> None:
    engine = consumer(max_messages=10)
    engine.status(1.0, 1, code, description if code != 409 else "Batch Completed", (10, 0))
    actions = engine.take()
    assert (pulls(actions), warnings(actions)) == ([10], [])


@pytest.mark.parametrize(
    ("code", "description", "kind"),
    [
        (400, "Bad Request - heartbeat value too large", BadPullRequestError),
        (409, "Consumer Deleted", ConsumerDeletedError),
        (409, "Consumer is push based", ConsumerIsPushError),
    ],
)
def test_what_cannot_go_on_ends_consume_with_its_error(code: int, description: str, kind: type[Error]) -> None:
    engine = consumer()
    engine.status(1.0, 1, code, description)
    [error] = ends(engine.take())
    assert type(error) is kind
    assert "CONSUMER.MSG.NEXT.S.C" in str(error)
    assert engine.deadline is None


def test_a_change_of_the_leader_is_told_and_pulled_again_at_once() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 6)
    engine.handed_out(0.1, 6)
    engine.take()
    engine.status(1.0, 1, 409, "Leadership Change")
    actions = engine.take()
    assert (warnings(actions), pulls(actions)) == ([LeadershipChangeError], [10])
    engine.status(1.0, 2, 409, "Leadership Change")  # of the other pull, which is known to be gone
    assert engine.take() == []
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
def test_what_would_be_answered_the_same_at_once_is_paced(code: int, description: str, kind: type[Error]) -> None:
    engine = consumer(max_messages=10)
    now, sent = 0.0, 0
    token = 1
    while now < 10.0:
        engine.status(now, token, code, description)
        actions = engine.take()
        assert (warnings(actions), pulls(actions)) == ([kind], [])
        assert engine.pending == (0, 0)
        deadline = engine.deadline
        assert deadline is not None
        engine.tick((now + deadline) / 2)
        assert engine.take() == []
        now = deadline
        engine.tick(now)
        assert pulls(engine.take()) == [10]
        token += 1
        sent += 1
    assert 5 <= sent <= 10  # a few a second at first, then one every two
    engine.delivered(now, 1)
    engine.status(now, token, code, description)  # something came meanwhile: nothing spins
    assert pulls(engine.take()) == [10 - 1]


def test_the_first_wait_is_short_again_after_something_came() -> None:
    engine = consumer(max_messages=10)
    engine.status(0.0, 1, 503)
    engine.take()
    engine.tick(0.25)
    assert pulls(engine.take()) == [10]
    engine.delivered(0.3, 10)
    engine.handed_out(0.3, 10)
    assert pulls(engine.take()) == [10]
    engine.status(0.4, 3, 503)
    engine.take()
    assert engine.deadline == pytest.approx(0.65)


def test_a_message_larger_than_max_bytes_is_told_and_paced() -> None:
    engine = consumer(max_bytes=100)
    engine.status(0.0, 1, 409, "Message Size Exceeds MaxBytes", (MAX_BATCH, 100))
    actions = engine.take()
    assert (warnings(actions), pulls(actions)) == ([MessageExceedsMaxBytesError], [])
    engine.tick(0.3)
    assert sizes(engine.take()) == [100]


def test_a_message_larger_than_the_rest_of_max_bytes_waits_for_a_whole_pull() -> None:
    engine = consumer(max_bytes=1000, threshold_bytes=1000)
    engine.delivered(0.0, 2, 800)
    engine.status(0.0, 1, 409, "Message Size Exceeds MaxBytes", (MAX_BATCH - 2, 200))
    assert sizes(engine.take()) == [200]  # something came since the last pull
    engine.status(0.1, 2, 409, "Message Size Exceeds MaxBytes", (MAX_BATCH, 200))
    assert engine.take() == []
    engine.handed_out(0.2, 1, 400)
    assert engine.take() == []
    engine.handed_out(0.3, 1, 400)
    actions = engine.take()
    assert (sizes(actions), warnings(actions)) == ([1000], [])


def test_an_unknown_status_is_told_and_changes_nothing() -> None:
    engine = consumer(max_messages=10)
    for code, text in ((499, "Foo"), (409, "something new")):
        engine.status(1.0, 1, code, text)
        actions = engine.take()
        assert (warnings(actions), pulls(actions), engine.pending) == ([StatusError], [], (10, 0))
    engine.delivered(1.0, 10)
    engine.handed_out(1.0, 6)
    assert pulls(engine.take()) == [6]


def test_statuses_of_pulls_before_a_reset_say_nothing_about_the_new_ones() -> None:
    engine = consumer(max_messages=10)
    engine.disconnected()
    engine.reconnected(1.0)
    assert pulls(engine.take()) == [10]
    for token in (0, 1, 99):
        engine.status(1.1, token, 408, "Request Timeout", (10, 0))
    assert (engine.take(), engine.pending) == ([], (10, 0))


def test_only_the_size_of_recent_pulls_is_remembered() -> None:
    engine = consumer(max_messages=1000, threshold_messages=1000)
    for _ in range(200):  # each brings one message, so that none is seen to be complete
        engine.delivered(0.0, 1)
        engine.handed_out(0.0, 1)
    engine.take()
    assert engine.pending == (1000, 0)
    engine.status(0.0, 2, 409, "Exceeded MaxRequestBatch of 10")  # too old: everything is taken for lost
    engine.take()
    assert engine.pending == (0, 0)


def test_every_line_of_the_table_leaves_consume_ended_or_with_a_pull_to_come() -> None:
    for rule in TABLE:
        engine = consumer(max_messages=10)
        code = 499 if rule.code is None else rule.code
        engine.status(1.0, 1, code, rule.contains, (10, 0) if rule.has_pending else None)
        engine.take()
        assert engine.ended or engine.pending == (10, 0) or engine.deadline == pytest.approx(1.25), rule.id


# -- consume: heartbeats ---------------------------------------------------------------------------------------------


def test_silence_for_two_heartbeats_is_told_and_pulled_anew_each_time() -> None:
    engine = consumer(expires=2, idle_heartbeat=0.5)
    for number in range(1, 4):
        assert engine.deadline == pytest.approx(number * 1.0)
        engine.tick(number - 0.1)
        assert engine.take() == []
        engine.tick(float(number))
        actions = engine.take()
        assert (warnings(actions), pulls(actions)) == ([MissedHeartbeatError], [500])


def test_heartbeats_and_messages_are_signs_of_life_and_change_nothing_else() -> None:
    engine = consumer(expires=2, idle_heartbeat=0.5)
    engine.status(0.9, 1, 100, "Idle Heartbeat")
    engine.status(1.0, 1, 100, "FlowControl Request")
    assert engine.deadline == pytest.approx(2.0)
    engine.delivered(1.5, 1)
    assert engine.deadline == pytest.approx(2.5)
    assert engine.take() == []
    assert engine.pending == (500, 0)


def test_without_an_open_pull_no_heartbeat_is_missed() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.0, 10)  # a slow handler holds them all, and the server has nothing to say
    assert engine.deadline is None
    engine.tick(1000.0)
    assert engine.take() == []


# -- consume: the session --------------------------------------------------------------------------------------------


def test_without_a_session_nothing_is_pulled_and_no_heartbeat_missed() -> None:
    engine = consumer(max_messages=10, expires=2)
    engine.delivered(0.1, 10)
    engine.disconnected()
    engine.handed_out(0.2, 10)
    engine.tick(100.0)
    assert (engine.take(), engine.deadline) == ([], None)
    engine.reconnected(100.0)
    assert pulls(engine.take()) == [10]
    assert engine.deadline == pytest.approx(102.0)


def test_a_reconnect_pulls_what_the_buffer_has_room_for() -> None:
    engine = consumer(max_messages=10)
    engine.delivered(0.1, 8)
    for _ in range(5):  # a session that comes and goes fills no more than the buffer
        engine.disconnected()
        engine.reconnected(1.0)
    assert (engine.take(), engine.pending) == ([], (8, 0))
    engine.handed_out(1.0, 4)
    assert pulls(engine.take()) == [6]


def test_more_than_was_asked_for_does_no_harm() -> None:
    engine = consumer(max_messages=10)
    engine.disconnected()
    engine.reconnected(1.0)  # the server serves the old pull as well
    engine.take()
    engine.delivered(1.1, 20)
    engine.handed_out(1.2, 20)
    assert pulls(engine.take()) == [10]
    assert engine.pending == (10, 0)


def test_a_reconnect_ends_a_wait() -> None:
    engine = consumer(max_messages=10)
    engine.status(0.0, 1, 503)
    engine.take()
    engine.disconnected()
    assert engine.deadline is None
    engine.reconnected(0.1)
    assert pulls(engine.take()) == [10]


def test_it_may_start_without_a_session() -> None:
    engine = PullEngine("S", "C", consume_options(max_messages=10))
    engine.start(0.0, online=False)
    assert engine.take() == []
    engine.reconnected(5.0)
    assert pulls(engine.take()) == [10]


def test_revision_1_looks_the_consumer_up_and_pulls_when_it_is_there() -> None:
    engine = consumer(max_messages=10, verify_on_reconnect=True)
    engine.disconnected()
    engine.reconnected(1.0)
    assert engine.take() == [LookUp()]
    engine.handed_out(1.0, 0)
    assert (engine.take(), engine.deadline) == ([], None)
    engine.looked_up(1.5)
    assert pulls(engine.take()) == [10]
    engine.looked_up(1.6, ConsumerNotFoundError(404, 10014))  # a late answer
    assert engine.take() == []


def test_revision_1_asks_again_and_ends_when_the_consumer_stays_missing() -> None:
    engine = consumer(verify_on_reconnect=True)
    engine.disconnected()
    engine.reconnected(0.0)
    missing = ConsumerNotFoundError(404, 10014, "consumer not found")
    answers: list[Error] = [RequestTimeoutError(), missing, DisconnectedError(), missing, missing]
    now = 0.0
    for answer in answers:
        assert engine.take() == [LookUp()]
        engine.looked_up(now, answer)
        if engine.deadline is not None:
            engine.tick(now)
            assert engine.take() == []
            now = engine.deadline
            engine.tick(now)
    assert engine.take() == [End(missing)]


def test_revision_1_starts_over_with_the_next_session() -> None:
    engine = consumer(verify_on_reconnect=True)
    engine.disconnected()
    engine.reconnected(0.0)
    engine.looked_up(0.0, RequestTimeoutError())
    engine.disconnected()
    assert engine.deadline is None
    engine.take()
    engine.reconnected(1.0)
    assert engine.take() == [LookUp()]


# -- priority groups -------------------------------------------------------------------------------------------------


def test_the_id_of_the_pinned_client_goes_with_every_later_pull_of_the_handle() -> None:
    pins = PinIds()
    engine = PullEngine("S", "C", consume_options(max_messages=2, group="g"), pins)
    engine.start(0.0)
    [first] = engine.take()
    engine.pinned("abc")
    engine.delivered(0.1, 2)
    engine.handed_out(0.1, 2)
    [second] = engine.take()
    other = PullEngine("S", "C", fetch_options(1, group="g"), pins)
    other.start(0.2)
    [third] = other.take()
    elsewhere = PullEngine("S", "C", fetch_options(1, group="h"), pins)
    elsewhere.start(0.2)
    [fourth] = elsewhere.take()
    found = [action.request.id for action in (first, second, third, fourth) if isinstance(action, SendPull)]
    assert found == [None, "abc", "abc", None]


@pytest.mark.parametrize("description", ["Nats-Wrong-Pin-Id", "Nats-Pin-Id mismatch"])
def test_a_423_forgets_the_id_and_pulls_on_without_it_at_once(description: str) -> None:
    engine = consumer(max_messages=10, group="g")
    engine.pinned("abc")
    engine.status(1.0, 1, 423, description, (10, 0) if "Wrong" in description else None)
    [action] = engine.take()
    assert isinstance(action, SendPull)
    assert (action.request.id, action.request.batch) == (None, 10)


def test_ids_without_a_group_are_left_alone() -> None:
    pins = PinIds()
    engine = PullEngine("S", "C", fetch_options(1), pins)
    engine.pinned("abc")
    pins.forget(None)
    assert pins.get(None) is None


# -- fetch -----------------------------------------------------------------------------------------------------------


def test_a_fetch_sends_one_pull_and_ends_when_it_is_full() -> None:
    engine = PullEngine("S", "C", fetch_options(10))
    engine.start(0.0)
    [action] = engine.take()
    assert isinstance(action, SendPull)
    assert (action.request.batch, action.request.expires) == (10, timedelta(seconds=30))
    assert action.request.idle_heartbeat is None
    engine.delivered(0.1, 9)
    assert engine.take() == []
    engine.delivered(0.2, 1)
    assert engine.take() == [End(None)]


def test_a_fetch_of_bytes_ends_at_the_servers_word() -> None:
    engine = PullEngine("S", "C", fetch_options(max_bytes=1000))
    engine.start(0.0)
    [action] = engine.take()
    assert isinstance(action, SendPull)
    assert (action.request.batch, action.request.max_bytes) == (MAX_BATCH, 1000)
    engine.delivered(0.1, 3, 1000)
    assert engine.take() == []
    engine.status(0.2, 1, 409, "Message Size Exceeds MaxBytes", (MAX_BATCH - 3, 0))
    assert engine.take() == [End(None)]


@pytest.mark.parametrize("rule", TABLE, ids=lambda rule: f"{rule.id}-{rule.code}")
def test_every_line_of_the_table_does_to_a_fetch_what_it_says(rule: StatusRule) -> None:
    engine = fetcher()
    engine.status(1.0, 1, 499 if rule.code is None else rule.code, rule.contains)
    actions = engine.take()
    if rule.fetch is FetchEffect.END:
        assert actions == [End(None)]
    elif rule.fetch is FetchEffect.END_WITH_ERROR:
        [error] = ends(actions)
        assert type(error) is rule.error
    else:
        assert actions == []


def test_a_fetch_waits_a_second_beyond_its_time_for_the_servers_word() -> None:
    engine = fetcher(expires=2)
    assert engine.deadline == 3.0
    engine.tick(2.9)
    assert engine.take() == []
    engine.tick(3.0)
    assert engine.take() == [End(None)]


def test_a_fetch_ends_at_missed_heartbeats() -> None:
    engine = fetcher(expires=10, idle_heartbeat=1)
    engine.status(1.0, 1, 100, "Idle Heartbeat")
    engine.tick(2.9)
    assert engine.take() == []
    engine.tick(3.0)
    [error] = ends(engine.take())
    assert isinstance(error, MissedHeartbeatError)


def test_a_fetch_ends_with_the_session() -> None:
    engine = fetcher()
    engine.delivered(0.1, 3)
    engine.disconnected(DisconnectedError("reset by peer"))
    [error] = ends(engine.take())
    assert isinstance(error, DisconnectedError)
    assert "reset by peer" in str(error)
    engine.reconnected(0.2)
    assert engine.take() == []


def test_a_fetch_that_begins_without_a_session_pulls_in_the_time_that_is_left() -> None:
    engine = PullEngine("S", "C", fetch_options(10, expires=4, idle_heartbeat=2))
    engine.start(0.0, online=False)
    engine.disconnected()
    assert engine.take() == []
    engine.reconnected(1.0)
    [action] = engine.take()
    assert isinstance(action, SendPull)
    assert action.request.expires == timedelta(seconds=3)
    assert action.request.idle_heartbeat is None  # it would be more than half


def test_the_heartbeat_stays_where_it_fits_into_the_time_that_is_left() -> None:
    engine = PullEngine("S", "C", fetch_options(10, expires=4, idle_heartbeat=1))
    engine.start(0.0, online=False)
    engine.reconnected(1.0)
    [action] = engine.take()
    assert isinstance(action, SendPull)
    assert action.request.idle_heartbeat == timedelta(seconds=1)


def test_a_fetch_that_never_gets_a_session_says_so() -> None:
    engine = PullEngine("S", "C", fetch_options(10, expires=4))
    engine.start(0.0, online=False)
    engine.tick(5.0)
    [error] = ends(engine.take())
    assert isinstance(error, DisconnectedError)


def test_a_fetch_that_does_not_wait_wants_an_answer() -> None:
    engine = PullEngine("S", "C", fetch_options(10, no_wait=True))
    engine.start(0.0)
    [action] = engine.take()
    assert isinstance(action, SendPull)
    assert (action.request.no_wait, action.request.expires) == (True, None)
    engine.tick(5.0)
    [error] = ends(engine.take())
    assert isinstance(error, RequestTimeoutError)
    answered = fetcher(no_wait=True)
    answered.delivered(1.0, 3)
    answered.tick(5.0)
    assert answered.take() == [End(None)]


def test_waiting_without_a_limit_is_one_bounded_pull_after_the_other() -> None:
    engine = fetcher(expires=None)
    assert engine.deadline == pytest.approx(10.0)  # the heartbeat's
    engine.delivered(5.0, 4)
    engine.status(30.0, 1, 408, "Request Timeout", (6, 0))
    assert pulls(engine.take()) == [6]
    engine.delivered(31.0, 6)
    assert engine.take() == [End(None)]


def test_waiting_without_a_limit_for_bytes_ends_with_what_came() -> None:
    engine = fetcher(None, max_bytes=1000, expires=None)
    engine.status(1.0, 1, 409, "Message Size Exceeds MaxBytes", (MAX_BATCH, 1000))
    assert engine.take() == []  # one that is larger than max_bytes may go away
    engine.tick(1.3)
    assert sizes(engine.take()) == [1000]
    engine.delivered(2.0, 2, 800)
    engine.status(2.0, 2, 409, "Message Size Exceeds MaxBytes", (MAX_BATCH, 200))
    assert engine.take() == [End(None)]


def test_a_fetch_can_be_ended_from_outside() -> None:
    engine = fetcher()
    refused = PermissionsViolationError("no")
    engine.stop(refused)
    assert engine.take() == [End(refused)]
