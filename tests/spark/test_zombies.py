"""Attempts of a task that continue although another attempt has done the work, and attempts that die after their work.

Spark abandons an attempt if its executor seems to be dead, and runs the task again if an attempt is lost after it has
published. Both publish the same rows, on a real server, which must keep each row once.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.bulk.proxy import Proxy, Tamper
from tests.chaos.campaign import CONF
from tests.chaos.driver import Driver, command_line, descendants
from tests.chaos.job import Job, Leg, drain, writer
from tests.spark.support import Nats

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COUNT = 3000
"""Rows of a micro-batch. They are one record batch, which a task has as a whole when it publishes the first of them."""
MORE = 100
ATOMIC_BATCH = 1000
PENDING = 64
"""Rows that a task has sent when it waits for the first acknowledgement: it sends a quarter of them at a time."""
TIMEOUT = 600.0
WINDOW = timedelta(minutes=30)
"""The duplicate window of the streams: long enough for a slow machine."""
WAYS = [
    pytest.param({}, COUNT, id="plain"),
    pytest.param({"ledgerStream": "LOST"}, COUNT, id="recorded"),
    pytest.param({"atomic": "true"}, ATOMIC_BATCH, id="atomic"),
]


class Acks:
    """Acknowledgements of some streams: the first one is halted until `resume`, and duplicates are counted.

    Attributes
    ----------
    halted
        Connections that were halted.
    duplicates
        Messages that the server has reported as duplicates since then.
    """

    def __init__(self, *streams: str) -> None:
        self._ours = re.compile(rb'"stream":\s*"(?:%s)"' % "|".join(streams).encode())
        self._duplicate = re.compile(self._ours.pattern + rb'[^}]*"duplicate":\s*true')
        self._free = threading.Event()
        self._lock = threading.Lock()
        self.halted = 0
        self.duplicates = 0

    def tamper(self) -> Tamper:
        """Return the tamper of one connection."""
        tail, waits = b"", True

        def tamper(data: bytes) -> bytes:
            nonlocal tail, waits
            seen = tail + data
            if waits and self._ours.search(seen):
                waits = False
                if not self._free.is_set():
                    with self._lock:
                        self.halted += 1
                    self._free.wait(TIMEOUT)
            found = list(self._duplicate.finditer(seen))
            with self._lock:
                self.duplicates += len(found)
            tail = seen[found[-1].end() if found else 0 :][-300:]  # an acknowledgement may come in two parts
            return data

        return tamper

    def resume(self) -> None:
        """Halt nothing any more."""
        self._free.set()


def leg(name: str, folder: Path, url: str, origin: str, target: str, options: dict[str, str]) -> Leg:
    """A query that copies a stream in micro-batches of one task each."""
    limits = {"minPartitions": "1", "maxOffsetsPerTrigger": str(COUNT), "startingOffsets": "earliest"}
    sink = {"servers": url, "subject": f"{target}.x", "ackTimeout": "15m", "maxPendingAcks": str(PENDING), **options}
    source = {"servers": url, "stream": origin, **limits}
    return Leg(name=name, options=source, sink=sink, folder=str(folder / name), numbers=COUNT + MORE, digits=[])


def until(condition: Callable[[], bool], driver: Driver | None = None) -> None:
    """Wait for other processes, which report nothing."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, driver and driver.log()
        time.sleep(0.02)


def connected(pid: int, port: int) -> bool:
    """Return whether a process has a connection to a port of this machine."""
    table = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    sockets = {f"socket:[{fields[9]}]" for fields in table if fields[2] == f"0100007F:{port:04X}"}
    with contextlib.suppress(OSError):  # gone meanwhile
        return not sockets.isdisjoint(str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir())
    return False


def data(nats: Nats, stream: str) -> list[int]:
    return sorted(int(str(row["data"], "ascii")) for row in nats.rows(stream, "data"))  # type: ignore[call-overload]


@pytest.mark.matrix
def test_tasks_of_a_killed_driver_store_nothing_twice_after_the_query_continued_elsewhere(
    session: SparkSession, nats: Nats, tmp_path: Path
) -> None:
    """The executors are paused while another driver finishes their micro-batch and the next, and then they continue."""
    origin = nats.filled(COUNT + MORE)
    ways: dict[str, dict[str, str]] = {
        "plain": {},
        "recorded": {"ledgerStream": "ZOMBIES"},
        "atomic": {"atomic": "true"},
    }
    targets = {name: nats.stream(allow_atomic=name == "atomic", duplicate_window=WINDOW) for name in ways}
    acks = Acks(*targets.values())
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(Proxy(nats.server, *[acks.tamper() for _ in range(40)]))
        stack.callback(acks.resume)

        def legs(url: str) -> list[Leg]:
            return [leg(name, tmp_path, url, origin, targets[name], ways[name]) for name in ways]

        driver = Driver(tmp_path, Job(master="local-cluster[1,3,1024]", conf=CONF, legs=legs(proxy.url)))
        stack.callback(driver.kill)
        driver.start()
        before = {"plain": PENDING, "recorded": PENDING, "atomic": ATOMIC_BATCH}

        def stored() -> dict[str, int]:
            return {name: nats.info(target).state.messages for name, target in targets.items()}

        until(lambda: (acks.halted == len(ways) and stored() == before) or not driver.running, driver)
        assert driver.orphan_executor(), driver.log()
        assert stored() == before

        drain(session, legs(nats.url))
        for target in targets.values():
            assert data(nats, target) == list(range(COUNT + MORE))

        acks.resume()
        driver.wake_workers()
        until(lambda: acks.duplicates >= COUNT * len(ways) - sum(before.values()))
    assert acks.duplicates == COUNT * len(ways) - sum(before.values())
    for target in targets.values():
        assert data(nats, target) == list(range(COUNT + MORE))


@pytest.mark.parametrize(("options", "stored"), WAYS)
def test_a_task_that_dies_after_its_rows_are_stored_is_repeated_and_stores_nothing_twice(
    session: SparkSession, nats: Nats, tmp_path: Path, options: dict[str, str], stored: int
) -> None:
    origin, target = nats.filled(COUNT), nats.stream(allow_atomic=True, duplicate_window=WINDOW)
    acks = Acks(target)
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(Proxy(nats.server, *[acks.tamper() for _ in range(40)]))
        stack.callback(acks.resume)
        made = leg("dies", tmp_path, proxy.url, origin, target, {**options, "maxPendingAcks": str(2 * COUNT)})
        made["options"]["servers"] = nats.url
        query = writer(session, made).trigger(availableNow=True).start()
        stack.callback(query.stop)
        until(lambda: acks.halted == 1 and nats.info(target).state.messages == stored)
        workers = (pid for pid in descendants(os.getpid()) if command_line(pid).endswith("pyspark.worker\0"))
        (worker,) = (pid for pid in workers if connected(pid, proxy.port))
        os.kill(worker, signal.SIGKILL)
        acks.resume()
        query.awaitTermination()
    assert acks.duplicates == (0 if "ledgerStream" in options else stored)
    assert data(nats, target) == list(range(COUNT))
