"""Faults of servers, disks and networks. Each takes the name of a stream, and returns whether it was done."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import pyarrow as pa
from tests.bulk.proxy import Proxy
from tests.chaos.full_disk import LEFT, Disk
from tests.cut_off import CutOffCluster

from jetspark import bulk
from jetspark.errors import Error
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import StreamCreateRequest, StreamDeleteRequest, StreamLeaderStepdownRequest
from jetspark.server import NatsServer, ServerTimeoutError

__all__ = [
    "CUT",
    "ELECTION_TIMEOUT",
    "SHORT_WINDOW",
    "Fault",
    "ServerFaults",
    "cluster_faults",
    "disk_faults",
    "network_faults",
]

Fault = Callable[[str], bool]

CUT = "cut connections"
ELECTION_TIMEOUT = 60.0
AWAY = 1.5
"""Maximum time in seconds that a server stays away."""
SHORT_WINDOW = 2.0
"""A duplicate window in seconds that is shorter than most faults."""
SILENCES = (8.0, 60.0)
LAME = 12.0  # clients are sent away during 30 s
SLOW, SLOW_DELAY, SLOW_SIZE = 10.0, 0.05, 4096  # 80 kB a second in each direction
CUT_OFF = 12.0
FULL = 8.0
FILLER = "FILLER"


class ServerFaults:
    """The faults of one server, or of the leader of a stream."""

    def __init__(self, find: Callable[[str], NatsServer], wait_ready: Callable[[], object], chance: random.Random):
        self._find = find
        self._wait_ready = wait_ready
        self._chance = chance

    def named(self, server: str) -> dict[str, Fault]:
        """Return the faults by name; `server` says in the names which server it is."""
        silent = {f"silent {server} for {seconds:g} s": self._silent(seconds) for seconds in SILENCES}
        return {
            f"kill {server}": self._kill,
            "outage longer than the window": self._long_outage,
            f"lame duck {server}": self._lame_duck,
            **silent,
        }

    def _kill(self, stream: str) -> bool:
        return self._leave(stream, self._chance.uniform(0.0, AWAY))

    def _long_outage(self, stream: str) -> bool:
        return self._leave(stream, SHORT_WINDOW * self._chance.uniform(1.5, 3.0))

    def _leave(self, stream: str, seconds: float) -> bool:
        server = self._find(stream)
        server.kill()
        time.sleep(seconds)
        server.start()
        self._wait_ready()
        return True

    def _lame_duck(self, stream: str) -> bool:
        server = self._find(stream)
        server.lame_duck()
        with suppress(ServerTimeoutError):
            server.wait_exit(LAME)
        server.kill()
        server.start()
        self._wait_ready()
        return True

    def _silent(self, seconds: float) -> Fault:
        def silent(stream: str) -> bool:
            server = self._find(stream)
            server.pause()
            try:
                time.sleep(seconds)
            finally:
                server.resume()
            self._wait_ready()
            return True

        return silent


def network_faults(proxies: Sequence[Proxy]) -> dict[str, Fault]:
    """Return the faults of the way from the clients to the servers."""

    def cut(_: str) -> bool:
        return sum([proxy.cut() for proxy in proxies]) > 0

    def slow_down(_: str) -> bool:
        for proxy in proxies:
            proxy.slow_down(SLOW_DELAY, SLOW_SIZE)
        try:
            time.sleep(SLOW)
        finally:
            for proxy in proxies:
                proxy.speed_up()
        return True

    return {CUT: cut, "slow link": slow_down}


def disk_faults(server: NatsServer, disk: Disk) -> dict[str, Fault]:
    """Return the faults of a server's disk."""

    def fill(_: str) -> bool:
        before = len(server.log_text())
        with bulk.connect(server.url) as connection:
            connection.request(StreamCreateRequest(StreamConfig(name=FILLER, subjects=[FILLER])))
        disk.fill()
        try:
            _use_last_room(server)
            time.sleep(FULL)
        finally:
            disk.make_room()
            server.restart()
        with bulk.connect(server.url) as connection:
            connection.request(StreamDeleteRequest(FILLER))
        return "no space left" in server.log_text()[before:]

    return {"full disk": fill}


def _use_last_room(server: NatsServer) -> None:
    """Write, in case that nobody else does at the moment."""
    rows = pa.record_batch({"data": [b"x" * 1000] * (2 * LEFT // 1000)})
    with suppress(Error), bulk.connect(server.url) as connection:
        bulk.publish(connection, rows, subject=FILLER, ack_timeout=1.0)


def cluster_faults(nodes: CutOffCluster) -> dict[str, Fault]:
    """Return the faults that only a cluster has."""

    def step_down(stream: str) -> bool:
        nodes.wait_stream_leader(stream, timeout=ELECTION_TIMEOUT)
        try:
            with bulk.connect(nodes.urls) as connection:
                connection.request(StreamLeaderStepdownRequest(stream))
        except Error:
            return False  # it may have stepped down by itself
        return True

    def cut_off(stream: str) -> bool:
        """Its clients still reach the leader, but the leader reaches no other node."""
        leader = nodes.wait_stream_leader(stream, timeout=ELECTION_TIMEOUT)
        nodes.cut_off(leader)
        try:
            time.sleep(CUT_OFF)
        finally:
            nodes.rejoin(leader)
        nodes.wait_ready(ELECTION_TIMEOUT)
        return True

    return {"leader steps down": step_down, "cut off leader": cut_off}
