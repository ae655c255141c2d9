"""Which fault comes next, and how each is done: to the driver and its executors, to the servers, or to both at once."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.chaos.driver import Driver, DriverError
from tests.chaos.server_faults import CUT, Fault
from tests.chaos.world import World

__all__ = ["FaultMaker"]

KILL_DRIVER, ORPHAN, KILL_EXECUTOR = "kill driver", "orphan executor", "kill executor"
TWO = "two at once"
FAULT_TIMEOUT = 120.0
ORPHAN_TIMEOUT = 75.0  # shorter than the duplicate window of a stream, including the time of a kill


class FaultMaker:
    """Causes faults in several attempts if needed: there may be no executor or no leader at the moment.

    Parameters
    ----------
    legs
        The names of the legs.
    streams
        Faults that concern one stream take one of these.
    """

    def __init__(
        self, world: World, driver: Driver, legs: Sequence[str], streams: Sequence[str], chance: random.Random
    ) -> None:
        self._driver = driver
        self._legs = legs
        self._streams = streams
        self._chance = chance
        self._faults: dict[str, Fault] = {
            KILL_DRIVER: lambda _: self._kill_driver(),
            ORPHAN: lambda _: self._orphan_executor(),
            KILL_EXECUTOR: lambda _: driver.kill_executor(),
            **world.faults,
            **(world.stream_faults if "purged" in legs else {}),
            TWO: self._two,
        }
        # Without a driver there may be no connection to cut.
        self._others = [name for name in world.faults if name != CUT]

    def choose(self, count: int, kinds: Sequence[str] | None) -> Iterator[str]:
        """Return each kind as often as any other, in random order. None takes all kinds."""
        rest = list(itertools.islice(itertools.cycle(kinds or list(self._faults)), count))
        self._chance.shuffle(rest)
        yield from rest

    def do(self, fault: str) -> None:
        """Cause a fault, and wait for its end."""
        stream = self._chance.choice(self._streams)
        deadline = time.monotonic() + FAULT_TIMEOUT
        while not self._faults[fault](stream):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{fault} could not be done: {self._driver.log()}")
            time.sleep(0.05)  # no event reports a new executor or leader

    def _kill_driver(self) -> bool:
        done = self._driver.kill()
        self._start_driver()
        return done

    def _orphan_executor(self) -> bool:
        done = self._driver.orphan_executor()
        self._start_driver()
        if done:
            with contextlib.suppress(DriverError):  # one of them may have nothing new to read
                self._driver.await_batches(self._legs, ORPHAN_TIMEOUT)
            self._driver.wake()
        return done

    def _start_driver(self) -> None:
        if not self._driver.running:
            self._driver.start()

    def _two(self, _: str) -> bool:
        """One of the servers or the network, and meanwhile one of the driver."""
        first, second = self._chance.choice(self._others), self._chance.choice([KILL_DRIVER, KILL_EXECUTOR])
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(self.do, first)
            time.sleep(self._chance.uniform(0.0, 1.0))  # the first one has begun, at a random time before
            self.do(second)
            done.result()
        return True
