"""Record batches on asyncio, over a blocking iterator that the test controls. Threads need the real clock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final, cast

import pyarrow as pa
import pytest

from jetspark import bulk
from jetspark.aio.jetstream.arrow import ScanReader
from jetspark.errors import ConnectionClosedError, DisconnectedError

SCHEMA: Final = pa.schema([("sequence", pa.int64())])
TIMEOUT: Final = 30.0


@pytest.fixture(autouse=True)
def world() -> None:
    """Replace the world of this layer: these tests open no connection and have no virtual time."""


def batch(*sequences: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(sequences, pa.int64())], schema=SCHEMA)


class Blocking:
    """A blocking iterator of record batches. Each read takes one of the permits, and waits until there is one."""

    def __init__(self, *results: pa.RecordBatch | Exception, permits: int = 100) -> None:
        self.schema = SCHEMA
        self.calls: list[str] = []
        self.opened = False
        self.permits = threading.Semaphore(permits)
        self.entered = threading.Semaphore(0)
        self._results = list(results)
        self._interrupted = False

    def __iter__(self) -> Blocking:
        return self

    def __next__(self) -> pa.RecordBatch:
        self.entered.release()
        assert self.permits.acquire(timeout=TIMEOUT)
        if self._interrupted:
            raise DisconnectedError("interrupted")
        if not self._results:
            raise StopIteration
        result = self._results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    def interrupt(self) -> None:
        self.calls.append("interrupt")
        self._interrupted = True
        self.permits.release()

    def ack(self) -> None:
        self.calls.append("ack")

    def close(self) -> None:
        self.calls.append("close")


def scanning(blocking: Blocking) -> ScanReader:
    return ScanReader(cast("bulk.ScanReader", blocking))


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test on a loop with the real clock."""
    asyncio.run(asyncio.wait_for(test, TIMEOUT))


async def entered(blocking: Blocking) -> None:
    """Wait until a thread has begun the next read."""
    assert await asyncio.to_thread(blocking.entered.acquire, timeout=TIMEOUT)


def test_an_iteration_returns_each_batch_and_ends() -> None:
    async def test() -> None:
        blocking = Blocking(batch(1, 2), batch(3))
        async with scanning(blocking) as reader:
            assert [each.column(0).to_pylist() async for each in reader] == [[1, 2], [3]]
        assert blocking.calls == ["close"]

    run(test())


def test_read_all_returns_a_table_of_the_rest() -> None:
    async def test() -> None:
        reader = scanning(Blocking(batch(1), batch(2), batch(3)))
        assert (await anext(reader)).num_rows == 1
        assert (await reader.read_all()).column(0).to_pylist() == [2, 3]
        assert (await reader.read_all()).num_rows == 0

    run(test())


def test_a_cancelled_wait_loses_no_batch() -> None:
    async def test() -> None:
        blocking = Blocking(batch(1), batch(2), permits=0)
        reader = scanning(blocking)
        waiting = asyncio.ensure_future(anext(reader))
        await entered(blocking)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        blocking.permits.release(3)
        assert [each.column(0).to_pylist() async for each in reader] == [[1], [2]]

    run(test())


def test_a_cancelled_read_all_gives_its_batches_back() -> None:
    async def test() -> None:
        blocking = Blocking(batch(1), batch(2), batch(3), permits=1)
        reader = scanning(blocking)
        waiting = asyncio.ensure_future(reader.read_all())
        await entered(blocking)
        await entered(blocking)  # the first batch was read, and the second one waits for its permit
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        blocking.permits.release(3)
        assert (await reader.read_all()).column(0).to_pylist() == [1, 2, 3]

    run(test())


def test_an_error_ends_one_call_and_the_next_one_goes_on() -> None:
    async def test() -> None:
        reader = scanning(Blocking(DisconnectedError("gone"), batch(1)))
        with pytest.raises(DisconnectedError, match="gone"):
            await anext(reader)
        assert (await anext(reader)).num_rows == 1

    run(test())


def test_a_close_interrupts_a_read_and_refuses_later_ones() -> None:
    async def test() -> None:
        blocking = Blocking(batch(1), permits=0)
        reader = scanning(blocking)
        waiting = asyncio.ensure_future(anext(reader))
        await entered(blocking)
        await reader.close()
        assert blocking.calls == ["interrupt", "close"]
        with pytest.raises(DisconnectedError, match="interrupted"):
            await waiting
        with pytest.raises(ConnectionClosedError, match="were closed"):
            await anext(reader)

    run(test())
