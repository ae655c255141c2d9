"""Publishes whose acknowledgements are awaited later (PUB-10 to PUB-12)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest
from tests.api.publishing.support import ack_of, async_context, distant_server, subscriptions_of
from tests.fronts import Ground, connect, eventually

from jetspark.aio.jetstream import AsyncPublishOptions, PubAckFuture, RetryPolicy
from jetspark.errors import (
    ConfigError,
    Error,
    NoStreamResponseError,
    PublishTimeoutError,
    TooManyStalledError,
    WrongEventLoopError,
    WrongLastSequenceError,
)
from jetspark.jetstream import PubAck

ONE_PROFILE = pytest.mark.parametrize("profile", ["default"], indirect=True)


@pytest.mark.conformance("PUB-10")
@pytest.mark.profiles
async def test_a_thousand_publishes_have_their_own_futures_and_share_one_subscription(ground: Ground) -> None:
    stream = await ground.stream()
    before = set(subscriptions_of(ground))
    futures = [await ground.js.publish_async(f"{stream.name}.a", b"%d" % number) for number in range(1000)]
    await ground.js.publish_async_completed(20)
    fresh = set(subscriptions_of(ground)) - before
    assert len(fresh) == 1
    assert fresh.pop().endswith(".*")
    assert [future.result().sequence for future in futures] == list(range(1, 1001))
    assert {future.result().stream for future in futures} == {stream.name}
    assert all(future.done() and future.exception() is None for future in futures)
    assert ground.js.publish_async_pending == 0
    stats = ground.js.publish_async_stats
    assert (stats.published, stats.acknowledged, stats.failed, stats.unmatched_acks) == (1000, 1000, 0, 0)


@pytest.mark.conformance("PUB-10")
@pytest.mark.profiles
async def test_a_future_can_be_awaited_repeatedly_and_by_several_tasks(ground: Ground) -> None:
    stream = await ground.stream()
    future = await ground.js.publish_async(f"{stream.name}.a")
    acks = await asyncio.gather(*(ack_of(future) for _ in range(3)))
    assert acks == [PubAck(stream=stream.name, sequence=1, domain=ground.profile.domain or "")] * 3
    assert await future == future.result() == acks[0]


@pytest.mark.conformance("PUB-10")
async def test_acknowledgements_of_several_streams_find_their_publishes(ground: Ground) -> None:
    streams = [await ground.stream() for _ in range(20)]
    futures = [await ground.js.publish_async(f"{stream.name}.a") for _ in range(5) for stream in streams]
    acks = [await future for future in futures]
    assert [(ack.stream, ack.sequence) for ack in acks] == [(s.name, seq) for seq in range(1, 6) for s in streams]


@pytest.mark.conformance("PUB-10")
async def test_acknowledgements_mark_duplicates(ground: Ground) -> None:
    stream = await ground.stream()
    futures = [await ground.js.publish_async(f"{stream.name}.a", msg_id=f"m{number % 3}") for number in range(9)]
    acks = [await future for future in futures]
    assert [ack.sequence for ack in acks] == [1, 2, 3] * 3
    assert [ack.duplicate for ack in acks] == [False] * 3 + [True] * 6


async def test_r46_an_error_reaches_its_own_future(ground: Ground) -> None:
    stream = await ground.stream()
    header = {"Nats-Expected-Last-Sequence": "99"}
    futures = [
        await ground.js.publish_async(f"{stream.name}.a", headers=header if number == 2 else None)
        for number in range(5)
    ]
    await ground.js.publish_async_completed(20)
    failed = [future.exception() for future in futures]
    assert [type(error) for error in failed] == [
        *[type(None)] * 2,
        WrongLastSequenceError,
        *[type(None)] * 2,
    ]
    for _ in range(2):
        with pytest.raises(WrongLastSequenceError):
            await futures[2]
    with pytest.raises(WrongLastSequenceError):
        futures[2].result()
    assert ground.js.publish_async_stats.failed == 1


@pytest.mark.conformance("PUB-11")
@pytest.mark.blocking
async def test_a_full_window_waits_for_acknowledgements(ground: Ground) -> None:
    js = async_context(ground, max_pending=10, stall_wait=10)
    stream = await ground.stream()
    futures = []
    for _ in range(500):
        futures.append(await js.publish_async(f"{stream.name}.a"))
        assert js.publish_async_pending <= 10
    await js.publish_async_completed(20)
    assert [future.result().sequence for future in futures] == list(range(1, 501))


@pytest.mark.conformance("PUB-11")
async def test_a_window_that_stays_full_is_an_error_after_the_stall_wait(ground: Ground) -> None:
    js = async_context(ground, max_pending=10, ack_timeout=1.5)
    stream = await ground.stream(no_ack=True)
    loop = asyncio.get_running_loop()
    futures = [await js.publish_async(f"{stream.name}.a") for _ in range(10)]
    assert js.publish_async_pending == 10
    begin = loop.time()
    with pytest.raises(TooManyStalledError, match="10 publishes") as caught:
        await js.publish_async(f"{stream.name}.a")
    assert 0.2 <= loop.time() - begin < 5
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(PublishTimeoutError, match="10 publishes are not acknowledged"):
        await js.publish_async_completed(0.05)
    assert js.publish_async_pending == 10
    await js.publish_async_completed(20)
    assert all(isinstance(future.exception(), PublishTimeoutError) for future in futures)
    await stream.update(no_ack=False)
    assert (await (await js.publish_async(f"{stream.name}.a"))).sequence == 11  # the publish that stalled was not sent


@pytest.mark.conformance("PUB-11")
@ONE_PROFILE
async def test_the_default_window_is_four_thousand(ground: Ground) -> None:
    stream = await ground.stream(no_ack=True)
    for _ in range(4000):
        await ground.js.publish_async(f"{stream.name}.a")
    assert ground.js.publish_async_pending == 4000
    with pytest.raises(TooManyStalledError, match="4000 publishes"):
        await ground.js.publish_async(f"{stream.name}.a")


@pytest.mark.conformance("PUB-12")
async def test_a_publish_that_is_not_acknowledged_in_time_fails_and_frees_its_slot(ground: Ground) -> None:
    js = async_context(ground, max_pending=2, ack_timeout=0.5, stall_wait=10)
    silent, stream = await ground.stream(no_ack=True), await ground.stream()
    futures = [await js.publish_async(f"{silent.name}.a") for _ in range(2)]
    assert (await (await js.publish_async(f"{stream.name}.a"))).sequence == 1  # it waited until the window had space
    for future in futures:
        with pytest.raises(PublishTimeoutError, match=rf"{silent.name}\.a: no acknowledgement within 0\.5 s"):
            await future
    assert js.publish_async_pending == 0
    assert js.publish_async_stats.failed == 2


@pytest.mark.conformance("PUB-12")
async def test_a_late_acknowledgement_reaches_no_future(ground: Ground) -> None:
    js = async_context(ground, ack_timeout=0.5)  # this one is also sent in time
    subject = ground.name("service")
    subscription = await ground.admin.subscribe(subject)
    await ground.admin.flush()
    future = await js.publish_async(subject)
    message = await subscription.next_msg(10)
    with pytest.raises(PublishTimeoutError):
        await future
    await message.respond(b'{"stream":"S", "seq":1}')
    await message.respond(b'{"stream":"S", "seq":1}')
    await ground.admin.flush()
    await eventually(lambda: js.publish_async_stats.unmatched_acks == 2)
    assert isinstance(future.exception(), PublishTimeoutError)
    await subscription.unsubscribe()


@pytest.mark.conformance("PUB-12")
@pytest.mark.blocking
async def test_retries_do_not_delay_other_publishes(ground: Ground) -> None:
    js = async_context(ground, retry=RetryPolicy(attempts=1, wait=1))
    stream = await ground.stream()
    nobody = await js.publish_async(ground.name("nobody"))
    other = await js.publish_async(f"{stream.name}.a")
    assert (await other).sequence == 1
    assert not nobody.done()
    with pytest.raises(NoStreamResponseError, match="after 1 retry"):
        await nobody
    assert js.publish_async_stats.retried == 1


@pytest.mark.conformance("PUB-12")
async def test_a_reply_subject_cannot_be_set(ground: Ground) -> None:
    publish: Any = ground.js.publish_async
    with pytest.raises(TypeError, match="reply"):
        await publish("a", reply="there")
    assert ground.js.publish_async_pending == 0


@pytest.mark.blocking
async def test_the_error_handler_gets_each_failure(ground: Ground) -> None:
    failed: list[tuple[str, Error | None]] = []
    js = async_context(ground, on_error=lambda future: failed.append((future.subject, future.exception())))
    stream = await ground.stream(allow_msg_ttl=False)
    await js.publish_async(f"{stream.name}.a")
    await js.publish_async(f"{stream.name}.b", expected_last_sequence=7)
    await js.publish_async(f"{stream.name}.c", expected_last_sequence=1)
    await js.publish_async_completed(20)
    assert [(subject, type(error)) for subject, error in failed] == [(f"{stream.name}.b", WrongLastSequenceError)]


@pytest.mark.parametrize("front", ["sync"], indirect=True)
@ONE_PROFILE
async def test_completed_waits_for_a_handler_that_blocks_and_handlers_may_wait_too(ground: Ground) -> None:
    released = threading.Event()
    handled: list[str] = []

    def handle(future: Any) -> None:
        assert released.wait(20)
        js.inner.publish_async_completed(20)
        handled.append(future.subject)

    js = async_context(ground, on_error=handle)
    stream = await ground.stream()
    for name in "ab":
        await js.publish_async(f"{stream.name}.{name}", expected_last_sequence=7)
    with pytest.raises(PublishTimeoutError, match="on_error still handles 2 failed publishes"):
        await js.publish_async_completed(0.2)
    released.set()
    await js.publish_async_completed(20)
    assert handled == [f"{stream.name}.a", f"{stream.name}.b"]


async def test_an_exception_of_the_handler_is_reported_as_an_event(ground: Ground) -> None:
    events: list[Any] = []
    nc = await ground.connect(on_event=events.append)

    def fault(future: Any) -> None:
        raise RuntimeError("in the handler")

    js = nc.jetstream(domain=ground.profile.domain, publishing=AsyncPublishOptions(on_error=fault))
    stream = await ground.stream()
    with pytest.raises(WrongLastSequenceError):
        await (await js.publish_async(f"{stream.name}.a", expected_last_sequence=7))
    await eventually(lambda: [each for each in events if "in the handler" in str(getattr(each, "error", ""))])
    assert (await js.publish(f"{stream.name}.a")).sequence == 1


@pytest.mark.parametrize("front", ["aio"], indirect=True)
@ONE_PROFILE
async def test_a_handler_may_be_a_coroutine_function(ground: Ground) -> None:
    failed: list[str] = []

    async def handle(future: PubAckFuture) -> None:
        await asyncio.sleep(0)
        failed.append(future.subject)

    js = async_context(ground, on_error=handle)
    stream = await ground.stream()
    await js.publish_async(f"{stream.name}.a", expected_last_sequence=7)
    await eventually(lambda: failed == [f"{stream.name}.a"])


@pytest.mark.parametrize("front", ["aio"], indirect=True)
@ONE_PROFILE
async def test_an_open_future_is_not_done_and_calls_its_callbacks_later(ground: Ground) -> None:
    stream = await ground.stream()
    future = await ground.js.publish_async(f"{stream.name}.a")
    with pytest.raises(asyncio.InvalidStateError):
        future.result()
    with pytest.raises(asyncio.InvalidStateError):
        future.exception()
    called: list[PubAckFuture] = []
    future.add_done_callback(called.append)
    await future
    await asyncio.sleep(0)
    future.add_done_callback(called.append)
    await eventually(lambda: called == [future, future])


@pytest.mark.parametrize("front", ["sync"], indirect=True)
@ONE_PROFILE
async def test_a_blocking_future_waits_for_its_timeout(ground: Ground) -> None:
    js = async_context(ground, ack_timeout=0.6)
    stream = await ground.stream(no_ack=True)
    future = cast("Any", await js.publish_async(f"{stream.name}.a")).inner
    with pytest.raises(PublishTimeoutError, match="stays under way"):
        await asyncio.to_thread(future.result, 0.05)
    assert not future.done()
    results = await asyncio.gather(*(asyncio.to_thread(future.exception, 5) for _ in range(3)))
    assert [type(error) for error in results] == [PublishTimeoutError] * 3


async def test_each_caller_gets_a_new_error_object(ground: Ground) -> None:
    stream = await ground.stream()
    future = await ground.js.publish_async(f"{stream.name}.a", expected_last_sequence=7)
    errors = []
    for _ in range(2):
        with pytest.raises(WrongLastSequenceError) as caught:
            await future
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    assert errors[0].last_sequence == errors[1].last_sequence == 0
    assert future.exception() is not future.exception()


@pytest.mark.parametrize("front", ["aio"], indirect=True)
@ONE_PROFILE
async def test_another_event_loop_is_refused(ground: Ground) -> None:
    stream = await ground.stream()

    async def publish() -> None:
        await ground.js.publish_async(f"{stream.name}.a")

    for count in range(2):  # before and after the window is created
        with pytest.raises(WrongEventLoopError):
            await asyncio.to_thread(lambda: asyncio.run(publish()))
        assert (await (await ground.js.publish_async(f"{stream.name}.a"))).sequence == count + 1


@ONE_PROFILE
async def test_r49_a_long_round_trip_costs_its_time_once_and_not_for_each_message(ground: Ground) -> None:
    stream = await ground.stream()
    loop = asyncio.get_running_loop()
    async with distant_server(ground.server.port, 0.045) as url:
        nc = await connect(ground.front, url)
        js = nc.jetstream()
        begin = loop.time()
        await js.publish(f"{stream.name}.a")
        alone = loop.time() - begin
        assert alone >= 0.09
        begin = loop.time()
        futures = [await js.publish_async(f"{stream.name}.a") for _ in range(1000)]
        acks = [await future for future in futures]
        assert loop.time() - begin < 1000 * 0.09 / 10
        assert [ack.sequence for ack in acks] == list(range(2, 1002))
        await nc.close()


@pytest.mark.blocking
async def test_several_publishers_share_a_window(ground: Ground) -> None:
    js = async_context(ground, max_pending=20, stall_wait=20)
    stream = await ground.stream()

    async def publisher(token: int) -> list[PubAckFuture]:
        return [await js.publish_async(f"{stream.name}.{token}") for _ in range(100)]

    futures = [future for some in await asyncio.gather(*(publisher(token) for token in range(8))) for future in some]
    await js.publish_async_completed(20)
    assert sorted(future.result().sequence for future in futures) == list(range(1, 801))


@pytest.mark.parametrize("settings", [{"max_pending": 0}, {"ack_timeout": 0}])
def test_invalid_options_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        AsyncPublishOptions(**settings)
