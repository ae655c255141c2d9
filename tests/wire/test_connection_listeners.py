"""Parts that wait for replies or send again in each session learn what happens to the connection."""

from __future__ import annotations

import gc

from jetspark.errors import DisconnectedError, Error, PermissionsViolationError
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.frames import Err
from jetspark.wire.options import ConnectOptions
from jetspark.wire.session import ServerInfo


class _ReplyListener:
    def __init__(self) -> None:
        self.errors: list[tuple[type[Error], str | None]] = []

    def fail(self, error: Error, subject: str | None = None) -> None:
        self.errors.append((type(error), subject))


def _client() -> ConnectionState:
    client = ConnectionState(ConnectOptions(), lambda event: None)
    client.begin_session()
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
