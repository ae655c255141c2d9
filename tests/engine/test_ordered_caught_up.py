"""Ordered consumers without a server: when they have caught up with their stream."""

from __future__ import annotations

from tests.engine.ordered_play import cursor, delivery, info, running

from jetspark.engine.catch_up import LeaderCatchUp
from jetspark.engine.ordered import OrderedEngine
from jetspark.engine.ordered_actions import (
    CaughtUp,
    GetConsumerInfo,
    GetLastSequence,
    StartReading,
    Warn,
)
from jetspark.errors import (
    DisconnectedError,
    PermissionsViolationError,
    RequestTimeoutError,
)


def test_the_reader_of_an_empty_stream_has_caught_up_when_the_leader_answers() -> None:
    where = cursor()
    engine = OrderedEngine(where, catch_up=LeaderCatchUp(where))
    engine.start()
    engine.poll_actions()
    engine.created(info("o_1", pending=0))
    assert engine.poll_actions() == [StartReading(info("o_1", pending=0)), GetLastSequence((">",))]
    engine.last_sequence_received(0)
    assert engine.poll_actions() == [CaughtUp()]


def test_the_reader_has_caught_up_with_the_last_pending_message() -> None:
    engine, _ = running(report_caught_up=True, pending=3, filter_subjects=["a", "b"])
    assert engine.accept([delivery(1, 1, 2), delivery(2, 2, 1)]) == 2
    assert engine.poll_actions() == []
    assert engine.accept([delivery(3, 3, 0)]) == 1
    assert engine.poll_actions() == [GetLastSequence(("a", "b"))]
    engine.accept([delivery(4, 4, 0)])  # later messages do not delay the report
    engine.info_received(info("o_1", pending=0, consumer_sequence=4))  # the answer is late
    assert engine.poll_actions() == []  # the request is sent once
    engine.last_sequence_received(3)
    assert engine.poll_actions() == [CaughtUp()]
    engine.last_sequence_received(9)
    engine.info_received(info("o_1", pending=0, consumer_sequence=4))
    assert engine.poll_actions() == []


def test_the_read_continues_to_the_last_message_of_the_leader_on_a_lagging_replica() -> None:
    engine, _ = running(report_caught_up=True, pending=1, filter_subject="a")
    engine.accept([delivery(1, 1, 0)])
    assert engine.poll_actions() == [GetLastSequence(("a",))]
    engine.last_sequence_received(3)
    engine.accept([delivery(2, 2, 0)])
    assert engine.poll_actions() == []  # the engine knows which messages are missing
    engine.accept([delivery(3, 3, 5)])  # more has been written since
    assert engine.poll_actions() == [CaughtUp()]


def test_messages_of_the_leader_may_be_deleted_before_they_are_delivered() -> None:
    engine, _ = running(report_caught_up=True, pending=1)
    engine.accept([delivery(1, 1, 0)])
    engine.last_sequence_received(3)
    engine.poll_actions()
    engine.heartbeat(1)
    engine.info_received(info("o_1", pending=0, consumer_sequence=1))
    assert engine.poll_actions() == [GetConsumerInfo("o_1"), GetLastSequence((">",))]
    engine.last_sequence_received(1)
    assert engine.poll_actions() == [CaughtUp()]


def test_a_start_after_the_last_message_has_nothing_to_read() -> None:
    where = cursor(deliver_policy="by_start_sequence", opt_start_seq=9)
    engine = OrderedEngine(where, catch_up=LeaderCatchUp(where))
    engine.start()
    engine.created(info("o_1", pending=0, stream_sequence=8))
    engine.poll_actions()
    engine.last_sequence_received(8)
    assert engine.poll_actions() == [CaughtUp()]


def test_the_consumer_decides_if_the_leader_cannot_be_asked() -> None:
    engine, _ = running(report_caught_up=True, pending=1)
    engine.accept([delivery(1, 1, 0)])
    engine.poll_actions()
    for _ in range(5):
        engine.last_sequence_failed(DisconnectedError("no session"))  # the request will be repeated
    silent = RequestTimeoutError("no answer")
    engine.last_sequence_failed(silent)
    engine.last_sequence_failed(silent)
    assert engine.poll_actions() == []
    engine.last_sequence_failed(silent)
    assert engine.poll_actions() == [Warn(silent), CaughtUp()]


def test_a_leader_that_may_not_be_asked_is_not_asked_again() -> None:
    engine, _ = running(report_caught_up=True, pending=1)
    engine.accept([delivery(1, 1, 0)])
    engine.poll_actions()
    refused = PermissionsViolationError("no")
    engine.last_sequence_failed(refused)
    assert engine.poll_actions() == [Warn(refused), CaughtUp()]


def test_the_server_is_asked_if_fewer_messages_came_than_were_pending() -> None:
    engine, _ = running(report_caught_up=True, pending=5)
    engine.accept([delivery(1, 1, 0)])
    assert engine.poll_actions() == [GetConsumerInfo("o_1")]
    engine.info_received(info("o_1", pending=2, consumer_sequence=1))
    assert engine.poll_actions() == []
    engine.info_received(info("another", pending=0, consumer_sequence=1))
    assert engine.poll_actions() == []
    engine.info_received(info("o_1", pending=0, consumer_sequence=1))
    assert engine.poll_actions() == [GetLastSequence((">",))]


def test_silence_causes_a_check_whether_pending_messages_are_gone() -> None:
    engine, _ = running(report_caught_up=True, pending=5)
    engine.accept([delivery(1, 1, 4)])
    engine.heartbeat(1)
    assert engine.poll_actions() == [GetConsumerInfo("o_1")]
    engine.info_received(info("o_1", pending=0, consumer_sequence=2))  # one message is still in flight
    assert engine.poll_actions() == []
    engine.accept([delivery(2, 2, 0)])
    assert engine.poll_actions() == [GetLastSequence((">",))]


def test_the_report_comes_once_and_the_reading_continues() -> None:
    engine, where = running(report_caught_up=True, pending=1)
    engine.accept([delivery(1, 1, 0)])
    engine.last_sequence_received(1)
    assert engine.poll_actions() == [GetLastSequence((">",)), CaughtUp()]
    assert engine.accept([delivery(2, 2, 0)]) == 1
    engine.heartbeat(2)
    engine.info_received(info("o_1", pending=0, consumer_sequence=2))
    assert engine.poll_actions() == []
    assert where.last_sequence == 2
    assert engine.reading


def test_messages_that_a_push_consumer_sent_before_the_answer_count_as_pending() -> None:
    where = cursor()
    where.next_config()
    where.created(info("o_1", pending=1, consumer_sequence=1, stream_sequence=7))
    engine = OrderedEngine(where, catch_up=LeaderCatchUp(where))
    engine.start(exists=True)
    engine.accept([delivery(1, 7, 1)])
    assert engine.poll_actions() == []
    engine.accept([delivery(2, 8, 0)])
    assert engine.poll_actions() == [GetLastSequence((">",))]
    engine.last_sequence_received(8)
    assert engine.poll_actions() == [CaughtUp()]


def test_the_leader_is_asked_at_once_if_an_existing_consumer_has_nothing_pending() -> None:
    where = cursor()
    where.next_config()
    where.created(info("o_1", pending=0))
    engine = OrderedEngine(where, catch_up=LeaderCatchUp(where))
    engine.start(exists=True)
    assert engine.poll_actions() == [GetLastSequence((">",))]
