"""Ordered consumers without a server: the start of the next consumer, and when it is created."""

from __future__ import annotations

import pytest
from tests.engine.ordered_play import created_config, cursor, deliveries, delivery, info, kinds, running

from jetspark.engine.ordered import OrderedEngine
from jetspark.engine.ordered_actions import (
    CreateConsumer,
    DeleteConsumer,
    OrderedEnd,
    StartReading,
    Warn,
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

# -- the engine ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ConsumerDeletedError(409), MissedHeartbeatError(), NoConsumerResponseError(503)])
@pytest.mark.parametrize("final", [True, False])
def test_a_consumer_that_may_be_gone_is_replaced_with_a_warning(error: MissedHeartbeatError, final: bool) -> None:
    engine, _ = running()
    assert engine.accept(deliveries(1, 4)) == 3
    engine.pull_error(error, final=final)
    actions = engine.poll_actions()
    assert kinds(actions) == [Warn, DeleteConsumer, CreateConsumer]
    assert created_config(actions).opt_start_seq == 4
    assert engine.resetting
    engine.created(info("o_2"))
    assert engine.poll_actions() == [StartReading(info("o_2"))]
    assert not engine.resetting


def test_a_gap_replaces_the_consumer_without_a_warning() -> None:
    engine, _ = running()
    assert engine.accept([delivery(1, 1), delivery(3, 3)]) == 1
    actions = engine.poll_actions()
    assert kinds(actions) == [DeleteConsumer, CreateConsumer]
    assert created_config(actions).opt_start_seq == 2


def test_a_heartbeat_with_a_higher_sequence_is_a_gap() -> None:
    engine, _ = running()
    engine.heartbeat(0)
    engine.heartbeat(None)
    assert engine.poll_actions() == []
    engine.heartbeat(1)  # although no message came yet
    assert kinds(engine.poll_actions()) == [DeleteConsumer, CreateConsumer]


def test_other_warnings_are_passed_on_and_other_ends_end_the_engine() -> None:
    engine, _ = running()
    error = LeadershipChangeError(409)
    engine.pull_error(error, final=False)
    assert engine.poll_actions() == [Warn(error)]
    engine.pull_error(error, final=True)
    assert engine.poll_actions() == [DeleteConsumer("o_1"), OrderedEnd(error)]
    assert engine.ended


def test_no_consumer_is_created_without_a_session() -> None:
    engine, _ = running()
    engine.accept(deliveries(1, 4))
    engine.suspend()
    engine.reset()
    engine.tick(1e9)
    assert engine.poll_actions() == []
    engine.resume()
    actions = engine.poll_actions()
    assert kinds(actions) == [DeleteConsumer, CreateConsumer]
    assert created_config(actions).opt_start_seq == 4


def test_r14_earlier_consumers_are_deleted_in_each_session_until_they_are_known_to_be_gone() -> None:
    engine, _ = running()
    for names in (["o_1"], ["o_1", "o_2"], ["o_1", "o_2", "o_3"]):
        engine.suspend()
        engine.resume()
        assert [action.name for action in engine.poll_actions() if isinstance(action, DeleteConsumer)] == names
    for name in ("o_1", "o_3"):
        engine.deleted(name)
    engine.suspend()
    engine.resume()
    assert [action.name for action in engine.poll_actions() if isinstance(action, DeleteConsumer)] == ["o_2", "o_4"]
    for _ in range(100):
        engine.suspend()
        engine.resume()
        assert len(engine.poll_actions()) <= 33  # one creation, and at most the remembered deletions


def test_the_engine_can_start_without_a_session() -> None:
    engine = OrderedEngine(cursor())
    engine.start(online=False)
    assert engine.poll_actions() == []
    engine.resume()
    assert kinds(engine.poll_actions()) == [CreateConsumer]


@pytest.mark.parametrize(
    "error",
    [
        RequestTimeoutError(),
        JetStreamUnavailableError(503, 10008),
        InsufficientResourcesError(503, 10023),
    ],
)
def test_temporary_failures_are_retried_after_growing_waits(error: RequestTimeoutError) -> None:
    engine = OrderedEngine(cursor())
    engine.start()
    now, waits = 0.0, []
    for serial in range(1, 7):
        [create] = engine.poll_actions()
        assert isinstance(create, CreateConsumer)
        engine.failed(now, f"o_{serial}", error)
        assert engine.poll_actions() == [Warn(error)]
        assert engine.retry_at is not None
        waits.append(engine.retry_at - now)
        engine.tick(engine.retry_at - 0.01)
        assert engine.poll_actions() == []
        now = engine.retry_at
        engine.tick(now)
    for wait, longest in zip(waits, [1, 2, 4, 8, 10, 10], strict=True):
        assert 0.75 * longest <= wait <= longest


def test_other_failures_end_the_engine() -> None:
    engine, _ = running()
    engine.reset()
    engine.poll_actions()
    gone = StreamNotFoundError(404, 10059)
    engine.failed(0.0, "o_2", gone)
    assert engine.poll_actions() == [OrderedEnd(gone)]
    assert engine.retry_at is None


def test_the_number_of_attempts_can_be_limited() -> None:
    engine = OrderedEngine(cursor(), max_reset_attempts=2)
    engine.start()
    engine.failed(0.0, "o_1", RequestTimeoutError())
    engine.tick(1.0)
    assert kinds(engine.poll_actions()) == [CreateConsumer, Warn, CreateConsumer]
    last = RequestTimeoutError("the last")
    engine.failed(1.0, "o_2", last)
    assert engine.poll_actions() == [DeleteConsumer("o_1"), DeleteConsumer("o_2"), OrderedEnd(last)]
    with pytest.raises(ConfigError, match="max_reset_attempts"):
        OrderedEngine(cursor(), max_reset_attempts=0)


def test_stop_ends_a_wait_at_once_and_later_consumers_are_deleted() -> None:
    engine = OrderedEngine(cursor())
    engine.start()
    engine.failed(0.0, "o_1", RequestTimeoutError())
    engine.poll_actions()
    engine.stop()
    engine.stop()
    assert engine.poll_actions() == [DeleteConsumer("o_1"), OrderedEnd(None)]
    assert engine.retry_at is None
    engine.created(info("o_1"))
    assert engine.poll_actions() == [DeleteConsumer("o_1")]
    engine.resume()
    engine.failed(0.0, "o_1", RequestTimeoutError())
    assert engine.poll_actions() == []


@pytest.mark.parametrize("error", [RequestTimeoutError(), DisconnectedError()])
def test_r14_a_consumer_that_may_exist_is_deleted_when_the_server_answers_again(error: Error) -> None:
    engine = OrderedEngine(cursor())
    engine.start()
    engine.failed(0.0, "o_1", error)
    engine.tick(1.0)
    engine.failed(1.0, "o_2", InsufficientResourcesError(503, 10023))  # this one was refused
    engine.tick(5.0)
    engine.poll_actions()
    engine.created(info("o_3"))
    assert engine.poll_actions() == [StartReading(info("o_3")), DeleteConsumer("o_1")]
    engine.stop()
    assert engine.poll_actions() == [DeleteConsumer("o_3"), OrderedEnd(None)]  # the other one is in flight


def test_r14_a_failed_deletion_is_retried_with_the_next_consumer_and_at_the_end() -> None:
    engine, _ = running()
    for number in (1, 2):
        engine.reset()
        assert [action for action in engine.poll_actions() if isinstance(action, DeleteConsumer)] == [
            DeleteConsumer(f"o_{number}")
        ]
        engine.created(info(f"o_{number + 1}"))
        assert engine.poll_actions() == [StartReading(info(f"o_{number + 1}"))]  # nobody has answered yet
    engine.delete_failed("o_1")
    engine.deleted("o_2")
    engine.delete_failed("o_2")
    engine.reset()
    assert [action for action in engine.poll_actions() if isinstance(action, DeleteConsumer)] == [DeleteConsumer("o_3")]
    engine.delete_failed("o_3")
    engine.deleted("o_3")
    engine.created(info("o_4"))
    assert engine.poll_actions() == [StartReading(info("o_4")), DeleteConsumer("o_1")]
    engine.delete_failed("o_1")
    engine.stop()
    assert engine.poll_actions() == [DeleteConsumer("o_1"), DeleteConsumer("o_4"), OrderedEnd(None)]


def test_r14_a_creation_that_times_out_after_the_end_is_cleaned_up() -> None:
    engine = OrderedEngine(cursor())
    engine.start()
    engine.stop()
    assert kinds(engine.poll_actions()) == [CreateConsumer, OrderedEnd]
    engine.failed(0.0, "o_1", StreamNotFoundError(404, 10059))
    assert engine.poll_actions() == []
    engine.failed(0.0, "o_1", RequestTimeoutError())
    assert engine.poll_actions() == [DeleteConsumer("o_1")]


def test_no_request_is_sent_without_a_session() -> None:
    engine = OrderedEngine(cursor())
    engine.start()
    engine.failed(0.0, "o_1", RequestTimeoutError())
    engine.poll_actions()
    engine.suspend()
    engine.failed(0.0, "o_1", DisconnectedError())
    engine.stop()
    assert engine.poll_actions() == [OrderedEnd(None)]


def test_an_answer_to_a_creation_of_an_earlier_session_is_ignored() -> None:
    engine = OrderedEngine(cursor())
    engine.start()
    engine.suspend()
    engine.failed(0.0, "o_1", DisconnectedError())
    engine.resume()
    engine.poll_actions()
    engine.failed(0.0, "o_1", DisconnectedError())
    engine.created(info("o_1"))
    assert engine.poll_actions() == [DeleteConsumer("o_1")]
    engine.created(info("o_2"))
    assert engine.poll_actions() == [StartReading(info("o_2"))]


def test_messages_between_two_consumers_are_not_accepted() -> None:
    engine, where = running()
    assert engine.accept([delivery(1, 1), delivery(3, 3)]) == 1
    assert not engine.reading
    assert engine.accept(deliveries(1, 3, shift=9)) == 0
    assert where.last_sequence == 1
    engine.created(info("o_2"))
    assert engine.accept(deliveries(1, 3, shift=1)) == 2


def test_r43_a_message_without_room_is_the_first_of_the_next_consumer() -> None:
    engine, _ = running()
    messages = deliveries(1, 4)
    engine.accept(messages)
    engine.suspend(messages[1])
    assert engine.accept(deliveries(4, 6)) == 0
    assert not engine.resetting
    engine.reset()
    assert engine.poll_actions() == []
    engine.resume()
    engine.resume()
    actions = engine.poll_actions()
    assert kinds(actions) == [DeleteConsumer, CreateConsumer]
    assert created_config(actions).opt_start_seq == 2


@pytest.mark.parametrize("online", [True, False])
def test_the_first_consumer_may_exist(online: bool) -> None:
    where = cursor()
    where.next_config()
    where.created(info("o_1"))
    engine = OrderedEngine(where)
    engine.start(online=online, exists=True)
    assert engine.poll_actions() == []
    assert (engine.reading, engine.resetting) == (online, False)
    engine.suspend()
    engine.resume()
    assert kinds(engine.poll_actions()) == [DeleteConsumer, CreateConsumer]


def test_the_caller_may_delete_the_last_consumer() -> None:
    engine, _ = running()
    engine.stop(delete=False)
    assert engine.poll_actions() == [OrderedEnd(None)]
    engine, _ = running()
    engine.reset()
    engine.stop(delete=False)
    assert kinds(engine.poll_actions()) == [DeleteConsumer, CreateConsumer, OrderedEnd]
    engine.created(info("o_2"))  # too late
    assert engine.poll_actions() == [DeleteConsumer("o_2")]


def test_r14_after_consumers_that_brought_nothing_the_next_one_waits() -> None:
    engine, _ = running(delay_after_idle=True)
    engine.accept(deliveries(1, 4))
    engine.reset()  # this one brought messages
    assert kinds(engine.poll_actions()) == [DeleteConsumer, CreateConsumer]
    now, waits = 10.0, []
    for serial in range(2, 8):
        engine.created(info(f"o_{serial}"))
        engine.poll_actions()
        engine.heartbeat(1, now)
        assert engine.poll_actions() == [DeleteConsumer(f"o_{serial}")]
        assert engine.resetting
        assert engine.retry_at is not None
        waits.append(engine.retry_at - now)
        now = engine.retry_at
        engine.tick(now)
        assert kinds(engine.poll_actions()) == [CreateConsumer]
    for wait, longest in zip(waits, [1, 2, 4, 8, 10, 10], strict=True):
        assert 0.75 * longest <= wait <= longest
    engine.suspend()
    engine.resume()  # in a new session the next one is created at once
    assert CreateConsumer in kinds(engine.poll_actions())
    engine.created(info("o_9"))
    engine.reset(now)
    assert engine.retry_at is not None
    assert engine.retry_at - now <= 1


def test_after_three_consumers_that_brought_nothing_every_reader_waits_before_the_next_one() -> None:
    engine, _ = running()
    now, waits = 10.0, []
    for serial in range(1, 7):
        if serial > 1:
            engine.created(info(f"o_{serial}"))
            engine.poll_actions()
        engine.accept(deliveries(2, 3), now)  # the first message is missing each time
        if engine.retry_at is not None:
            waits.append(engine.retry_at - now)
            now = engine.retry_at
            engine.tick(now)
        assert CreateConsumer in kinds(engine.poll_actions())
    assert len(waits) == 3
    assert waits[0] >= 0.75
    assert waits[-1] > waits[0]
