"""Invalid bytes of a server cause a protocol error and a reconnect, never a hang and never unlimited memory.

A real server cannot be made to send such bytes, so a raw socket sends them. On mutated streams the read loop is
compared with the scalar parser.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.connection.support import Front, Recorder

from jetspark.errors import ConnectError, ProtocolError
from jetspark.wire.events import Disconnected, Reconnected
from jetspark.wire.frames import Control, FrameLimits, MsgFrame, Parser
from jetspark.wire.inbound import Inbound
from jetspark.wire.messages import Message
from jetspark.wire.subscriptions import SubscriptionState

INFO = b'INFO {"server_id":"X","version":"2.15.0","headers":true,"max_payload":1048576}\r\n'


@contextlib.asynccontextmanager
async def saying(*sessions: bytes) -> AsyncIterator[str]:
    """A server whose sessions are opened correctly and then send these bytes. The last session stays open."""
    left = list(sessions)
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(INFO)
        said = False
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                if line == b"PING\r\n":
                    writer.write(b"PONG\r\n")
                if line.startswith(b"SUB") and not said and left:
                    said = True
                    writer.write(left.pop(0))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for writer in writers:
            writer.close()


BROKEN = {
    "unknown verb": b"HELLO world\r\n",
    "no size": b"MSG a 1\r\n",
    "size is no number": b"MSG a 1 x\r\n",
    "negative size": b"MSG a 1 -5\r\n",
    "size with underscore": b"MSG a 1 1_0\r\n0123456789\r\n",
    "endless size": b"MSG a 1 " + b"9" * 5000 + b"\r\n",
    "size over the limit": b"MSG a 1 999999999\r\n",
    "wrong size": b"MSG a 1 3\r\nabcdef\r\n",
    "header longer than the message": b"HMSG a 1 20 10\r\n",
    "too many words": b"MSG a 1 b c 5\r\nabcde\r\n",
    "empty word": b"MSG a  1 5\r\nabcde\r\n",
    "bare line feed": b"MSG a 1 1\nx\r\n",
    "binary": bytes(range(256)),
    "endless line": b"+" * (3 << 20),
    "broken INFO": b"INFO {nonsense\r\n",
    "INFO of another form": b'INFO {"max_payload":"many"}\r\n',
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
async def test_invalid_bytes_end_the_session_and_a_new_one_is_opened(front: Front, broken: bytes) -> None:
    good = b"MSG a 1 4\r\ngood\r\n"
    async with saying(b"MSG a 1 6\r\nbefore\r\n" + broken, good) as url:
        recorder = Recorder()
        connection = await front.connect(url, on_event=recorder)
        subscription = await connection.subscribe("a")
        event = await recorder.wait(Disconnected)
        assert isinstance(event.error, ProtocolError)
        assert len(str(event.error)) < 500
        await recorder.wait(Reconnected)
        assert (await subscription.next_msg(5)).payload == b"before"
        assert (await subscription.next_msg(5)).payload == b"good"
        await connection.close()


async def test_everything_that_the_protocol_allows_is_accepted(front: Front) -> None:
    block = b"NATS/1.0\r\nno colon\r\n: no key\r\nK:v\xff\xfe\r\nN : x\r\n\r\n"
    said = (
        b"+OK\r\nPONG\r\nPING\r\nMSG a 77 2\r\nno\r\n"  # an extra PONG; an unknown subscription
        b"-ERR 'Something new'\r\n" + b"HMSG a 1 %d %d\r\n%b\r\n" % (len(block), len(block), block)
    )
    async with saying(said) as url:
        connection = await front.connect(url)
        subscription = await connection.subscribe("a")
        message = await subscription.next_msg(5)
        assert message.headers["K"].encode("utf-8", "surrogateescape") == b"v\xff\xfe"
        assert message.status is None
        assert connection.connected
        await connection.close()


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"PING\r\n", b"\x00\x01\x02\r\n", b""])
async def test_a_server_that_is_not_a_nats_server_is_refused(front: Front, greeting: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises((ConnectError, ProtocolError)):
            await front.connect(url)


async def test_connecting_to_a_silent_server_times_out(front: Front) -> None:
    release = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(ConnectError, match="no answer in time"):
            await front.connect(url, connect_timeout=0.2)
        release.set()


class Collector:
    """The deliveries of an `Inbound`, in order."""

    def __init__(self, limits: FrameLimits) -> None:
        self.seen: list[MsgFrame | Control] = []
        self.routes = {}
        for sid in range(10):
            sub = SubscriptionState(sid, b">")
            sub.handler = lambda message, sid=sid: self.seen.append(_plain(message, sid))
            self.routes[b"%d" % sid] = sub
        self.inbound = Inbound(
            self.routes,
            on_control=self.seen.append,
            on_full=lambda sub: True,
            on_last_message=lambda sub: None,
            limits=limits,
        )


def _plain(message: Message, sid: int) -> MsgFrame:
    return MsgFrame(message.raw_subject, sid, message.raw_reply, message.raw_header, message.payload)


LIMITS = FrameLimits(line=200, size=400)

valid = st.one_of(
    st.sampled_from([b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR 'x'\r\n", b"INFO {}\r\n"]),
    st.builds(
        lambda subject, sid, reply, payload: b"MSG %b %d %b%d\r\n%b\r\n" % (subject, sid, reply, len(payload), payload),
        st.sampled_from([b"a", b"a.b", b"\xc3\xa9"]),
        st.integers(0, 9),
        st.sampled_from([b"", b"r ", b"_INBOX.x "]),
        st.sampled_from([b"", b"x", b"\r\n", b"\r\nMSG a 1 1\r\nz\r\n", b"y" * 100]),
    ),
    st.builds(
        lambda sid, block, payload: (
            b"HMSG a %d %d %d\r\n%b%b\r\n" % (sid, len(block), len(block) + len(payload), block, payload)
        ),
        st.integers(0, 9),
        st.sampled_from([b"NATS/1.0\r\n\r\n", b"NATS/1.0 404 None\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"]),
        st.binary(max_size=30),
    ),
)


def _fed(feed: list[bytes], limits: FrameLimits) -> tuple[list[MsgFrame | Control], bool]:
    collector = Collector(limits)
    try:
        for piece in feed:
            collector.inbound.feed(piece)
    except ProtocolError:
        return collector.seen, True
    return collector.seen, False


def _parsed(data: bytes, limits: FrameLimits) -> tuple[list[MsgFrame | Control], bool]:
    parser = Parser(limits)
    seen: list[MsgFrame | Control] = []
    try:
        seen.extend(parser.feed(data))
    except ProtocolError:
        return seen, True
    return seen, False


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


@settings(max_examples=300)
@given(st.lists(valid, max_size=8), st.lists(st.integers(0, 10_000), max_size=6))
def test_the_read_loop_agrees_with_the_parser_wherever_the_data_is_split(stream: list[bytes], cuts: list[int]) -> None:
    data = b"".join(stream)
    seen, failed = _fed(_pieces(data, cuts), LIMITS)
    assert not failed
    assert len(seen) == len(stream)
    assert seen == _parsed(data, LIMITS)[0]


def test_the_data_of_the_read_loop_can_be_split_at_every_byte() -> None:
    data = b"INFO {}\r\nMSG a 1 r 5\r\n\r\nMSG\r\nPING\r\nHMSG a 2 12 14\r\nNATS/1.0\r\n\r\nhi\r\nMSG a 3 0\r\n\r\n"
    whole, failed = _fed([data], LIMITS)
    assert (len(whole), failed) == (5, False)
    assert _fed([data[at : at + 1] for at in range(len(data))], LIMITS) == (whole, False)
    for at in range(len(data)):
        assert _fed([data[:at], data[at:]], LIMITS) == (whole, False)


@settings(max_examples=600)
@given(
    st.lists(valid, min_size=1, max_size=5),
    st.lists(
        st.tuples(
            st.integers(0, 10_000),
            st.sampled_from([b"", b"\n", b"\r\n", b" ", b"0", b"9", b"M", b"\xff"]),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.integers(0, 10_000), max_size=4),
)
def test_fuzzed_streams_raise_only_protocol_errors(
    stream: list[bytes], mutations: list[tuple[int, bytes, int]], cuts: list[int]
) -> None:
    data = bytearray(b"".join(stream))
    for place, inserted, removed in mutations:
        at = place % (len(data) + 1)
        data[at : at + removed] = inserted
    seen, failed = _fed(_pieces(bytes(data), cuts), LIMITS)
    expected, expected_failure = _parsed(bytes(data), LIMITS)
    assert failed == expected_failure
    assert seen == [frame for frame in expected if not isinstance(frame, MsgFrame) or frame.sid < 10]


class Queues:
    """Return subscriptions without limits, which the read loop fills run by run."""

    def __init__(self, limits: FrameLimits) -> None:
        self.controls: list[Control] = []
        self.woken: list[int] = []
        self.routes = {b"%d" % sid: SubscriptionState(sid, b">") for sid in range(4)}
        for sub in self.routes.values():
            sub.unlimited = True
            sub.wake = lambda sid=sub.sid: self.woken.append(sid)
        self.inbound = Inbound(
            self.routes,
            on_control=self.controls.append,
            on_full=lambda sub: False,
            on_last_message=lambda sub: None,
            limits=limits,
        )

    def feed(self, piece: bytes) -> None:
        for sub in self.routes.values():
            sub.waiting = True
        self.inbound.feed(piece)


in_runs = st.builds(
    lambda subject, sid, replies, payload: b"".join(
        b"MSG %b %d %b%d\r\n%b\r\n" % (subject, sid, reply, len(payload), payload) for reply in replies
    ),
    st.sampled_from([b"a", b"a.b", b"\xc3\xa9"]),
    st.integers(0, 4),
    st.lists(st.sampled_from([b"$JS.ACK.S.c.1.1.1.1.0 ", b"$JS.ACK.S.c.1.10.1.1.0 ", b"r ", b""]), max_size=5),
    st.sampled_from([b"", b"x", b" 1\r\n", b"\r\n", b"MSG a 1 r 1\r\nz\r\n", b"y" * 100]),
)


@settings(max_examples=600)
@given(
    st.lists(st.one_of(in_runs, valid), max_size=8),
    st.lists(
        st.tuples(
            st.integers(0, 10_000),
            st.sampled_from([b"", b"\n", b"\r\n", b" ", b"0", b"9", b"M", b"\xff"]),
            st.integers(0, 3),
        ),
        max_size=2,
    ),
    st.lists(st.integers(0, 10_000), max_size=6),
)
@example([b"MSG a 1 r 1\r\nx\r\n" * 2 + b"MSG a 1  1\r\nx\r\n"], [], [])  # an empty word is not a reply subject
def test_runs_of_messages_agree_with_the_parser(
    stream: list[bytes], mutations: list[tuple[int, bytes, int]], cuts: list[int]
) -> None:
    data = bytearray(b"".join(stream))
    for place, inserted, removed in mutations:
        at = place % (len(data) + 1)
        data[at : at + removed] = inserted
    queues = Queues(LIMITS)
    failed = False
    try:
        for piece in _pieces(bytes(data), cuts):
            queues.feed(piece)
    except ProtocolError:
        failed = True
    expected, expected_failure = _parsed(bytes(data), LIMITS)
    assert failed == expected_failure
    assert queues.controls == [frame for frame in expected if isinstance(frame, Control)]
    for sub in queues.routes.values():
        theirs = [frame for frame in expected if isinstance(frame, MsgFrame) and frame.sid == sub.sid]
        assert [_plain(message, sub.sid) for message in sub.pending] == theirs
        assert sub.received == len(theirs)
        assert sub.received_bytes == sum(len(frame.header) + len(frame.payload) for frame in theirs)
        assert (sub.sid in queues.woken) == bool(theirs)


def test_a_message_in_small_pieces_is_copied_once() -> None:
    """The time is linear: a quadratic read loop would take minutes."""
    collector = Collector(FrameLimits())
    size = 8 << 20
    collector.inbound.feed(b"MSG a 1 %d\r\n" % size)
    for _ in range(size // 1024):
        collector.inbound.feed(bytes(1024))
    collector.inbound.feed(b"\r\n")
    assert len(collector.seen) == 1
