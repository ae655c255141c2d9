"""Streams for the bench over the raw socket: make, fill, drain and delete.

`Drain` and `publish` are the ceilings of the table: the least that a client can do and still move every message.
Nothing is parsed. A drain knows beforehand how many bytes are to come: consumer and inbox names have a constant length,
so a delivery is the same number of bytes each time, and `delivered_bytes` counts them once. A publish counts the line
ends of the acknowledgements, two each. The server's one PING, two seconds after the connection was made, is not looked
for: it ends a run a few bytes early, and the connection is not used again.

The settings were tuned on a 2-core machine that the server shares. The rate is the server's: with pulls of 5,000 to
500,000 messages, buffers of 64 KiB to 1 MiB and the kernel's or a large SO_RCVBUF it moves by less than its own noise,
and so it does with publish windows of 2,000 to 8,000 messages; this side needs 0.15 us of CPU a message. The
number of different reply subjects of the publishes matters: the server caches the look-up of 1,024 subjects, and with
more of them in turn it is a fifth slower. So the tokens repeat.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from typing import TYPE_CHECKING

from bench.rawsocket import RawConnection, RawError, connected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PULL = 50_000
"""Messages asked for by one pull request."""

PULLS_OPEN = 2
"""Pull requests kept open: the next one is sent when the first of them has been delivered."""

RECEIVE = 256 << 10
"""Bytes of the buffer that one `recv_into` may fill."""

WINDOW = 4_000
"""Publishes on their way without an acknowledgement; the server refuses more than 10,000."""

BLOCK = 500
"""Publishes written by one `sendall`."""

TOKENS = 500
"""Different reply subjects of the publishes."""


def create_stream(connection: RawConnection, name: str, subjects: str, **config: object) -> None:
    """Make a stream with a file store, one replica, no limits, and what else the configuration says."""
    usual = {"name": name, "subjects": [subjects], "storage": "file", "retention": "limits", "num_replicas": 1}
    connection.request(f"$JS.API.STREAM.CREATE.{name}", {**usual, **config})


def delete_stream(connection: RawConnection, name: str) -> None:
    """Delete a stream."""
    connection.request(f"$JS.API.STREAM.DELETE.{name}")


def payload(number: int, size: int) -> bytes:
    """`size` printable bytes that differ from message to message."""
    return (b"%016x" % number * (size // 16 + 1))[:size]


def encoded(subject: str, inbox: str, count: int, size: int) -> list[bytes]:
    """`count` PUB frames that ask for an acknowledgement to a token below `inbox`."""
    head = f"PUB {subject} {inbox}.".encode()
    return [head + b"%06d %d\r\n%s\r\n" % (n % TOKENS, size, payload(n, size)) for n in range(count)]


def publish(connection: RawConnection, frames: list[bytes], count: int) -> float:
    """Publish `count` messages, the encoded frames over and over, and return the seconds until the last ack.

    The frames' inbox is to be below `connection.inbox`; the connection must not be used afterwards.
    """
    blocks = [b"".join(frames[at : at + BLOCK]) for at in range(0, len(frames), BLOCK)]
    connection.subscribe(f"{connection.inbox}.p.*")
    sock, buffer = connection.sock, bytearray(RECEIVE)
    whole, rest = divmod(count, BLOCK)
    sent = acked_lines = block = 0
    begin = time.perf_counter()
    while sent < whole * BLOCK:
        while sent < whole * BLOCK and sent - acked_lines // 2 + BLOCK <= WINDOW:
            sock.sendall(blocks[block])
            block = (block + 1) % len(blocks)
            sent += BLOCK
        acked_lines += _lines(sock.recv_into(buffer), buffer)
    if rest:
        sock.sendall(b"".join(frames[:rest]))
    while acked_lines < 2 * count:
        acked_lines += _lines(sock.recv_into(buffer), buffer)
    return time.perf_counter() - begin


def _lines(received: int, buffer: bytearray) -> int:
    if not received:
        raise RawError("the server closed the connection while messages were published")
    return buffer.count(b"\n", 0, received)


def fill(url: str, subject: str, count: int, size: int) -> None:
    """Publish `count` messages of `size` bytes."""
    with connected(url) as connection:
        publish(connection, encoded(subject, f"{connection.inbox}.p", min(count, 20 * BLOCK), size), count)


class Drain:
    """The first `count` messages of a stream by an ephemeral pull consumer: no acks, kept in the server's memory."""

    def __init__(self, url: str, stream: str, count: int) -> None:
        self._url = url
        self._stream = stream
        self._count = count

    def delivered_bytes(self) -> int:
        """How many bytes arrive for the messages, counted by their line ends; payloads must not contain one."""
        total = lines = 0
        rest = b""
        with self._consumer() as (connection, pull):
            connection.sock.sendall(pull(self._count))
            while lines < 2 * self._count:
                received = connection.sock.recv(RECEIVE)
                if not received:
                    raise RawError("the server closed the connection during a drain")
                whole, end, rest = (rest + received).rpartition(b"\n")
                pings = (whole + end).count(b"PING\r\n")
                lines += (whole + end).count(b"\n") - pings
                total += len(whole + end) - 6 * pings
        return total

    def seconds(self, expected: int) -> float:
        """The seconds from the first pull request until `expected` bytes have arrived."""
        with self._consumer() as (connection, pull):
            sock, buffer = connection.sock, bytearray(RECEIVE)
            pulls = iter([pull(min(PULL, self._count - at)) for at in range(0, self._count, PULL)])
            # The bytes after which another pull is due: each time one of the open ones has been delivered.
            dues = (at * expected // self._count for at in range(PULL, self._count, PULL))
            begin = time.perf_counter()
            for _ in range(PULLS_OPEN):
                sock.sendall(next(pulls, b""))
            got, due = 0, next(dues, expected)
            while got < expected:
                received = sock.recv_into(buffer)
                if not received:
                    raise RawError("the server closed the connection during a drain")
                got += received
                if got >= due:
                    sock.sendall(next(pulls, b""))
                    due = next(dues, expected)
            seconds = time.perf_counter() - begin
        if got > expected + len(b"PING\r\n"):
            raise RawError(f"a drain of {self._stream} got {got} bytes, {expected} were expected")
        return seconds

    @contextlib.contextmanager
    def _consumer(self) -> Iterator[tuple[RawConnection, Callable[[int], bytes]]]:
        """A consumer, the connection on which it delivers, and the encoded pull request for a number of messages."""
        name = f"drain{secrets.token_hex(8)}"
        config = {
            "name": name,
            "ack_policy": "none",
            "deliver_policy": "all",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": 60_000_000_000,
        }
        with connected(self._url) as control, connected(self._url) as connection:
            control.request(
                f"$JS.API.CONSUMER.CREATE.{self._stream}.{name}", {"stream_name": self._stream, "config": config}
            )
            inbox = f"{connection.inbox}.d"
            connection.subscribe(inbox)
            head = f"PUB $JS.API.CONSUMER.MSG.NEXT.{self._stream}.{name} {inbox}".encode()

            def pull(batch: int) -> bytes:
                body = b'{"batch":%d,"expires":60000000000}' % batch
                return b"%s %d\r\n%s\r\n" % (head, len(body), body)

            yield connection, pull
            control.request(f"$JS.API.CONSUMER.DELETE.{self._stream}.{name}")
