"""Core NATS, one message at a time: publish, subscribe as iterator and with a callback, request, against the peers.

Every figure, the product's too, is a process of its own that runs a script of `bench/peers` over one harness
(`bench/peers/core.py`). Rates are messages a second. A request's figure is its median round trip in microseconds, so
there a ratio below 1 is the better one.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import TYPE_CHECKING

from bench.environments import PEERS, peers_environment
from bench.registry import RATE, figure
from bench.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from bench.run import Run

SIZES = (16, 128)
"""Bytes of payload."""

PRODUCT = "jetspark"

CLIENTS: dict[str, tuple[str, ...]] = {
    PRODUCT: ("publish", "iterate", "callback", "request"),
    "natsio": ("publish", "iterate", "callback", "request"),
    "nats_py": ("publish", "iterate", "callback", "request"),
    "nats_core": ("publish", "iterate", "request"),
    "natsrpy": ("publish", "iterate", "callback", "request"),
}
"""Figures that each client supports. nats-core calls callbacks on its read path only."""

NEWER_PYTHON = {"natsio", "nats_core"}
"""Clients that want Python 3.13."""

MESSAGES = {"publish": 200_000, "iterate": 200_000, "callback": 200_000, "request": 5_000}

SLOW_PUBLISHERS = {"natsrpy": 20_000}
"""It crosses into Rust and back for each message."""

TIMEOUT = 300.0


def measure(run: Run, client: str, what: str, size: int) -> float:
    """One round of one client."""
    count = MESSAGES[what]
    if what == "publish":
        count = SLOW_PUBLISHERS.get(client, count)
    script = PEERS / f"core_{client}.py"
    command: list[str | Path] = [_python(run, client), script, run.url, what, str(size), str(run.count(count))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"{client} {what} failed:\n{done.stderr.strip() or done.stdout.strip()}")
    return float(json.loads(done.stdout.splitlines()[-1])["value"])


def _python(run: Run, client: str) -> str | Path:
    if client == PRODUCT:
        return sys.executable
    python = run.shared(peers_environment)
    if client in NEWER_PYTHON and python.version < (3, 13):
        found = ".".join(map(str, python.version))
        raise Unavailable(f"it needs Python 3.13, and the newest one found is {found}")
    return python.path


for _what in MESSAGES:
    for _size in SIZES:
        for _client, _offered in CLIENTS.items():
            if _what not in _offered:
                continue
            _peers = tuple(
                f"{each}_{_what}_{_size}" for each, has in CLIENTS.items() if each != PRODUCT and _what in has
            )
            figure(
                f"{_what}_{_size}" if _client == PRODUCT else f"{_client}_{_what}_{_size}",
                group="core",
                unit="us" if _what == "request" else RATE,
                against=_peers if _client == PRODUCT else (),
            )(functools.partial(measure, client=_client, what=_what, size=_size))
