"""The queue of frames to send, while there is a session and while there is none."""

from __future__ import annotations

from jetspark.wire.outbound import Outbound


def test_a_command_is_dropped_without_a_session() -> None:
    outbound = Outbound(1_000)
    outbound.queue_command(b"SUB a 1\r\n")
    assert (list(outbound.chunks), outbound.size) == ([], 0)
    outbound.begin_session(b"")
    outbound.queue_command(b"")
    assert list(outbound.chunks) == []
    outbound.queue_command(b"SUB a 1\r\n")
    assert outbound.take_all() == b"SUB a 1\r\n"
