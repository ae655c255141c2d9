"""Publishing through the JetStream context: many under way, one after the other, in batches; against the peers.

Rates are messages a second; the latency of a publish is a median in microseconds, so there a ratio below 1 is better.
As for the peers, each figure of the product is a process of its own.

`raw_fast_batch` is the other way that nats-server has since 2.14 to take many messages (ADR-50, fast ingest), over the
raw socket as `raw_publish` is. It is here to show whether it would be worth having.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from bench.peer_figures import PEER_LIST, Peer, peer_python, seconds_of
from bench.rawsocket import RawConnection, RawError, connected
from bench.rawstream import payload
from bench.registry import figure
from bench.run import PAYLOAD
from bench.writing import MESSAGES, PEERS

if TYPE_CHECKING:
    from bench.run import Run

PRODUCT = Peer("jetspark", reads={}, writes={})

ASYNC = 400_000
"""Messages of publish_async."""

ONE_BY_ONE = 10_000
"""Publishes of which the latency is the median."""

IN_BATCHES = 50_000
"""Messages of the atomic batches."""

FLOW = 500
"""Messages that a fast batch acknowledges at a time; nats-server allows no more."""

ACKS_OUTSTANDING = 2
"""The value that ADR-50 recommends."""


def product(run: Run, what: str, messages: int, **config: object) -> float:
    """The product's rate in a new stream of that configuration."""
    count = run.count(messages)
    with run.target(count, **config) as (_, subject):
        return count / seconds_of(sys.executable, PRODUCT, run.url, subject, count, what)


def latency(run: Run, peer: Peer) -> float:
    """Microseconds of a publish."""
    count = run.count(ONE_BY_ONE)
    python = sys.executable if peer is PRODUCT else peer_python(run, peer)
    with run.target(count) as (_, subject):
        return seconds_of(python, peer, run.url, subject, count, "latency") * 1e6


for _name, _what in (("publish_async", "publish_async"), ("publish_async_blocking", "publish_async_blocking")):
    figure(_name, group="publishing", reference="raw_publish", against=PEERS)(
        functools.partial(product, what=_what, messages=ASYNC)
    )
figure("batch_publish", group="publishing", reference="raw_publish")(
    functools.partial(product, what="batch", messages=IN_BATCHES, allow_atomic=True)
)
_latencies = tuple(f"{peer.name}_publish_latency" for peer in PEER_LIST)
figure("publish_latency", group="publishing", unit="us", against=_latencies)(functools.partial(latency, peer=PRODUCT))
for _peer in PEER_LIST:
    figure(f"{_peer.name}_publish_latency", group="publishing", unit="us")(functools.partial(latency, peer=_peer))


@figure("raw_fast_batch", group="publishing", reference="raw_publish")
def raw_fast_batch(run: Run) -> float:
    """One fast batch of all messages, the frames encoded before, one acknowledgement for each `FLOW` of them."""
    count = run.count(MESSAGES)
    with run.target(count, allow_batched=True) as (_, subject), connected(run.url) as connection:
        batch = _FastBatch(connection, subject)
        frames = [batch.frame(number, count) for number in range(1, count + 1)]
        blocks = [b"".join(frames[at : at + FLOW // 2]) for at in range(1, count, FLOW // 2)]
        begin = time.perf_counter()
        connection.sock.sendall(frames[0])
        batch.read()  # reports how many messages may be sent
        sent = 1
        for block in blocks:
            while batch.acked + ACKS_OUTSTANDING * batch.flow < sent + FLOW // 2:
                batch.read()
            connection.sock.sendall(block)
            sent += FLOW // 2
        while batch.stored is None:
            batch.read()
        seconds = time.perf_counter() - begin
    if batch.stored != count:
        raise RuntimeError(f"{batch.stored} messages of {count} were stored")
    return count / seconds


class _FastBatch:
    """The messages of a fast batch, and the replies to them."""

    def __init__(self, connection: RawConnection, subject: str) -> None:
        self._connection = connection
        self._subject = subject
        self._rest = b""
        self.flow = self.acked = 0
        self.stored: int | None = None
        connection.subscribe(f"{connection.inbox}.>")

    def frame(self, number: int, count: int) -> bytes:
        """The frame of a message: the first one opens the batch, the last one commits it."""
        operation = 0 if number == 1 else 2 if number == count else 1
        reply = f"{self._connection.inbox}.b.{FLOW}.fail.{number}.{operation}.$FI"
        return b"PUB %s %s %d\r\n%s\r\n" % (
            self._subject.encode(),
            reply.encode(),
            PAYLOAD,
            payload(number, PAYLOAD),
        )

    def read(self) -> None:
        """Take what has come."""
        received = self._connection.sock.recv(65536)
        if not received:
            raise RawError("the server closed the connection during a fast batch")
        self._rest += received
        while True:
            line, found, behind = self._rest.partition(b"\r\n")
            words = line.split()
            size = int(words[-1]) + 2 if found and words[0] == b"MSG" else 0
            if not found or len(behind) < size:
                return
            if size:
                self._take(json.loads(behind[:size]))
            self._rest = behind[size:]

    def _take(self, answer: dict[str, Any]) -> None:
        if answer.get("type") == "ack":
            self.acked, self.flow = answer["seq"], answer["msgs"]
        elif "error" in answer or answer.get("type"):
            raise RawError(f"the fast batch failed: {answer}")
        else:
            self.stored = answer["count"]
