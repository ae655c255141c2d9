"""Ack subjects: strings of every length, and those of the real server in both formats."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jetstream.raw import RawClient, Reply

from jetspark.errors import InvalidAckError
from jetspark.jetstream import AckMetadata, AckPolicy, ConsumerConfig, StreamConfig, parse_ack_subject
from jetspark.jetstream.ack import ACK, IN_PROGRESS, NAK, TERM, nak_payload, term_payload
from jetspark.jetstream.api import (
    ConsumerCreateRequest,
    ConsumerInfoRequest,
    PullRequest,
    StreamCreateRequest,
    StreamDeleteRequest,
)
from jetspark.jetstream.message import JetStreamMessage, settle, split_by_ack_policy
from jetspark.server import NatsServer

NUMBERS = "1.2.3.1700000000123456789.4"
METADATA = AckMetadata("S", "C", 1, 2, 3, 1_700_000_000_123_456_789, 4)


def first_delivery(client: RawClient, name: str) -> Reply:
    """Create a stream with a consumer and one message, and pull that message."""
    client.request(StreamCreateRequest(StreamConfig(name=name, subjects=[f"{name}.>"])))
    client.request(ConsumerCreateRequest(name, ConsumerConfig(name="c", ack_policy=AckPolicy.EXPLICIT)))
    client.ask(f"{name}.a", b"hello")
    pull = PullRequest(name, "c")
    return client.ask(pull.subject(), pull.payload())


def acknowledge_and_count(client: RawClient, message: Reply, stream: str) -> int:
    """Acknowledge to the unchanged reply subject, and return how many messages are acknowledged."""
    assert message.reply is not None
    client.ask(message.reply, ACK)
    return client.request(ConsumerInfoRequest(stream, "c")).ack_floor.stream_sequence


@pytest.mark.conformance("JSA-01")
def test_nine_tokens_are_the_first_form(client: RawClient) -> None:
    assert parse_ack_subject(f"$JS.ACK.S.C.{NUMBERS}") == METADATA
    message = first_delivery(client, "ACK1")
    try:
        assert message.reply is not None
        assert message.reply.count(".") == 8
        metadata = parse_ack_subject(message.reply)
        assert (metadata.stream, metadata.consumer) == ("ACK1", "c")
        assert (metadata.num_delivered, metadata.stream_sequence, metadata.consumer_sequence) == (1, 1, 1)
        assert (metadata.num_pending, metadata.domain, metadata.account_hash) == (0, None, None)
        assert acknowledge_and_count(client, message, "ACK1") == 1
    finally:
        client.request(StreamDeleteRequest("ACK1"))


@pytest.mark.conformance("JSA-02", "JSA-05", "JSA-06")
@pytest.mark.parametrize("domain", [None, "hub"])
def test_the_server_sends_eleven_tokens_of_the_second_form(domain: str | None) -> None:
    config: dict[str, object] = {"feature_flags": {"js_ack_fc_v2": True}}
    if domain is not None:
        config["jetstream"] = {"domain": domain}
    with NatsServer(config=config) as server, RawClient(server) as client:
        message = first_delivery(client, "V2")
        assert message.reply is not None
        assert message.reply.count(".") == 10
        assert message.reply.split(".")[2] == (domain or "_")
        metadata = parse_ack_subject(message.reply)
        assert (metadata.stream, metadata.consumer, metadata.domain) == ("V2", "c", domain)
        assert (metadata.num_delivered, metadata.stream_sequence, metadata.consumer_sequence) == (1, 1, 1)
        assert metadata.account_hash
        assert acknowledge_and_count(client, message, "V2") == 1


@pytest.mark.conformance("JSA-02", "JSA-05")
@pytest.mark.parametrize("further", ["", ".x", ".x.y", ".x.y.z"])
@pytest.mark.parametrize(("token", "domain"), [("_", None), ("hub", "hub"), ("__", "__")])
def test_eleven_tokens_and_more_are_the_second_form(further: str, token: str, domain: str | None) -> None:
    metadata = parse_ack_subject(f"$JS.ACK.{token}.HASH.S.C.{NUMBERS}{further}")
    assert metadata == AckMetadata("S", "C", 1, 2, 3, 1_700_000_000_123_456_789, 4, domain, "HASH")


@pytest.mark.conformance("JSA-03")
@pytest.mark.parametrize(
    "subject",
    [
        None,
        "",
        "_INBOX.a.b",
        "$JS.ACK",
        f"$JS.ACK.S.{NUMBERS}",
        f"$JS.ACK.S.C.{NUMBERS}.10",
        f"$JS.FC.S.C.{NUMBERS}",
        f"$js.ack.S.C.{NUMBERS}",
        f"JS.ACK.S.C.{NUMBERS}",
    ],
)
def test_other_subjects_are_not_ack_subjects(subject: str | None) -> None:
    with pytest.raises(InvalidAckError):
        parse_ack_subject(subject)


@pytest.mark.conformance("JSA-02", "JSA-03")
@given(st.lists(st.text("abc1", min_size=1, max_size=3), min_size=0, max_size=14))
def test_the_number_of_tokens_decides_the_format(tokens: list[str]) -> None:
    subject = ".".join(["$JS", "ACK", *tokens])
    count = len(tokens) + 2
    numbers = tokens[2:7] if count == 9 else tokens[4:9]
    if (count == 9 or count >= 11) and all(number.isdigit() for number in numbers):
        assert parse_ack_subject(subject).stream_sequence == int(numbers[1])
        return
    with pytest.raises(InvalidAckError):
        parse_ack_subject(subject)


@pytest.mark.conformance("JSA-04")
@pytest.mark.parametrize("bad", ["x", "-1", "+1", "1_0", " 1", "1e3", "", "\u0661", "0x1"])
@pytest.mark.parametrize("place", range(5))
def test_numbers_must_be_unsigned_decimals(bad: str, place: int) -> None:
    numbers = NUMBERS.split(".")
    numbers[place] = bad
    for start in ("$JS.ACK.S.C", "$JS.ACK._.H.S.C"):
        with pytest.raises(InvalidAckError):
            parse_ack_subject(".".join([start, *numbers]))


def test_numbers_have_up_to_64_bits() -> None:
    top = 2**64 - 1
    metadata = parse_ack_subject(f"$JS.ACK.S.C.{top}.{top}.{top}.{2**63 - 1}.{top}")
    assert (metadata.stream_sequence, metadata.num_pending, metadata.timestamp_ns) == (top, top, 2**63 - 1)


@pytest.mark.conformance("JSA-06")
def test_the_timestamp_is_utc_and_keeps_its_nanoseconds() -> None:
    metadata = parse_ack_subject("$JS.ACK.S.C.1.2.3.1700000000123456789.4")
    assert metadata.timestamp.isoformat() == "2023-11-14T22:13:20.123456+00:00"
    assert metadata.timestamp_ns == 1_700_000_000_123_456_789


def test_acknowledgements_have_the_documented_payloads() -> None:
    assert (ACK, NAK, TERM, IN_PROGRESS) == (b"+ACK", b"-NAK", b"+TERM", b"+WPI")
    assert nak_payload() == b"-NAK"
    assert nak_payload(300_000_000) == b'-NAK {"delay": 300000000}'
    assert term_payload() == b"+TERM"
    assert term_payload("bad input") == b"+TERM bad input"
    with pytest.raises(ValueError, match="negative"):
        nak_payload(-1)


@pytest.mark.parametrize(
    ("policy", "to_ack", "covered"),
    [
        (AckPolicy.ALL, [4], [2, 3]),
        (AckPolicy.EXPLICIT, [2, 4, 3], []),
        (None, [2, 4, 3], []),
    ],
)
def test_only_the_policy_all_covers_earlier_messages_and_settled_ones_need_nothing(
    policy: AckPolicy | None, to_ack: list[int], covered: list[int]
) -> None:
    messages = [_delivered(sequence) for sequence in (2, 5, 4, 3)]
    settle(messages[1])
    split = split_by_ack_policy(messages, policy)
    assert [[message.metadata.stream_sequence for message in part] for part in split] == [to_ack, covered]
    assert split_by_ack_policy([messages[1]], policy) == ([], [])


def _delivered(sequence: int) -> JetStreamMessage:
    return JetStreamMessage(b"a", b"$JS.ACK.S.c.1.%d.%d.1.0" % (sequence, sequence), b"", b"", "a connection")
