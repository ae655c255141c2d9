"""Direct get: requests, and replies as the real server sends them."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from tests.jetstream.raw import RawClient

from jetspark.errors import (
    ConfigError,
    DirectGetRequestError,
    InvalidReplyError,
    MessageNotFoundError,
    NoDirectGetError,
    NoRespondersError,
    StatusError,
    TooManyResultsError,
)
from jetspark.jetstream import StoredMessage, StreamConfig, Timestamp
from jetspark.jetstream.api import MessageGetRequest, StreamCreateRequest, StreamDeleteRequest
from jetspark.jetstream.direct_get import (
    DirectBatchEnd,
    DirectBatchRequest,
    DirectGetRequest,
    DirectLastRequest,
    DirectMultiLastRequest,
    read_batch_reply,
    read_direct_message,
)
from jetspark.server import NatsServer
from jetspark.wire.headers import Headers, Status

Single = DirectGetRequest | DirectLastRequest
Batch = DirectBatchRequest | DirectMultiLastRequest

MESSAGES = 10


@pytest.fixture(scope="module")
def stored(jetstream_server: NatsServer) -> Iterator[RawClient]:
    """Ten messages on three subjects in a stream that allows direct get."""
    with RawClient(jetstream_server) as client:
        client.request(StreamCreateRequest(StreamConfig(name="D", subjects=["d.>"], allow_direct=True)))
        for number in range(MESSAGES):
            client.ask(f"d.{number % 3}", b"%d" % number, [("Number", str(number))] if number % 2 else None)
        yield client
        client.request(StreamDeleteRequest("D"))


def get(client: RawClient, request: Single) -> StoredMessage:
    reply = client.ask(request.subject(), request.payload())
    return read_direct_message(request, reply.status, reply.headers, reply.payload)


def get_batch(client: RawClient, request: Batch) -> tuple[list[StoredMessage], DirectBatchEnd]:
    """Send a request for many messages and read replies until the end."""
    reply = client.ask(request.subject(), request.payload())
    messages: list[StoredMessage] = []
    while isinstance(one := read_batch_reply(reply.status, reply.headers, reply.payload, "batch"), StoredMessage):
        messages.append(one)
        sid = reply.sid
        while (reply := client.receive()).sid != sid:
            pass
    return messages, one


def sequences(messages: list[StoredMessage]) -> list[int]:
    return [message.sequence for message in messages]


def test_a_message_has_its_subject_sequence_and_time(stored: RawClient) -> None:
    message = get(stored, DirectGetRequest("D", sequence=2))
    assert (message.stream, message.subject, message.sequence, message.payload) == ("D", "d.1", 2, b"1")
    assert message.headers["Number"] == "1"
    assert (message.num_pending, message.last_sequence) == (None, None)
    assert abs(message.timestamp - datetime.now(UTC)).total_seconds() < 600
    assert message.timestamp_ns % 1_000_000_000 // 1000 == message.timestamp.microsecond


def test_a_message_can_be_selected_in_every_way(stored: RawClient) -> None:
    third = get(stored, DirectGetRequest("D", sequence=3))
    assert get(stored, DirectGetRequest("D", last_by_subject="d.*")).sequence == 10
    assert get(stored, DirectGetRequest("D", next_by_subject="d.2")).sequence == 3
    assert get(stored, DirectGetRequest("D", next_by_subject="d.2", sequence=4)).sequence == 6
    at = DirectGetRequest("D", start_time=datetime.fromtimestamp(0, UTC))
    assert get(stored, at).sequence == 1
    moment = Timestamp.from_ns(third.timestamp_ns)
    assert get(stored, DirectGetRequest("D", start_time=moment)).sequence == 3
    assert get(stored, DirectGetRequest("D", start_time=moment, next_by_subject="d.1")).sequence == 5
    assert get(stored, DirectLastRequest("D", "d.1")).sequence == 8


def test_a_missing_message_is_not_found(stored: RawClient) -> None:
    for request in (
        DirectGetRequest("D", sequence=99),
        DirectGetRequest("D", last_by_subject="d.9"),
        DirectLastRequest("D", "x"),
    ):
        with pytest.raises(MessageNotFoundError) as caught:
            get(stored, request)
        assert (caught.value.code, caught.value.err_code) == (404, 10037)


def test_a_stream_without_direct_get_is_reported(client: RawClient) -> None:
    client.request(StreamCreateRequest(StreamConfig(name="INDIRECT", subjects=["indirect"])))
    try:
        with pytest.raises(NoDirectGetError) as caught:
            get(client, DirectGetRequest("INDIRECT", sequence=1))
        assert isinstance(caught.value, NoRespondersError)
    finally:
        client.request(StreamDeleteRequest("INDIRECT"))


def test_the_server_refuses_invalid_requests(stored: RawClient) -> None:
    for payload in (b"", b"{}", b"{", b'{"seq":1,"last_by_subj":"d.1"}'):
        reply = stored.ask("$JS.API.DIRECT.GET.D", payload)
        with pytest.raises(DirectGetRequestError) as caught:
            read_direct_message(DirectGetRequest("D", 1), reply.status, reply.headers, reply.payload)
        assert caught.value.code == 408


def test_an_empty_message_with_a_status_header_is_data(client: RawClient) -> None:
    client.request(StreamCreateRequest(StreamConfig(name="EMPTY", subjects=["empty"], allow_direct=True)))
    try:
        client.ask("empty", b"", [("Status", "404"), ("Description", "hi")])
        message = get(client, DirectGetRequest("EMPTY", sequence=1))
        assert (message.payload, message.headers["Status"]) == (b"", "404")
    finally:
        client.request(StreamDeleteRequest("EMPTY"))


def test_headers_of_the_server_take_precedence_over_headers_of_the_message(client: RawClient) -> None:
    client.request(StreamCreateRequest(StreamConfig(name="COPY", subjects=["copy"], allow_direct=True)))
    try:
        headers = [("Nats-Stream", "ORIGIN"), ("Nats-Sequence", "77"), ("Nats-Subject", "origin")]
        client.ask("copy", b"x", [*headers, ("Nats-Time-Stamp", "2001-01-01T00:00:00Z"), ("Nats-Num-Pending", "5")])
        message = get(client, DirectGetRequest("COPY", sequence=1))
        assert (message.stream, message.subject, message.sequence) == ("COPY", "copy", 1)
        assert message.timestamp.year > 2001
        assert message.headers.get_all("Nats-Sequence") == ["77"]
    finally:
        client.request(StreamDeleteRequest("COPY"))


COPIED = [
    ("Nats-Stream", "ORIGIN"),
    ("Nats-Subject", "origin"),
    ("Nats-Sequence", "77"),
    ("Nats-Time-Stamp", "2001-01-01T00:00:00Z"),
    ("Nats-Num-Pending", "5"),
    ("Nats-Last-Sequence", "76"),
    ("Nats-UpTo-Sequence", "90"),
    ("Nats-Pending-Messages", "3"),
    ("Nats-Pending-Bytes", "30"),
    ("Nats-Msg-Size", "1"),
]
"""Headers of a message that was copied from a direct get, or from a consumer's delivery."""


@pytest.mark.parametrize("given", [[pair] for pair in COPIED] + [COPIED, [*COPIED, *COPIED], []])
def test_a_direct_get_returns_all_headers_of_the_publish(client: RawClient, given: list[tuple[str, str]]) -> None:
    client.request(StreamCreateRequest(StreamConfig(name="KEPT", subjects=["kept"], allow_direct=True)))
    try:
        client.ask("kept", b"x", given)
        client.ask("kept", b"y", given)
        wanted: dict[str, list[str]] = {}
        for name, value in given:
            wanted.setdefault(name, []).append(value)
        for request in (
            DirectGetRequest("KEPT", sequence=2),
            DirectGetRequest("KEPT", last_by_subject="kept"),
            DirectLastRequest("KEPT", "kept"),
        ):
            message = get(client, request)
            assert message.headers.to_dict() == wanted
            assert (message.sequence, message.num_pending, message.last_sequence) == (2, None, None)
        messages, _ = get_batch(client, DirectBatchRequest("KEPT", 2))
        assert [message.headers.to_dict() for message in messages] == [wanted, wanted]
        assert [(each.sequence, each.num_pending, each.last_sequence) for each in messages] == [(1, 1, 0), (2, 0, 1)]
        [last], _ = get_batch(client, DirectMultiLastRequest("KEPT", ("kept",)))
        assert (last.headers.to_dict(), last.sequence) == (wanted, 2)
    finally:
        client.request(StreamDeleteRequest("KEPT"))


def test_a_batch_counts_down_and_continues_where_it_ended(stored: RawClient) -> None:
    request: DirectBatchRequest | None = DirectBatchRequest("D", 4)
    pending: list[int | None] = []
    taken: list[int] = []
    requests = 0
    while request is not None:
        messages, end = get_batch(stored, request)
        taken += sequences(messages)
        pending += [message.num_pending for message in messages]
        assert end.found
        assert end.last_sequence == taken[-1]
        request = request.next_request(end)
        requests += 1
    assert taken == list(range(1, MESSAGES + 1))
    assert pending == list(range(MESSAGES - 1, -1, -1))
    assert requests == 3


def test_a_batch_can_have_a_subject_and_start_at_a_sequence(stored: RawClient) -> None:
    messages, end = get_batch(stored, DirectBatchRequest("D", 2, sequence=2, next_by_subject="d.0"))
    assert sequences(messages) == [4, 7]
    assert [message.last_sequence for message in messages] == [0, 4]
    assert end == DirectBatchEnd(num_pending=1, last_sequence=7)


def test_a_batch_also_ends_at_its_byte_limit(stored: RawClient) -> None:
    messages, end = get_batch(stored, DirectBatchRequest("D", 10, max_bytes=5))
    assert sequences(messages) == [1, 2]
    assert end.num_pending == 8


def test_a_batch_without_matches_is_empty(stored: RawClient) -> None:
    messages, end = get_batch(stored, DirectBatchRequest("D", 4, next_by_subject="d.9"))
    assert (messages, end) == ([], DirectBatchEnd(found=False))
    assert DirectBatchRequest("D", 4).next_request(end) is None


def test_last_messages_of_many_subjects_are_read_page_by_page_at_one_moment(stored: RawClient) -> None:
    request: DirectMultiLastRequest | None = DirectMultiLastRequest("D", ("d.*",), batch=2, up_to_sequence=8)
    taken: list[int] = []
    while request is not None:
        messages, end = get_batch(stored, request)
        taken += sequences(messages)
        assert end.up_to_sequence == 8
        request = request.next_request(end)
        assert request is None or request.up_to_sequence == 8
    assert taken == [6, 7, 8]


def test_last_messages_of_no_subject_are_empty(stored: RawClient) -> None:
    assert get_batch(stored, DirectMultiLastRequest("D", ("d.9",))) == ([], DirectBatchEnd(found=False))


def test_too_many_subjects_are_refused(client: RawClient) -> None:
    client.request(StreamCreateRequest(StreamConfig(name="WIDE", subjects=["wide.*"], allow_direct=True)))
    try:
        for number in range(1024):
            client.publish(f"wide.{number}")
        client.ask("wide.1024")
        with pytest.raises(TooManyResultsError):
            get_batch(client, DirectMultiLastRequest("WIDE", ("wide.*",)))
    finally:
        client.request(StreamDeleteRequest("WIDE"))


@pytest.mark.parametrize(
    ("request_", "subject", "fields"),
    [
        (DirectGetRequest("S", sequence=1), "S", {"seq": 1}),
        (DirectLastRequest("S", "a.b"), "S.a.b", None),
        (DirectBatchRequest("S", 5), "S", {"batch": 5, "seq": 1}),
        (
            DirectBatchRequest("S", 5, start_time=datetime(2024, 1, 1, tzinfo=UTC), max_bytes=9),
            "S",
            {"batch": 5, "start_time": "2024-01-01T00:00:00Z", "max_bytes": 9},
        ),
        (
            DirectMultiLastRequest("S", ("a", "b"), up_to_time=datetime(2024, 1, 1, tzinfo=UTC)),
            "S",
            {"multi_last": ["a", "b"], "up_to_time": "2024-01-01T00:00:00Z"},
        ),
    ],
)
def test_requests_have_the_documented_subject_and_payload(
    request_: Single | Batch, subject: str, fields: object
) -> None:
    assert request_.subject() == f"$JS.API.DIRECT.GET.{subject}"
    assert request_.subject("$JS.hub.API.") == f"$JS.hub.API.DIRECT.GET.{subject}"
    assert (json.loads(request_.payload()) if request_.payload() else None) == fields


@pytest.mark.parametrize(
    "make",
    [
        lambda: DirectGetRequest("S"),
        lambda: DirectGetRequest("S", sequence=1, last_by_subject="a"),
        lambda: DirectBatchRequest("S", 0),
        lambda: DirectBatchRequest("S", 1, sequence=1, start_time=datetime(2024, 1, 1, tzinfo=UTC)),
        lambda: DirectBatchRequest("S", 1, max_bytes=0),
        lambda: DirectMultiLastRequest("S", ()),
        lambda: DirectMultiLastRequest("S", ("a",), up_to_sequence=1, up_to_time=datetime(2024, 1, 1, tzinfo=UTC)),
    ],
)
def test_invalid_requests_are_refused_before_anything_is_sent(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Nats-Stream": "S", "Nats-Subject": "a", "Nats-Sequence": "1"},
        {"Nats-Stream": "S", "Nats-Subject": "a", "Nats-Sequence": "-1", "Nats-Time-Stamp": "2024-01-01T00:00:00Z"},
        {"Nats-Stream": "S", "Nats-Subject": "a", "Nats-Sequence": "1", "Nats-Time-Stamp": "yesterday"},
    ],
)
def test_a_reply_without_sequence_is_an_error(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidReplyError):
        read_direct_message(DirectGetRequest("S", 1), None, Headers(headers), b"x")


def test_other_statuses_are_errors_with_their_code() -> None:
    with pytest.raises(StatusError) as caught:
        read_batch_reply(Status(500, "boom"), Headers(), b"", "batch of S")
    assert str(caught.value) == "batch of S: status 500 boom"
    with pytest.raises(StatusError):
        read_direct_message(DirectGetRequest("S", 1), Status(204, "EOB"), Headers(), b"")


def test_the_timestamp_format_of_older_servers_is_read() -> None:
    headers = Headers({"Nats-Stream": "S", "Nats-Subject": "a", "Nats-Sequence": "1"})
    headers.add("Nats-Time-Stamp", "2022-10-14 11:03:24.123456789 +0000 UTC")
    assert read_direct_message(DirectGetRequest("S", 1), None, headers, b"").timestamp_ns == 1_665_745_404_123_456_789


@pytest.mark.parametrize(
    "asked",
    [
        DirectGetRequest("S", 10),
        DirectGetRequest("S", 8, next_by_subject="orders.*"),
        DirectGetRequest("S", 6, next_by_subject="other.>"),
        DirectGetRequest("S", last_by_subject="orders"),
        DirectGetRequest("S", next_by_subject="orders.new.>"),
        DirectGetRequest("S", start_time=datetime(2022, 10, 14, 11, 3, 25, tzinfo=UTC)),
        DirectLastRequest("S", "orders.old"),
    ],
)
def test_a_message_that_was_not_asked_for_is_an_error(asked: Single) -> None:
    headers = Headers({"Nats-Stream": "S", "Nats-Subject": "orders.new", "Nats-Sequence": "7"})
    headers.add("Nats-Time-Stamp", "2022-10-14T11:03:24.5Z")
    with pytest.raises(InvalidReplyError, match=r"not asked for: sequence 7, subject 'orders\.new'"):
        read_direct_message(asked, None, headers, b"")
    stored = {"subject": "orders.new", "seq": 7, "time": "2022-10-14T11:03:24.5Z"}
    if isinstance(asked, DirectGetRequest):
        request = MessageGetRequest("S", asked.sequence, asked.last_by_subject, asked.next_by_subject, asked.start_time)
        with pytest.raises(InvalidReplyError, match=r"not asked for: sequence 7, subject 'orders\.new'"):
            request.read(json.dumps({"message": stored}).encode())


@pytest.mark.parametrize(
    "asked",
    [
        DirectGetRequest("S", 7),
        DirectGetRequest("S", 6, next_by_subject="orders.*"),
        DirectGetRequest("S", last_by_subject=">"),
        DirectGetRequest("S", start_time=datetime(2022, 10, 14, 11, 3, 24, 500_000, tzinfo=UTC)),
        DirectLastRequest("S", "orders.new"),
    ],
)
def test_a_message_that_was_asked_for_is_returned(asked: Single) -> None:
    headers = Headers({"Nats-Stream": "S", "Nats-Subject": "orders.new", "Nats-Sequence": "7"})
    headers.add("Nats-Time-Stamp", "2022-10-14T11:03:24.5Z")
    assert read_direct_message(asked, None, headers, b"").sequence == 7


@pytest.mark.parametrize(
    "asked", [DirectBatchRequest("S", 5, sequence=7), DirectMultiLastRequest("S", ("a",), sequence=7)]
)
@pytest.mark.parametrize("last", [0, 3, 6])
def test_a_batch_that_brings_the_read_no_further_is_an_error(asked: Batch, last: int) -> None:
    with pytest.raises(InvalidReplyError, match=f"from sequence 7 on has ended at sequence {last}, and 4 messages"):
        asked.next_request(DirectBatchEnd(4, last))
    assert asked.next_request(DirectBatchEnd(0, last)) is None
    following = asked.next_request(DirectBatchEnd(4, 7))
    assert following is not None
    assert following.sequence == 8
