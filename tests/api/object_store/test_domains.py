"""Object stores of two domains that are connected by a leaf node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from jetspark import aio
from jetspark.aio.jetstream import JetStream, ObjectStore
from jetspark.errors import NoStreamResponseError, WrongDomainError
from jetspark.server import NatsServer


@pytest.fixture
async def leaf() -> AsyncIterator[aio.Connection]:
    """A connection to a leaf of the domain `leaf`, whose hub has the domain `hub`."""
    async with AsyncExitStack() as stack:
        hub = stack.enter_context(NatsServer(config={"leafnodes": {"port": -1}, "jetstream": {"domain": "hub"}}))
        listening = hub.monitor("/varz")["leaf"]
        assert isinstance(listening, dict)
        remote = {"url": f"nats-leaf://{hub.host}:{listening['port']}"}
        near = NatsServer(config={"leafnodes": {"remotes": [remote]}, "jetstream": {"domain": "leaf"}})
        stack.enter_context(near)
        yield await stack.enter_async_context(await aio.connect(near.url))


async def eventually_hub(leaf: aio.Connection) -> JetStream:
    """The context of the hub, once the leaf has reached it."""
    js = leaf.jetstream(domain="hub")
    async with asyncio.timeout(20):
        while True:
            try:
                await js.account_info()
            except Exception:  # noqa: BLE001 - the leaf is not connected yet
                await asyncio.sleep(0.05)
            else:
                return js


async def put_often(store: ObjectStore) -> None:
    """Put until the other bucket is the first that answers."""
    for _ in range(100):
        await store.put("b", b"y" * 10, chunk_size=4)


@pytest.mark.conformance("OBJ-27")
async def test_a_store_of_the_hub_is_written_from_the_leaf(leaf: aio.Connection) -> None:
    hub = await eventually_hub(leaf)
    store = await hub.create_object_store(bucket="B", storage="memory")
    async with asyncio.timeout(20):  # until the leaf knows the interest of the hub's stream
        while True:
            try:
                await store.put("a", b"x" * 10, chunk_size=4)
                break
            except NoStreamResponseError:
                continue
    assert (await (await hub.object_store("B")).get_info("a")).chunks == 3
    # A bucket of that name in the leaf stores the objects of both domains, and answers first.
    near = await leaf.jetstream().create_object_store(bucket="B", storage="memory")
    with pytest.raises(WrongDomainError) as caught:
        await put_often(store)
    assert (caught.value.bucket, caught.value.expected, caught.value.actual) == ("B", "hub", "leaf")
    subjects = (await (await hub.stream("OBJ_B")).info(subjects_filter="$O.B.C.>")).state.subjects or {}
    assert len(subjects) <= 2
    assert (await near.status()).stream_info.state.messages > 0
