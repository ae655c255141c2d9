"""A normal program leaves nothing above INFO in the log, however it closes its connection."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest

from jetspark import aio, bulk, sync
from jetspark.server import NatsServer


@pytest.fixture(scope="module")
def jetstream_server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The log of the test has a close, and nothing above INFO."""
    with caplog.at_level(logging.INFO):
        yield
    records = [record for when in ("setup", "call") for record in caplog.get_records(when)]
    assert [record.getMessage() for record in records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize("end", ["close", "drain", "with"])
async def test_a_normal_close_logs_nothing_above_info(
    jetstream_server: NatsServer, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    connection = await aio.connect(jetstream_server.url)
    got = asyncio.Event()
    js = connection.jetstream()
    stream = await js.create_stream(name=f"A{end}", subjects=[f"a.{end}.>"], storage="memory")
    await connection.subscribe("other", callback=lambda _: None)
    waiting = await connection.subscribe("waiting")
    push = await js.subscribe(f"a.{end}.>", callback=lambda _: got.set())
    context = (await stream.create_consumer()).consume(lambda _: None)
    ordered = stream.ordered_consumer().consume()
    await js.publish_async(f"a.{end}.1")
    await got.wait()
    if end == "with":
        async with connection:
            await ordered.stop()  # a drain waits for its messages
            await context.stop()
    elif end == "drain":
        await ordered.stop()
        await context.stop()
        await waiting.unsubscribe()
        await push.drain()
        await connection.drain()
    else:
        await connection.close()
    assert "Closed(error=None)" in caplog.text


@pytest.mark.parametrize("end", ["close", "drain", "with"])
def test_a_normal_close_of_the_blocking_front_logs_nothing_above_info(
    jetstream_server: NatsServer, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    connection = sync.connect(jetstream_server.url)
    got = threading.Event()
    js = connection.jetstream()
    stream = js.create_stream(name=f"S{end}", subjects=[f"s.{end}.>"], storage="memory")
    connection.subscribe("other", callback=lambda _: None)
    js.subscribe(f"s.{end}.>", callback=lambda _: got.set())
    context = stream.create_consumer().consume(lambda _: None)
    js.publish_async(f"s.{end}.1")
    assert got.wait(10)
    if end == "with":
        with connection:
            context.drain()
    elif end == "drain":
        connection.drain()
    else:
        connection.close()
    assert "Closed(error=None)" in caplog.text


def test_a_bulk_connection_logs_nothing_above_info(jetstream_server: NatsServer) -> None:
    with bulk.connect(jetstream_server.url) as connection:
        assert not connection.closed
