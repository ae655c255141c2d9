"""The read loop picks out statuses, each in order among the messages, and other handling of a subscription."""

from __future__ import annotations

import pytest

from jetspark.wire.errors import ProtocolError
from jetspark.wire.frames import Control, FrameLimits, Info
from jetspark.wire.inbound import Inbound
from jetspark.wire.messages import Message
from jetspark.wire.subscriptions import SubscriptionState

DATA = b"MSG s.a 1 $JS.ACK.1 1\r\n%b\r\n"
WITH_HEADERS = b"HMSG s.a 1 $JS.ACK.1 18 19\r\nNATS/1.0\r\nA: 1\r\n\r\n%b\r\n"
ONLY_HEADERS = b"HMSG s.a 1 $JS.ACK.1 18 18\r\nNATS/1.0\r\nA: 1\r\n\r\n\r\n"
STATUS = b"HMSG inbox.7 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"
EMPTY = b"MSG s.a 1 $JS.ACK.1 0\r\n\r\n"


def reading(sub: SubscriptionState) -> Inbound:
    return Inbound({b"1": sub}, on_control=print, on_full=lambda _: True, on_last_message=print)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_status_is_handled_in_order_and_is_not_a_message(step: int) -> None:
    sub = SubscriptionState(1, b"inbox.*")
    seen: list[tuple[int, str]] = []

    def on_status(message: Message) -> bool:
        assert message.raw_header
        assert not message.payload
        if message.status is None:
            return False
        seen.append((len(sub.pending), message.subject))
        return True

    sub.on_status = on_status
    inbound = reading(sub)
    stream = DATA % b"1" + STATUS + WITH_HEADERS % b"2" + ONLY_HEADERS + EMPTY + STATUS + DATA % b"3"
    for at in range(0, len(stream), step):
        inbound.feed(stream[at : at + step])
    assert seen == [(1, "inbox.7"), (4, "inbox.7")]
    assert [message.payload for message in sub.pending] == [b"1", b"2", b"", b"", b"3"]
    assert sub.received == 7


def test_statuses_are_messages_without_a_status_handler() -> None:
    sub = SubscriptionState(1, b"inbox.*")
    reading(sub).feed(STATUS + DATA % b"1")
    assert [message.status is None for message in sub.pending] == [False, True]


def test_a_status_handler_can_remove_the_subscription() -> None:
    """The subscription may be removed during a read; later messages are dropped."""
    sub = SubscriptionState(1, b"inbox.*")
    table = {b"1": sub}
    sub.on_status = lambda _: table.pop(b"1") is sub
    Inbound(table, on_control=print, on_full=lambda _: True, on_last_message=print).feed(
        DATA % b"1" + STATUS + DATA % b"2"
    )
    assert [message.payload for message in sub.pending] == [b"1"]


def test_a_line_feed_at_the_very_start_is_refused_at_once() -> None:
    with pytest.raises(ProtocolError, match="a line ends with LF instead of CR LF"):
        reading(SubscriptionState(1, b"s.*")).feed(b"\nPING\r\n")


def test_discarded_messages_count_as_taken() -> None:
    woken: list[str] = []
    sub = SubscriptionState(1, b"s.*", pending_msgs_limit=2, pending_bytes_limit=2)
    reading(sub).feed(DATA % b"1" + DATA % b"2")
    assert (sub.pending_bytes, sub.full, sub.below_resume_level) == (2, True, False)
    sub.wake = lambda: woken.append("woken")
    sub.discard_pending()
    assert (sub.pending_bytes, sub.full, sub.below_resume_level, woken) == (0, False, True, ["woken"])


def test_a_control_line_at_the_limit_is_read_and_a_longer_one_is_refused() -> None:
    def reader() -> Inbound:
        limits, table = FrameLimits(line=20), dict[bytes, SubscriptionState]()
        return Inbound(table, on_control=seen.append, on_full=lambda _: True, on_last_message=print, limits=limits)

    seen: list[Control] = []
    reader().feed(b"INFO " + b"x" * 15 + b"\r\n")
    assert seen == [Info(b"x" * 15)]
    with pytest.raises(ProtocolError, match="longer than 20 bytes"):
        reader().feed(b"INFO " + b"x" * 16 + b"\r\n")
