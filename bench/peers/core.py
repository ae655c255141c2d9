"""Core NATS, one message at a time: the harness that measures every client in the same way, the product too.

    python core_natsio.py URL WHAT SIZE COUNT

WHAT is `publish`, `iterate`, `callback` (messages a second) or `request` (median round trip in microseconds). A
separate process with a plain socket sends the messages for the subscriber and answers the requests, so that only one
side is the client's. A subscriber's time goes from its first message to its last one.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Protocol
from urllib.parse import urlsplit

WARM_UP = 200
CHUNK = 500


class Client(Protocol):
    """The functions of a client's script."""

    async def connect(self, url: str) -> None: ...
    async def close(self) -> None: ...
    async def publish(self, subject: str, payload: bytes, count: int) -> None:
        """Publish that often and flush."""

    async def iterate(self, subject: str) -> AsyncIterator[int]:
        """Subscribe (flushed), then give the payload's size of each message."""

    async def callback(self, subject: str, take: Callable[[int], None]) -> None:
        """Subscribe (flushed); `take` is called with the payload's size of each message."""

    async def request(self, subject: str, payload: bytes) -> bytes:
        """Ask and return the answer."""


def main(client: Client) -> None:
    """Measure what the command line asks for."""
    url, what, size, count = sys.argv[1:]
    print(json.dumps({"value": asyncio.run(_measure(client, url, what, int(size), int(count)))}))


async def _measure(client: Client, url: str, what: str, size: int, count: int) -> float:
    await client.connect(url)
    try:
        if what == "publish":
            begin = time.perf_counter()
            await client.publish("core.bench", b"x" * size, count)
            return count / (time.perf_counter() - begin)
        if what == "request":
            return await _latency(client, url, size, count)
        return await (_iterate if what == "iterate" else _callback)(client, url, size, count)
    finally:
        await client.close()


def _helper(role: str, url: str, size: int, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, role, url, str(size), str(count)], stdout=subprocess.PIPE)


async def _iterate(client: Client, url: str, size: int, count: int) -> float:
    messages = await client.iterate("core.bench")
    with _helper("feed", url, size, count):
        total = await anext(messages)
        begin = time.perf_counter()
        left = count - 1
        async for length in messages:
            total += length
            left -= 1
            if not left:
                break
        seconds = time.perf_counter() - begin
    return _checked(total, size, count) / seconds


async def _callback(client: Client, url: str, size: int, count: int) -> float:
    done = asyncio.Event()
    begin = end = 0.0
    left, total = count, 0

    def take(length: int) -> None:
        nonlocal begin, end, left, total
        if left == count:
            begin = time.perf_counter()
        left -= 1
        total += length
        if not left:
            end = time.perf_counter()
            done.set()

    await client.callback("core.bench", take)
    with _helper("feed", url, size, count):
        await asyncio.wait_for(done.wait(), 120)
    return _checked(total, size, count) / (end - begin)


def _checked(total: int, size: int, count: int) -> int:
    if total != size * count:
        raise SystemExit(f"{total} bytes of payload arrived, {size * count} were expected")
    return count - 1


async def _latency(client: Client, url: str, size: int, count: int) -> float:
    payload = b"x" * size
    answerer = _helper("answer", url, size, count + WARM_UP)
    try:
        assert answerer.stdout is not None
        await asyncio.to_thread(answerer.stdout.readline)  # it listens
        times = []
        for _ in range(count + WARM_UP):
            begin = time.perf_counter()
            answer = await client.request("core.echo", payload)
            times.append(time.perf_counter() - begin)
            if answer != payload:
                raise SystemExit(f"{answer!r} is not the answer")
        return statistics.median(times[WARM_UP:]) * 1e6
    finally:
        answerer.wait(10)
        assert answerer.stdout is not None
        answerer.stdout.close()


def _socket(url: str) -> socket.socket:
    address = urlsplit(url)
    opened = socket.create_connection((address.hostname, address.port))
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"protocol":1}\r\n')
    return opened


def _synchronise(opened: socket.socket) -> None:
    opened.sendall(b"PING\r\n")
    seen = b""
    while b"PONG\r\n" not in seen:
        seen += opened.recv(65536)


def feed(url: str, size: int, count: int) -> None:
    """Publish as fast as the server takes it."""
    with _socket(url) as opened:
        frame = b"PUB core.bench %d\r\n%b\r\n" % (size, b"x" * size)
        for _ in range(count // CHUNK):
            opened.sendall(frame * CHUNK)
        opened.sendall(frame * (count % CHUNK))
        _synchronise(opened)


def answer(url: str, size: int, count: int) -> None:
    """Answer each request with its own payload."""
    asked = re.compile(rb"MSG core\.echo 1 (\S+) %d\r\n(.{%d})\r\n" % (size, size), re.DOTALL)
    with _socket(url) as opened:
        opened.sendall(b"SUB core.echo 1\r\n")
        _synchronise(opened)
        print("ready", flush=True)
        buffer = b""
        while count:
            buffer += opened.recv(65536)
            while found := asked.search(buffer):
                opened.sendall(b"PUB %b %d\r\n%b\r\n" % (found[1], size, found[2]))
                buffer = buffer[found.end() :]
                count -= 1
        _synchronise(opened)


if __name__ == "__main__":
    {"feed": feed, "answer": answer}[sys.argv[1]](sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
