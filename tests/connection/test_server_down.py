"""The end of a connection while its server is down, on both fronts and for a program that gets SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest
from tests.connection.support import Front, eventually

from jetspark.errors import DisconnectedError
from jetspark.server import NatsServer

pytestmark = pytest.mark.blocking  # close and drain of the blocking connection are handwritten

PROGRAMS = {
    "sync": """
import signal, sys, threading
import jetspark

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with jetspark.sync.connect(sys.argv[1], on_event=lambda event: print(type(event).__name__, flush=True)) as connection:
    js = connection.jetstream()
    js.create_stream(name="JOBS", subjects=["jobs"])
    context = js.create_consumer("JOBS", durable_name="worker").consume(lambda message: message.ack())
    ordered = js.ordered_consumer("JOBS").consume(lambda message: None)
    subscription = js.subscribe("jobs", callback=lambda message: None)
    print("ready", flush=True)
    stop.wait()
print("left", flush=True)
""",
    "aio": """
import asyncio, signal, sys
import jetspark

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    report = lambda event: print(type(event).__name__, flush=True)
    async with await jetspark.connect(sys.argv[1], on_event=report) as connection:
        js = connection.jetstream()
        await js.create_stream(name="JOBS", subjects=["jobs"])
        context = (await js.create_consumer("JOBS", durable_name="worker")).consume(lambda message: message.ack())
        ordered = js.ordered_consumer("JOBS").consume(lambda message: None)
        subscription = await js.subscribe("jobs", callback=lambda message: None)
        print("ready", flush=True)
        await stop.wait()
    print("left", flush=True)

asyncio.run(main())
""",
}


async def test_a_program_that_gets_sigterm_while_the_server_is_down_leaves_quickly(front: Front) -> None:
    with NatsServer() as server:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAMS[front.name], server.url, stdout=asyncio.subprocess.PIPE
        )
        assert program.stdout is not None
        try:
            async with asyncio.timeout(60):
                await program.stdout.readuntil(b"ready\n")
                await asyncio.to_thread(server.kill)
                await program.stdout.readuntil(b"Disconnected\n")
            program.send_signal(signal.SIGTERM)
            async with asyncio.timeout(15):  # a supervisor kills it after 30 s, or earlier
                output = await program.stdout.read()
                assert await program.wait() == 0
            assert output.endswith(b"left\n")
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()


@pytest.mark.parametrize("how", ["drain", "close", "leave"])
async def test_the_end_does_not_wait_for_a_server_that_is_down(front: Front, server: NatsServer, how: str) -> None:
    connection = await front.connect(server.url)
    await connection.subscribe("a")
    await connection.flush()
    server.kill()
    await eventually(lambda: not connection.connected)
    async with asyncio.timeout(15):
        if how == "leave":
            async with connection:
                pass
        else:
            await (connection.drain() if how == "drain" else connection.close())
    assert connection.closed


async def test_a_drain_raises_for_messages_that_were_not_sent(front: Front, server: NatsServer) -> None:
    connection = await front.connect(server.url)
    server.kill()
    await eventually(lambda: not connection.connected)
    for _ in range(3):
        await connection.publish("lost")
    with pytest.raises(DisconnectedError, match="3 messages were not sent"):
        await asyncio.wait_for(connection.drain(), 15)
