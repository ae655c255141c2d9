"""Withdrawn frames are not sent, and reply listeners learn at once that they wait in vain."""

from __future__ import annotations

import gc

import pytest
from tests.connection.support import Front, Recorder

from jetspark.errors import (
    ConnectionClosedError,
    DisconnectedError,
    Error,
    MaxPayloadError,
    OutboundBufferLimitError,
    PermissionsViolationError,
    RequestTimeoutError,
)
from jetspark.server import NatsServer
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.events import Disconnected, Reconnected
from jetspark.wire.frames import Err
from jetspark.wire.options import ConnectOptions
from jetspark.wire.outbound import Outbound
from jetspark.wire.session import ServerInfo


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


class _ReplyListener:
    def __init__(self) -> None:
        self.errors: list[tuple[type[Error], str | None]] = []

    def fail(self, error: Error, subject: str | None = None) -> None:
        self.errors.append((type(error), subject))


def _client() -> ConnectionState:
    client = ConnectionState(ConnectOptions(), lambda event: None)
    client.begin_handshake()
    client.on_session_opened(client.servers.servers[0], ServerInfo())
    return client


def test_reply_listeners_get_losses_refusals_and_the_end() -> None:
    client = _client()
    listener = _ReplyListener()
    client.reply_listeners.add(listener)
    client._on_control(Err('Permissions Violation for Publish to "secret"'))
    client.on_session_lost(DisconnectedError("gone"))
    client.close()
    assert [subject for _, subject in listener.errors] == ["secret", None, None]
    assert [kind.__name__ for kind, _ in listener.errors] == [
        PermissionsViolationError.__name__,
        DisconnectedError.__name__,
        "ConnectionClosedError",
    ]


def test_reply_listeners_are_held_weakly() -> None:
    client = _client()
    client.reply_listeners.add(_ReplyListener())
    gc.collect()
    assert not client.reply_listeners
    client.on_session_lost(DisconnectedError("gone"))


class _SessionListener:
    def __init__(self, client: ConnectionState) -> None:
        self.sent: list[bytes] = []
        self._client = client

    def on_session_restored(self) -> None:
        self._client.outbound.queue_command(b"PUB again 0\r\n\r\n")
        self.sent = list(self._client.outbound.chunks)


def test_session_listeners_send_after_the_restored_subscriptions_and_are_held_weakly() -> None:
    client = _client()
    client.subscribe("a")
    session_listener = _SessionListener(client)
    client.session_listeners.add(session_listener)
    client.on_session_lost(DisconnectedError("gone"))
    assert session_listener.sent == []
    client.on_session_opened(client.servers.servers[0], ServerInfo())
    assert session_listener.sent == [b"SUB a 1\r\n", b"PUB again 0\r\n\r\n"]
    del session_listener
    gc.collect()
    assert not client.session_listeners


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


@pytest.mark.parametrize("own_inbox", [False, True], ids=["shared inbox", "own inbox"])
async def test_a_request_that_timed_out_is_not_sent_after_the_reconnect(
    front: Front, server: NatsServer, own_inbox: bool
) -> None:
    recorder = Recorder()
    connection = await front.connect(server.url, on_event=recorder)
    listener = await connection.subscribe("service")
    server.kill()
    await recorder.wait(Disconnected)
    with pytest.raises(RequestTimeoutError):
        await connection.request("service", b"late", timeout=0.05, own_inbox=own_inbox)
    await connection.publish("service", b"kept")
    server.start()
    await recorder.wait(Reconnected)
    assert (await listener.next_msg(5)).payload == b"kept"
    await connection.flush()
    assert listener.pending == (0, 0)
