"""No unused consumer stays on the server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta

import pytest
from tests.api.subscribing.support import collect, consumers_left, reported_error
from tests.api.subscribing.support import side as open_side
from tests.fronts import FrontName, Ground, Profile, open_ground

from jetspark.errors import ConsumerNotFoundError, MissedHeartbeatError
from jetspark.events import Reconnected
from jetspark.jetstream import StorageType
from jetspark.server import NatsServer

_ONE_SERVER = pytest.mark.parametrize("profile", ["default"], indirect=True)

PROGRAM = """
import asyncio, os, sys
import jetspark
from datetime import timedelta

MODES = ("ordered", "push", "durable", "pull")

async def main(url, subject, mode):
    connection = await jetspark.connect(url)
    js = connection.jetstream()
    options = {"inactive_threshold": timedelta(seconds=2)}
    if mode == "ordered":
        await js.subscribe(subject, ordered_consumer=True, idle_heartbeat=0.3, **options)
    elif mode == "push":
        await js.subscribe(subject, **options)
    elif mode == "durable":
        await js.subscribe(subject, durable="d", **options)
    else:
        # With a message that is not acknowledged, the server waits for that to be over first.
        config = jetspark.jetstream.ConsumerConfig(ack_wait=timedelta(seconds=0.3), **options)
        await (await js.pull_subscribe(subject, config=config)).fetch(1)
    os.kill(os.getpid(), 9)

jetspark.connect  # imported before the forks, so that it is imported once
for number in range(int(sys.argv[3])):
    child = os.fork()
    if not child:
        asyncio.run(main(*sys.argv[1:3], MODES[number % len(MODES)]))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -9, number
"""

RESTARTS = 50


@_ONE_SERVER
@pytest.mark.parametrize("front", ["aio"], indirect=True)
@pytest.mark.matrix
async def test_a_process_that_is_killed_and_restarted_50_times_leaves_no_consumer(ground: Ground) -> None:
    """The inactive threshold removes the consumer that a killed process could not delete."""
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", b"1")
    command = [sys.executable, "-c", PROGRAM, ground.server.url, f"{stream.name}.a", str(RESTARTS)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    await consumers_left(ground, stream.name, 0)


async def test_r15_a_consumer_that_disappeared_while_the_server_was_down_is_reported(
    front: FrontName, profile: Profile, no_leaks: None
) -> None:
    with NatsServer(config=profile.config) as server:
        async with open_ground(front, profile, server) as ground, open_side(ground, reconnect_wait=0.05) as own:
            stream = await ground.stream(storage=StorageType.FILE)
            subscription = await own.js.subscribe(
                f"{stream.name}.a",
                idle_heartbeat=0.2,
                inactive_threshold=timedelta(seconds=0.3),
                callback=lambda _message: None,
            )
            server.kill()
            await asyncio.sleep(0.6)
            server.start()
            await own.events.wait(Reconnected)
            with suppress(ConsumerNotFoundError):  # the timer of the server decides whether it is gone already
                await ground.js.delete_consumer(stream.name, subscription.consumer)
            await reported_error(own.events, MissedHeartbeatError)
            await reported_error(own.events, ConsumerNotFoundError)


async def test_a_reader_that_returns_in_time_keeps_its_consumer(ground: Ground) -> None:
    stream = await ground.stream()
    await ground.fill(f"{stream.name}.a", b"1", b"2")
    subscription = await ground.js.subscribe(f"{stream.name}.a", inactive_threshold=0.3)
    await collect(subscription, 2)
    await asyncio.sleep(0.5)
    assert (await subscription.consumer_info()).push_bound
