"""Ordered consumers without a server that read to the end of their stream only."""

from __future__ import annotations

from tests.engine.ordered_play import cursor, delivery, info, running

from jetspark.engine.ordered import (
    DeleteConsumer,
    GetConsumerInfo,
    GetLastSequence,
    OrderedEnd,
    OrderedEngine,
    StartPulling,
    Warn,
)
from jetspark.errors import (
    DisconnectedError,
    PermissionsViolationError,
    RequestTimeoutError,
)

ENDED = [DeleteConsumer("o_1"), OrderedEnd(None)]


def test_an_empty_stream_is_drained_as_soon_as_the_leader_says_so() -> None:
    flow = OrderedEngine(cursor(), until_caught_up=True)
    flow.start()
    flow.poll_actions()
    flow.created(info("o_1", pending=0))
    assert flow.poll_actions() == [StartPulling("o_1"), GetLastSequence((">",))]
    flow.last_sequence_received(0)
    assert flow.poll_actions() == ENDED


def test_it_ends_with_the_last_pending_message() -> None:
    flow, _ = running(until_caught_up=True, pending=3, filter_subjects=["a", "b"])
    assert flow.accept([delivery(1, 1, 2), delivery(2, 2, 1)]) == 2
    assert flow.poll_actions() == []
    assert flow.accept([delivery(3, 3, 0)]) == 1
    assert flow.poll_actions() == [GetLastSequence(("a", "b"))]
    flow.accept([delivery(4, 4, 0)])  # what comes meanwhile does not keep it from ending
    flow.info_received(info("o_1", pending=0, consumer_seq=4))  # the answer takes its time
    assert flow.poll_actions() == []  # it is asked once
    flow.last_sequence_received(3)
    assert flow.poll_actions() == ENDED
    flow.last_sequence_received(9)
    flow.info_received(info("o_1", pending=0, consumer_seq=4))
    assert flow.poll_actions() == []


def test_it_reads_on_to_what_the_leader_had_before_a_replica_that_lags_behind() -> None:
    flow, _ = running(until_caught_up=True, pending=1, filter_subject="a")
    flow.accept([delivery(1, 1, 0)])
    assert flow.poll_actions() == [GetLastSequence(("a",))]
    flow.last_sequence_received(3)
    flow.accept([delivery(2, 2, 0)])
    assert flow.poll_actions() == []  # it is known what is missing
    flow.accept([delivery(3, 3, 5)])  # more has been written since
    assert flow.poll_actions() == ENDED


def test_what_the_leader_had_may_be_gone_before_it_came() -> None:
    flow, _ = running(until_caught_up=True, pending=1)
    flow.accept([delivery(1, 1, 0)])
    flow.last_sequence_received(3)
    flow.poll_actions()
    flow.heartbeat(1)
    flow.info_received(info("o_1", pending=0, consumer_seq=1))
    assert flow.poll_actions() == [GetConsumerInfo("o_1"), GetLastSequence((">",))]
    flow.last_sequence_received(1)
    assert flow.poll_actions() == ENDED


def test_a_start_behind_all_there_is_has_nothing_to_read() -> None:
    flow = OrderedEngine(cursor(deliver_policy="by_start_sequence", opt_start_seq=9), until_caught_up=True)
    flow.start()
    flow.created(info("o_1", pending=0, stream_seq=8))
    flow.poll_actions()
    flow.last_sequence_received(8)
    assert flow.poll_actions() == ENDED


def test_a_consumer_is_believed_where_the_leader_cannot_be_asked() -> None:
    flow, _ = running(until_caught_up=True, pending=1)
    flow.accept([delivery(1, 1, 0)])
    flow.poll_actions()
    for _ in range(5):
        flow.last_sequence_failed(DisconnectedError("no session"))  # it will be asked anew
    silent = RequestTimeoutError("no answer")
    flow.last_sequence_failed(silent)
    flow.last_sequence_failed(silent)
    assert flow.poll_actions() == []
    flow.last_sequence_failed(silent)
    assert flow.poll_actions() == [Warn(silent), *ENDED]


def test_a_leader_that_may_not_be_asked_is_not_asked_again() -> None:
    flow, _ = running(until_caught_up=True, pending=1)
    flow.accept([delivery(1, 1, 0)])
    flow.poll_actions()
    refused = PermissionsViolationError("no")
    flow.last_sequence_failed(refused)
    assert flow.poll_actions() == [Warn(refused), *ENDED]


def test_where_less_came_than_was_there_the_server_is_asked() -> None:
    flow, _ = running(until_caught_up=True, pending=5)
    flow.accept([delivery(1, 1, 0)])
    assert flow.poll_actions() == [GetConsumerInfo("o_1")]
    flow.info_received(info("o_1", pending=2, consumer_seq=1))
    assert flow.poll_actions() == []
    flow.info_received(info("another", pending=0, consumer_seq=1))
    assert flow.poll_actions() == []
    flow.info_received(info("o_1", pending=0, consumer_seq=1))
    assert flow.poll_actions() == [GetLastSequence((">",))]


def test_silence_makes_it_look_whether_what_was_pending_is_gone() -> None:
    flow, _ = running(until_caught_up=True, pending=5)
    flow.accept([delivery(1, 1, 4)])
    flow.heartbeat(1)
    assert flow.poll_actions() == [GetConsumerInfo("o_1")]
    flow.info_received(info("o_1", pending=0, consumer_seq=2))  # one is still under way
    assert flow.poll_actions() == []
    flow.accept([delivery(2, 2, 0)])
    assert flow.poll_actions() == [GetLastSequence((">",))]
