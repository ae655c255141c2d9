"""The ceilings: what the same server and the same bytes allow to a client that does nothing with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.rawsocket import connected
from bench.rawstream import BLOCK, Drain, encoded, publish
from bench.registry import figure
from bench.run import PAYLOAD

if TYPE_CHECKING:
    from bench.run import Run

MESSAGES = 1_000_000
"""Messages of the stream that `raw_drain` and `scan` read, and that `raw_publish` and `bulk_publish` write."""


@figure("raw_drain", group="raw")
def raw_drain(run: Run) -> float:
    """Every message of the stream through a blocking socket, counted as bytes."""
    count = run.count(MESSAGES)
    expected = run.remember(delivered_bytes, count)
    return count / Drain(run.url, run.stream(count), count).seconds(expected)


def delivered_bytes(run: Run, count: int) -> int:
    """The bytes that a drain of the stream with `count` messages receives."""
    return Drain(run.url, run.stream(count), count).delivered_bytes()


@figure("raw_publish", group="raw")
def raw_publish(run: Run) -> float:
    """Frames that were encoded before, written in blocks, with a bounded window; the acks are only counted."""
    count = run.count(MESSAGES)
    with run.target(count) as (_, subject), connected(run.url) as connection:
        frames = encoded(subject, f"{connection.inbox}.p", min(count, 20 * BLOCK), PAYLOAD)
        return count / publish(connection, frames, count)
