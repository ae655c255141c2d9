"""The common part of the peers' scripts: the command line and the one line of JSON that they print.

    python peer_natsio.py URL TARGET COUNT WHAT

TARGET is a stream to read from, or a subject to publish to. The seconds are measured inside, from the first pull or
publish to the last message or acknowledgement: neither the interpreter's start nor the connection is counted.

All peers run on asyncio's own event loop, read through an ephemeral consumer without acks in the server's memory (as
the product does), look at every payload, and check every acknowledgement. Batch sizes and windows are those at which
each one was fastest when tried.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping

PAYLOAD = 128
"""Bytes of every message's payload."""

WINDOW = 4_000
"""Unacknowledged publishes, where the peer has a setting for it."""

ACK_PENDING = 20_000
"""Messages that may wait for an acknowledgement."""

LARGE_OBJECT = bytes(range(256)) * (64 * 1024 * 4)
"""Content of 64 MiB."""

SMALL_OBJECT = bytes(range(250)) * 40
"""Content of 10 kB."""

Measure = Callable[[str, str, int], Awaitable[float]]


def payload(number: int) -> bytes:
    """A payload that differs from message to message."""
    return (b"%016x" % number * (PAYLOAD // 16 + 1))[:PAYLOAD]


def check(received: int, count: int) -> None:
    """Raise when the bytes of all payloads do not add up."""
    if received != count * PAYLOAD:
        raise SystemExit(f"{received} bytes of payload arrived, {count * PAYLOAD} were expected")


def arrived() -> None:
    """Tell the bench at what time a message arrived; it reads the same clock."""
    print(json.dumps({"arrived": time.monotonic()}), flush=True)


async def median(publish: Callable[[bytes], Awaitable[object]], count: int) -> float:
    """The median of the seconds that a publish and its acknowledgement take, one after the other."""
    took = []
    for number in range(count):
        content = payload(number)
        begin = time.perf_counter()
        await publish(content)
        took.append(time.perf_counter() - begin)
    return statistics.median(took)


def main(figures: Mapping[str, Measure]) -> None:
    """Measure what the command line asks for."""
    url, target, count, what = sys.argv[1:]
    seconds = asyncio.run(_seconds(figures[what], url, target, int(count)))
    print(json.dumps({"seconds": seconds}))


async def _seconds(measure: Measure, url: str, target: str, count: int) -> float:
    return await measure(url, target, count)
