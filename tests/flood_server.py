"""A scripted server that sends without an end, byte by byte, or reads nothing, and the time that calls may take then.

A real server cannot be made to do that, so a thread with a raw socket does.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Final

__all__ = ["ANSWERS", "DRIPS", "FLOODS", "FLOOD_TIME", "LIMIT", "ends_in_time", "serving"]

LIMIT: Final = 0.1
"""Seconds: the deadline of each call."""
SLACK: Final = 6.0
"""Seconds that a call may take longer on a busy machine."""
FLOOD_TIME: Final = 12.0
"""Seconds after which a flood ends, so that a call without a deadline fails the test instead of stopping it."""
INFO: Final = b'INFO {"server_id":"X","version":"2.12.0","headers":true,"max_payload":1048576}\r\n'
CREATED: Final = "2026-01-01T00:00:00Z"
STREAM: Final = {
    "config": {"name": "S", "subjects": ["s"], "allow_direct": True},
    "created": CREATED,
    "state": {"messages": 9, "bytes": 900, "first_seq": 1, "last_seq": 9, "consumer_count": 0},
}
CONSUMER: Final = {
    "stream_name": "S",
    "name": "c",
    "created": CREATED,
    "config": {"name": "c", "ack_policy": "none"},
    "delivered": {"consumer_seq": 0, "stream_seq": 0},
    "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
    "num_pending": 9,
}
ANSWERS: Final = {"$JS.API.STREAM.INFO": STREAM, "$JS.API.CONSUMER.CREATE": CONSUMER}

FLOODS: Final = {
    "PING": b"PING\r\n" * 5000,
    "PONG": b"PONG\r\n" * 5000,
    "+OK": b"+OK\r\n" * 5000,
    "INFO": INFO * 500,
    "messages for nobody": b"MSG a 99 1\r\nx\r\n" * 2000,
    "messages on the inbox of requests": b"MSG a 1 1\r\nx\r\n" * 2000,
    "messages of the first subscription": b"MSG a 2 1\r\nx\r\n" * 2000,
}
DRIPS: Final = {"a line": b"MSG a 2 1", "a payload": b"MSG a 2 1000000\r\nx", "PINGs": b"PING\r\n"}
"""Sent byte by byte; the last byte again and again."""


class Server:
    """Accepts a session, answers requests, and then sends the flood. If it is deaf, it reads nothing more."""

    def __init__(self, flood: bytes, *, drip: bool, deaf: bool, answers: Mapping[str, object]) -> None:
        self.flood, self.drip, self.deaf, self.answers = flood, drip, deaf, answers
        self.flooding = threading.Event()
        self.ended = threading.Event()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"nats://127.0.0.1:{self.listening.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        with suppress(OSError), self.listening.accept()[0] as client:
            client.sendall(INFO)
            reading = threading.Thread(target=self._answer, args=(client,), daemon=True)
            reading.start()
            self._send_flood(client)
            reading.join(10)

    def _send_flood(self, client: socket.socket) -> None:
        until = time.monotonic() + FLOOD_TIME + 5
        while not self.flooding.wait(0.02):
            if self.ended.is_set() or time.monotonic() > until:
                return
        until = time.monotonic() + FLOOD_TIME
        with suppress(OSError):
            pieces = [bytes([each]) for each in self.flood] if self.drip else [self.flood]
            while time.monotonic() < until and not self.ended.wait(0.005 if self.drip else 0):
                client.sendall(pieces.pop(0) if len(pieces) > 1 else pieces[0])
            client.shutdown(socket.SHUT_RDWR)

    def _answer(self, client: socket.socket) -> None:
        with suppress(OSError, ValueError), client.makefile("rb") as lines:
            while line := lines.readline():
                words = line.split()
                if words[0] == b"PING" and not self.flooding.is_set():
                    client.sendall(b"PONG\r\n")
                    if self.deaf:
                        return
                if words[0] in {b"PUB", b"HPUB"}:
                    lines.read(int(words[-1]) + 2)
                    for start, answer in self.answers.items():
                        if words[1].decode().startswith(start):
                            data = json.dumps(answer).encode()
                            client.sendall(b"MSG %b 1 %d\r\n%b\r\n" % (words[2], len(data), data))


@contextmanager
def serving(
    flood: bytes, *, drip: bool = False, deaf: bool = False, answers: Mapping[str, object] = MappingProxyType({})
) -> Iterator[Server]:
    server = Server(flood, drip=drip, deaf=deaf, answers=answers)
    try:
        yield server
    finally:
        server.ended.set()
        server.listening.close()
        server.thread.join(10)


@contextmanager
def ends_in_time() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < LIMIT + SLACK
