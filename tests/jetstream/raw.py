"""The smallest client of the JetStream API: a blocking socket, one request at a time."""

import itertools
import json
import socket
import time
import uuid
from dataclasses import dataclass
from typing import Self, TypeVar

from jetspark.jetstream.api import Request
from jetspark.jetstream.errors import APIError
from jetspark.server import NatsServer
from jetspark.wire import headers as header_block
from jetspark.wire.headers import Headers, Status

R = TypeVar("R")


@dataclass(frozen=True)
class Reply:
    sid: int
    subject: str
    reply: str | None
    status: Status | None
    headers: Headers
    payload: bytes


class RawClient:
    """A connected socket that has said CONNECT."""

    def __init__(self, server: NatsServer) -> None:
        self._socket = socket.create_connection((server.host, server.port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._sids = 0
        self._inbox = f"_INBOX.{uuid.uuid4().hex}"  # other clients of the account have their own
        assert self._file.readline().startswith(b"INFO ")
        options = {"verbose": False, "pedantic": False, "protocol": 1, "headers": True, "no_responders": True}
        self._socket.sendall(b"CONNECT %s\r\n" % json.dumps(options).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        self._socket.close()

    def subscribe(self, subject: str) -> int:
        """Return the id of the subscription."""
        self._sids += 1
        self._socket.sendall(f"SUB {subject} {self._sids}\r\n".encode())
        return self._sids

    def publish(self, subject: str, payload: bytes = b"", headers: object = None, reply: str = "") -> None:
        if headers is None:
            self._socket.sendall(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")
            return
        assert isinstance(headers, (list, Headers))
        block = header_block.encode_header_block(headers)
        sizes = f"{len(block)} {len(block) + len(payload)}"
        self._socket.sendall(f"HPUB {subject} {reply} {sizes}\r\n".encode() + block + payload + b"\r\n")

    def receive(self) -> Reply:
        """Return the next message of any kind."""
        while True:
            words = self._file.readline().decode().split()
            if words[0] == "PING":
                self._socket.sendall(b"PONG\r\n")
            elif words[0] in {"MSG", "HMSG"}:
                break
            else:
                assert words[0] in {"PONG", "+OK", "INFO"}, words
        is_plain = words[0] == "MSG"
        block_size, size = (0, int(words[-1])) if is_plain else (int(words[-2]), int(words[-1]))
        reply = words[3] if len(words) == (5 if is_plain else 6) else None
        content = self._file.read(size + 2)[:-2]
        block = content[:block_size]
        status = header_block.parse_status(block) if block else None
        headers = header_block.parse_header_block(block) if block else Headers()
        return Reply(int(words[2]), words[1], reply, status, headers, content[block_size:])

    def ask(self, subject: str, payload: bytes = b"", headers: object = None) -> Reply:
        """Publish with a new inbox and return the first reply."""
        inbox = f"{self._inbox}.{self._sids}"
        sid = self.subscribe(inbox)
        self.publish(subject, payload, headers, inbox)
        while (reply := self.receive()).sid != sid:
            pass
        return reply

    def request(self, request: Request[R]) -> R:
        """Send a request of the API and return the decoded reply. Repeat it after temporary refusals."""
        for tries in itertools.count(1):
            reply = self.ask(request.subject(), request.payload())
            if reply.status is not None:
                raise request.status_error(reply.status.code, reply.status.description)
            try:
                return request.read(reply.payload)
            except APIError as error:
                if (pause := request.retry_delay(error, tries)) is None:
                    raise
                time.sleep(pause)
        raise AssertionError
