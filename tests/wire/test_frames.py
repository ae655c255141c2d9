"""The scalar parser and encoder: every frame, every limit, and the cost of data that arrives byte by byte."""

import time

import pytest

from jetspark.wire.errors import ProtocolError
from jetspark.wire.frames import (
    Control,
    Err,
    Frame,
    FrameLimits,
    Info,
    MessageLine,
    MsgFrame,
    Ok,
    Parser,
    Ping,
    Pong,
    parse_control,
    parse_message_line,
    pub,
    sub,
    unsub,
)
from jetspark.wire.session import parse_info


def parse(data: bytes, limits: FrameLimits | None = None) -> list[Frame]:
    parser = Parser(limits or FrameLimits())
    frames = list(parser.feed(data))
    assert parser.unread == b""
    return frames


@pytest.mark.parametrize(
    ("data", "frame"),
    [
        (b"PING\r\n", Ping()),
        (b"PONG\r\n", Pong()),
        (b"+OK\r\n", Ok()),
        (b'INFO {"a":1} \r\n', Info(b'{"a":1}')),
        (b"-ERR 'Stale Connection'\r\n", Err("Stale Connection")),
        (b"-ERR\r\n", Err("")),
        (b"-ERR 'caf\xe9'\r\n", Err("caf\ufffd")),
        (b"MSG a.b 7 0\r\n\r\n", MsgFrame(b"a.b", 7, b"", b"", b"")),
        (b"MSG a.b 7 back.here 3\r\n\r\n!\r\n", MsgFrame(b"a.b", 7, b"back.here", b"", b"\r\n!")),
        (b"HMSG a 1 3 5\r\nHHHpp\r\n", MsgFrame(b"a", 1, b"", b"HHH", b"pp")),
        (b"HMSG a 1 r 3 3\r\nHHH\r\n", MsgFrame(b"a", 1, b"r", b"HHH", b"")),
    ],
)
def test_each_frame_is_read(data: bytes, frame: Frame) -> None:
    assert parse(data) == [frame]
    assert parse(data * 3) == [frame] * 3


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"MSG a 1 5", MessageLine(b"a", 1, b"", 0, 5)),
        (b"MSG a 1 r 5", MessageLine(b"a", 1, b"r", 0, 5)),
        (b"MSG a 1  5", MessageLine(b"a", 1, b"", 0, 5)),
        (b"HMSG a 1  2 5", MessageLine(b"a", 1, b"", 2, 5)),
        (b"HMSG a 18446744073709551615 2 5", MessageLine(b"a", 2**64 - 1, b"", 2, 5)),
        (b"HMSG \xc3\xa9 1 r 2 00005", MessageLine("\u00e9".encode(), 1, b"r", 2, 5)),
    ],
)
def test_a_message_line_is_read(line: bytes, expected: MessageLine) -> None:
    assert parse_message_line(line) == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"HMSG", "wrong number of words"),
        (b"MSG a 5", "wrong number of words"),
        (b"MSG a  5", "wrong number of words"),
        (b"MSG a 1 r 5 5", "wrong number of words"),
        (b"HMSG a 1 5", "wrong number of words"),
        (b"MSG a one 5", "not a 64-bit number"),
        (b"MSG a 1 +5", "not a 64-bit number"),
        (b"MSG a 18446744073709551616 5", "not a 64-bit number"),
        (b"MSG a 1 " + b"9" * 5000, "not a 64-bit number"),
        (b"HMSG a 1 6 5", "impossible size"),
        (b"MSG a 1 99999999999", "impossible size"),
    ],
)
def test_an_invalid_message_line_is_refused_with_its_reason_and_an_excerpt(line: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason) as caught:
        parse_message_line(line)
    assert repr(line[:100].decode())[1:-1] in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "line", [b"", b"PINGS", b"ping", b"PUB a 1", b"+OKAY", b"\xff\x00", b"HTTP/1.1 400 Bad Request"]
)
def test_a_line_that_no_server_sends_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError, match="unknown control line"):
        parse_control(line)


@pytest.mark.parametrize(("line", "control"), [(b"PING", Ping()), (b"INFO", Info(b"")), (b"+OK", Ok())])
def test_a_control_line_is_returned_without_its_line_end(line: bytes, control: Control) -> None:
    assert parse_control(line) == control


def test_frames_before_a_fault_are_returned_and_the_fault_is_raised_again() -> None:
    parser = Parser()
    frames = parser.feed(b"PING\r\nMSG a 1 1\r\nx\r\nNONSENSE\r\nPONG\r\n")
    assert [next(frames), next(frames)] == [Ping(), MsgFrame(b"a", 1, b"", b"", b"x")]
    with pytest.raises(ProtocolError, match="NONSENSE"):
        next(frames)
    with pytest.raises(ProtocolError, match="NONSENSE"):
        list(parser.feed(b"PING\r\n"))


# -- incremental parsing -----------------------------------------------------------------------------------------


def test_frames_that_were_not_taken_are_returned_by_the_next_call() -> None:
    parser = Parser()
    first = parser.feed(b"PING\r\nPONG\r\n+OK\r\nMSG a 1 ")
    assert next(first) == Ping()
    assert parser.unread == b"PONG\r\n+OK\r\nMSG a 1 "
    second = parser.feed(b"1\r\nx\r\nPI")
    assert next(second) == Pong()
    assert list(first) == []
    assert list(second) == [Ok(), MsgFrame(b"a", 1, b"", b"", b"x")]
    assert parser.unread == b"PI"
    parser.feed(b"NG\r\n")  # not parsed
    assert list(parser.feed(b"PONG\r\n")) == [Ping(), Pong()]


def test_bytes_after_the_requested_frame_can_be_passed_on() -> None:
    parser = Parser()
    for frame in parser.feed(b"INFO {}\r\n\x16\x03\x01 not for this parser"):
        assert frame == Info(b"{}")
        break
    assert parser.unread == b"\x16\x03\x01 not for this parser"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_like_object_is_accepted_and_not_kept(kind: type) -> None:
    raw = bytearray(b"MSG a 1 3\r\nabc\r\nMSG b 2 3\r\nab")
    parser = Parser()
    assert list(parser.feed(kind(raw))) == [MsgFrame(b"a", 1, b"", b"", b"abc")]
    raw[:] = b"x" * len(raw)
    assert list(parser.feed(b"c\r\n")) == [MsgFrame(b"b", 2, b"", b"", b"abc")]


def seconds_byte_by_byte(data: bytes) -> tuple[list[Frame], float]:
    parser = Parser()
    frames: list[Frame] = []
    begin = time.process_time()
    for at in range(len(data)):
        frames.extend(parser.feed(data[at : at + 1]))
    return frames, time.process_time() - begin


def test_a_large_payload_that_arrives_byte_by_byte_is_read_in_linear_time() -> None:
    payload = b"\r\n" * (1 << 19)
    frames, seconds = seconds_byte_by_byte(b"MSG a 1 %d\r\n%b\r\n" % (len(payload), payload))
    assert frames == [MsgFrame(b"a", 1, b"", b"", payload)]
    # A copy of all earlier bytes for each byte would move half a terabyte.
    assert seconds < 15


def test_a_long_control_line_that_arrives_byte_by_byte_is_read_in_linear_time() -> None:
    line = b'{"connect_urls":[%b]}' % (b'"10.0.0.1:4222",' * (1 << 14))
    frames, seconds = seconds_byte_by_byte(b"INFO %b\r\n" % line)
    assert frames == [Info(line)]
    assert seconds < 8


# -- limits --------------------------------------------------------------------------------------------------------


def test_a_control_line_at_the_limit_is_read_and_a_longer_one_is_refused_before_its_end() -> None:
    limits = FrameLimits(line=20)
    longest = b"INFO " + b"x" * 15
    assert parse(longest + b"\r\n", limits) == [Info(b"x" * 15)]
    parser = Parser(limits)
    for byte in longest + b"\r":
        assert list(parser.feed(bytes([byte]))) == []
    assert list(parser.feed(b"\n")) == [Info(b"x" * 15)]
    parser = Parser(limits)
    assert list(parser.feed(longest + b"x")) == []  # the extra byte may be a carriage return
    with pytest.raises(ProtocolError, match="longer than 20 bytes"):
        list(parser.feed(b"x"))


def test_a_message_over_the_limit_is_refused_before_its_payload() -> None:
    limits = FrameLimits(size=10)
    assert parse(b"MSG a 1 10\r\n0123456789\r\n", limits) == [MsgFrame(b"a", 1, b"", b"", b"0123456789")]
    for line in (b"MSG a 1 11\r\n", b"HMSG a 1 0 11\r\n", b"HMSG a 1 11 11\r\n"):
        with pytest.raises(ProtocolError, match="impossible size"):
            list(Parser(limits).feed(line))


def test_bytes_without_a_line_end_are_not_collected_without_limit() -> None:
    parser = Parser()
    for _ in range(FrameLimits().line >> 16):
        assert list(parser.feed(b"x" * 65536)) == []
    with pytest.raises(ProtocolError, match="longer than 1048576 bytes"):
        list(parser.feed(b"xx"))


def test_the_default_limits_accept_everything_that_a_server_may_send() -> None:
    assert parse_message_line(b"HMSG a 1 1000 67108864").size == 64 << 20


@pytest.mark.parametrize(
    "data", [b"\n", b"PING\n", b"PI\nNG\r\n", b"MSG a\n", b"MSG a 1 0\n", b"MSG abcdefghi 1\n0\r\n"]
)
def test_a_line_feed_without_a_carriage_return_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="LF instead of CR LF"):
        list(Parser().feed(data))


# -- encoder -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (pub(b"a", b"xy"), b"PUB a 2\r\nxy\r\n"),
        (pub(b"a", b""), b"PUB a 0\r\n\r\n"),
        (pub(b"a", b"xy", reply=b"r"), b"PUB a r 2\r\nxy\r\n"),
        (pub(b"a", b"xy", header=b"HHH"), b"HPUB a 3 5\r\nHHHxy\r\n"),
        (pub(b"a", b"", reply=b"r", header=b"HHH"), b"HPUB a r 3 3\r\nHHH\r\n"),
        (sub(b"a.*", 3), b"SUB a.* 3\r\n"),
        (sub(b"a.>", 3, queue=b"q"), b"SUB a.> q 3\r\n"),
        (unsub(3), b"UNSUB 3\r\n"),
        (unsub(3, 10), b"UNSUB 3 10\r\n"),
    ],
)
def test_commands_are_encoded_as_the_protocol_says(made: bytes, expected: bytes) -> None:
    assert made == expected


def test_missing_fields_of_info_are_empty() -> None:
    info = parse_info(Info(b'{"max_payload":7,"news":1}'))
    known = {name: getattr(info, name) for name in info.__struct_fields__}
    assert {name: value for name, value in known.items() if value} == {"max_payload": 7}
    assert parse_info(Info(b"{}")).max_payload == 1 << 20
