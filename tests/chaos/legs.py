"""The queries of a chaos run: their streams and options."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from tests.chaos.job import Leg
from tests.chaos.server_faults import SHORT_WINDOW
from tests.chaos.world import PURGED, World

from jetspark.jetstream import RetentionPolicy

__all__ = ["COMMIT_CONSUMER", "LEGS", "TARGETS", "UNGUARDED", "make_leg"]

LEGS = (
    "limits",
    "filtered",
    "interest",
    "workqueue",
    "purged",
    "sink",
    "plain",
    "atomic",
    "window",
    "unguarded",
)
TARGETS = {"sink": "TARGET", "plain": "PLAIN", "atomic": "ATOMIC", "window": "WINDOW", "unguarded": "UNGUARDED"}
UNGUARDED = "unguarded"
"""This leg stores rows twice: a window that is shorter than the outages, and no record of what is stored."""
COMMIT_CONSUMER = "spark"
LONG_WINDOW = timedelta(minutes=30)
"""Without a record, only the duplicate window recognises repeats, even those of a driver that starts slowly."""
DIGITS = list(range(10))
FILTERED = [3, 7]
SOURCES: Mapping[str, Mapping[str, object]] = {
    "interest": {"retention": RetentionPolicy.INTEREST, "allow_direct": True},
    "workqueue": {"retention": RetentionPolicy.WORK_QUEUE, "allow_direct": True},
    "purged": {},
}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "filtered": {"subject": ",".join(f"LIMITS.{digit}" for digit in FILTERED)},
    "interest": {"commitMode": "consumer", "commitConsumer": COMMIT_CONSUMER},
    "workqueue": {"commitMode": "purge"},
}
SINKS: Mapping[str, Mapping[str, str]] = {
    "sink": {"ledgerStream": "PROGRESS"},
    "plain": {"maxReplayDelay": "30m"},
    "atomic": {"maxReplayDelay": "30m", "atomic": "true"},
    "window": {"ledgerStream": "PROGRESS"},
    UNGUARDED: {"maxReplayDelay": f"{SHORT_WINDOW:g}s"},
}
WINDOWS: Mapping[str, timedelta] = {
    "plain": LONG_WINDOW,
    "atomic": LONG_WINDOW,
    "window": timedelta(seconds=SHORT_WINDOW),
    UNGUARDED: timedelta(seconds=SHORT_WINDOW),
}


def make_leg(world: World, name: str, folder: Path, numbers: int) -> Leg:
    """Create the streams of a query."""
    folder.mkdir()
    stream = name.upper() if name in SOURCES else "LIMITS"
    assert (stream == PURGED) == (name == "purged")
    world.create(stream, **SOURCES.get(name, {}))  # the same again, for the legs that share it
    servers = ",".join(world.proxied)
    common = {"servers": servers, "stream": stream, "startingOffsets": "earliest", "retryTimeout": "60s"}
    sink: dict[str, str] = {}
    if name in TARGETS:
        window = {"duplicate_window": WINDOWS[name]} if name in WINDOWS else {}
        world.create(TARGETS[name], allow_atomic=name == "atomic", **window)
        sink = {"servers": servers, "subject": f"{TARGETS[name]}.number", "ackTimeout": "30s", **SINKS[name]}
    return Leg(
        name=name,
        options={**common, **OPTIONS.get(name, {})},
        sink=sink,
        folder=str(folder),
        numbers=numbers,
        digits=FILTERED if name == "filtered" else DIGITS,
    )
