"""Streams and consumers: the request of each call, its result, and its timeout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.driver.jetstream import SILENCE, ConsumerScript, JetStreamScript, StreamScript, refusal
from tests.driver.virtual_time import Clock
from tests.driver.world import World

from jetspark.aio.jetstream import JetStream
from jetspark.errors import (
    ConfigError,
    NoMatchingStreamError,
    NotPullConsumerError,
    RequestTimeoutError,
    StreamNotFoundError,
)

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
PAUSED = {"paused": True, "pause_until": "2030-01-02T12:00:00Z"}

Call = Callable[[JetStream, float | None], Awaitable[object]]


async def on_stream(js: JetStream, seconds: float | None, call: str, *args: Any, **fields: Any) -> object:
    """Call a method of the handle of ORDERS."""
    return await getattr(await js.stream("ORDERS"), call)(*args, timeout=seconds, **fields)


async def on_consumer(js: JetStream, seconds: float | None, call: str, *args: Any) -> object:
    """Call a method of the handle of the worker."""
    consumer = await js.consumer("ORDERS", "worker")
    result = await getattr(consumer, call)(*args, timeout=seconds)
    if call in {"info", "reset"}:
        assert result is consumer.cached_info
    return result


async def updated(js: JetStream, seconds: float | None) -> object:
    """Change a field of ORDERS."""
    stream = await js.stream("ORDERS")
    result = await stream.update(max_msgs=9, timeout=seconds)
    assert result is stream.cached_info
    return result


async def listed(js: JetStream, seconds: float | None, call: str) -> object:
    """List the consumers of ORDERS."""
    result: list[object] = await getattr(await js.stream("ORDERS"), call)(timeout=seconds).all()
    return result


def create(action: str) -> dict[str, Any]:
    """Return the request that creates the worker."""
    fields = {"stream_name": "ORDERS", "action": action, "config": {"name": "worker", "ack_policy": "explicit"}}
    return {key: value for key, value in fields.items() if value}


CALLS: dict[str, tuple[Call, str, dict[str, Any], str]] = {
    "create_stream": (
        lambda js, timeout: js.create_stream(name="ORDERS", timeout=timeout),
        "STREAM.CREATE.ORDERS",
        {"name": "ORDERS"},
        "<Stream 'ORDERS'>",
    ),
    "update_stream": (
        lambda js, timeout: js.update_stream(name="ORDERS", max_msgs=9, timeout=timeout),
        "STREAM.UPDATE.ORDERS",
        {"name": "ORDERS", "max_msgs": 9},
        "<Stream 'ORDERS'>",
    ),
    "stream": (
        lambda js, timeout: js.stream("ORDERS", timeout=timeout),
        "STREAM.INFO.ORDERS",
        {},
        "<Stream 'ORDERS'>",
    ),
    "delete_stream": (
        lambda js, timeout: js.delete_stream("ORDERS", timeout=timeout),
        "STREAM.DELETE.ORDERS",
        {},
        "None",
    ),
    "streams": (
        lambda js, timeout: js.streams("orders.a", timeout=timeout).all(),
        "STREAM.LIST",
        {"subject": "orders.a", "offset": 0},
        "[StreamInfo(",
    ),
    "stream_names": (
        lambda js, timeout: js.stream_names("orders.a", timeout=timeout).all(),
        "STREAM.NAMES",
        {"subject": "orders.a", "offset": 0},
        "['ORDERS']",
    ),
    "Stream.update": (
        updated,
        "STREAM.UPDATE.ORDERS",
        {"name": "ORDERS", "subjects": ["orders.>"], "max_msgs": 9},
        "StreamInfo(",
    ),
    "Stream.delete": (
        lambda js, timeout: on_stream(js, timeout, "delete"),
        "STREAM.DELETE.ORDERS",
        {},
        "None",
    ),
    "Stream.purge": (
        lambda js, timeout: on_stream(js, timeout, "purge", subject="orders.a", keep=3),
        "STREAM.PURGE.ORDERS",
        {"filter": "orders.a", "keep": 3},
        "4",
    ),
    "Stream.delete_msg": (
        lambda js, timeout: on_stream(js, timeout, "delete_msg", 7),
        "STREAM.MSG.DELETE.ORDERS",
        {"seq": 7, "no_erase": True},
        "None",
    ),
    "Stream.secure_delete_msg": (
        lambda js, timeout: on_stream(js, timeout, "secure_delete_msg", 7),
        "STREAM.MSG.DELETE.ORDERS",
        {"seq": 7},
        "None",
    ),
    "Stream.create_consumer": (
        lambda js, timeout: on_stream(js, timeout, "create_consumer", name="worker"),
        "CONSUMER.CREATE.ORDERS.worker",
        create("create"),
        "<Consumer 'worker' of stream 'ORDERS'>",
    ),
    "Stream.update_consumer": (
        lambda js, timeout: on_stream(js, timeout, "update_consumer", name="worker"),
        "CONSUMER.CREATE.ORDERS.worker",
        create("update"),
        "<Consumer 'worker' of stream 'ORDERS'>",
    ),
    "Stream.create_or_update_consumer": (
        lambda js, timeout: on_stream(js, timeout, "create_or_update_consumer", name="worker"),
        "CONSUMER.CREATE.ORDERS.worker",
        create(""),
        "<Consumer 'worker' of stream 'ORDERS'>",
    ),
    "Stream.consumer": (
        lambda js, timeout: on_stream(js, timeout, "consumer", "worker"),
        "CONSUMER.INFO.ORDERS.worker",
        {},
        "<Consumer 'worker' of stream 'ORDERS'>",
    ),
    "Stream.consumer_info": (
        lambda js, timeout: on_stream(js, timeout, "consumer_info", "worker"),
        "CONSUMER.INFO.ORDERS.worker",
        {},
        "ConsumerInfo(",
    ),
    "Stream.delete_consumer": (
        lambda js, timeout: on_stream(js, timeout, "delete_consumer", "worker"),
        "CONSUMER.DELETE.ORDERS.worker",
        {},
        "None",
    ),
    "Stream.pause_consumer": (
        lambda js, timeout: on_stream(js, timeout, "pause_consumer", "worker", NOON),
        "CONSUMER.PAUSE.ORDERS.worker",
        {"pause_until": "2030-01-02T12:00:00Z"},
        "ConsumerPause(",
    ),
    "Stream.resume_consumer": (
        lambda js, timeout: on_stream(js, timeout, "resume_consumer", "worker"),
        "CONSUMER.PAUSE.ORDERS.worker",
        {},
        "ConsumerPause(",
    ),
    "Stream.unpin_consumer": (
        lambda js, timeout: on_stream(js, timeout, "unpin_consumer", "worker", "group"),
        "CONSUMER.UNPIN.ORDERS.worker",
        {"group": "group"},
        "None",
    ),
    "Stream.reset_consumer": (
        lambda js, timeout: on_stream(js, timeout, "reset_consumer", "worker", 5),
        "CONSUMER.RESET.ORDERS.worker",
        {"seq": 5},
        "ConsumerReset(",
    ),
    "Stream.consumers": (
        lambda js, timeout: listed(js, timeout, "consumers"),
        "CONSUMER.LIST.ORDERS",
        {"offset": 0},
        "[ConsumerInfo(",
    ),
    "Stream.consumer_names": (
        lambda js, timeout: listed(js, timeout, "consumer_names"),
        "CONSUMER.NAMES.ORDERS",
        {"offset": 0},
        "['worker']",
    ),
    "Consumer.info": (
        lambda js, timeout: on_consumer(js, timeout, "info"),
        "CONSUMER.INFO.ORDERS.worker",
        {},
        "ConsumerInfo(",
    ),
    "Consumer.delete": (
        lambda js, timeout: on_consumer(js, timeout, "delete"),
        "CONSUMER.DELETE.ORDERS.worker",
        {},
        "None",
    ),
    "Consumer.pause": (
        lambda js, timeout: on_consumer(js, timeout, "pause", NOON),
        "CONSUMER.PAUSE.ORDERS.worker",
        {"pause_until": "2030-01-02T12:00:00Z"},
        "ConsumerPause(",
    ),
    "Consumer.resume": (
        lambda js, timeout: on_consumer(js, timeout, "resume"),
        "CONSUMER.PAUSE.ORDERS.worker",
        {},
        "ConsumerPause(",
    ),
    "Consumer.unpin": (
        lambda js, timeout: on_consumer(js, timeout, "unpin", "group"),
        "CONSUMER.UNPIN.ORDERS.worker",
        {"group": "group"},
        "None",
    ),
    "Consumer.reset": (
        lambda js, timeout: on_consumer(js, timeout, "reset", 5),
        "CONSUMER.RESET.ORDERS.worker",
        {"seq": 5},
        "ConsumerReset(",
    ),
}


@pytest.fixture
def orders(script: JetStreamScript, stream: StreamScript, worker: ConsumerScript) -> None:
    """Answers about ORDERS and its worker."""
    page = {"total": 1, "offset": 0, "limit": 256}
    script.answer("STREAM.CREATE.>", stream.info)
    script.answer("STREAM.UPDATE.>", stream.info)
    script.answer("STREAM.DELETE.>", {"success": True})
    script.answer("STREAM.LIST", {**page, "streams": [stream.info]})
    script.answer("STREAM.PURGE.>", {"success": True, "purged": 4})
    script.answer("STREAM.MSG.DELETE.>", {"success": True})
    script.answer("CONSUMER.CREATE.>", worker.info)
    script.answer("CONSUMER.PAUSE.>", PAUSED)
    script.answer("CONSUMER.UNPIN.>", {})
    script.answer("CONSUMER.RESET.>", worker.info)
    script.answer("CONSUMER.LIST.>", {**page, "consumers": [worker.info]})
    script.answer("CONSUMER.NAMES.>", {**page, "consumers": ["worker"]})


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("name", CALLS)
async def test_a_call_sends_one_request_and_returns_the_content_of_its_answer(
    world: World, script: JetStreamScript, name: str
) -> None:
    call, endpoint, fields, result = CALLS[name]
    js = (await world.connect()).jetstream()
    assert repr(await call(js, None)).startswith(result)
    (*_, asked) = script.asked(endpoint)
    assert asked is script.requests[-1]
    assert {key: value for key, value in asked.json.items() if value} == {k: v for k, v in fields.items() if v}


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("name", CALLS)
async def test_a_call_ends_at_its_timeout(world: World, script: JetStreamScript, clock: Clock, name: str) -> None:
    call, endpoint, _, _ = CALLS[name]
    js = (await world.connect()).jetstream()
    before = [script.consumers["worker"].info] if name == "Consumer.info" else []  # the handle asks first
    script.answer(endpoint, *before, SILENCE)
    with pytest.raises(RequestTimeoutError):
        await call(js, 3)
    assert clock.now == 3.0


@pytest.mark.usefixtures("orders")
async def test_a_missing_stream_is_created(world: World, script: JetStreamScript) -> None:
    js = (await world.connect()).jetstream()
    script.answer("STREAM.UPDATE.>", refusal(404, 10059, "stream not found"))
    await js.create_or_update_stream(name="ORDERS")
    assert [pub.subject.split(".")[3] for pub in script.requests] == ["UPDATE", "CREATE"]
    with pytest.raises(StreamNotFoundError):
        await js.update_stream(name="ORDERS")


async def test_a_consumer_update_needs_a_name(world: World, script: JetStreamScript) -> None:
    js = (await world.connect()).jetstream()
    with pytest.raises(ConfigError, match="give the name"):
        await js.update_consumer("ORDERS")
    assert not script.requests
    consumer = await js.create_consumer("ORDERS")
    assert consumer.name
    assert (await js.update_consumer("ORDERS", durable_name="worker")).name == "worker"


@pytest.mark.usefixtures("orders")
async def test_a_list_requests_only_the_pages_that_are_read(world: World, script: JetStreamScript) -> None:
    page = {"total": 3, "limit": 2}
    first, second = {**page, "offset": 0, "streams": ["A", "B"]}, {**page, "offset": 2, "streams": ["C"]}
    script.answer("STREAM.NAMES", first, second, first, second)
    listing = (await world.connect()).jetstream().stream_names()
    assert await listing.all() == ["A", "B", "C"]
    assert [pub.json.get("offset", 0) for pub in script.asked("STREAM.NAMES")] == [0, 2]
    async for name in listing:
        assert name == "A"
        break
    assert len(script.asked("STREAM.NAMES")) == 3


@pytest.mark.usefixtures("orders")
async def test_a_list_reports_missing_entries_of_its_latest_iteration(
    world: World, script: JetStreamScript, worker: ConsumerScript
) -> None:
    page = {"total": 1, "offset": 0, "limit": 256, "consumers": [worker.info]}
    script.answer("CONSUMER.LIST.>", {**page, "missing": ["b"], "offline": {"c": "too old"}}, page)
    listing = (await world.connect()).jetstream().consumers("ORDERS")
    assert [info.name async for info in listing] == ["worker"]
    assert (listing.missing, listing.offline) == (["b"], {"c": "too old"})
    await listing.all()
    assert (listing.missing, listing.offline) == ([], {})


@pytest.mark.usefixtures("orders")
async def test_a_stream_is_found_by_its_subject_if_it_is_the_only_one(world: World, script: JetStreamScript) -> None:
    js = (await world.connect()).jetstream()
    assert await js.stream_name_by_subject("orders.a") == "ORDERS"
    assert script.requests[-1].json["subject"] == "orders.a"
    for names, says in (([], "no stream stores 'orders.a'"), (["A", "B"], "several streams store 'orders.a': A, B")):
        script.answer("STREAM.NAMES", {"total": len(names), "offset": 0, "limit": 1024, "streams": names})
        with pytest.raises(NoMatchingStreamError, match=says) as caught:
            await js.stream_name_by_subject("orders.a")
        assert (caught.value.subject, caught.value.streams) == ("orders.a", tuple(names))


@pytest.mark.usefixtures("orders")
async def test_a_handle_caches_the_latest_info(world: World, script: JetStreamScript, stream: StreamScript) -> None:
    handle = await (await world.connect()).jetstream().stream("ORDERS")
    stream.last = 5
    assert handle.cached_info.state.messages == 0
    assert (await handle.info(deleted_details=True)) is handle.cached_info
    assert handle.cached_info.state.messages == 5
    assert script.requests[-1].json == {"deleted_details": True}


@pytest.mark.usefixtures("orders")
async def test_a_push_consumer_has_no_handle(world: World, pusher: ConsumerScript) -> None:
    js = (await world.connect()).jetstream()
    with pytest.raises(NotPullConsumerError, match=r"pushes, to 'deliver\.here'") as caught:
        await js.consumer("ORDERS", "pusher")
    assert (caught.value.stream, caught.value.consumer) == ("ORDERS", "pusher")


async def test_account_info_reports_the_usage(world: World, script: JetStreamScript, clock: Clock) -> None:
    js = (await world.connect()).jetstream()
    script.answer("INFO", {"streams": 2}, SILENCE)
    assert (await js.account_info()).streams == 2
    assert repr(js).startswith("<JetStream $JS.API over <Connection to ")
    with pytest.raises(RequestTimeoutError):
        await js.account_info(timeout=3)
    assert clock.now == 3.0
