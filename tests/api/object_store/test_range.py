"""Ranges of an object: only the chunks that have them are read, of whatever size they are."""

from __future__ import annotations

import pytest
from tests.api.object_store.content import FOREIGN, pieces, store_chunks, store_object
from tests.api.object_store.stores import make_store
from tests.fronts import Ground, Spy

from jetspark.errors import ObjectIncompleteError

RANGES = ((0, None), (0, 100), (99, 2), (100, 70), (169, 1), (170, 100), (200, 75), (50, 1000), (274, 1))
CONTENT = b"".join(pieces(*FOREIGN))


def created(spy: Spy) -> list[bool]:
    """Return of each consumer that was created whether it delivers headers only."""
    return [b'"headers_only":true' in each.payload for each in spy.messages if ".CONSUMER.CREATE." in each.subject]


@pytest.mark.conformance("OBJ-17")
@pytest.mark.blocking
@pytest.mark.parametrize("direct", [True, False])
async def test_a_range_is_a_slice_of_the_content(ground: Ground, direct: bool) -> None:
    store = await make_store(ground)
    if not direct:
        await ground.admin_js.update_stream((await store.status()).config.replace(allow_direct=False))
        store = await ground.js.object_store(store.bucket)
    await store_chunks(ground, store.bucket, "OTHER", pieces(100, 70))
    await store_object(ground, store.bucket, "x", pieces(*FOREIGN), options={"max_chunk_size": 100})
    spy = await ground.spy()
    for offset, length in (
        (0, None),
        (0, 100),
        (99, 2),
        (100, 70),
        (169, 1),
        (170, 100),
        (200, 75),
        (50, 1000),
        (274, 1),
    ):
        end = None if length is None else offset + length
        assert await store.read_range("x", offset, length) == CONTENT[offset:end]
    for offset, length in ((275, None), (275, 1), (1 << 70, 5), (10, 0)):
        assert await store.read_range("x", offset, length) == b""
    await spy.settled()
    assert created(spy)[0] is True
    assert created(spy).count(True) == 1  # the sizes are read once
    assert created(spy).count(False) == (0 if direct else 9)
    for offset, length in ((-1, None), (0, -1)):
        with pytest.raises(ValueError, match="negative"):
            await store.read_range("x", offset, length)


@pytest.mark.conformance("OBJ-17")
async def test_a_range_of_a_large_object_reads_its_chunks_only(ground: Ground) -> None:
    store = await make_store(ground)
    chunks = pieces(*[60_000 + number for number in range(60)])
    await store_object(ground, store.bucket, "x", chunks)
    content = b"".join(chunks)
    spy = await ground.spy()
    assert await store.read_range("x", 1_000_001, 2_000_003) == content[1_000_001:3_000_004]
    assert await store.read_range("x", 3_000_000) == content[3_000_000:]
    await spy.settled()
    assert created(spy) == [True, False]  # the second one needs one request


@pytest.mark.conformance("OBJ-17")
async def test_an_object_with_a_missing_chunk_gives_no_range_with_another_one(ground: Ground) -> None:
    store = await make_store(ground)
    chunks = pieces(100, 100, 100, 100, 100)
    await store_object(ground, store.bucket, "x", chunks)
    assert await store.read_range("x", 0, 1) == chunks[0][:1]
    stream = await ground.admin_js.stream(f"OBJ_{store.bucket}")
    await stream.delete_msg(3)
    assert await store.read_range("x", 0, 150) == b"".join(chunks)[:150]
    for known in (True, False):
        if not known:
            store = await ground.js.object_store(store.bucket)
        with pytest.raises(ObjectIncompleteError):
            await store.read_range("x", 150, 200)


@pytest.mark.conformance("OBJ-17")
async def test_a_new_content_has_its_own_sizes(ground: Ground) -> None:
    store = await make_store(ground)
    for sizes in (FOREIGN, (7,) * 30, ()):
        chunks = pieces(*sizes)
        await store_object(ground, store.bucket, "x", chunks)
        assert await store.read_range("x", 80, 50) == b"".join(chunks)[80:130]
