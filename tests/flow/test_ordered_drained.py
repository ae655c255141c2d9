"""Ordered consumers without a server that read to the end of their stream only."""

from __future__ import annotations

from tests.flow.ordered_play import cursor, delivery, info, running

from jetspark.errors import (
    DisconnectedError,
    PermissionsViolationError,
    RequestTimeoutError,
)
from jetspark.flow.ordered import (
    AskLeader,
    Delete,
    LookUp,
    OrderedEnd,
    OrderedFlow,
    Read,
    Warn,
)

ENDED = [Delete("o_1"), OrderedEnd(None)]


def test_an_empty_stream_is_drained_as_soon_as_the_leader_says_so() -> None:
    flow = OrderedFlow(cursor(), until_drained=True)
    flow.start()
    flow.take()
    flow.created(info("o_1", pending=0))
    assert flow.take() == [Read("o_1"), AskLeader((">",))]
    flow.leader_has(0)
    assert flow.take() == ENDED


def test_it_ends_with_the_last_pending_message() -> None:
    flow, _ = running(until_drained=True, pending=3, filter_subjects=["a", "b"])
    assert flow.accept([delivery(1, 1, 2), delivery(2, 2, 1)]) == 2
    assert flow.take() == []
    assert flow.accept([delivery(3, 3, 0)]) == 1
    assert flow.take() == [AskLeader(("a", "b"))]
    flow.accept([delivery(4, 4, 0)])  # what comes meanwhile does not keep it from ending
    flow.looked_up(info("o_1", pending=0, consumer_seq=4))  # the answer takes its time
    assert flow.take() == []  # it is asked once
    flow.leader_has(3)
    assert flow.take() == ENDED
    flow.leader_has(9)
    flow.looked_up(info("o_1", pending=0, consumer_seq=4))
    assert flow.take() == []


def test_it_reads_on_to_what_the_leader_had_before_a_replica_that_lags_behind() -> None:
    flow, _ = running(until_drained=True, pending=1, filter_subject="a")
    flow.accept([delivery(1, 1, 0)])
    assert flow.take() == [AskLeader(("a",))]
    flow.leader_has(3)
    flow.accept([delivery(2, 2, 0)])
    assert flow.take() == []  # it is known what is missing
    flow.accept([delivery(3, 3, 5)])  # more has been written since
    assert flow.take() == ENDED


def test_what_the_leader_had_may_be_gone_before_it_came() -> None:
    flow, _ = running(until_drained=True, pending=1)
    flow.accept([delivery(1, 1, 0)])
    flow.leader_has(3)
    flow.take()
    flow.heartbeat(1)
    flow.looked_up(info("o_1", pending=0, consumer_seq=1))
    assert flow.take() == [LookUp("o_1"), AskLeader((">",))]
    flow.leader_has(1)
    assert flow.take() == ENDED


def test_a_start_behind_all_there_is_has_nothing_to_read() -> None:
    flow = OrderedFlow(cursor(deliver_policy="by_start_sequence", opt_start_seq=9), until_drained=True)
    flow.start()
    flow.created(info("o_1", pending=0, stream_seq=8))
    flow.take()
    flow.leader_has(8)
    assert flow.take() == ENDED


def test_a_consumer_is_believed_where_the_leader_cannot_be_asked() -> None:
    flow, _ = running(until_drained=True, pending=1)
    flow.accept([delivery(1, 1, 0)])
    flow.take()
    for _ in range(5):
        flow.leader_failed(DisconnectedError("no session"))  # it will be asked anew
    silent = RequestTimeoutError("no answer")
    flow.leader_failed(silent)
    flow.leader_failed(silent)
    assert flow.take() == []
    flow.leader_failed(silent)
    assert flow.take() == [Warn(silent), *ENDED]


def test_a_leader_that_may_not_be_asked_is_not_asked_again() -> None:
    flow, _ = running(until_drained=True, pending=1)
    flow.accept([delivery(1, 1, 0)])
    flow.take()
    refused = PermissionsViolationError("no")
    flow.leader_failed(refused)
    assert flow.take() == [Warn(refused), *ENDED]


def test_where_less_came_than_was_there_the_server_is_asked() -> None:
    flow, _ = running(until_drained=True, pending=5)
    flow.accept([delivery(1, 1, 0)])
    assert flow.take() == [LookUp("o_1")]
    flow.looked_up(info("o_1", pending=2, consumer_seq=1))
    assert flow.take() == []
    flow.looked_up(info("another", pending=0, consumer_seq=1))
    assert flow.take() == []
    flow.looked_up(info("o_1", pending=0, consumer_seq=1))
    assert flow.take() == [AskLeader((">",))]


def test_silence_makes_it_look_whether_what_was_pending_is_gone() -> None:
    flow, _ = running(until_drained=True, pending=5)
    flow.accept([delivery(1, 1, 4)])
    flow.heartbeat(1)
    assert flow.take() == [LookUp("o_1")]
    flow.looked_up(info("o_1", pending=0, consumer_seq=2))  # one is still under way
    assert flow.take() == []
    flow.accept([delivery(2, 2, 0)])
    assert flow.take() == [AskLeader((">",))]
