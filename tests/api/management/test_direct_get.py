"""Direct get of one message, of many, and of the last messages of many subjects."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from tests.api.management.fake import fake_api
from tests.api.management.streams import direct_stream
from tests.fronts import Ground

from jetspark.aio.jetstream import JetStream
from jetspark.errors import (
    ConfigError,
    DirectGetRequestError,
    InvalidReplyError,
    MessageNotFoundError,
    NoDirectGetError,
    RequestTimeoutError,
    TooManyResultsError,
)
from jetspark.jetstream import StoredMessage, Timestamp
from jetspark.jetstream.direct_get import DirectGetRequest, DirectLastRequest, read_direct_message

_ONE_SERVER = pytest.mark.parametrize("profile", ["default"], indirect=True)


def sequences(messages: list[StoredMessage]) -> list[int]:
    return [message.sequence for message in messages]


# -- one message -----------------------------------------------------------------------------------------------------


@pytest.mark.conformance("DIR-01")
@pytest.mark.profiles
async def test_a_message_can_be_selected_in_every_way(ground: Ground, js: JetStream) -> None:
    stream = await direct_stream(ground, 6)
    third = await js.direct_get(DirectGetRequest(stream.name, sequence=3))
    assert (third.stream, third.subject, third.sequence) == (stream.name, f"{stream.name}.0", 3)
    assert (third.payload, third.headers.to_dict()) == (b"3", {"Number": ["3"]})
    assert third.timestamp_ns == (await stream.get_msg(3, direct=False)).timestamp_ns
    for choice, sequence in (
        ({"last_by_subject": f"{stream.name}.*"}, 6),
        ({"next_by_subject": f"{stream.name}.2"}, 2),
        ({"next_by_subject": f"{stream.name}.2", "sequence": 3}, 5),
        ({"start_time": third.timestamp}, 3),
        ({"start_time": Timestamp.from_ns(third.timestamp_ns + 1)}, 4),
    ):
        assert (await js.direct_get(DirectGetRequest(stream.name, **choice))).sequence == sequence


@pytest.mark.conformance("DIR-01")
@_ONE_SERVER
async def test_a_timestamp_in_the_older_format_is_read(ground: Ground) -> None:
    header = (
        b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: a\r\nNats-Sequence: 7\r\n"
        b"Nats-Time-Stamp: 2022-10-14 11:03:24.123456789 +0000 UTC\r\n\r\n"
    )
    js = await fake_api(ground, lambda endpoint, payload: [(header, b"x")])
    message = await js.direct_get(DirectGetRequest("S", sequence=7))
    assert (message.sequence, message.timestamp_ns % 1_000_000_000) == (7, 123_456_789)


@pytest.mark.conformance("DIR-02")
@pytest.mark.blocking
async def test_the_last_message_of_a_subject_is_requested_by_subject(ground: Ground, js: JetStream) -> None:
    stream = await direct_stream(ground, 6)
    spy = await ground.spy(f"$JS.API.DIRECT.GET.{stream.name}.>")
    assert (await js.direct_get(DirectLastRequest(stream.name, f"{stream.name}.1"))).sequence == 4
    assert (await stream.get_last_msg(f"{stream.name}.2")).sequence == 5
    asked = [(message.subject, message.payload) for message in await spy.wait(2)]
    assert asked == [(f"$JS.API.DIRECT.GET.{stream.name}.{stream.name}.{number}", b"") for number in (1, 2)]
    reply = await ground.nc.request(f"{js.prefix}DIRECT.GET.{stream.name}.{stream.name}.1", b'{"seq":1}')
    assert reply.status is not None
    assert (reply.status.code, reply.status.description) == (408, "Bad Request")


@pytest.mark.conformance("DIR-03")
async def test_statuses_are_distinguished_from_messages(ground: Ground, js: JetStream) -> None:
    stream = await direct_stream(ground)
    await ground.admin.request(f"{stream.name}.a", b"", headers={"Status": "404", "Description": "hi"})
    message = await js.direct_get(DirectGetRequest(stream.name, sequence=1))
    assert (message.payload, message.headers["Status"]) == (b"", "404")
    assert sequences(await stream.get_batch().all()) == [1]
    with pytest.raises(MessageNotFoundError):
        await js.direct_get(DirectGetRequest(stream.name, sequence=2))


@pytest.mark.conformance("DIR-03")
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "Empty Request"),
        (b"{", "Malformed Request"),
        (b'{"seq":1,"last_by_subj":"a"}', "Bad Request"),
    ],
)
async def test_a_request_that_the_server_does_not_understand_is_an_error(
    ground: Ground, js: JetStream, body: bytes, text: str
) -> None:
    stream = await direct_stream(ground)
    request = DirectGetRequest(stream.name, sequence=1)
    reply = await ground.nc.request(request.subject(js.prefix), body)
    with pytest.raises(DirectGetRequestError, match=f"408 {text}"):
        read_direct_message(request, reply.status, reply.headers, reply.payload)


@pytest.mark.parametrize("text", [b"Empty Request", b"Bad Request", b"Malformed Request"])
@_ONE_SERVER
async def test_every_call_raises_the_error_of_the_server(ground: Ground, text: bytes) -> None:
    status = b"NATS/1.0 408 %s\r\n\r\n" % text
    js = await fake_api(ground, lambda endpoint, payload: [_INFO] if endpoint[0] == "S" else [(status, b"")])
    stream = await js.stream("S")
    for call in (stream.get_msg(1, direct=True), stream.get_batch().all(), stream.get_last_msgs_for().all()):
        with pytest.raises(DirectGetRequestError, match=text.decode()):
            await call


@pytest.mark.conformance("DIR-04")
async def test_a_stream_without_direct_get_is_reported(ground: Ground, js: JetStream) -> None:
    stream = await ground.stream()
    for name in (stream.name, ground.name()):
        with pytest.raises(NoDirectGetError):
            await js.direct_get(DirectGetRequest(name, sequence=1))
    for call in (stream.get_batch().all(), stream.get_last_msgs_for().all()):
        with pytest.raises(NoDirectGetError, match="503"):
            await call


# -- many messages ---------------------------------------------------------------------------------------------------


@pytest.mark.conformance("DIR-05")
@pytest.mark.profiles
async def test_many_messages_arrive_in_order(ground: Ground) -> None:
    stream = await direct_stream(ground, 30)
    messages = [message async for message in stream.get_batch()]
    assert sequences(messages) == list(range(1, 31))
    assert [message.payload for message in messages] == [b"%d" % number for number in range(1, 31)]
    assert [message.headers["Number"] for message in messages] == [str(number) for number in range(1, 31)]
    assert [message.num_pending for message in messages] == list(range(29, -1, -1))
    assert [message.last_sequence for message in messages] == list(range(30))
    assert sequences(await stream.get_batch(4).all()) == [1, 2, 3, 4]
    assert sequences(await stream.get_batch(4, sequence=20).all()) == [20, 21, 22, 23]
    assert sequences(await stream.get_batch(3, subject=f"{stream.name}.1").all()) == [1, 4, 7]
    assert sequences(await stream.get_batch(subject=f"{stream.name}.1", sequence=22).all()) == [22, 25, 28]
    assert sequences(await stream.get_batch(2, start_time=messages[9].timestamp).all())[0] <= 10
    assert sequences(await stream.get_batch(start_time=datetime(2100, 1, 1, tzinfo=UTC)).all()) == []


@pytest.mark.conformance("DIR-05")
async def test_deleted_messages_are_skipped(ground: Ground) -> None:
    stream = await direct_stream(ground, 10)
    for seq in (1, 2, 5, 10):
        await stream.delete_msg(seq)
    assert sequences(await stream.get_batch().all()) == [3, 4, 6, 7, 8, 9]


@pytest.mark.conformance("DIR-05", "DIR-07")
async def test_batches_are_limited_and_follow_one_another(ground: Ground) -> None:
    stream = await direct_stream(ground, 2500)
    spy = await ground.spy(f"$JS.API.DIRECT.GET.{stream.name}")
    assert sequences(await stream.get_batch(2200).all()) == list(range(1, 2201))
    asked = [json.loads(message.payload) for message in await spy.settled()]
    assert [(request["batch"], request["seq"]) for request in asked] == [(1000, 1), (1000, 1001), (200, 2001)]
    spy.messages.clear()
    async for message in stream.get_batch():
        if message.sequence == 1000:
            break
    assert len(await spy.settled()) == 1  # the limit was reached


@pytest.mark.conformance("DIR-07")
async def test_a_byte_limit_does_not_end_the_read(ground: Ground) -> None:
    stream = await direct_stream(ground, 40)
    spy = await ground.spy(f"$JS.API.DIRECT.GET.{stream.name}")
    assert sequences(await stream.get_batch(30, max_bytes=300).all()) == list(range(1, 31))
    assert len(await spy.settled()) > 1
    spy.messages.clear()
    assert sequences(await stream.get_batch(3, max_bytes=1).all()) == [1, 2, 3]
    assert len(await spy.settled()) == 3


@pytest.mark.blocking
@pytest.mark.conformance("DIR-06")
async def test_a_batch_without_matches_is_empty(ground: Ground) -> None:
    stream = await direct_stream(ground)
    spy = await ground.spy(f"$JS.API.DIRECT.GET.{stream.name}")
    assert await stream.get_batch().all() == []
    assert await stream.get_batch(5, subject="nothing").all() == []
    assert all(json.loads(message.payload)["seq"] == 1 for message in await spy.settled())
    assert await stream.get_last_msgs_for("nothing").all() == []
    with pytest.raises(ConfigError):
        stream.get_batch(0)
    with pytest.raises(ConfigError):
        stream.get_batch(sequence=1, start_time=datetime.now(UTC))


_INFO = json.dumps(
    {"config": {"name": "S", "allow_direct": True}, "created": "2031-01-01T00:00:00Z", "state": {}}
).encode()
_PLACE = (
    b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: a\r\nNats-Sequence: %d\r\nNats-Time-Stamp: 2031-01-01T00:00:00Z\r\n"
)


@pytest.mark.conformance("DIR-05")
@_ONE_SERVER
async def test_a_server_without_batches_is_asked_for_each_message(ground: Ground) -> None:
    def answers(endpoint: str, payload: bytes) -> list[tuple[bytes, bytes] | bytes]:
        if endpoint.startswith("STREAM"):
            return [_INFO]
        seq = json.loads(payload)["seq"]
        return [(_PLACE % seq + b"\r\n", b"x") if seq < 4 else (b"NATS/1.0 404 Message Not Found\r\n\r\n", b"")]

    js = await fake_api(ground, answers)
    stream = await js.stream("S")
    assert sequences(await stream.get_batch(1).all()) == [1]
    assert sequences(await stream.get_batch().all()) == [1, 2, 3]


@pytest.mark.conformance("DIR-05", "DIR-09")
@_ONE_SERVER
async def test_a_batch_whose_end_is_lost_is_requested_again_and_never_short(ground: Ground) -> None:
    asked: list[dict[str, object]] = []

    def answers(endpoint: str, payload: bytes) -> list[tuple[bytes, bytes] | bytes]:
        if endpoint.startswith("STREAM"):
            return [_INFO]
        asked.append(json.loads(payload))
        first = len(asked) == 1
        return [(_reply(seq, before, 9), b"x") for seq, before in ((1, 0), (2, 1))] if first else ending

    ending: list[tuple[bytes, bytes] | bytes] = [(_reply(3, 0, 0), b"x"), (_end(3, 0), b"")]
    js = await fake_api(ground, answers, timeout=0.5)
    stream = await js.stream("S")
    assert sequences(await stream.get_batch().all()) == [1, 2, 3]
    assert [request["seq"] for request in asked] == [1, 3]
    for call in (stream.get_batch().all(), stream.get_last_msgs_for().all()):
        asked.clear()
        ending = []
        with pytest.raises(RequestTimeoutError, match=r"DIRECT\.GET\.S"):
            await call
    assert len(asked) == 1  # the moment of the last messages was not known yet


@pytest.mark.conformance("DIR-05")
@_ONE_SERVER
async def test_a_message_missing_from_a_batch_is_requested_again(ground: Ground) -> None:
    asked: list[dict[str, object]] = []

    def answers(endpoint: str, payload: bytes) -> list[tuple[bytes, bytes] | bytes]:
        if endpoint.startswith("STREAM"):
            return [_INFO]
        asked.append(json.loads(payload))
        if len(asked) == 1:
            return [(_reply(1, 0, 2), b"x"), (_reply(3, 2, 0), b"x"), (_end(3, 0), b"")]
        return [(_reply(2, 0, 1), b"x"), (_reply(3, 2, 0), b"x"), (_end(3, 0), b"")]

    js = await fake_api(ground, answers)
    stream = await js.stream("S")
    assert sequences(await stream.get_batch().all()) == [1, 2, 3]
    assert [request["seq"] for request in asked] == [1, 2]


@_ONE_SERVER
async def test_a_reply_without_sequence_is_reported(ground: Ground) -> None:
    js = await fake_api(ground, lambda endpoint, payload: [_INFO] if endpoint[0] == "S" else [b"x"])
    stream = await js.stream("S")
    with pytest.raises(InvalidReplyError):
        await stream.get_batch().all()


def _reply(sequence: int, before: int, pending: int) -> bytes:
    return _PLACE % sequence + b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n\r\n" % (pending, before)


def _end(last: int, pending: int) -> bytes:
    return b"NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n\r\n" % (pending, last)


# -- last messages ---------------------------------------------------------------------------------------------------


@pytest.mark.conformance("DIR-08")
async def test_the_last_messages_of_subjects_arrive_in_order(ground: Ground) -> None:
    stream = await direct_stream(ground, 30, subjects=10)
    assert sequences(await stream.get_last_msgs_for().all()) == list(range(21, 31))
    wanted = [f"{stream.name}.{number}" for number in (3, 5, 99)]
    assert sequences(await stream.get_last_msgs_for(wanted).all()) == [23, 25]
    assert sequences([message async for message in stream.get_last_msgs_for(f"{stream.name}.7")]) == [27]
    assert sequences(await stream.get_last_msgs_for(up_to_sequence=24).all()) == list(range(15, 25))
    moment = (await stream.get_msg(12)).timestamp
    assert sequences(await stream.get_last_msgs_for(up_to_time=moment).all())[-1] in (11, 12)
    with pytest.raises(ConfigError):
        stream.get_last_msgs_for(up_to_sequence=1, up_to_time=moment)
    with pytest.raises(ConfigError):
        stream.get_last_msgs_for([])


@pytest.mark.conformance("DIR-08")
async def test_more_than_1024_subjects_are_refused(ground: Ground) -> None:
    stream = await direct_stream(ground, 1024, subjects=1024)
    assert len(await stream.get_last_msgs_for().all()) == 1024
    await ground.fill(f"{stream.name}.more", b"x")
    with pytest.raises(TooManyResultsError) as caught:
        await stream.get_last_msgs_for().all()
    assert (caught.value.code, caught.value.description) == (413, "Too Many Results")


@pytest.mark.conformance("DIR-09")
async def test_all_pages_of_last_messages_show_one_moment(ground: Ground) -> None:
    stream = await direct_stream(ground, 300, subjects=100)
    spy = await ground.spy(f"$JS.API.DIRECT.GET.{stream.name}")
    found: list[StoredMessage] = []
    async for message in stream.get_last_msgs_for(batch=30):
        found.append(message)
        if len(found) % 20 == 1:  # another client writes
            await ground.fill(f"{stream.name}.{len(found)}", b"later")
    assert sequences(found) == list(range(201, 301))
    assert all(message.payload != b"later" for message in found)
    asked = [json.loads(message.payload) for message in await spy.settled()]
    assert [(request.get("seq"), request.get("up_to_seq")) for request in asked] == [
        (None, None),
        (231, 300),
        (261, 300),
        (291, 300),
    ]
