"""Batches that the server refuses or drops, and the limits of a batch (ADR-50)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.publishing.support import last_sequence
from tests.fronts import FrontName, Ground, Profile, open_ground

from jetspark.errors import (
    APIError,
    BatchError,
    BatchTooLargeError,
    ConfigError,
    DuplicateInBatchError,
    IncompleteBatchError,
    TooManyRequestsError,
    WrongLastSequenceError,
)
from jetspark.jetstream.publish import batch_headers
from jetspark.server import NatsServer

ONE_PROFILE = pytest.mark.parametrize("profile", ["default"], indirect=True)


async def _raw(ground: Ground, subject: str, headers: list[tuple[str, str]], payload: bytes = b"") -> Any:
    """Send a message with these headers and return the answer of the server."""
    return await ground.nc.request(subject, payload, headers=headers, timeout=10)


@pytest.mark.conformance("BAT-05")
@pytest.mark.parametrize(
    ("before", "headers", "error", "number"),
    [
        (1, batch_headers("b", 3), IncompleteBatchError, 10176),
        (0, batch_headers("b", 2), IncompleteBatchError, 10176),
        (0, batch_headers("b", 1, "eob"), IncompleteBatchError, 10176),
        (0, [("Nats-Batch-Id", "b")], BatchError, 10175),
        (0, [("Nats-Batch-Id", "b" * 65), ("Nats-Batch-Sequence", "1")], BatchError, 10179),
        (1, [*batch_headers("b", 2), ("Nats-Batch-Commit", "yes")], BatchError, 10200),
    ],
)
async def test_a_broken_batch_fails_with_its_error_code_and_stores_nothing(
    ground: Ground, before: int, headers: list[tuple[str, str]], error: type[APIError], number: int
) -> None:
    stream = await ground.stream(allow_atomic=True)
    for sequence in range(1, before + 1):
        assert (await _raw(ground, f"{stream.name}.a", batch_headers("b", sequence))).payload == b""
    with pytest.raises(error) as caught:
        await ground.js.publish(f"{stream.name}.a", headers=headers)
    assert caught.value.err_code == number
    with pytest.raises(IncompleteBatchError):  # the batch no longer exists
        await ground.js.publish(f"{stream.name}.a", headers=batch_headers("b", before + 2))
    assert await last_sequence(stream) == 0


@pytest.mark.conformance("BAT-05")
async def test_a_batch_cannot_continue_in_another_stream(ground: Ground) -> None:
    stream, other = await ground.stream(allow_atomic=True), await ground.stream(allow_atomic=True)
    batch = ground.js.atomic_batch()
    await batch.add(f"{stream.name}.a")
    with pytest.raises(IncompleteBatchError) as caught:
        await batch.add(f"{other.name}.a", confirm=True)
    assert caught.value.err_code == 10176
    assert (await last_sequence(stream), await last_sequence(other)) == (0, 0)


@pytest.mark.conformance("BAT-05")
@ONE_PROFILE
async def test_an_id_that_is_too_long_is_refused_locally(ground: Ground) -> None:
    assert ground.js.atomic_batch("x" * 64).id == "x" * 64
    for bad in ("", "x" * 65):
        with pytest.raises(ConfigError, match="64 characters"):
            ground.js.atomic_batch(bad)


@pytest.mark.conformance("BAT-06")
async def test_a_batch_takes_a_thousand_messages_at_most(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    async with ground.js.atomic_batch() as batch:
        for _ in range(1000):
            await batch.add(f"{stream.name}.a")
        with pytest.raises(ConfigError, match="1 to 1000 messages"):
            await batch.add(f"{stream.name}.a")
    assert (batch.ack.count, batch.ack.sequence) == (1000, 1000)  # the end is the 1001st message and is not counted


@pytest.mark.conformance("BAT-06")
async def test_the_server_refuses_message_1001(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    subject = f"{stream.name}.a"
    await _raw(ground, subject, batch_headers("b", 1))
    for sequence in range(2, 1001):
        await ground.nc.publish(subject, headers=batch_headers("b", sequence))
    with pytest.raises(BatchTooLargeError) as caught:
        await ground.js.publish(subject, headers=[("Nats-Batch-Id", "b"), ("Nats-Batch-Sequence", "1001")])
    assert caught.value.err_code == 10199
    assert await last_sequence(stream) == 0


@pytest.mark.conformance("BAT-07")
async def test_an_expected_last_sequence_is_sent_with_the_first_message(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    await ground.js.publish(f"{stream.name}.a")
    async with ground.js.atomic_batch() as good:
        await good.add(f"{stream.name}.a", expected_last_sequence=1)
        with pytest.raises(ConfigError, match="first message"):
            await good.add(f"{stream.name}.a", expected_last_sequence=1)
        await good.add(f"{stream.name}.a")
    assert good.ack.sequence == 3
    wrong = ground.js.atomic_batch()
    await wrong.add(f"{stream.name}.a", expected_last_sequence=1)
    with pytest.raises(WrongLastSequenceError) as caught:
        await wrong.commit()
    assert caught.value.err_code == 10071
    late = ground.js.atomic_batch()
    await late.add(f"{stream.name}.a")
    await late.add(f"{stream.name}.a", headers={"Nats-Expected-Last-Sequence": "4"})
    with pytest.raises(WrongLastSequenceError) as refused:
        await late.commit()
    assert refused.value.err_code == 10164
    assert await last_sequence(stream) == 3


@pytest.mark.conformance("BAT-07")
async def test_an_expected_sequence_of_a_subject_that_the_batch_wrote_is_refused(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    batch = ground.js.atomic_batch()
    await batch.add(f"{stream.name}.a", expected_last_subject_sequence=0)
    await batch.add(f"{stream.name}.b", expected_last_subject_sequence=0)
    assert (await batch.commit()).sequence == 2
    twice = ground.js.atomic_batch()
    await twice.add(f"{stream.name}.a")
    await twice.add(f"{stream.name}.a", expected_last_subject_sequence=1)
    with pytest.raises(WrongLastSequenceError) as caught:
        await twice.commit()
    assert caught.value.err_code == 10164
    assert await last_sequence(stream) == 2


@pytest.mark.conformance("BAT-07")
async def test_an_expected_message_id_cannot_be_used(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    batch = ground.js.atomic_batch()
    await batch.add(f"{stream.name}.a")
    with pytest.raises(ConfigError, match="expected_last_msg_id"):
        await batch.add(f"{stream.name}.a", expected_last_msg_id="m")
    await batch.add(f"{stream.name}.a", headers={"Nats-Expected-Last-Msg-Id": "m"})
    with pytest.raises(BatchError) as caught:
        await batch.commit()
    assert caught.value.err_code == 10177
    assert await last_sequence(stream) == 0


@pytest.mark.conformance("BAT-08")
@pytest.mark.parametrize("ids", [("m", "m"), ("there", "n")])
async def test_a_duplicate_message_id_discards_the_whole_batch(ground: Ground, ids: tuple[str, str]) -> None:
    stream = await ground.stream(allow_atomic=True)
    await ground.js.publish(f"{stream.name}.a", msg_id="there")
    batch = ground.js.atomic_batch()
    for each in ids:
        await batch.add(f"{stream.name}.a", msg_id=each)
    with pytest.raises(DuplicateInBatchError) as caught:
        await batch.commit()
    assert caught.value.err_code == 10201
    assert await last_sequence(stream) == 1


@pytest.fixture
def hasty_server(profile: Profile) -> Iterator[NatsServer]:
    """A server that drops a batch after half a second without a message, instead of ten seconds."""
    js = {**dict(profile.config.get("jetstream", {})), "limits": {"batch": {"timeout": "500ms"}}}  # type: ignore[call-overload]
    with NatsServer(config={**profile.config, "jetstream": js}) as server:
        yield server


@pytest.mark.conformance("BAT-09")
async def test_an_abandoned_batch_is_dropped(front: FrontName, profile: Profile, hasty_server: NatsServer) -> None:
    async with open_ground(front, profile, hasty_server) as ground:
        stream = await ground.stream(allow_atomic=True)
        advisories = await ground.spy(f"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.{stream.name}")
        batch = ground.js.atomic_batch("lonely")
        await batch.add(f"{stream.name}.a")
        advisory = json.loads((await advisories.wait(1))[0].payload)
        assert (advisory["batch"], advisory["reason"]) == ("lonely", "timeout")
        with pytest.raises(IncompleteBatchError) as caught:
            await batch.commit(f"{stream.name}.a")
        assert caught.value.err_code == 10176
        assert await last_sequence(stream) == 0


@pytest.mark.conformance("BAT-09")
async def test_advisories_say_why_a_batch_was_dropped(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    advisories = await ground.spy(f"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.{stream.name}")
    await _raw(ground, f"{stream.name}.a", batch_headers("gap", 1))
    await _raw(ground, f"{stream.name}.a", batch_headers("gap", 3))
    await _raw(ground, f"{stream.name}.a", batch_headers("large", 1))
    for sequence in range(2, 1001):
        await ground.nc.publish(f"{stream.name}.a", headers=batch_headers("large", sequence))
    await _raw(ground, f"{stream.name}.a", [("Nats-Batch-Id", "large"), ("Nats-Batch-Sequence", "1001")])
    reasons = {
        json.loads(message.payload)["batch"]: json.loads(message.payload) for message in await advisories.wait(2)
    }
    assert {name: advisory["reason"] for name, advisory in reasons.items()} == {"gap": "incomplete", "large": "large"}


@pytest.mark.conformance("BAT-09")
@pytest.mark.blocking
async def test_a_stream_has_fifty_open_batches_at_most(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    batches = [ground.js.atomic_batch() for _ in range(50)]
    for batch in batches:
        await batch.add(f"{stream.name}.a")
    with pytest.raises(TooManyRequestsError) as caught:
        await ground.js.atomic_batch().add(f"{stream.name}.a")
    assert (caught.value.err_code, caught.value.code) == (10210, 429)
    for batch in batches:
        await batch.discard()
    again = ground.js.atomic_batch()
    await again.add(f"{stream.name}.a")  # each of them was returned at once
    assert (await again.commit()).sequence == 1
