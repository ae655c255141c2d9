"""Bounds of what a server may repeat: lines of the handshake, events, PINGs, control frames of one call."""

from __future__ import annotations

import pytest

from jetspark.errors import ProtocolError
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.events import EventQueue, LameDuck
from jetspark.wire.frames import Info, Ok
from jetspark.wire.options import ConnectOptions, ServerAddress
from jetspark.wire.outbound import Outbound
from jetspark.wire.session import open_session


def test_a_handshake_has_few_lines() -> None:
    conversation = open_session(ConnectOptions(), ServerAddress("h"))
    next(conversation)
    conversation.send(Info(b'{"headers":true}'))
    next(conversation)
    for _ in range(99):
        conversation.send(Ok())
    with pytest.raises(ProtocolError, match="100 lines and has not accepted"):
        conversation.send(Ok())


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
    client = ConnectionState(ConnectOptions(), lambda event: None)
    reader = client.begin_handshake()
    assert client.handshake_frames is not None
    assert reader.feed(b"+OK\r\n" * 600)
    assert len(client.handshake_frames) == 256
    assert reader.feed(b"")
    assert not reader.feed(b"")
    assert len(client.handshake_frames) == 600
