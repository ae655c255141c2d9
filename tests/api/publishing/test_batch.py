"""Atomic batches (ADR-50, BAT-01 to BAT-10)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.api.publishing.support import last_sequence
from tests.fronts import Ground, eventually

from jetspark.errors import (
    AtomicPublishDisabledError,
    BatchClosedError,
    ConfigError,
    DuplicateInBatchError,
    InvalidAckError,
    MaxPayloadError,
    NoStreamResponseError,
    PublishTimeoutError,
    StatusError,
    StreamConfigError,
    WrongLastSequenceError,
)
from jetspark.jetstream import StorageType

ONE_PROFILE = pytest.mark.parametrize("profile", ["default"], indirect=True)


@pytest.mark.conformance("BAT-01")
@pytest.mark.conformance("BAT-03")
@pytest.mark.profiles
@pytest.mark.blocking
async def test_r51_messages_of_a_batch_are_numbered_and_acknowledged_as_one(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    sent = await ground.spy(f"{stream.name}.>")
    async with ground.js.atomic_batch("order-7") as batch:
        assert batch.id == "order-7"
        for number in range(3):
            await batch.add(f"{stream.name}.{number}", b"%d" % number, headers={"Color": "red"})
    assert batch.count == 3
    assert (batch.ack.stream, batch.ack.sequence, batch.ack.batch, batch.ack.count) == (stream.name, 3, "order-7", 3)
    messages = await sent.wait(4)
    headers = [message.headers.to_dict() for message in messages]
    assert headers[:3] == [
        {"Color": ["red"], "Nats-Batch-Id": ["order-7"], "Nats-Batch-Sequence": [str(number)]} for number in (1, 2, 3)
    ]
    assert headers[3] == {
        "Nats-Batch-Id": ["order-7"],
        "Nats-Batch-Sequence": ["4"],
        "Nats-Batch-Commit": ["eob"],
    }
    assert [bool(message.reply) for message in messages] == [True, False, False, True]
    assert await last_sequence(stream) == 3


@pytest.mark.conformance("BAT-01")
async def test_a_single_message_with_the_commit_is_a_batch(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    batch = ground.js.atomic_batch()
    ack = await batch.commit(f"{stream.name}.a", b"only", msg_id="m")
    assert (ack.sequence, ack.count, ack.batch) == (1, 1, batch.id)
    assert len(batch.id) <= 64
    assert batch.ack == ack


@pytest.mark.conformance("BAT-01")
async def test_a_stream_without_batches_refuses_the_first_message(ground: Ground) -> None:
    stream = await ground.stream()
    with pytest.raises(AtomicPublishDisabledError) as caught:
        async with ground.js.atomic_batch() as batch:
            await batch.add(f"{stream.name}.a")
    assert caught.value.err_code == 10174
    with pytest.raises(BatchClosedError, match=r"failed: .*10174"):
        await batch.add(f"{stream.name}.a")
    assert await last_sequence(stream) == 0


@pytest.mark.conformance("BAT-02")
async def test_later_messages_are_confirmed_on_request(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    await ground.js.publish(f"{stream.name}.a", msg_id="there")
    batch = ground.js.atomic_batch()
    await batch.add(f"{stream.name}.a")
    await batch.add(f"{stream.name}.b", confirm=True)
    # The server accepts messages until the commit is refused.
    await batch.add(f"{stream.name}.c", confirm=True, expected_last_subject_sequence=9)
    await batch.add(f"{stream.name}.d", confirm=True, msg_id="there")
    with pytest.raises((WrongLastSequenceError, DuplicateInBatchError)):
        await batch.commit()
    assert await last_sequence(stream) == 1


@pytest.mark.conformance("BAT-03")
async def test_the_last_message_marks_the_commit_with_and_without_a_message_of_its_own(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    ended, committed = ground.js.atomic_batch(), ground.js.atomic_batch()
    await ended.add(f"{stream.name}.a")
    assert (await ended.commit()).count == 1
    await committed.add(f"{stream.name}.a")
    ack = await committed.commit(f"{stream.name}.b", b"last")
    assert (ack.count, ack.sequence) == (2, 3)
    for seq, last in ((1, True), (2, False), (3, True)):
        stored = await (await ground.admin_js.stream(stream.name)).get_msg(seq)
        assert stored.headers.get("Nats-Batch-Commit") == ("1" if last else None)


@pytest.mark.conformance("BAT-03")
@pytest.mark.parametrize(
    "answer",
    [
        b'{"stream":"S","seq":5,"batch":"other","count":2}',
        b'{"stream":"S","seq":5,"batch":"b","count":3}',
        b'{"stream":"S","seq":1,"batch":"b","count":2}',
        b'{"stream":"S","seq":5}',
        b"",
    ],
)
@ONE_PROFILE
async def test_an_acknowledgement_of_another_batch_is_refused(ground: Ground, answer: bytes) -> None:
    subject = ground.name("service")
    answers = iter([b"", answer])
    subscription = await ground.admin.subscribe(subject, callback=lambda m: m.respond(next(answers)))
    await ground.admin.flush()
    batch = ground.js.atomic_batch("b")
    await batch.add(subject)
    with pytest.raises(InvalidAckError, match=subject):
        await batch.commit(subject)
    with pytest.raises(BatchClosedError, match="failed"):
        batch.ack  # noqa: B018 (a property that raises)
    await subscription.unsubscribe()


@ONE_PROFILE
async def test_an_invalid_answer_to_the_first_message_is_refused(ground: Ground) -> None:
    stream = await ground.stream()  # of a server without batches, for example
    subject = ground.name("service")
    answer = b'{"stream":"%s","seq":1}' % stream.name.encode()
    subscription = await ground.admin.subscribe(subject, callback=lambda message: message.respond(answer))
    await ground.admin.flush()
    with pytest.raises(InvalidAckError, match="unexpected reply to a message of an atomic batch"):
        await ground.js.atomic_batch().add(subject)
    await subscription.unsubscribe()
    second = await ground.admin.subscribe(subject)
    await ground.admin.flush()
    added = asyncio.ensure_future(ground.js.atomic_batch().add(subject))
    await ground.inject((await second.next_msg(10)).reply, b"NATS/1.0 499 Odd\r\n\r\n")
    with pytest.raises(StatusError, match="499"):
        await added
    await second.unsubscribe()


@pytest.mark.conformance("BAT-04")
async def test_a_batch_is_stored_completely_or_not_at_all(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    other = await ground.connect()
    js = other.jetstream(domain=ground.profile.domain)

    async def change_my_mind() -> None:
        async with ground.js.atomic_batch() as batch:
            await batch.add(f"{stream.name}.a")
            await batch.add(f"{stream.name}.a")
            raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError, match="changed my mind"):
        await change_my_mind()
    await ground.nc.flush()
    assert await last_sequence(stream) == 0
    async with ground.js.atomic_batch() as batch:
        for _ in range(5):
            await batch.add(f"{stream.name}.batch")
            await js.publish(f"{stream.name}.between")
    assert await last_sequence(stream) == 10
    assert batch.ack.sequence == 10
    stored = await ground.admin_js.stream(stream.name)
    assert (await stored.info(subjects_filter=">")).state.subjects == {
        f"{stream.name}.between": 5,
        f"{stream.name}.batch": 5,
    }
    consecutive = await _subjects(ground, stream.name, range(6, 11))
    assert consecutive == [f"{stream.name}.batch"] * 5


async def _subjects(ground: Ground, name: str, sequences: range) -> list[str]:
    stream = await ground.admin_js.stream(name)
    return [(await stream.get_msg(seq)).subject for seq in sequences]


@pytest.mark.conformance("BAT-10")
@pytest.mark.blocking
async def test_an_update_enables_batches_but_not_with_asynchronous_persistence(ground: Ground) -> None:
    stream = await ground.stream(storage=StorageType.FILE)
    with pytest.raises(AtomicPublishDisabledError):
        await ground.js.atomic_batch().add(f"{stream.name}.a")
    await ground.js.update_stream(stream.cached_info.config.replace(allow_atomic=True))
    assert (await ground.js.atomic_batch().commit(f"{stream.name}.a")).sequence == 1
    with pytest.raises(StreamConfigError) as caught:
        await ground.stream(storage=StorageType.FILE, allow_atomic=True, persist_mode="async")
    assert caught.value.err_code == 10052


@pytest.mark.conformance("BAT-10")
async def test_a_finished_batch_takes_no_more_messages(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    committed, discarded = ground.js.atomic_batch(), ground.js.atomic_batch()
    await committed.add(f"{stream.name}.a")
    await committed.commit()
    await discarded.add(f"{stream.name}.a")
    await discarded.discard()
    for batch, word in ((committed, "committed"), (discarded, "discarded")):
        for use in (batch.add(f"{stream.name}.a"), batch.commit(), batch.commit(f"{stream.name}.a")):
            with pytest.raises(BatchClosedError, match=word):
                await use
        await batch.discard()
        async with batch:
            pass
        assert word in repr(batch)
    with pytest.raises(BatchClosedError, match="discarded"):
        discarded.ack  # noqa: B018 (a property that raises)
    assert await last_sequence(stream) == 1


async def test_an_empty_batch_commits_nothing(ground: Ground) -> None:
    async with ground.js.atomic_batch() as batch:
        pass
    assert batch.count == 0
    with pytest.raises(ConfigError, match="without messages"):
        await ground.js.atomic_batch().commit()
    with pytest.raises(BatchClosedError, match="not committed, but open"):
        batch.ack  # noqa: B018 (a property that raises)


async def test_a_batch_without_a_stream_fails_like_a_publish(ground: Ground) -> None:
    batch = ground.js.atomic_batch()
    with pytest.raises(NoStreamResponseError, match="after 2 retries"):
        await batch.add(ground.name("nobody"))
    with pytest.raises(BatchClosedError, match="failed"):
        await batch.add("a")


async def test_a_message_that_cannot_be_sent_is_not_counted_and_does_no_harm(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    limit = ground.nc.server_info.max_payload
    async with ground.js.atomic_batch() as batch:
        for _ in range(2):
            with pytest.raises(MaxPayloadError):
                await batch.add(f"{stream.name}.a", b"x" * limit)
            with pytest.raises(ValueError, match="subject"):
                await batch.add("a b")
            await batch.add(f"{stream.name}.a")
    assert (batch.ack.count, batch.ack.sequence) == (2, 2)


async def test_messages_of_several_tasks_are_numbered_in_sequence(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True)
    async with ground.js.atomic_batch() as batch:
        await asyncio.gather(*(batch.add(f"{stream.name}.{number}") for number in range(50)))
    assert (batch.ack.count, batch.ack.sequence) == (50, 50)


async def test_a_missing_answer_ends_the_batch(ground: Ground) -> None:
    stream = await ground.stream(allow_atomic=True, no_ack=True, duplicate_window=timedelta(seconds=1))
    batch = ground.js.atomic_batch(timeout=0.1)
    with pytest.raises(PublishTimeoutError, match=r"within 0\.1 s"):
        await batch.add(f"{stream.name}.a")
    with pytest.raises(BatchClosedError, match="failed"):
        await batch.commit(f"{stream.name}.a")


@pytest.mark.parametrize("front", ["aio"], indirect=True)
@ONE_PROFILE
async def test_a_batch_with_a_cancelled_request_takes_no_more_messages(ground: Ground) -> None:
    subject = ground.name("service")
    subscription = await ground.admin.subscribe(subject)
    await ground.admin.flush()
    batch = ground.js.atomic_batch()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(batch.add(subject), 0.3)
    with pytest.raises(BatchClosedError, match="cancelled"):
        await batch.add(subject)
    await eventually(lambda: subscription.pending[0] == 1)
    await subscription.unsubscribe()
