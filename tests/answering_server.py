"""A server on loopback whose answers a test writes: it calls a function for each message that a client publishes."""

import contextlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

__all__ = ["Answer", "AnsweringServer", "Published", "Reply", "ack"]

_INFO: Final = {"server_id": "S", "server_name": "s", "version": "2.14.0", "max_payload": 1 << 20, "headers": True}
_LINE: Final = re.compile(rb"([^\r]*)\r\n")


@dataclass(frozen=True)
class Published:
    """A message of the client; `number` counts them from 0."""

    number: int
    subject: str
    reply: str
    header: bytes
    payload: bytes


class Reply(NamedTuple):
    """A message to the client."""

    subject: str
    payload: bytes
    header: bytes = b""
    reply: str = ""


Answer = tuple[str, bytes] | Reply
"""A message to the client; most have a subject and a payload only."""


def ack(stream: str, sequence: int, *, duplicate: bool = False) -> bytes:
    """Return an acknowledgement as nats-server writes it."""
    more = ', "duplicate": true' if duplicate else ""
    return b'{"stream":"%b", "seq":%d%b}' % (stream.encode(), sequence, more.encode())


class AnsweringServer:
    """Answers each published message with what `answer` returns."""

    def __init__(self, answer: Callable[[Published], Iterable[Answer]]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._clients: list[socket.socket] = []
        self.published: list[Published] = []
        self.url = f"nats://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in self._clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                self._clients.append(client)
                thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.sendall(b"INFO %b\r\n" % json.dumps(_INFO).encode())
            data = b""
            subscriptions: dict[bytes, bytes] = {}
            while chunk := client.recv(1 << 16):
                data += chunk
                at = 0
                out: list[bytes] = []
                while (line := _LINE.match(data, at)) is not None:
                    words = line[1].split()
                    end = line.end()
                    if words[0] in (b"PUB", b"HPUB"):
                        size = int(words[-1])
                        if len(data) < end + size + 2:
                            break
                        out += self._answers(words, data[end : end + size], subscriptions)
                        end += size + 2
                    elif words[0] == b"SUB":
                        subscriptions[words[-1]] = words[1]
                    elif words[0] == b"UNSUB":
                        subscriptions.pop(words[1], None)
                    elif words[0] == b"PING":
                        out.append(b"PONG\r\n")
                    at = end
                data = data[at:]
                client.sendall(b"".join(out))

    def _answers(self, words: list[bytes], body: bytes, subscriptions: dict[bytes, bytes]) -> Iterable[bytes]:
        header_size = int(words[-2]) if words[0] == b"HPUB" else 0
        reply = words[2].decode() if len(words) == (5 if header_size else 4) else ""
        message = Published(len(self.published), words[1].decode(), reply, body[:header_size], body[header_size:])
        self.published.append(message)
        for given in self._answer(message):
            answer = Reply(*given)
            subject, header = answer.subject.encode(), answer.header
            to = b" " + answer.reply.encode() if answer.reply else b""
            for sid, pattern in subscriptions.items():
                if not _matches(pattern, subject):
                    continue
                verb, size = (b"HMSG", b"%d " % len(header)) if header else (b"MSG", b"")
                size += b"%d" % len(header + answer.payload)
                yield b"%b %b %b%b %b\r\n%b%b\r\n" % (verb, subject, sid, to, size, header, answer.payload)


def _matches(pattern: bytes, subject: bytes) -> bool:
    wanted, given = pattern.split(b"."), subject.split(b".")
    if wanted[-1] == b">":
        return len(given) >= len(wanted) and wanted[:-1] == given[: len(wanted) - 1]
    return len(wanted) == len(given) and all(one in (b"*", other) for one, other in zip(wanted, given, strict=True))
