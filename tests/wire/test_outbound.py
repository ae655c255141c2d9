"""The queue of frames to send, while there is a session and while there is none."""

from __future__ import annotations

import pytest

from jetspark.errors import (
    BadSubjectError,
    ConnectionClosedError,
    DisconnectedError,
    MaxPayloadError,
    OutboundBufferLimitError,
)
from jetspark.wire.headers import Headers
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


def test_only_the_withdrawn_frames_are_removed_and_marks_stay_valid() -> None:
    outbound = Outbound(1000)
    frames = [outbound.encode("a", b"same", "", None) for _ in range(4)]
    for frame in frames:
        outbound.queue_publish(frame)
    size, mark = outbound.size, outbound.publish_count
    outbound.withdraw(frames[1:3])
    assert outbound.size == size - len(frames[1]) - len(frames[2])
    assert outbound.publish_count == mark == 4
    outbound.withdraw([bytes(bytearray(frames[0]))])  # equal, but another object
    outbound.begin_session(b"")
    assert outbound.take_all() == frames[0] + frames[3]
    outbound.withdraw(frames)
    assert (outbound.size, outbound.taken_publishes) == (0, 4)


def test_an_acknowledgement_goes_to_the_exact_reply_subject() -> None:
    outbound = Outbound(40)
    frame = b"PUB $JS.ACK.x 4\r\n+ACK\r\n"
    assert outbound.encode_ack(b"$JS.ACK.x", b"+ACK") == frame
    assert outbound.queue_ack(b"$JS.ACK.x", b"+ACK") == len(frame)
    with pytest.raises(OutboundBufferLimitError):
        outbound.queue_ack(b"$JS.ACK.y", b"+ACK")  # there is no session
    outbound.online = True
    assert outbound.queue_ack(b"$JS.ACK.z", b"+ACK") == 2 * len(frame)
    assert outbound.take_all() == frame + frame.replace(b"x", b"z")
    outbound.max_payload = 3
    for answer in (outbound.encode_ack, outbound.queue_ack):
        with pytest.raises(MaxPayloadError):
            answer(b"$JS.ACK.x", b"+ACK")
    outbound.close(DisconnectedError("gone"))
    for answer in (outbound.encode_ack, outbound.queue_ack):
        with pytest.raises(ConnectionClosedError):
            answer(b"$JS.ACK.x", b"+ACK")
    assert not outbound.chunks


def test_frames_follow_the_protocol() -> None:
    outbound = Outbound(1000)
    assert outbound.encode("a.b", b"xy", "", None) == b"PUB a.b 2\r\nxy\r\n"
    assert outbound.encode("a", b"", "r.s", None) == b"PUB a r.s 0\r\n\r\n"
    assert outbound.encode("a", b"xy", "", {"K": "v"}) == b"HPUB a 18 20\r\nNATS/1.0\r\nK: v\r\n\r\nxy\r\n"
    assert outbound.encode("a", b"xy", b"r", Headers()) == b"HPUB a r 12 14\r\nNATS/1.0\r\n\r\nxy\r\n"


def test_a_new_session_restores_subscriptions_first_and_drops_old_commands() -> None:
    outbound = Outbound(1000)
    outbound.begin_session(b"")
    outbound.queue_publish(b"PUB a 0\r\n\r\n")
    outbound.queue_command(b"SUB b 1\r\n")
    outbound.queue_command(b"PING\r\n")
    outbound.end_session()
    outbound.queue_command(b"UNSUB 1\r\n")
    outbound.queue_publish(b"PUB c 0\r\n\r\n")
    outbound.begin_session(b"SUB b 1\r\n")
    assert outbound.take_all() == b"SUB b 1\r\nPUB a 0\r\n\r\nPUB c 0\r\n\r\n"
    assert (outbound.size, outbound.taken_publishes) == (0, 2)


def test_the_buffer_limit_applies_only_without_a_session() -> None:
    outbound = Outbound(10)
    with pytest.raises(OutboundBufferLimitError):
        outbound.queue_publish(b"x" * 11)
    outbound.begin_session(b"")
    assert outbound.queue_publish(b"x" * 11) == 11


def test_checked_subjects_are_remembered_up_to_a_limit() -> None:
    outbound = Outbound(10)
    for number in range(5000):
        outbound.encode(f"a.{number}", b"", "", None)
    assert len(outbound._subjects) <= 1024
    with pytest.raises(BadSubjectError):
        outbound.encode("a b", b"", "", None)
