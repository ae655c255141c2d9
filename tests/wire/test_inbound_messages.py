"""The read loop delivers many messages of one subscription, in order, and wakes its reader once."""

from __future__ import annotations

import pytest

from jetspark.wire.inbound import Inbound
from jetspark.wire.subscriptions import SubscriptionState

STEPS = (1, 7, 23, 10_000)


def frames_of(count: int) -> bytes:
    return b"".join(b"MSG s.a 1 r.%d %d\r\n%d\r\n" % (each, len(b"%d" % each), each) for each in range(count))


def reading(sub: SubscriptionState) -> Inbound:
    return Inbound({b"1": sub}, on_control=print, on_full=lambda _: True, on_last_message=print)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("unlimited", [True, False])
def test_each_message_is_delivered_with_its_reply(step: int, *, unlimited: bool) -> None:
    sub = SubscriptionState(1, b"s.*", pending_msgs_limit=1_000, pending_bytes_limit=1_000)
    sub.unlimited = unlimited
    inbound, data = reading(sub), frames_of(120)
    for at in range(0, len(data), step):
        inbound.feed(data[at : at + step])
    assert [(each.payload, each.reply, each.raw_header) for each in sub.pending] == [
        (b"%d" % number, f"r.{number}", b"") for number in range(120)
    ]
    assert (sub.received, sub.received_bytes) == (120, sum(len(b"%d" % number) for number in range(120)))


def test_a_waiting_reader_is_woken_once_for_all_messages_of_a_read() -> None:
    sub = SubscriptionState(1, b"s.*", pending_msgs_limit=100, pending_bytes_limit=100)
    woken: list[int] = []
    sub.wake = lambda: woken.append(len(sub.pending))
    sub.waiting = True
    inbound = reading(sub)
    inbound.feed(frames_of(3))
    inbound.feed(frames_of(2))
    assert (woken, sub.waiting) == ([3], False)
