"""Bounds of what a server may repeat: lines of the handshake, events, PINGs, control frames of one call."""

from __future__ import annotations

import random

import pytest

from jetspark.errors import ProtocolError
from jetspark.wire.events import EventQueue, LameDuck
from jetspark.wire.frames import Control
from jetspark.wire.inbound import Inbound
from jetspark.wire.options import ConnectOptions, ServerAddress
from jetspark.wire.outbound import Outbound
from jetspark.wire.server_pool import ServerPool
from jetspark.wire.session import open_session


def test_a_handshake_has_few_frames() -> None:
    pool = ServerPool(ConnectOptions(), random.Random(1))
    conversation = open_session(ConnectOptions(), pool, pool.servers[0])
    next(conversation)
    conversation.send(b'INFO {"headers":true}\r\n')
    next(conversation)
    with pytest.raises(ProtocolError, match="1000 frames came after CONNECT"):
        conversation.send(b"+OK\r\n" * 1001)


def test_news_of_servers_that_nobody_takes_are_dropped() -> None:
    queue = EventQueue(max_errors=10)
    for port in range(100):
        queue.put(LameDuck(ServerAddress("h", port)))
    assert (len(queue), queue.dropped) == (10, 90)
    assert queue.take() == LameDuck(ServerAddress("h", 90))


def test_few_pongs_wait_and_more_follow_when_they_were_sent() -> None:
    outbound = Outbound(0)
    outbound.begin_session(b"")
    for _ in range(3):
        for _ in range(100):
            outbound.queue_pong()
        assert outbound.take_all() == b"PONG\r\n" * 16


def test_one_call_of_the_reader_reads_few_control_frames() -> None:
    found: list[Control] = []
    reader = Inbound({}, on_control=found.append, on_full=lambda sub: True, on_last_message=lambda sub: None)
    assert reader.feed(b"+OK\r\n" * 600)
    assert len(found) == 256
    assert reader.feed(b"")
    assert not reader.feed(b"")
    assert len(found) == 600
