"""The work for a text from outside grows with its length, not with its square, whatever the text is.

`PARSERS` lists the functions that read text of servers, files, options and checkpoints. A new one is one line:
its name, the function, and texts of a hostile sender. Each text is a beginning and a piece that is repeated.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from tests.wire.streams import message

from jetspark.bulk.columns import parse_ack_subjects
from jetspark.engine.ack_runs import AckRunMatcher
from jetspark.errors import Error, PermissionsViolationError
from jetspark.jetstream import ConsumerConfig, ConsumerInfo, StreamInfo
from jetspark.jetstream.ack import parse_ack_subject
from jetspark.jetstream.api.base import read_reply
from jetspark.jetstream.direct_get import read_batch_reply
from jetspark.jetstream.errors import WrongLastSequenceError
from jetspark.jetstream.names import check_stream_name
from jetspark.jetstream.publish import plain_ack_prefix, read_pub_ack
from jetspark.jetstream.subject_filters import intersection
from jetspark.jetstream.times import parse_go_duration, parse_rfc3339
from jetspark.spark.commit.checkpoint import committed_offset
from jetspark.spark.commit.commit_consumer import check_reset_version, retained_from
from jetspark.spark.options import values
from jetspark.spark.options.batch import read_options
from jetspark.wire.addresses import parse_address
from jetspark.wire.arguments import nearest_name
from jetspark.wire.auth import credential_fields
from jetspark.wire.connection_state import ConnectionState
from jetspark.wire.frames import Info, Parser
from jetspark.wire.headers import parse_header_block, parse_status
from jetspark.wire.inbound import Inbound
from jetspark.wire.options import ConnectOptions
from jetspark.wire.server_pool import Server, ServerPool
from jetspark.wire.session import parse_err, parse_info
from jetspark.wire.subjects import check_filter_subject, check_publish_subject, subject_matches
from jetspark.wire.vector import decode
from jetspark.wire.vector.headers import decode_headers

SIZES: Final = (1 << 14, 1 << 16)
ENOUGH: Final = 0.1
"""Seconds of CPU time below which the longer text costs too little to compare."""
MOST_GROWTH: Final = 11.0
"""Four times the text may take that many times as long. The square of it would take 16 times as long."""

Text = tuple[str, str]
"""A beginning, and the piece that is repeated after it."""
DIGITS: Final = ("", "1")
BLANKS: Final = ("", " ")
DASHES: Final = ("", "-")
DOTS: Final = ("a", ".a")
NESTED: Final = ("", "[")


class Hostile(NamedTuple):
    """A parser, and the texts to try."""

    name: str
    parse: Callable[[str], object]
    texts: tuple[Text, ...]


def _credentials(text: str) -> dict[str, str]:
    return credential_fields(ConnectOptions(credentials=text), parse_address("h"), "nonce")


def _seed(text: str) -> dict[str, str]:
    return credential_fields(ConnectOptions(nkey_seed=text), parse_address("h"), "nonce")


def _discover(text: str) -> object:
    pool = ServerPool(ConnectOptions(), random.Random(1))
    present: Server = pool.servers[0]
    names = text.split(",")
    pool.update_discovered([f"a{at}{name}:1" for at, name in enumerate(names)], present)
    return pool.update_discovered([f"b{at}{name}:1" for at, name in enumerate(names)], present)


def _reader() -> Inbound:
    client = ConnectionState(ConnectOptions(), lambda event: None)
    client.server = client.servers.servers[0]
    return Inbound(
        {},
        on_control=client._on_control,
        on_full=client.on_subscription_full,
        on_last_message=client.subscriptions.remove,
    )


def _read_loop(text: str) -> object:
    reader = _reader()
    more = reader.feed(text.encode())
    while more:
        more = reader.feed(b"")
    return None


def _bytewise(text: str) -> object:
    reader = _reader()
    for byte in text.encode():
        reader.feed(bytes([byte]))
    return None


def _scalar(text: str) -> object:
    return list(Parser().feed(text.encode()))


def _vector(text: str) -> object:
    return decode(pa.py_buffer(text.encode())).lines


def _deliveries(text: str) -> object:
    frame = message(b"", subject=b"a", sid=2, reply=text.encode() or b"a").raw * 3
    return parse_ack_subjects(decode(pa.py_buffer(frame)).lines)


def _header_column(text: str) -> object:
    return decode_headers(pa.array([text.encode()] * 2, pa.binary()), np.ones(2, np.bool_))


def _ack_run(text: str) -> object:
    payload = b'{"stream":"S", "seq":1}'
    matcher = AckRunMatcher(b"i.", 4)
    matcher.add_form(payload)
    return matcher.find(text.encode(), 0)


def _batch_reply(text: str) -> object:
    block = f"NATS/1.0 204 EOB\r\n{text}\r\n\r\n".encode()
    return read_batch_reply(parse_status(block), parse_header_block(block), b"", "test")


def _last_sequence(text: str) -> object:
    return WrongLastSequenceError(400, 10071, text).last_sequence


def _checkpoint(text: str) -> object:
    return committed_offset(text.splitlines(), ["ORDERS"], "here")


def _retained(text: str) -> object:
    return retained_from(ConsumerConfig(metadata={"jetspark.retained_from": text}))


HEADERS: Final[tuple[Text, ...]] = (
    ("NATS/1.0\r\n", "a:b\r\n"),
    ("NATS/1.0\r\n", ":"),
    ("NATS/1.0\r\n", "\r\n"),
    ("NATS/1.0\r\na:", " "),
    ("NATS/1.0 ", " "),
    ("NATS/1.0 200", " x"),
    ("NATS/1.0\r\na: é", "\r\na: é"),
)
LINES: Final[tuple[Text, ...]] = (
    ("", "PING\r\n"),
    ("", "+OK\r\n"),
    ("", "-ERR\r\n"),
    ("", "INFO {}\r\n"),
    ("", "MSG a 9 0\r\n\r\n"),
    ("", "MSG a 9  0\r\n\r\n"),
    ("", "HMSG a 9 10 10\r\nNATS/1.0\r\n\r\n"),
    ("MSG a 9 100000\r\n", "MSG a 9 0\r\n\r\n"),
    ("", "MSG " + "a" * 200 + " 9 0\r\n\r\n"),
    ("MSG a 9 ", "1"),
    ("", " "),
    ("", "a"),
    ("", "\r"),
    ("-ERR '", "'"),
    ("INFO ", " "),
)
JSON: Final[tuple[Text, ...]] = (
    NESTED,
    ("", '{"a":'),
    ("{", '"a":1,'),
    ('{"a":"', "\\u0000"),
    ('{"a":', "1"),
    ('{"a":1.', "0"),
    ('{"a":1e', "9"),
    BLANKS,
)
NUMBERS: Final[tuple[Text, ...]] = (
    DIGITS,
    BLANKS,
    ("1", " "),
    ("-", "1"),
    ("1.", "1"),
    ("", "1m"),
    ("", "\u0661"),
    NESTED,
)
SUBJECTS: Final[tuple[Text, ...]] = (DOTS, ("a", "a"), ("*", ".*"), ("a", ".>"), ("", "."), ("a", " "))
SHORT_RUN: Final = "".join(f"MSG i.{at:03d} 1 1\r\nx\r\n" for at in range(70)) + "MSG other 1 0\r\n\r\n"
QUOTED: Final = 'Permissions Violation for Publish to "'

PARSERS: Final = (
    Hostile(
        "-ERR",
        lambda text: parse_err(text, "h"),
        (
            ("", "permissions violation for publish"),
            (QUOTED, "a"),
            ("", QUOTED),
            ("", 'using queue "'),
            BLANKS,
            ("", "İ"),
        ),
    ),
    Hostile("INFO", lambda text: parse_info(Info(text.encode())), JSON),
    Hostile(
        "reported servers",
        _discover,
        (("", ","), ("", "x"), ("", "[")),
    ),
    Hostile("frames, one by one", _scalar, LINES),
    Hostile("frames, read loop", _read_loop, LINES),
    Hostile("frames, byte by byte", _bytewise, LINES[7:]),
    Hostile("frames, vectorised", _vector, LINES),
    Hostile("frames, short runs", _vector, (("", SHORT_RUN),)),
    Hostile("headers", lambda text: parse_header_block(text.encode()), HEADERS),
    Hostile("status", lambda text: parse_status(text.encode()), HEADERS),
    Hostile("headers as a column", _header_column, HEADERS),
    Hostile("status of a batch", _batch_reply, (("Nats-Num-Pending: ", "1"), ("", "Nats-Last-Sequence: 1\r\n"))),
    Hostile("acknowledgement subject", parse_ack_subject, (("$JS.ACK", ".1"), ("$JS.ACK.S.C.1.1.1.1.", "1"))),
    Hostile("acknowledgement subjects", _deliveries, (("$JS.ACK", ".1"), ("$JS.ACK.S.C.1.1.1.1.", "1"))),
    Hostile("acknowledgement", lambda text: read_pub_ack(text.encode()), JSON),
    Hostile(
        "usual acknowledgement", lambda text: plain_ack_prefix(text.encode()), (*JSON, ('{"stream":"S", "seq":', "1"))
    ),
    Hostile(
        "run of acknowledgements",
        _ack_run,
        (
            ("", 'MSG i.1 4 23\r\n{"stream":"S", "seq":1}\r\n'),
            ("MSG i.", "1"),
            ("MSG i.1 4 23\r\n", "1"),
        ),
    ),
    Hostile(
        "info of a stream",
        lambda text: read_reply(StreamInfo, text.encode(), "h"),
        (
            *JSON,
            ('{"error":', "["),
            ("-ERR", "'"),
            ('{"created":"', "2"),
            ('{"config":{', '"a":1,'),
        ),
    ),
    Hostile("info of a consumer", lambda text: read_reply(ConsumerInfo, text.encode(), "h"), JSON),
    Hostile(
        "refusal of an expectation", _last_sequence, (("wrong last sequence: ", "1"), ("", "wrong last sequence: "))
    ),
    Hostile(
        "time", parse_rfc3339, (DIGITS, BLANKS, ("2026-01-01T00:00:00.", "1"), ("2026-01-01T00:00:00+01:00 ", "A"))
    ),
    Hostile("Go duration", parse_go_duration, (*NUMBERS, ("", "1."), ("", ".1"), ("", "1h"), ("1.", "1h1."))),
    Hostile("subject", check_publish_subject, SUBJECTS),
    Hostile("filter", check_filter_subject, SUBJECTS),
    Hostile("match of a subject", lambda text: subject_matches(text, text), SUBJECTS),
    Hostile("intersection of filters", lambda text: intersection(text, text[::-1]), SUBJECTS),
    Hostile("name of a stream", check_stream_name, SUBJECTS),
    Hostile(
        "URL",
        parse_address,
        (
            ("nats://", "a"),
            ("nats://", "@"),
            ("nats://", ":"),
            ("nats://", "%"),
            ("", "["),
            ("nats://", "ü"),
            ("", "://"),
        ),
    ),
    Hostile(
        "credentials",
        _credentials,
        (
            DASHES,
            BLANKS,
            ("", "-----BEGIN"),
            ("", "BEGIN "),
            ("", "-BEGIN A-\n"),
            ("-----BEGIN A-----", " "),
            ("-----BEGIN A-----\na", "-"),
            ("-----BEGIN ", "A"),
        ),
    ),
    Hostile("nkey seed", _seed, (("SU", "A"), BLANKS, ("", "="))),
    Hostile(
        "unknown name", lambda text: nearest_name(text, ["durable_name", "max_deliver"]), (("", "a"), ("", "max_"))
    ),
    Hostile("option: duration", values.parse_duration, NUMBERS),
    Hostile("option: size", values.parse_size, NUMBERS),
    Hostile("option: count", values.parse_count, NUMBERS),
    Hostile("option: time", values.parse_time, NUMBERS),
    Hostile("option: times", values.parse_times, JSON),
    Hostile("option: offsets", values.parse_offsets, JSON),
    Hostile("option: subjects", values.parse_subjects, (*SUBJECTS, ("", ","), ("", "a,"))),
    Hostile("options: unknown name", lambda text: read_options({"stream": "S", text: "1"}), (("", "a"), ("", "max"))),
    Hostile("checkpoint", _checkpoint, (*JSON, ("", "{\n"), ('{"streams":{"ORDERS":{"next":"', "1"))),
    Hostile("metadata of a consumer", _retained, NUMBERS),
    Hostile("version of a server", lambda text: check_reset_version(text, "c"), (*NUMBERS, ("", "1."), ("", "-"))),
)


def seconds(parse: Callable[[str], object], text: str) -> float:
    """Return the CPU time of a parser. Which error it raises is tested elsewhere."""
    began = time.thread_time()
    with suppress(Error, ValueError, RecursionError, UnicodeError):
        parse(text)
    return time.thread_time() - began


@pytest.mark.parametrize("hostile", PARSERS, ids=[each.name for each in PARSERS])
def test_the_work_does_not_grow_with_the_square_of_the_text(hostile: Hostile) -> None:
    for begin, piece in hostile.texts:
        short, long = (begin + piece * (size // len(piece)) for size in SIZES)
        if seconds(hostile.parse, long) > ENOUGH:
            few, many = (min(seconds(hostile.parse, text) for _ in range(5)) for text in (short, long))
            assert many < MOST_GROWTH * few, (begin, piece)


CREDENTIALS: Final = """-----BEGIN NATS USER JWT-----
eyJ0-x_y
------END NATS USER JWT------

************************* IMPORTANT *************************
-----BEGIN USER NKEY SEED-----
{seed}
------END USER NKEY SEED------
"""


@pytest.mark.parametrize("written", [CREDENTIALS, CREDENTIALS.replace("\n", "\r\n"), CREDENTIALS.replace("\n", " ")])
def test_credentials_are_found_whatever_the_line_ends(written: str) -> None:
    seed = "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY"
    assert _credentials(written.format(seed=seed)) == {"jwt": "eyJ0-x_y", "sig": _seed(seed)["sig"]}


def test_a_long_error_of_the_server_is_shortened_but_its_subject_is_kept() -> None:
    subject = "a" * 100_000
    error = parse_err(f'Permissions Violation for Subscription to "{subject}"', "nats://h:1")
    assert isinstance(error, PermissionsViolationError)
    assert (error.subject, error.operation) == (subject, "subscribe")
    assert len(str(error)) < 5000
    assert len(str(parse_err("x" * 100_000, "nats://h:1"))) < 5000
