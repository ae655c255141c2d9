"""Counters of a stream on a real server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.fronts import Ground

from jetspark.aio.jetstream import Counter
from jetspark.errors import (
    ArgumentError,
    BadSubjectError,
    ConfigError,
    CounterError,
    CounterNotFoundError,
    StreamConfigError,
    StreamNotFoundError,
)
from jetspark.jetstream import StreamSource, SubjectTransform


async def counter(ground: Ground, **fields: Any) -> tuple[Counter, str]:
    """Return the counters of a new stream, and the first token of their subjects."""
    stream = await ground.stream(allow_msg_counter=True, allow_direct=True, **fields)
    return await ground.js.counter(stream.name), stream.name


@pytest.mark.conformance("CNT-02", "CNT-03", "CNT-05", "CNT-06", "CNT-07")
@pytest.mark.blocking
@pytest.mark.profiles
async def test_a_counter_is_added_to_and_read(ground: Ground) -> None:
    counts, name = await counter(ground)
    assert counts.stream_name == name
    assert [await counts.add(f"{name}.a", each) for each in (5, -7, 0, 10**40)] == [5, -2, -2, 10**40 - 2]
    assert await counts.add(f"{name}.b", 1) == 1
    value = await counts.get(f"{name}.a")
    assert (value.subject, value.value, value.increment, value.sequence) == (f"{name}.a", 10**40 - 2, 10**40, 4)
    history = await counts.history(f"{name}.a")
    assert [each.value for each in history] == [5, -2, -2, 10**40 - 2]
    assert sum(each.increment or 0 for each in history) == history[-1].value - history[0].value + 5
    many = await counts.get_many(f"{name}.*")
    assert {subject: each.value for subject, each in many.items()} == {f"{name}.a": 10**40 - 2, f"{name}.b": 1}
    assert await counts.get_many([f"{name}.none"]) == {}
    assert await counts.history(f"{name}.none") == []


@pytest.mark.conformance("CNT-05")
async def test_a_counter_without_additions_is_an_error_or_the_default(ground: Ground) -> None:
    counts, name = await counter(ground)
    with pytest.raises(CounterNotFoundError) as caught:
        await counts.get(f"{name}.a")
    assert (caught.value.stream, caught.value.subject) == (name, f"{name}.a")
    value = await counts.get(f"{name}.a", default=0)
    assert (value.value, value.sequence) == (0, 0)
    with pytest.raises(CounterNotFoundError):
        await counts.reset(f"{name}.a")


@pytest.mark.conformance("CNT-01")
async def test_a_stream_without_counters_is_refused(ground: Ground) -> None:
    plain = await ground.stream()
    with pytest.raises(ConfigError, match="allow_msg_counter"):
        await ground.js.counter(plain.name)
    with pytest.raises(StreamNotFoundError):
        await ground.js.counter("MISSING")
    for fields in ({"discard": "new"}, {"allow_msg_ttl": True}, {"retention": "workqueue"}):
        with pytest.raises(StreamConfigError):
            await counter(ground, **fields)
    counts, name = await counter(ground)
    with pytest.raises(StreamConfigError):
        await (await ground.js.stream(name)).update(allow_msg_counter=False)
    assert (await counts.get(f"{name}.a", default=3)).value == 3


@pytest.mark.conformance("CNT-02")
async def test_wrong_additions_are_refused_and_add_nothing(ground: Ground) -> None:
    counts, name = await counter(ground)
    for wrong in (True, 1.5, "1", None):
        with pytest.raises(TypeError):
            await counts.add(f"{name}.a", wrong)  # type: ignore[arg-type]
    other, elsewhere = await counter(ground)
    for subject in (f"{name}.*", f"{name}.a b", "", f"{elsewhere}.a"):
        with pytest.raises(BadSubjectError):
            await counts.add(subject, 1)
    assert await other.get_many() == {}
    with pytest.raises(ArgumentError):
        await counts.add(f"{name}.a", increment=1, ttl=3)  # type: ignore[call-arg]
    for headers, payload in (({}, b""), ({"Nats-Incr": "junk"}, b""), ({"Nats-Incr": "+1"}, b"body")):
        with pytest.raises(CounterError):
            await ground.js.publish(f"{name}.a", payload, headers=headers)
    assert await counts.get_many() == {}


@pytest.mark.conformance("CNT-03")
async def test_a_stream_that_keeps_one_message_counts_all(ground: Ground) -> None:
    counts, name = await counter(ground, max_msgs_per_subject=1)
    await asyncio.gather(*(counts.add(f"{name}.a", number) for number in range(50)))
    assert (await counts.get(f"{name}.a")).value == sum(range(50))


@pytest.mark.conformance("CNT-08")
@pytest.mark.blocking
async def test_a_reset_reaches_the_streams_that_aggregate(ground: Ground) -> None:
    counts, name = await counter(ground)
    total = ground.name()
    copied = StreamSource(name, subject_transforms=[SubjectTransform(f"{name}.*", f"{total}.{{{{wildcard(1)}}}}")])
    sums, _ = await counter(ground, name=total, subjects=[f"{total}.*"], sources=[copied])

    async def arrives(expected: int) -> None:
        async with asyncio.timeout(10):
            while True:
                if (await sums.get(f"{total}.a", default=-1)).value == expected:
                    return
                await asyncio.sleep(0.02)

    await counts.add(f"{name}.a", 5)
    await arrives(5)
    assert (await sums.get(f"{total}.a")).sources == {name: {f"{name}.a": 5}}
    assert await sums.add(f"{total}.a", 2) == 7
    assert (await sums.get(f"{total}.a")).sources == {name: {f"{name}.a": 5}}
    await counts.reset(f"{name}.a")
    await arrives(2)
    assert [each.value for each in await counts.history(f"{name}.a")] == [0]
