"""Consuming through the JetStream context: the iterator with and without acknowledgements, fetch, next; recovery.

Rates are messages a second, of 128-byte messages, in a process of their own as for the peers. Recovery is the time in
milliseconds from the moment at which a killed server serves again to the arrival of the next message; a change of the
leader is measured from the moment at which the consumer's leader, one of three servers, has said that it steps down.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import statistics
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from bench.environments import PEERS
from bench.peer_figures import PEER_LIST, Peer, peer_python, seconds_of
from bench.publish_figures import PRODUCT
from bench.rawsocket import RawError, connected
from bench.rawstream import create_stream, delete_stream
from bench.reading import MESSAGES
from bench.registry import figure
from jetspark.server import NatsCluster, NatsServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.rawsocket import RawConnection
    from bench.run import Run

READ = 500_000
"""Messages of the product's figures."""

ONE_BY_ONE = 10_000
"""Messages of next."""

PEERS_TOO = {
    "consume_ack": {"natsio": 100_000, "nats_jetstream": 50_000, "natsrpy": 50_000, "nats_py": 50_000},
    "next": {"natsio": ONE_BY_ONE, "nats_jetstream": ONE_BY_ONE, "nats_py": ONE_BY_ONE},
    "recovery": {"natsio": 1, "natsrpy": 1},
    "leader_change": {"natsio": 1, "natsrpy": 1, "nats_py": 1},
}
"""Further figures of the peers, besides fetch and consume, with the number of messages for each. nats-jetstream does
not recover by itself. nats-py has no consume: its script calls fetch repeatedly."""

CHANGES = 3
"""Changes of the leader in a round."""

PATIENCE = 30.0
"""Seconds after which a client that does not recover is given up."""

_numbers = itertools.count(1)
_BY_NAME = {peer.name: peer for peer in PEER_LIST}
_OTHERS_ACK = tuple(f"{name}_consume_ack" for name in _BY_NAME if name != "natsio")


def rate(run: Run, peer: Peer, what: str, messages: int) -> float:
    """Messages a second of a client that reads the first messages of the stream that all of them read."""
    count = run.count(messages)
    python = sys.executable if peer is PRODUCT else peer_python(run, peer)
    return count / seconds_of(python, peer, run.url, run.stream(run.count(MESSAGES)), count, what)


def recovery(run: Run, peer: Peer) -> float:
    """Milliseconds that a client needs after a restart of its server."""
    with NatsServer() as server:
        with connected(server.url) as connection:
            _make_consumer(connection, "RECOVER", 1)
        with _client(run, peer, server.url, "RECOVER", 2) as client:
            _publish(server.url, "RECOVER")
            _arrival(client)
            server.kill()
            server.start()
            ready = time.monotonic()
            _publish(server.url, "RECOVER")
            return (_arrival(client) - ready) * 1e3


@contextlib.contextmanager
def three_servers(_: Run) -> Iterator[NatsCluster]:
    """A cluster whose servers hold the replicated streams."""
    with NatsCluster(3) as cluster:
        yield cluster


def leader_change(run: Run, peer: Peer) -> float:
    """Milliseconds that a client needs after its consumer's leader stepped down, the median of several times."""
    cluster = run.shared(three_servers)
    changes = 1 if run.warming_up else CHANGES
    url, stream = cluster[0].url, f"LEADER{next(_numbers)}"
    with connected(url) as connection:
        _make_consumer(connection, stream, len(cluster))
        cluster.wait_stream_leader(stream)
        took = []
        with _client(run, peer, url, stream, 1 + changes) as client:
            _publish(url, stream)
            _arrival(client)
            for _ in range(changes):
                _await_pull(url, stream)
                reply = connection.request(f"$JS.API.CONSUMER.LEADER.STEPDOWN.{stream}.recover")
                changed = time.monotonic()
                if not reply.get("success"):
                    raise RuntimeError(f"the leader did not step down: {reply}")
                _publish(url, stream)
                took.append(_arrival(client) - changed)
        delete_stream(connection, stream)
    return statistics.median(took) * 1e3


@contextlib.contextmanager
def _client(run: Run, peer: Peer, url: str, stream: str, count: int) -> Iterator[subprocess.Popen[str]]:
    """A process of a client that reads so many messages and reports when each of them arrived."""
    python = sys.executable if peer is PRODUCT else peer_python(run, peer)
    command: list[str | Path] = [python, PEERS / f"peer_{peer.name}.py", url, stream, str(count), "recover"]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    watch = threading.Timer(PATIENCE, client.kill)
    watch.start()
    try:
        yield client
    finally:
        watch.cancel()
        client.kill()
        client.wait()
        assert client.stdout is not None
        client.stdout.close()


def _make_consumer(connection: RawConnection, stream: str, replicas: int) -> None:
    """A stream, and the consumer `recover` that the clients' scripts look for."""
    create_stream(connection, stream, f"{stream.lower()}.>", num_replicas=replicas)
    body = {"stream_name": stream, "config": {"durable_name": "recover", "ack_policy": "explicit"}}
    connection.request(f"$JS.API.CONSUMER.CREATE.{stream}.recover", body)


def _await_pull(url: str, stream: str) -> None:
    """Wait until a leader of the consumer has all acknowledgements and an open pull.

    On connections of its own, as some answers are no JSON.
    """
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(RawError), connected(url) as connection:
            info = connection.request(f"$JS.API.CONSUMER.INFO.{stream}.recover")
            if info["num_waiting"] and not info["num_ack_pending"]:
                return
        time.sleep(0.02)
    raise RuntimeError("the client does not pull")


def _publish(url: str, stream: str) -> None:
    with connected(url) as connection:
        connection.request(f"{stream.lower()}.event")


def _arrival(client: subprocess.Popen[str]) -> float:
    assert client.stdout is not None
    line = client.stdout.readline()
    if not line:
        raise RuntimeError("the client ended before the message arrived")
    return float(json.loads(line)["arrived"])


for _what, _peers in PEERS_TOO.items():
    for _name, _messages in _peers.items():
        if _what in {"recovery", "leader_change"}:
            _measure = recovery if _what == "recovery" else leader_change
            figure(f"{_name}_{_what}", group="consuming", unit="ms")(functools.partial(_measure, peer=_BY_NAME[_name]))
        else:
            figure(f"{_name}_{_what}", group="consuming")(
                functools.partial(rate, peer=_BY_NAME[_name], what=_what, messages=_messages)
            )

for _name, _what, _messages, _reference, _against in (
    ("consume", "consume", READ, "natsio_consume", ("natsrpy_fetch", "nats_jetstream_consume", "nats_py_fetch")),
    ("consume_blocking", "consume_blocking", READ, "consume", ("natsio_consume", "natsrpy_fetch")),
    (
        "consume_ack",
        "consume_ack",
        READ,
        "natsio_consume_ack",
        _OTHERS_ACK,
    ),
    ("consume_ack_blocking", "consume_ack_blocking", READ, "consume_ack", ("natsio_consume_ack",)),
    ("fetch", "fetch", READ, "natsio_fetch", ("natsrpy_fetch", "nats_jetstream_fetch", "nats_py_fetch")),
    ("fetch_blocking", "fetch_blocking", READ, "fetch", ("natsio_fetch", "natsrpy_fetch")),
    ("next", "next", ONE_BY_ONE, "natsio_next", ("nats_jetstream_next", "nats_py_next")),
):
    figure(_name, group="consuming", reference=_reference, against=_against)(
        functools.partial(rate, peer=PRODUCT, what=_what, messages=_messages)
    )

figure("recovery", group="consuming", unit="ms", reference="natsio_recovery", against=("natsrpy_recovery",))(
    functools.partial(recovery, peer=PRODUCT)
)
figure(
    "leader_change",
    group="consuming",
    unit="ms",
    reference="natsio_leader_change",
    against=("natsrpy_leader_change", "nats_py_leader_change"),
)(functools.partial(leader_change, peer=PRODUCT))
