"""Consuming through the JetStream context: the iterator with and without acknowledgements, fetch, next; recovery.

Rates are messages a second, of 128-byte messages, in a process of their own as for the peers. Recovery is the time in
milliseconds from the moment at which a killed server serves again to the arrival of the next message.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from bench.environments import PEERS
from bench.peer_figures import PEER_LIST, Peer, peer_python, seconds_of
from bench.publish_figures import PRODUCT
from bench.rawsocket import connected
from bench.rawstream import create_stream
from bench.reading import MESSAGES
from bench.registry import figure
from jetspark.server import NatsServer

if TYPE_CHECKING:
    from pathlib import Path

    from bench.run import Run

READ = 500_000
"""Messages of the product's figures."""

ONE_BY_ONE = 10_000
"""Messages of next."""

PEERS_TOO = {
    "consume_ack": {"natsio": 100_000, "nats_jetstream": 50_000, "natsrpy": 50_000, "nats_py": 50_000},
    "next": {"natsio": ONE_BY_ONE, "nats_jetstream": ONE_BY_ONE, "nats_py": ONE_BY_ONE},
    "recover": {"natsio": 1, "natsrpy": 1},
}
"""What the peers are measured with beside fetch and consume, and how many messages that takes. nats-jetstream does not
recover by itself, and nats-py has no consume."""

PATIENCE = 30.0
"""Seconds after which a client that does not recover is given up."""

_BY_NAME = {peer.name: peer for peer in PEER_LIST}
_OTHERS_ACK = tuple(f"{name}_consume_ack" for name in _BY_NAME if name != "natsio")


def rate(run: Run, peer: Peer, what: str, messages: int) -> float:
    """Messages a second of a client that reads the first messages of the stream that all of them read."""
    count = run.count(messages)
    python = sys.executable if peer is PRODUCT else peer_python(run, peer)
    return count / seconds_of(python, peer, run.url, run.stream(run.count(MESSAGES)), count, what)


def recovery(run: Run, peer: Peer) -> float:
    """Milliseconds that a client needs after a restart of its server."""
    python = sys.executable if peer is PRODUCT else peer_python(run, peer)
    with NatsServer() as server:
        with connected(server.url) as connection:
            create_stream(connection, "RECOVER", "recover.>")
            body = {"stream_name": "RECOVER", "config": {"durable_name": "recover", "ack_policy": "explicit"}}
            connection.request("$JS.API.CONSUMER.CREATE.RECOVER.recover", body)
        command: list[str | Path] = [python, PEERS / f"peer_{peer.name}.py", server.url, "RECOVER", "2", "recover"]
        client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        watch = threading.Timer(PATIENCE, client.kill)
        watch.start()
        try:
            _publish(server)
            _arrival(client)
            server.kill()
            server.start()
            ready = time.monotonic()
            _publish(server)
            return (_arrival(client) - ready) * 1e3
        finally:
            watch.cancel()
            client.kill()
            client.wait()
            assert client.stdout is not None
            client.stdout.close()


def _publish(server: NatsServer) -> None:
    with connected(server.url) as connection:
        connection.request("recover.event")


def _arrival(client: subprocess.Popen[str]) -> float:
    assert client.stdout is not None
    line = client.stdout.readline()
    if not line:
        raise RuntimeError("the client ended before the message arrived")
    return float(json.loads(line)["arrived"])


for _what, _peers in PEERS_TOO.items():
    for _name, _messages in _peers.items():
        if _what == "recover":
            figure(f"{_name}_recovery", group="consuming", unit="ms")(functools.partial(recovery, peer=_BY_NAME[_name]))
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
