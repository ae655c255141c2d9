"""Ordered consumers without a server: where the next consumer starts, and when it is made."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.engine.ordered_play import NOW, created_config, cursor, deliveries, delivery, info, kinds, running

from jetspark.engine.ordered import (
    CreateConsumer,
    DeleteConsumer,
    OrderedCursor,
    OrderedEnd,
    OrderedEngine,
    StartPulling,
    Warn,
    ordered_config,
    ordered_heartbeat,
)
from jetspark.errors import (
    ConfigError,
    ConsumerDeletedError,
    DisconnectedError,
    Error,
    InsufficientResourcesError,
    JetStreamUnavailableError,
    LeadershipChangeError,
    MissedHeartbeatError,
    NoConsumerResponseError,
    RequestTimeoutError,
    StreamNotFoundError,
)
from jetspark.jetstream import AckPolicy, ConsumerConfig, DeliverPolicy
from jetspark.wire.messages import Message

# -- the cursor ------------------------------------------------------------------------------------------------------


def test_a_consumer_of_this_kind_is_made_to_be_thrown_away() -> None:
    config = cursor(filter_subject="a.>", headers_only=True, metadata={"k": "v"}).next_config()
    assert (config.name, config.durable_name) == ("o_1", None)
    assert (config.ack_policy, config.num_replicas, config.mem_storage) == (AckPolicy.NONE, 1, True)
    assert config.inactive_threshold == timedelta(minutes=5)
    assert (config.filter_subject, config.headers_only, config.metadata) == ("a.>", True, {"k": "v"})


@pytest.mark.parametrize("field", ["durable_name", "ack_policy", "deliver_subject", "num_replicas", "max_delivr"])
def test_what_is_fixed_cannot_be_set(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        ordered_config({field: "x"})


@pytest.mark.parametrize(
    ("fields", "subject"),
    [({}, ">"), ({"filter_subject": "a"}, "a"), ({"filter_subjects": ["a", "b"]}, None)],
)
def test_the_last_of_each_subject_needs_a_filter(fields: dict[str, object], subject: str | None) -> None:
    config = cursor(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, **fields).next_config()
    assert config.filter_subject == subject


def test_a_name_is_made_up_and_a_given_one_checked() -> None:
    assert OrderedCursor(ConsumerConfig()).next_config().name != OrderedCursor(ConsumerConfig()).next_config().name
    with pytest.raises(ValueError, match="name"):
        OrderedCursor(ConsumerConfig(), "a.b")


def test_the_next_one_starts_behind_the_last_good_message_and_keeps_all_else() -> None:
    where = cursor(
        deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=NOW, inactive_threshold=timedelta(seconds=7)
    )
    first = where.next_config()
    assert first.deliver_policy is DeliverPolicy.BY_START_TIME
    assert where.accept(deliveries(1, 6, shift=10))[0] == 5
    second = where.next_config()
    assert (second.name, second.deliver_policy, second.opt_start_seq) == ("o_2", DeliverPolicy.BY_START_SEQUENCE, 16)
    assert (second.opt_start_time, second.inactive_threshold) == (None, timedelta(seconds=7))


def test_as_long_as_nothing_came_the_start_stays() -> None:
    where = cursor(deliver_policy=DeliverPolicy.LAST)
    where.next_config()
    where.created(info("o_1", stream_seq=41))
    assert where.next_config().deliver_policy is DeliverPolicy.LAST


def test_new_means_new_when_the_first_consumer_was_made() -> None:
    where = cursor(deliver_policy=DeliverPolicy.NEW)
    assert where.next_config().deliver_policy is DeliverPolicy.NEW
    where.created(info("o_1", stream_seq=41))
    assert where.next_config().opt_start_seq == 42


@pytest.mark.parametrize("missing", range(1, 6))
def test_a_gap_is_found_wherever_it_is(missing: int) -> None:
    where = cursor()
    where.next_config()
    run = [message for message in deliveries(1, 7) if b".%d.1767" % missing not in message.raw_reply]
    good, last = where.accept(run)
    assert good == missing - 1
    assert where.last_sequence == (missing - 1 or None)
    assert (last is None) is (missing == 1)
    assert where.delivered == missing - 1


def test_a_message_that_no_consumer_delivered_is_no_delivery() -> None:
    where = cursor()
    where.next_config()
    forged = Message(b"a", b"", b"", b"", None)
    assert where.accept([delivery(1, 1), forged, delivery(2, 2)])[0] == 1
    assert where.accept([forged]) == (0, None)


def test_runs_follow_each_other() -> None:
    where = cursor()
    where.next_config()
    assert where.accept(deliveries(1, 4))[0] == 3
    assert where.accept(deliveries(4, 9))[0] == 5
    assert not where.heartbeat(8)
    assert where.heartbeat(9)


def test_the_default_heartbeat_is_five_seconds_where_that_fits() -> None:
    assert [ordered_heartbeat(expires) for expires in (30, 10, 9, 1)] == [5, 5, 4.5, 0.5]


# -- the flow --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ConsumerDeletedError(409), MissedHeartbeatError(), NoConsumerResponseError(503)])
@pytest.mark.parametrize("final", [True, False])
def test_a_consumer_that_may_be_gone_is_replaced_and_the_user_told(error: MissedHeartbeatError, final: bool) -> None:
    flow, _ = running()
    assert flow.accept(deliveries(1, 4)) == 3
    flow.pull_error(error, final=final)
    actions = flow.poll_actions()
    assert kinds(actions) == [Warn, DeleteConsumer, CreateConsumer]
    assert created_config(actions).opt_start_seq == 4
    assert flow.resetting
    flow.created(info("o_2"))
    assert flow.poll_actions() == [StartPulling("o_2")]
    assert not flow.resetting


def test_a_gap_is_replaced_without_a_word() -> None:
    flow, _ = running()
    assert flow.accept([delivery(1, 1), delivery(3, 3)]) == 1
    actions = flow.poll_actions()
    assert kinds(actions) == [DeleteConsumer, CreateConsumer]
    assert created_config(actions).opt_start_seq == 2


def test_a_heartbeat_that_tells_of_more_is_a_gap() -> None:
    flow, _ = running()
    flow.heartbeat(0)
    flow.heartbeat(None)
    assert flow.poll_actions() == []
    flow.heartbeat(1)  # although nothing came yet
    assert kinds(flow.poll_actions()) == [DeleteConsumer, CreateConsumer]


def test_other_warnings_are_passed_on_and_other_ends_are_ends() -> None:
    flow, _ = running()
    error = LeadershipChangeError(409)
    flow.pull_error(error, final=False)
    assert flow.poll_actions() == [Warn(error)]
    flow.pull_error(error, final=True)
    assert flow.poll_actions() == [DeleteConsumer("o_1"), OrderedEnd(error)]
    assert flow.ended


def test_without_a_session_nothing_is_made() -> None:
    flow, _ = running()
    flow.accept(deliveries(1, 4))
    flow.disconnected()
    flow.reset()
    flow.tick(1e9)
    assert flow.poll_actions() == []
    flow.reconnected()
    actions = flow.poll_actions()
    assert kinds(actions) == [DeleteConsumer, CreateConsumer]
    assert created_config(actions).opt_start_seq == 4


def test_r14_former_consumers_are_deleted_with_each_session_until_they_are_known_to_be_gone() -> None:
    flow, _ = running()
    for names in (["o_1"], ["o_1", "o_2"], ["o_1", "o_2", "o_3"]):
        flow.disconnected()
        flow.reconnected()
        assert [action.name for action in flow.poll_actions() if isinstance(action, DeleteConsumer)] == names
    for name in ("o_1", "o_3"):
        flow.deleted(name)
    flow.disconnected()
    flow.reconnected()
    assert [action.name for action in flow.poll_actions() if isinstance(action, DeleteConsumer)] == ["o_2", "o_4"]
    for _ in range(100):
        flow.disconnected()
        flow.reconnected()
        assert len(flow.poll_actions()) <= 33  # one creation, and no more than are remembered


def test_it_may_begin_without_a_session() -> None:
    flow = OrderedEngine(cursor())
    flow.start(online=False)
    assert flow.poll_actions() == []
    flow.reconnected()
    assert kinds(flow.poll_actions()) == [CreateConsumer]


@pytest.mark.parametrize(
    "error",
    [
        RequestTimeoutError(),
        JetStreamUnavailableError(503, 10008),
        InsufficientResourcesError(503, 10023),
    ],
)
def test_passing_failures_are_tried_again_after_ever_longer_waits(error: RequestTimeoutError) -> None:
    flow = OrderedEngine(cursor())
    flow.start()
    now, waits = 0.0, []
    for serial in range(1, 7):
        [create] = flow.poll_actions()
        assert isinstance(create, CreateConsumer)
        flow.failed(now, f"o_{serial}", error)
        assert flow.poll_actions() == [Warn(error)]
        assert flow.retry_at is not None
        waits.append(flow.retry_at - now)
        flow.tick(flow.retry_at - 0.01)
        assert flow.poll_actions() == []
        now = flow.retry_at
        flow.tick(now)
    for wait, longest in zip(waits, [1, 2, 4, 8, 10, 10], strict=True):
        assert 0.75 * longest <= wait <= longest


def test_other_failures_end_it() -> None:
    flow, _ = running()
    flow.reset()
    flow.poll_actions()
    gone = StreamNotFoundError(404, 10059)
    flow.failed(0.0, "o_2", gone)
    assert flow.poll_actions() == [OrderedEnd(gone)]
    assert flow.retry_at is None


def test_the_number_of_tries_can_be_limited() -> None:
    flow = OrderedEngine(cursor(), max_reset_attempts=2)
    flow.start()
    flow.failed(0.0, "o_1", RequestTimeoutError())
    flow.tick(1.0)
    assert kinds(flow.poll_actions()) == [CreateConsumer, Warn, CreateConsumer]
    last = RequestTimeoutError("the last")
    flow.failed(1.0, "o_2", last)
    assert flow.poll_actions() == [DeleteConsumer("o_1"), DeleteConsumer("o_2"), OrderedEnd(last)]
    with pytest.raises(ConfigError, match="max_reset_attempts"):
        OrderedEngine(cursor(), max_reset_attempts=0)


def test_stop_ends_a_wait_at_once_and_what_comes_later_is_cleaned_up() -> None:
    flow = OrderedEngine(cursor())
    flow.start()
    flow.failed(0.0, "o_1", RequestTimeoutError())
    flow.poll_actions()
    flow.stop()
    flow.stop()
    assert flow.poll_actions() == [DeleteConsumer("o_1"), OrderedEnd(None)]
    assert flow.retry_at is None
    flow.created(info("o_1"))
    assert flow.poll_actions() == [DeleteConsumer("o_1")]
    flow.reconnected()
    flow.failed(0.0, "o_1", RequestTimeoutError())
    assert flow.poll_actions() == []


@pytest.mark.parametrize("error", [RequestTimeoutError(), DisconnectedError()])
def test_r14_a_consumer_that_nobody_knows_to_exist_is_deleted_when_the_server_answers_again(error: Error) -> None:
    flow = OrderedEngine(cursor())
    flow.start()
    flow.failed(0.0, "o_1", error)
    flow.tick(1.0)
    flow.failed(1.0, "o_2", InsufficientResourcesError(503, 10023))  # this one was refused
    flow.tick(5.0)
    flow.poll_actions()
    flow.created(info("o_3"))
    assert flow.poll_actions() == [StartPulling("o_3"), DeleteConsumer("o_1")]
    flow.stop()
    assert flow.poll_actions() == [DeleteConsumer("o_3"), OrderedEnd(None)]  # the other is under way


def test_r14_a_deletion_that_failed_is_tried_again_with_the_next_consumer_and_at_the_end() -> None:
    flow, _ = running()
    for number in (1, 2):
        flow.reset()
        assert [action for action in flow.poll_actions() if isinstance(action, DeleteConsumer)] == [
            DeleteConsumer(f"o_{number}")
        ]
        flow.created(info(f"o_{number + 1}"))
        assert flow.poll_actions() == [StartPulling(f"o_{number + 1}")]  # nobody has answered yet
    flow.delete_failed("o_1")
    flow.deleted("o_2")
    flow.delete_failed("o_2")
    flow.reset()
    assert [action for action in flow.poll_actions() if isinstance(action, DeleteConsumer)] == [DeleteConsumer("o_3")]
    flow.delete_failed("o_3")
    flow.deleted("o_3")
    flow.created(info("o_4"))
    assert flow.poll_actions() == [StartPulling("o_4"), DeleteConsumer("o_1")]
    flow.delete_failed("o_1")
    flow.stop()
    assert flow.poll_actions() == [DeleteConsumer("o_1"), DeleteConsumer("o_4"), OrderedEnd(None)]


def test_r14_a_creation_that_times_out_behind_the_end_is_cleaned_up() -> None:
    flow = OrderedEngine(cursor())
    flow.start()
    flow.stop()
    assert kinds(flow.poll_actions()) == [CreateConsumer, OrderedEnd]
    flow.failed(0.0, "o_1", StreamNotFoundError(404, 10059))
    assert flow.poll_actions() == []
    flow.failed(0.0, "o_1", RequestTimeoutError())
    assert flow.poll_actions() == [DeleteConsumer("o_1")]


def test_nothing_is_asked_for_without_a_session() -> None:
    flow = OrderedEngine(cursor())
    flow.start()
    flow.failed(0.0, "o_1", RequestTimeoutError())
    flow.poll_actions()
    flow.disconnected()
    flow.failed(0.0, "o_1", DisconnectedError())
    flow.stop()
    assert flow.poll_actions() == [OrderedEnd(None)]


def test_the_answer_to_a_creation_of_a_former_session_is_too_late() -> None:
    flow = OrderedEngine(cursor())
    flow.start()
    flow.disconnected()
    flow.failed(0.0, "o_1", DisconnectedError())
    flow.reconnected()
    flow.poll_actions()
    flow.failed(0.0, "o_1", DisconnectedError())
    flow.created(info("o_1"))
    assert flow.poll_actions() == [DeleteConsumer("o_1")]
    flow.created(info("o_2"))
    assert flow.poll_actions() == [StartPulling("o_2")]
