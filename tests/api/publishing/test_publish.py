"""A publish and its acknowledgement (PUB-01 to PUB-09), and problems that users of other clients reported."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.api.publishing.support import until
from tests.connection.support import Proxy
from tests.fronts import Ground, connect, eventually

from jetspark.aio.jetstream import AsyncPublishOptions, RetryPolicy
from jetspark.errors import (
    APIError,
    ConfigError,
    InvalidAckError,
    MaxPayloadError,
    MessageSizeExceedsMaximumError,
    MessageTTLDisabledError,
    MessageTTLInvalidError,
    NoRespondersError,
    NoStreamResponseError,
    PublishExpectationError,
    PublishTimeoutError,
    RollupError,
    StatusError,
    StreamSealedError,
    StreamStoreFailedError,
    TooManyRequestsError,
    WrongLastMsgIdError,
    WrongLastSequenceError,
    WrongStreamError,
)
from jetspark.jetstream import DiscardPolicy, StorageType, schedule_at
from jetspark.wire.headers import Headers

ONE_PROFILE = pytest.mark.parametrize("profile", ["default"], indirect=True)


async def _publish(ground: Ground, subject: str, payload: bytes = b"", **given: Any) -> Any:
    return await ground.js.publish(subject, payload, **given)


async def _publish_async(ground: Ground, subject: str, payload: bytes = b"", **given: Any) -> Any:
    return await (await ground.js.publish_async(subject, payload, **given))


BOTH_WAYS = pytest.mark.parametrize("publish", [_publish, _publish_async], ids=["publish", "publish_async"])


@pytest.mark.conformance("PUB-01")
@BOTH_WAYS
@pytest.mark.profiles
@pytest.mark.blocking
async def test_an_acknowledgement_has_stream_sequence_and_domain(ground: Ground, publish: Any) -> None:
    stream = await ground.stream()
    first = await publish(ground, f"{stream.name}.a", b"one")
    second = await publish(ground, f"{stream.name}.b", bytearray(b"two"))
    assert (first.stream, first.sequence, second.sequence) == (stream.name, 1, 2)
    assert first.domain == (ground.profile.domain or "")
    assert (first.duplicate, first.batch, first.count, first.val) == (False, "", 0, "")


@pytest.mark.conformance("PUB-01")
async def test_an_acknowledgement_has_the_value_of_a_counter(ground: Ground) -> None:
    stream = await ground.stream(allow_msg_counter=True, allow_direct=True)
    assert (await ground.js.publish(f"{stream.name}.hits", increment=5)).val == "5"
    assert (await ground.js.publish(f"{stream.name}.hits", increment=-7)).val == "-2"


@pytest.mark.conformance("PUB-01")
@BOTH_WAYS
async def test_r52_headers_are_sent_and_left_unchanged(ground: Ground, publish: Any) -> None:
    stream = await ground.stream()
    subscription = await ground.admin.subscribe(f"{stream.name}.a")
    await ground.admin.flush()
    plain = {"Color": "red", "Nats-Msg-Id": "the caller's"}
    several = Headers([("Color", "red"), ("Color", "green")])
    pairs = [("Color", "blue")]
    await publish(ground, f"{stream.name}.a", headers=plain, msg_id="ours", expected_stream=stream.name)
    await publish(ground, f"{stream.name}.a", headers=several, expected_stream=stream.name)
    await publish(ground, f"{stream.name}.a", headers=pairs, expected_stream=stream.name)
    assert plain == {"Color": "red", "Nats-Msg-Id": "the caller's"}
    assert several == {"Color": ["red", "green"]}
    assert pairs == [("Color", "blue")]
    sent = [(await subscription.next_msg(10)).headers.to_dict() for _ in range(3)]
    expected = {"Nats-Expected-Stream": [stream.name]}
    assert sent[0] == {"Color": ["red"], "Nats-Msg-Id": ["ours"], **expected}
    assert sent[1] == {"Color": ["red", "green"], **expected}
    assert sent[2] == {"Color": ["blue"], **expected}


@pytest.mark.conformance("PUB-01")
async def test_a_stream_without_acknowledgements_causes_a_timeout(ground: Ground) -> None:
    stream = await ground.stream(no_ack=True)
    with pytest.raises(PublishTimeoutError, match=rf"{stream.name}\.a: no acknowledgement within 0\.2 s") as caught:
        await ground.js.publish(f"{stream.name}.a", timeout=0.2)
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.conformance("PUB-01")
@ONE_PROFILE
async def test_the_default_timeout_is_that_of_the_context(ground: Ground) -> None:
    assert ground.js.timeout == 5.0
    stream = await ground.stream(no_ack=True)
    impatient = ground.nc.jetstream(timeout=0.1)
    with pytest.raises(PublishTimeoutError, match=r"within 0\.1 s"):
        await impatient.publish(f"{stream.name}.a")


@pytest.mark.conformance("PUB-02")
@BOTH_WAYS
async def test_an_invalid_acknowledgement_is_an_error(ground: Ground, publish: Any) -> None:
    subject = ground.name("service")
    answers = [b"hello", b"", b'{"seq":4}', b'{"stream":"","seq":4}', b"[1]"]
    left = iter(answers)
    subscription = await ground.admin.subscribe(subject, callback=lambda message: message.respond(next(left)))
    await ground.admin.flush()
    for _ in answers:
        with pytest.raises(InvalidAckError, match=subject):
            await publish(ground, subject)
    await subscription.unsubscribe()


@pytest.mark.conformance("PUB-02")
@BOTH_WAYS
async def test_an_error_takes_precedence_over_stream_and_sequence(ground: Ground, publish: Any) -> None:
    subject = ground.name("service")
    answer = b'{"error":{"code":429,"err_code":10167,"description":"too many requests"},"stream":"S","seq":0}'
    subscription = await ground.admin.subscribe(subject, callback=lambda message: message.respond(answer))
    await ground.admin.flush()
    with pytest.raises(TooManyRequestsError) as caught:
        await publish(ground, subject)
    assert (caught.value.code, caught.value.err_code, caught.value.where) == (429, 10167, subject)
    await subscription.unsubscribe()


@pytest.mark.conformance("PUB-02")
@BOTH_WAYS
async def test_a_status_other_than_503_is_raised_as_it_is(ground: Ground, publish: Any) -> None:
    subject = ground.name("service")
    subscription = await ground.admin.subscribe(subject)
    await ground.admin.flush()
    published = asyncio.ensure_future(publish(ground, subject))
    message = await subscription.next_msg(10)
    await ground.inject(message.reply, b"NATS/1.0 499 Odd\r\n\r\n")
    with pytest.raises(StatusError, match="499 Odd"):
        await published
    await subscription.unsubscribe()


@pytest.mark.conformance("PUB-03", "PUB-12")
@BOTH_WAYS
async def test_a_stream_created_meanwhile_gets_the_message(ground: Ground, publish: Any) -> None:
    name = ground.name()
    given = {"retry_attempts": 80, "timeout": 30} if publish is _publish else {}  # by the context
    settings = AsyncPublishOptions(retry=RetryPolicy(80, 0.25))
    async with Proxy(ground.server.port) as proxy:
        nc = await connect(ground.front, proxy.url, **ground.profile.options)
        ground.stack.push_async_callback(nc.close)
        through = replace(ground, js=nc.jetstream(domain=ground.profile.domain, publishing=settings))
        published = asyncio.ensure_future(publish(through, f"{name}.a", b"early", **given))
        await eventually(lambda: proxy.said.count(f"PUB {name}.a ".encode()) > 1, what="a retry")
        await ground.admin_js.create_stream(name=name, subjects=[f"{name}.>"], storage=StorageType.MEMORY)
        assert (await published).sequence == 1


@pytest.mark.conformance("PUB-03", "PUB-12")
@BOTH_WAYS
async def test_no_stream_after_two_retries_is_an_error(ground: Ground, publish: Any) -> None:
    loop = asyncio.get_running_loop()
    subject = ground.name("nobody")
    begin = loop.time()
    with pytest.raises(NoStreamResponseError, match=rf"{subject}: .*after 2 retries") as caught:
        await publish(ground, subject)
    assert loop.time() - begin >= 0.5
    assert isinstance(caught.value, NoRespondersError)


@pytest.mark.conformance("PUB-03")
async def test_retries_stay_within_the_timeout(ground: Ground) -> None:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    with pytest.raises(NoStreamResponseError, match="after 1 retry"):
        await ground.js.publish(ground.name("nobody"), timeout=2, retry_wait=1.1)
    assert loop.time() - begin < 2
    begin = loop.time()
    with pytest.raises(NoStreamResponseError):
        await ground.js.publish(ground.name("nobody"), retry_attempts=0, retry_wait=8, timeout=20)
    assert loop.time() - begin < 8
    with pytest.raises(NoStreamResponseError, match="after 5 retries"):
        await ground.js.publish(ground.name("nobody"), retry_attempts=5, retry_wait=0.01)


@BOTH_WAYS
async def test_r47_a_subscriber_without_a_stream_causes_a_timeout_that_names_the_subject(
    ground: Ground, publish: Any
) -> None:
    subject = ground.name("zzz")
    subscription = await ground.admin.subscribe(subject)
    await ground.admin.flush()
    with pytest.raises(PublishTimeoutError, match=f"{subject}: "):
        await ground.js.publish(subject, timeout=0.1)
    await subscription.unsubscribe()
    await ground.admin.flush()
    with pytest.raises(NoStreamResponseError, match=f"{subject}: "):
        await publish(ground, subject)


@pytest.mark.conformance("PUB-04")
@BOTH_WAYS
async def test_a_message_id_is_stored_once_within_the_window(ground: Ground, publish: Any) -> None:
    stream = await ground.stream()
    assert stream.cached_info.config.duplicate_window == timedelta(minutes=2)
    first = await publish(ground, f"{stream.name}.a", msg_id="m")
    again = await publish(ground, f"{stream.name}.a", msg_id="m")
    assert (first.sequence, first.duplicate, again.sequence, again.duplicate) == (1, False, 1, True)
    assert (await stream.info()).state.messages == 1
    forgetful = await ground.stream(duplicate_window=timedelta(milliseconds=200))
    seen: list[int] = []

    async def stored_again() -> bool:
        seen.append((await publish(ground, f"{forgetful.name}.a", msg_id="m")).sequence)
        return seen[-1] == 2

    await until(stored_again)
    assert set(seen) == {1, 2}


@pytest.mark.conformance("PUB-05")
@BOTH_WAYS
@pytest.mark.parametrize(
    ("fields", "error", "number"),
    [
        ({"expected_stream": "OTHER"}, WrongStreamError, 10060),
        ({"expected_last_sequence": 0}, WrongLastSequenceError, 10071),
        ({"expected_last_sequence": 7}, WrongLastSequenceError, 10071),
        ({"expected_last_subject_sequence": 0}, WrongLastSequenceError, 10071),
        ({"expected_last_msg_id": "other"}, WrongLastMsgIdError, 10070),
    ],
)
async def test_failed_expectations_have_different_errors(
    ground: Ground, publish: Any, fields: dict[str, Any], error: type[APIError], number: int
) -> None:
    stream = await ground.stream()
    await ground.js.publish(f"{stream.name}.a", msg_id="last")
    with pytest.raises(error) as caught:
        await publish(ground, f"{stream.name}.a", **fields)
    assert caught.value.err_code == number
    assert isinstance(caught.value, PublishExpectationError)
    assert (await stream.info()).state.messages == 1


@pytest.mark.conformance("PUB-05")
@BOTH_WAYS
async def test_fulfilled_expectations_succeed_and_zero_is_a_valid_value(ground: Ground, publish: Any) -> None:
    stream = await ground.stream()
    subject = f"{stream.name}.a"
    assert (await publish(ground, subject, expected_last_sequence=0, msg_id="m")).sequence == 1
    assert (await publish(ground, f"{stream.name}.b", expected_last_subject_sequence=0)).sequence == 2
    ack = await publish(
        ground, subject, expected_stream=stream.name, expected_last_sequence=2, expected_last_subject_sequence=1
    )
    assert ack.sequence == 3


@pytest.mark.conformance("PUB-05")
@pytest.mark.parametrize("number", [10071, 10164])
@BOTH_WAYS
@ONE_PROFILE
async def test_both_error_codes_of_a_wrong_last_sequence_are_one_error(
    ground: Ground, publish: Any, number: int
) -> None:
    subject = ground.name("service")
    answer = b'{"error":{"code":400,"err_code":%d,"description":"wrong last sequence"},"stream":"S","seq":0}' % number
    subscription = await ground.admin.subscribe(subject, callback=lambda message: message.respond(answer))
    await ground.admin.flush()
    with pytest.raises(WrongLastSequenceError):
        await publish(ground, subject)
    await subscription.unsubscribe()


@pytest.mark.conformance("PUB-06")
@BOTH_WAYS
async def test_the_subject_of_an_expected_sequence_may_have_wildcards_and_needs_the_sequence(
    ground: Ground, publish: Any
) -> None:
    stream = await ground.stream()
    await ground.js.publish(f"{stream.name}.a")
    kept = {"expected_last_subject_sequence": 1, "expected_last_subject_sequence_subject": f"{stream.name}.*"}
    assert (await publish(ground, f"{stream.name}.b", **kept)).sequence == 2
    with pytest.raises(WrongLastSequenceError):
        await publish(ground, f"{stream.name}.c", **kept)
    with pytest.raises(ConfigError, match="needs expected_last_subject_sequence"):
        await publish(ground, f"{stream.name}.c", expected_last_subject_sequence_subject=f"{stream.name}.*")
    alone = {"Nats-Expected-Last-Subject-Sequence-Subject": f"{stream.name}.*"}
    with pytest.raises(PublishExpectationError) as caught:
        await publish(ground, f"{stream.name}.c", headers=alone)
    assert caught.value.err_code == 10193


@pytest.mark.conformance("PUB-07")
@BOTH_WAYS
async def test_refusals_of_the_stream_have_their_code_and_are_not_retried(ground: Ground, publish: Any) -> None:
    stream = await ground.stream(max_msgs=1, max_msg_size=100, discard=DiscardPolicy.NEW)
    subject = f"{stream.name}.a"
    sent = await ground.spy(subject)
    with pytest.raises(MessageSizeExceedsMaximumError) as size:
        await publish(ground, subject, b"x" * 60, headers={"Padding": "x" * 60})
    assert size.value.err_code == 10054  # headers count
    await publish(ground, subject)
    with pytest.raises(StreamStoreFailedError) as full:
        await publish(ground, subject)
    assert (full.value.code, full.value.err_code) == (503, 10077)
    assert len(await sent.settled()) == 3  # each of them once
    assert not isinstance(full.value, NoRespondersError)
    await ground.admin_js.update_stream(stream.cached_info.config.replace(sealed=True))
    with pytest.raises(StreamSealedError) as sealed:
        await publish(ground, subject)
    assert sealed.value.err_code == 10109


@pytest.mark.conformance("PUB-08")
@BOTH_WAYS
async def test_r50_a_message_that_is_too_large_is_refused_locally_and_the_connection_stays_open(
    ground: Ground, publish: Any
) -> None:
    stream = await ground.stream()
    limit = ground.nc.server_info.max_payload
    session = ground.nc.server_info.client_id
    with pytest.raises(MaxPayloadError) as caught:
        await publish(ground, f"{stream.name}.a", b"x" * (limit + 1))
    assert caught.value.limit == limit
    with pytest.raises(MaxPayloadError):
        await publish(ground, f"{stream.name}.a", b"x" * limit, headers={"One": "more"})
    with pytest.raises(MaxPayloadError):
        await publish(ground, f"{stream.name}.a", b"x" * limit, msg_id="m")
    assert (await publish(ground, f"{stream.name}.a", b"x" * limit)).sequence == 1
    assert ground.nc.server_info.client_id == session


@pytest.mark.conformance("PUB-09")
@BOTH_WAYS
async def test_message_ttl_and_rollup_work(ground: Ground, publish: Any) -> None:
    stream = await ground.stream(allow_msg_ttl=True, allow_rollup_hdrs=True)
    sent = await ground.spy(f"{stream.name}.a")
    for ttl in (timedelta(seconds=90), timedelta(seconds=1.5), "never"):
        await publish(ground, f"{stream.name}.a", ttl=ttl)
    assert [message.headers["Nats-TTL"] for message in await sent.wait(3)] == ["90", "1.5s", "never"]
    with pytest.raises(MessageTTLInvalidError) as short:
        await publish(ground, f"{stream.name}.a", ttl=timedelta(milliseconds=999))
    assert short.value.err_code == 10165
    await publish(ground, f"{stream.name}.b")
    assert (await publish(ground, f"{stream.name}.a", rollup="sub")).sequence == 5
    assert (await stream.info()).state.messages == 2
    await publish(ground, f"{stream.name}.c", rollup="all")
    assert (await stream.info()).state.messages == 1


@pytest.mark.conformance("PUB-09")
@BOTH_WAYS
async def test_message_ttl_and_rollup_need_a_stream_that_allows_them(ground: Ground, publish: Any) -> None:
    stream = await ground.stream()
    with pytest.raises(MessageTTLDisabledError) as ttl:
        await publish(ground, f"{stream.name}.a", ttl=timedelta(seconds=5))
    assert ttl.value.err_code == 10166
    with pytest.raises(RollupError) as rollup:
        await publish(ground, f"{stream.name}.a", rollup="sub")
    assert (rollup.value.err_code, rollup.value.code) == (10111, 500)


async def test_a_scheduled_message_is_published_later(ground: Ground) -> None:
    stream = await ground.stream(allow_msg_schedules=True)
    soon = schedule_at(datetime.now(UTC) + timedelta(seconds=0.5))
    await ground.js.publish(f"{stream.name}.plan", b"now", schedule=soon, schedule_target=f"{stream.name}.due")

    async def published() -> bool:
        return (await stream.info()).state.last_sequence == 2

    await until(published)


@BOTH_WAYS
async def test_an_invalid_subject_or_payload_is_refused_before_it_is_sent(ground: Ground, publish: Any) -> None:
    for subject in ("", "a b", "a.*", "a..b"):
        with pytest.raises(ValueError, match="subject"):
            await publish(ground, subject)
    with pytest.raises(TypeError):
        await publish(ground, "a", "text")
    with pytest.raises(TypeError):
        await publish(ground, "a", unknown=1)
    assert ground.js.publish_async_pending == 0
