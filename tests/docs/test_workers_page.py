"""The programs of docs/workers.md run unchanged, apart from their work: with signals, and without a server."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.pages import examples

from jetspark import sync
from jetspark.server import NatsServer
from jetspark.sync.jetstream import JetStream

ASYNCIO, BLOCKING = examples("workers.md")
PROGRAMS = pytest.mark.parametrize("program", [ASYNCIO, BLOCKING], ids=["asyncio", "blocking"])
WORK = "    ...  # your work; raise ValueError for an order that can never be handled\n"
DONE = """
    say("begin " + order)
    if order == "bad":
        raise ValueError("no such article")
    if order == "busy" and not tries:
        tries.append(order)
        raise KeyError(order)
    if order == "slow":
        {wait}
    if order == "together":
        tries.append(order)
        while tries.count("together") < 10:
            {turn}
    say("end " + order)
"""
SAY = """
import os, time
tries = []
def say(text):
    os.write(1, (text + chr(10)).encode())  # one write for each line: print makes two, and threads mix them
"""
TIMEOUT = 60.0


class Worker:
    """A running worker; reads its output line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def wait_for(self, *lines: str) -> None:
        """Read the output until all these lines have come, those that were read before included."""
        assert self.process.stdout is not None
        while missing := Counter(lines) - Counter(self.lines):
            line = self.process.stdout.readline()
            assert line, f"{missing} did not come after {self.lines}"
            self.lines.append(line.rstrip("\n"))

    def end(self, timeout: float) -> str:
        """Send SIGTERM, and return the rest of the output. The process must end well and in time."""
        self.process.send_signal(signal.SIGTERM)
        rest, _ = self.process.communicate(timeout=timeout)
        assert self.process.returncode == 0
        return rest


@contextmanager
def started(program: str, server: NatsServer) -> Iterator[Worker]:
    assert WORK in program
    waits = {"wait": "await asyncio.sleep(0.5)", "turn": "await asyncio.sleep(0.01)"}
    if "async def" not in program:
        waits = {"wait": "time.sleep(0.5)", "turn": "time.sleep(0.01)"}
    script = SAY + program.replace(WORK, DONE.format(**waits))
    script = script.replace("nats://localhost:4222", server.url)
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    watchdog = threading.Timer(TIMEOUT, process.kill)  # ends the wait for a line that does not come
    watchdog.start()
    try:
        worker = Worker(process)
        worker.wait_for("ready")
        yield worker
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


@pytest.fixture
def server() -> Iterator[NatsServer]:
    """A server with the stream ORDERS."""
    with NatsServer() as server:
        with sync.connect(server.url) as connection:
            connection.jetstream().create_stream(name="ORDERS", subjects=["orders"])
        yield server


def publish(server: NatsServer, *orders: str) -> None:
    with sync.connect(server.url) as connection:
        js = connection.jetstream()
        for order in orders:
            js.publish("orders", order.encode())


def unacknowledged(server: NatsServer) -> int:
    """Return how many messages the worker's consumer has not acknowledged."""
    with sync.connect(server.url) as connection:
        js: JetStream = connection.jetstream()
        info = js.consumer("ORDERS", "worker").cached_info
        return info.num_pending + info.num_ack_pending


@PROGRAMS
def test_ten_orders_are_handled_at_the_same_time(program: str, server: NatsServer) -> None:
    with started(program, server) as worker:
        publish(server, *["together"] * 10)
        worker.wait_for(*["end together"] * 10)
        worker.end(30)
    assert unacknowledged(server) == 0


@PROGRAMS
def test_an_order_that_failed_comes_again_and_a_bad_one_does_not(program: str, server: NatsServer) -> None:
    with started(program, server) as worker:
        publish(server, "bad", "busy", "good")
        worker.wait_for("end good", "end busy")
        worker.end(30)
    assert worker.lines.count("begin bad") == 1
    assert worker.lines.count("begin busy") == 2
    assert unacknowledged(server) == 0


@PROGRAMS
def test_sigterm_lets_running_handlers_finish_and_acknowledge(program: str, server: NatsServer) -> None:
    with started(program, server) as worker:
        publish(server, "slow")
        worker.wait_for("begin slow")
        assert "end slow" in worker.end(30)
    assert unacknowledged(server) == 0


@PROGRAMS
def test_sigterm_without_a_server_ends_the_worker_and_a_restart_handles_the_rest(
    program: str, server: NatsServer
) -> None:
    with started(program, server) as worker:
        publish(server, "slow")
        worker.wait_for("begin slow")
        server.kill()
        worker.end(25)  # before a supervisor kills it
    server.start()
    publish(server, "good")
    with started(program, server) as worker:
        worker.wait_for("end good")
        worker.end(30)
    assert unacknowledged(server) == 1  # the slow one, which comes again after ack_wait


@PROGRAMS
def test_a_restart_handles_what_a_killed_worker_has_left(program: str, server: NatsServer) -> None:
    quick = program.replace("max_deliver=10", "max_deliver=10, ack_wait=timedelta(seconds=1)")
    quick = "from datetime import timedelta\n" + quick
    with started(quick, server) as worker:
        publish(server, "slow")
        worker.wait_for("begin slow")
        worker.process.kill()
    with started(quick, server) as worker:
        worker.wait_for("end slow")
        worker.end(30)
    assert unacknowledged(server) == 0
