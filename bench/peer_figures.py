"""The peers: other clients on the same server, the same stream and the same payloads, in an environment of their own.

Each measurement is a process of its own that runs a small script of `bench/peers`, which times itself.
"""

from __future__ import annotations

import functools
import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.environments import PEERS, peers_environment
from bench.reading import MESSAGES
from bench.registry import figure
from bench.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from bench.run import Run

TIMEOUT = 600.0
"""Seconds after which a peer is given up."""


@dataclass(frozen=True)
class Peer:
    """A script of `bench/peers` and what it can measure, with the messages of a full run."""

    name: str
    reads: dict[str, int]
    writes: dict[str, int]
    python: tuple[int, int] = (3, 11)
    """The oldest Python that it supports."""


PEER_LIST = (
    Peer("nats_py", reads={"fetch": 100_000}, writes={"publish_async": 100_000}),
    Peer(
        "nats_jetstream",
        reads={"fetch": 100_000, "consume": 100_000},
        writes={"publish": 50_000},
        python=(3, 13),
    ),
    Peer("natsio", reads={"fetch": 250_000, "consume": 250_000}, writes={"publish_async": 100_000}, python=(3, 13)),
    Peer("natsrpy", reads={"fetch": 500_000, "consume": 20_000}, writes={"publish": 25_000}),
)


def read(run: Run, peer: Peer, what: str, messages: int) -> float:
    """The peer reads the first messages of the stream that the product reads."""
    count = run.count(messages)
    stream = run.stream(run.count(MESSAGES))
    return count / seconds_of(peer_python(run, peer), peer, run.url, stream, count, what)


def write(run: Run, peer: Peer, what: str, messages: int) -> float:
    """The peer publishes into a new stream; every message must be in it afterwards."""
    count = run.count(messages)
    with run.target(count) as (_, subject):
        return count / seconds_of(peer_python(run, peer), peer, run.url, subject, count, what)


def peer_python(run: Run, peer: Peer) -> str | Path:
    """The interpreter that has the peers. Raises `Unavailable` when it is too old for this one."""
    python = run.shared(peers_environment)
    if python.version < peer.python:
        wanted, found = (".".join(map(str, version)) for version in (peer.python, python.version))
        raise Unavailable(f"it needs Python {wanted}, and the newest one found is {found}")
    return python.path


def seconds_of(python: str | Path, peer: Peer, url: str, target: str, count: int, what: str) -> float:
    """Run a script and return what it measured."""
    command: list[str | Path] = [python, PEERS / f"peer_{peer.name}.py", url, target, str(count), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"{peer.name} {what} failed:\n{done.stderr.strip() or done.stdout.strip()}")
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


for _peer in PEER_LIST:
    for _what, _messages in _peer.reads.items():
        figure(f"{_peer.name}_{_what}", group="peers")(
            functools.partial(read, peer=_peer, what=_what, messages=_messages)
        )
    for _what, _messages in _peer.writes.items():
        figure(f"{_peer.name}_{_what}", group="peers")(
            functools.partial(write, peer=_peer, what=_what, messages=_messages)
        )
