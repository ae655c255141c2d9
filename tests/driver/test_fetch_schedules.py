"""Fetches that start, are cancelled and are served in random order. Each delivered message is returned once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from tests.driver.fetching import handle
from tests.driver.jetstream import ConsumerScript, Pull
from tests.driver.pulling import bound
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark import aio
from jetspark.errors import NoMessageError

Fetch = Callable[[int, float], Awaitable[list[aio.Msg]]]


class Schedule:
    """One run. The server serves pulls while their inbox has a subscription, and never more than they request.

    Parameters
    ----------
    numbers
        Choose the next event.
    fetch
        Fetches a number of messages within a number of seconds.
    """

    def __init__(self, numbers: random.Random, worker: ConsumerScript, clock: Clock, fetch: Fetch) -> None:
        self.got: list[bytes] = []
        self._numbers = numbers
        self._worker = worker
        self._clock = clock
        self._fetch = fetch
        self._tasks: list[asyncio.Task[None]] = []
        self._served: dict[str, int] = {}

    async def run(self, steps: int) -> None:
        """Let a number of events happen, and then let everything end."""
        for _ in range(steps):
            self._numbers.choice((self._begin, self._cancel, self._deliver, self._deliver, self._end))()
            if self._numbers.random() < 0.7:
                await self._clock.advance(self._numbers.choice((0.0, 0.01, 0.05, 0.1, 0.3)))
        await self._clock.advance(10)
        if self._tasks:
            await asyncio.wait(self._tasks)
        for task in self._tasks:
            assert task.cancelled() or task.exception() is None
        for _ in range(3):  # the remaining messages
            collecting = asyncio.create_task(self._take(100))
            await self._clock.advance(1)
            self._finish_all()
            await self._clock.advance(1)
            self._finish_all()
            await collecting

    async def _take(self, count: int) -> None:
        try:
            self.got += [message.payload for message in await self._fetch(count, 2)]
        except NoMessageError:
            return

    def _begin(self) -> None:
        self._tasks.append(asyncio.create_task(self._take(self._numbers.randint(1, 5))))

    def _cancel(self) -> None:
        running = [task for task in self._tasks if not task.done()]
        if running:
            self._numbers.choice(running).cancel()

    def _open(self) -> list[Pull]:
        return [pull for pull in self._worker.pulls if self._left(pull) > 0 and pull.heard]

    def _left(self, pull: Pull) -> int:
        return pull.batch - self._served.get(pull.request.reply, 0)

    def _deliver(self) -> None:
        if pulls := self._open():
            pull = self._numbers.choice(pulls)
            count = self._numbers.randint(1, self._left(pull))
            self._served[pull.request.reply] = self._served.get(pull.request.reply, 0) + count
            assert pull.fill(count) == count

    def _end(self) -> None:
        if pulls := self._open():
            self._finish(self._numbers.choice(pulls))

    def _finish_all(self) -> None:
        for pull in self._open():
            self._finish(pull)

    def _finish(self, pull: Pull) -> None:
        self._served[pull.request.reply] = pull.batch
        pull.status("404 No Messages" if "no_wait" in pull.fields else "408 Request Timeout")


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", ["handle", "subscription"])
async def test_each_message_is_delivered_once(
    world: World, worker: ConsumerScript, clock: Clock, kind: str, seed: int
) -> None:
    numbers = random.Random(seed)
    world.net.latency = numbers.choice((0.0, 0.02, 0.1))
    fetch: Fetch
    if kind == "handle":
        consumer = await handle(world)
        fetch = lambda count, seconds: consumer.fetch(count, timeout=seconds)  # noqa: E731
    else:
        subscription = await bound(world)
        fetch = subscription.fetch
    schedule = Schedule(numbers, worker, clock, fetch)
    await schedule.run(60)
    assert sorted(schedule.got, key=int) == [b"%d" % number for number in range(1, worker.stream_sequence + 1)]
