"""Object stores: large and small objects put and got, against the same chunks without hashes, and against the peers.

As for the peers, each figure of the product is a process of its own. Large objects are in megabytes a second, small
ones in objects a second.
"""

from __future__ import annotations

import functools
import itertools
import sys
from typing import TYPE_CHECKING, Final

from bench.peer_figures import PEER_LIST, Peer, peer_python, seconds_of
from bench.publish_figures import PRODUCT
from bench.registry import figure

if TYPE_CHECKING:
    from bench.run import Run

LARGE: Final = 64 * 1024 * 1024
"""Bytes of a large object."""
SMALL: Final = 1_000
"""Number of small objects, of 10 kB each."""
WITH_OBJECTS: Final = tuple(peer for peer in PEER_LIST if peer.name in {"nats_py", "natsio"})
"""The peers that have object stores, and put any."""

_numbers = itertools.count()


def measure(run: Run, peer: Peer, what: str, count: int) -> float:
    """Seconds for the objects, in a new bucket, which the script deletes."""
    python = sys.executable if peer is PRODUCT else peer_python(run, peer)
    return seconds_of(python, peer, run.url, f"BENCH{next(_numbers)}", count, what)


def large(run: Run, peer: Peer, what: str) -> float:
    """Megabytes a second."""
    return LARGE / 1e6 / measure(run, peer, what, 1)


def small(run: Run, peer: Peer, what: str) -> float:
    """Objects a second."""
    return SMALL / measure(run, peer, what, SMALL)


NO_ANSWER: Final = frozenset({"nats_py_object_get"})
"""Not measured: the read of an object of 32 MiB and more did not end when tried."""


def others(what: str) -> list[str]:
    """The figures of the peers."""
    return [name for peer in WITH_OBJECTS if (name := f"{peer.name}_{what}") not in NO_ANSWER]


for _way, _chunks in (("put", "object_chunks_published"), ("get", "object_chunks_consumed")):
    _large, _small = f"object_{_way}", f"object_{_way}_small"
    figure(
        _large,
        group="objects",
        unit="MB/s",
        reference=_chunks,
        against=others(_large),
    )(functools.partial(large, peer=PRODUCT, what=_large))
    figure(_chunks, group="objects", unit="MB/s")(functools.partial(large, peer=PRODUCT, what=_chunks))
    figure(
        _small,
        group="objects",
        unit="objects/s",
        against=others(_small),
    )(functools.partial(small, peer=PRODUCT, what=_small))
    for _peer in WITH_OBJECTS:
        if f"{_peer.name}_{_large}" in others(_large):
            figure(f"{_peer.name}_{_large}", group="objects", unit="MB/s")(
                functools.partial(large, peer=_peer, what=_large)
            )
        figure(f"{_peer.name}_{_small}", group="objects", unit="objects/s")(
            functools.partial(small, peer=_peer, what=_small)
        )
