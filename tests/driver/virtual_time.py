"""An event loop with virtual time. Time advances only when nothing is ready to run, and then to the next timer.

There is no selector, no thread and no real clock. So a test runs the same way each time, and a wait of an hour takes no
real time. Connections are opened through `network`, which a test sets.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

__all__ = ["Clock", "Network", "StuckError", "VirtualTimeLoop"]

_START: Final = 1000.0
_HORIZON: Final = 4 * 3600.0
"""Seconds after which a test counts as stuck: its timers keep firing, but it does not end."""


_NOISE: Final = 1e-11
"""Tolerance in seconds for sums of times."""


class StuckError(RuntimeError):
    """Raised if tasks wait and nothing can wake them."""


class Network(Protocol):
    """Opens the connections of a loop."""

    async def open(self, protocol: asyncio.BaseProtocol, host: str, port: int) -> asyncio.Transport:
        """Connect to a server."""

    async def start_tls(self, transport: asyncio.BaseTransport) -> asyncio.Transport | None:
        """Encrypt a connection; None if the server closed it meanwhile."""


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """An event loop with virtual time; see the module."""

    _ready: deque[asyncio.Handle]  # of asyncio
    _scheduled: list[asyncio.TimerHandle]  # of asyncio

    def __init__(self) -> None:
        self._now = _START
        super().__init__()
        self._selector = _NoSelector(self._pass)
        self.network: Network | None = None

    def time(self) -> float:
        return self._now

    @property
    def _clock_resolution(self) -> float:
        """asyncio fires timers that are due within this time. Here no timer fires early, so a callback that reads the
        clock finds that its time has come.
        """
        return math.ulp(self._now)

    @_clock_resolution.setter
    def _clock_resolution(self, seconds: float) -> None:
        """asyncio sets it to that of the real clock."""

    @property
    def idle(self) -> bool:
        """Return whether nothing else is ready to run and no timer is due. Called from a running callback."""
        return not self._ready and not any(each.when() <= self._now for each in self.timers)

    @property
    def timers(self) -> list[asyncio.TimerHandle]:
        """The timers that are set."""
        return [each for each in self._scheduled if not each.cancelled()]

    async def create_connection(  # type: ignore[override]  # the overloads of typeshed, of which the client uses one
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        assert self.network is not None
        protocol = protocol_factory()
        return await self.network.open(protocol, host, port), protocol

    async def start_tls(self, transport: asyncio.BaseTransport, *_: object, **__: object) -> asyncio.Transport | None:
        assert self.network is not None
        return await self.network.start_tls(transport)

    def run_in_executor(self, *_: object) -> Any:
        raise RuntimeError("no threads in virtual time")

    def block(self, seconds: float) -> None:
        """Advance the time at once, like code that blocks the loop."""
        self._now += seconds

    def _pass(self, seconds: float | None) -> None:
        """Advance the time: nothing is ready, and the next timer is due in `timeout` seconds."""
        if seconds is None:
            raise StuckError(f"nothing can happen any more; these tasks wait: {_waiting(self)}")
        self._now += seconds
        if self._now > _START + _HORIZON:
            raise StuckError(f"waited for {_HORIZON:g} s; these tasks wait: {_waiting(self)}")

    def _process_events(self, event_list: object) -> None:
        """Do nothing: there is no self-pipe. asyncio calls it."""

    def _write_to_self(self) -> None:
        """Do nothing: all code runs in one thread. asyncio calls it."""


class _NoSelector(selectors.BaseSelector):
    """Replaces the selector of asyncio, and advances the time instead of waiting for sockets."""

    def __init__(self, wait: Callable[[float | None], None]) -> None:
        self._wait = wait

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._wait(timeout)
        return []

    def register(self, fileobj: object, events: int, data: object = None) -> selectors.SelectorKey:
        raise NotImplementedError

    def unregister(self, fileobj: object) -> selectors.SelectorKey:
        raise NotImplementedError

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return {}


class Clock:
    """The clock of a test."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop

    @property
    def now(self) -> float:
        """Seconds since the test began, without the noise of floating point."""
        return round(self._loop.time() - _START, 9)

    def block(self, seconds: float) -> None:
        """Block the loop for `seconds`: the time advances, and nothing else runs."""
        self._loop.block(seconds)

    async def settle(self) -> None:
        """Run everything that can run now. The time stays. Two tasks that call it at once wait for each other."""
        while True:
            await asyncio.sleep(0)
            if self._loop.idle:
                return

    async def until(self, moment: float) -> None:
        """Advance the time to a value of `now`, and run everything until then."""
        loop = self._loop
        if (when := _START + moment + _NOISE) > loop.time():
            waiter = loop.create_future()
            loop.call_at(when, waiter.set_result, None)
            await waiter
        await self.settle()

    async def advance(self, seconds: float) -> None:
        """Advance the time by `seconds`, and run everything until then."""
        await self.until(self.now + seconds)


def _waiting(loop: asyncio.AbstractEventLoop) -> str:
    found = []
    for task in asyncio.all_tasks(loop):
        frames = task.get_stack()
        where = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "nowhere"
        found.append(f"{task.get_name()} in {where}")
    return "; ".join(sorted(found)) or "none"
