"""Push delivery: ordered subscriptions, the product's in three ways and nats-py's, on the stream that all others read.

As for the peers, each figure is a process of its own. The server's flow control is on in all of them.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

from bench.peer_figures import PEER_LIST, Peer, peer_python, seconds_of
from bench.reading import MESSAGES
from bench.registry import figure

if TYPE_CHECKING:
    from bench.run import Run

PRODUCT = Peer("jetspark", reads={"push": 500_000, "push_callback": 500_000, "push_blocking": 500_000}, writes={})

NATS_PY = next(peer for peer in PEER_LIST if peer.name == "nats_py")

SLOW = 60_000
"""Messages of nats-py's figure."""


def push(run: Run, peer: Peer, what: str, messages: int) -> float:
    """Messages a second, from the call that subscribes to the last message."""
    count = run.count(messages)
    stream = run.stream(run.count(MESSAGES))
    python = sys.executable if peer is PRODUCT else peer_python(run, peer)
    return count / seconds_of(python, peer, run.url, stream, count, what)


figure("nats_py_push", group="push")(functools.partial(push, peer=NATS_PY, what="push", messages=SLOW))

for _what, _messages in PRODUCT.reads.items():
    figure(_what, group="push", reference="nats_py_push")(
        functools.partial(push, peer=PRODUCT, what=_what, messages=_messages)
    )
