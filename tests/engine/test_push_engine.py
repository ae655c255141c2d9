"""The push engine, a batch at a time: gaps, statuses, flow control and silence."""

from __future__ import annotations

import pytest

from jetspark.engine.push import (
    Action,
    Deliver,
    FlowControl,
    FlowControlRequest,
    GapDetector,
    HeartbeatMonitor,
    PushEngine,
    ReportError,
)
from jetspark.errors import (
    ConfigError,
    ConsumerDeletedError,
    ConsumerSequenceMismatchError,
    InvalidAckError,
    StatusError,
)
from jetspark.wire.messages import Message

PREFIXES = {"v1": "$JS.ACK.S.c", "v2": "$JS.ACK.hub.hash.S.c"}


def data(sequence: int, form: str = "v1", suffix: str = "") -> Message:
    """Return a delivery with this consumer sequence; its stream sequence is ten times that."""
    reply = f"{PREFIXES[form]}.1.{sequence * 10}.{sequence}.1662856107340506000.0{suffix}"
    return Message(b"a", reply.encode(), b"", b"%d" % sequence, None)


def status(line: str, reply: str = "", **headers: str) -> Message:
    named = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in headers.items())
    return Message(b"inbox", reply.encode(), f"NATS/1.0 {line}\r\n{named}\r\n".encode(), b"", None)


def beat(last: int, **headers: str) -> Message:
    return status("100 Idle Heartbeat", Nats_Last_Consumer=str(last), **headers)


def engine(baseline: int | None = 0) -> PushEngine:
    return PushEngine("consumer c", gaps=GapDetector(baseline))


def actions_after(engine: PushEngine, message: Message) -> list[Action]:
    assert message.status is not None
    return engine.receive_status(message, message.status)


def delivered(actions: list[Action]) -> list[int]:
    return [int(message.payload) for action in actions if isinstance(action, Deliver) for message in action.messages]


def alerts(actions: list[Action]) -> list[Exception]:
    return [action.error for action in actions if isinstance(action, ReportError)]


# -- gaps --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "suffix"), [("v1", ""), ("v2", ""), ("v2", ".more"), ("v2", ".more.tokens")])
def test_consecutive_deliveries_are_passed_on_unchanged(form: str, suffix: str) -> None:
    batch = [data(number, form, suffix) for number in range(1, 5)]
    [action] = engine().receive(batch)
    assert isinstance(action, Deliver)
    assert action.messages is batch


def test_a_gap_is_reported_once_with_the_expected_sequence_and_delivery_continues() -> None:
    push = engine()
    push.receive([data(1)])
    actions = push.receive([data(2), data(5), data(6)])
    assert delivered(actions) == [2, 5, 6]
    [error] = alerts(actions)
    assert isinstance(error, ConsumerSequenceMismatchError)
    assert (error.expected, error.got, error.stream_sequence) == (3, 5, 20)
    assert alerts(push.receive([data(7)])) == []


def test_several_gaps_in_a_batch_are_reported_one_by_one() -> None:
    actions = engine().receive([data(2), data(3), data(7)])
    assert delivered(actions) == [2, 3, 7]
    assert [(error.expected, error.got) for error in alerts(actions)] == [(1, 2), (4, 7)]  # type: ignore[attr-defined]


def test_the_first_delivery_is_the_baseline_if_none_is_known() -> None:
    push = engine(None)
    assert alerts(push.receive([data(41), data(42)])) == []
    assert len(alerts(push.receive([data(44)]))) == 1


def test_a_heartbeat_is_the_baseline_if_none_is_known() -> None:
    push = engine(None)
    assert actions_after(push, beat(41)) == []
    assert len(alerts(push.receive([data(43)]))) == 1


def test_a_heartbeat_with_a_higher_sequence_is_a_gap_and_reported_once() -> None:
    push = engine()
    push.receive([data(1), data(2)])
    [error] = alerts(actions_after(push, beat(4)))
    assert isinstance(error, ConsumerSequenceMismatchError)
    assert (error.expected, error.got, error.stream_sequence) == (3, 4, 20)
    assert actions_after(push, beat(4)) == []
    assert alerts(push.receive([data(5)])) == []


def test_a_heartbeat_with_a_lower_sequence_resets_the_baseline_silently() -> None:
    push = engine()
    push.receive([data(1), data(2), data(3)])
    assert actions_after(push, beat(2)) == []
    assert alerts(push.receive([data(3)])) == []


@pytest.mark.parametrize("last", ["", "x", "-1"])
def test_a_heartbeat_without_a_sequence_does_not_affect_gaps(last: str) -> None:
    assert actions_after(engine(), status("100 Idle Heartbeat", Nats_Last_Consumer=last)) == []


@pytest.mark.parametrize(
    "reply", [b"", b"somewhere", b"$JS.ACK.S.c.1.10", b"$JS.ACK.S.c.1.20.x.1.0", b"$JS.ACK.S.c.1.20"]
)
def test_a_message_without_ack_subject_is_reported_and_not_passed_on(reply: bytes) -> None:
    push = engine()
    push.receive([data(1)])
    actions = push.receive([data(2), Message(b"a", reply, b"", b"0", None), data(3)])
    assert delivered(actions) == [2, 3]
    [error] = alerts(actions)
    assert isinstance(error, InvalidAckError)


def test_without_gap_detection_every_message_is_passed_on() -> None:
    push = PushEngine("c", control=False)
    assert delivered(push.receive([data(3), data(1)])) == [3, 1]
    assert actions_after(push, beat(9)) == []
    assert actions_after(push, status("100 FlowControl Request", "fc")) == []
    assert push.receive([]) == []


# -- statuses ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "kind"),
    [("409 Consumer Deleted", ConsumerDeletedError), ("404 No Messages", StatusError), ("499", StatusError)],
)
def test_every_other_status_is_reported(line: str, kind: type[StatusError]) -> None:
    [error] = alerts(actions_after(engine(), status(line)))
    assert isinstance(error, kind)
    assert "consumer c" in str(error)


def test_flow_control_is_requested_by_request_or_by_heartbeat() -> None:
    push = engine()
    assert actions_after(push, status("100 FlowControl Request", "$JS.FC.S.c.x")) == [
        FlowControlRequest(b"$JS.FC.S.c.x")
    ]
    assert actions_after(push, status("100 FlowControl Request")) == []
    assert actions_after(push, beat(0, Nats_Consumer_Stalled="$JS.FC.y")) == [FlowControlRequest(b"$JS.FC.y")]


# -- flow control ------------------------------------------------------------------------------------------------------


def test_a_reply_is_due_when_every_earlier_message_is_consumed() -> None:
    flow = FlowControl()
    flow.request(b"a", 3)
    assert flow.next_due == 3
    assert flow.due(2) == []
    assert flow.due(3) == [b"a"]
    assert flow.due(9) == []
    assert flow.next_due is None


def test_each_request_is_answered_once_even_if_repeated() -> None:
    flow = FlowControl()
    for received in (3, 5):
        flow.request(b"a", received)
    assert flow.due(3) == [b"a"]
    flow.request(b"a", 5)
    assert flow.due(9) == []
    flow.request(b"b", 9)
    assert flow.due(9) == [b"b"]


def test_replies_that_may_be_lost_with_the_session_are_sent_again() -> None:
    flow = FlowControl()
    flow.request(b"a", 0)
    assert flow.due(0) == [b"a"]
    flow.disconnected()
    flow.request(b"a", 0)
    assert flow.due(0) == [b"a"]
    flow.request(b"b", 4)
    flow.disconnected()
    flow.request(b"b", 6)
    assert flow.due(4) == [b"b"]
    assert flow.due(6) == []


def test_requests_of_a_replaced_consumer_are_not_answered() -> None:
    flow = FlowControl()
    flow.request(b"a", 1)
    flow.clear()
    assert (flow.due(9), flow.next_due) == ([], None)


# -- silence -----------------------------------------------------------------------------------------------------------


def test_a_warning_comes_after_three_intervals_and_again_after_three_more() -> None:
    monitor = HeartbeatMonitor(0.5)
    assert not monitor.check(99.0)
    monitor.resume(10.0)
    assert (monitor.due, monitor.check(11.4)) == (11.5, False)
    assert monitor.check(11.5)
    assert (monitor.check(12.9), monitor.check(13.0)) == (False, True)


def test_a_sign_of_life_resets_the_timer_and_a_pause_stops_it() -> None:
    monitor = HeartbeatMonitor(1.0, 2.0)
    monitor.record_activity(5.0)
    monitor.resume(0.0)
    monitor.record_activity(1.5)
    assert (monitor.check(2.0), monitor.due) == (False, 3.5)
    monitor.pause()
    assert not monitor.check(99.0)
    assert monitor.due is None


def test_a_factor_below_one_is_refused() -> None:
    with pytest.raises(ConfigError):
        HeartbeatMonitor(1.0, 0.5)
