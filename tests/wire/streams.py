"""Generated streams of the NATS protocol, and the two parsers that must agree.

They agree if for the same bytes either both raise `ProtocolError`, or both return the same frames and leave the same
rest. If the scalar parser raises, it first returns the good frames before the fault; the vectorised decoder returns all
or nothing. So only the scalar parser is asked for frames before a fault.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hypothesis import strategies as st
from tests.wire.readers import Reading

from jetspark.wire.frames import Err, Frame, Info, MsgFrame, Ok, Ping, Pong


class Piece(NamedTuple):
    """One frame: its bytes, and the result of a parser."""

    raw: bytes
    frame: Frame


def message(
    payload: bytes = b"",
    *,
    subject: bytes = b"a",
    sid: int = 1,
    reply: bytes = b"",
    header: bytes | None = None,
    width: int = 0,
) -> Piece:
    """A MSG, or an HMSG when there is a header (which may be empty). `width`: digits of the size, zeros in front."""
    words = [b"MSG" if header is None else b"HMSG", subject, b"%d" % sid]
    if reply:
        words.append(reply)
    if header is not None:
        words.append(b"%0*d" % (width, len(header)))
    block = header or b""
    words.append(b"%0*d" % (width, len(block) + len(payload)))
    raw = b"%b\r\n%b%b\r\n" % (b" ".join(words), block, payload)
    return Piece(raw, MsgFrame(subject, sid, reply, block, payload))


# -- strategies ----------------------------------------------------------------------------------------------------

_TOKEN_BYTES = bytes(byte for byte in range(256) if byte not in b" \r\n")
TRAPS = [
    b"\r\nMSG ",
    b"\nMSG a 1 0\r\n\r\n",
    b"\nHMSG a 1 2 3\r\n",
    b"\r\nHMSG a 1 2 3\r\nab\r\n",
    b"MSG a 1 0\r\n\r\n",
    b"\nMSG a 1 1\r\n",
    b"\nMSG 12345678\r\n",
    b"\nPING\r\n",
    b"\r\n",
    b"\r",
    b"\n",
    b"\x80\xff",
    b" ",
    b"x",
    b"0123456789",
]

tokens = st.lists(st.sampled_from(_TOKEN_BYTES), min_size=1, max_size=8).map(bytes)
subjects = st.lists(tokens, min_size=1, max_size=3).map(b".".join)
sids = st.one_of(
    st.integers(1, 9),
    st.sampled_from([0, 99_999_999, 10**8, 10**16 - 1, 10**16, 2**53 + 1, 2**63 - 1, 2**63, 10**19, 2**64 - 1]),
    st.integers(0, 2**64 - 1),
)
sequences = st.one_of(st.integers(1, 99), st.integers(2**53, 2**64 - 1), st.just(2**64 - 1))


@st.composite
def ack_subjects(draw: st.DrawFn) -> bytes:
    """The reply subject of a message of a consumer, in both formats: 9 words, or 11 and a random one."""
    numbers = b".".join(b"%d" % draw(sequences) for _ in range(5))
    domain = draw(st.sampled_from([b"", b"_.hash.", b"hub.hash."]))
    token = draw(st.sampled_from([b"", b".Zx81"])) if domain else b""
    return b"$JS.ACK.%bORDERS.c1.%b%b" % (domain, numbers, token)


odd_numbers = st.one_of(
    st.sampled_from([0, 1, 17, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**20, 10**40]).map(lambda number: b"%d" % number),
    st.builds(lambda number, width: b"%0*d" % (width, number), sequences, st.sampled_from([3, 19, 20, 21, 25, 40])),
    st.sampled_from([b"", b"x", b"1x", b"x1", b"-1", b"+1", b"1_0", b" ", b"1\t", b":", b"1;", b"\xb2", b"1e3"]),
    st.sampled_from(["\u0661".encode(), "\uff11".encode(), b"0x1f", b"1\r", b"\x00", b"?" * 8, b"<" * 19]),
)


@st.composite
def odd_ack_subjects(draw: st.DrawFn) -> bytes:
    """An ack subject in which anything may be wrong: the count of tokens, the prefix, any of the numbers."""
    numbers = [b"1", b"%d" % draw(sequences), b"3", b"%d" % draw(st.integers(10**18, 10**19)), b"7"]
    for place in draw(st.sets(st.integers(0, 4), max_size=2)):
        numbers[place] = draw(odd_numbers)
    prefix = draw(st.sampled_from([b"$JS.ACK"] * 9 + [b"$JS.ACKS", b"$js.ACK", b"JS.ACK", b"$JS.FC", b"", b"_INBOX.x"]))
    domain = draw(st.sampled_from([[], [], [b"_", b"hash"], [b"hub", b"hash"], [b"", b""], [b"\xff", b"\xc3\xa4"]]))
    names = draw(st.sampled_from([[b"ORDERS", b"c1"], [b"ORDERS", b""], [b"ORDERS"], [b"O", b"c", b"d"]]))
    further = draw(st.sampled_from([[], [], [b"Zx81"], [b"Zx81", b"more"], [b""]]))
    return b".".join([prefix, *domain, *names, *numbers, *further])


payloads = st.one_of(
    st.just(b""),
    st.binary(max_size=30),
    st.lists(st.sampled_from(TRAPS), max_size=6).map(b"".join),
    st.deferred(lambda: messages.map(lambda piece: piece.raw)),
)
header_blocks = st.one_of(
    st.just(b""),
    st.just(b"NATS/1.0\r\n\r\n"),
    st.just(b"NATS/1.0 503\r\n\r\n"),
    st.lists(
        st.sampled_from([b"A: 1", b"A: 2", b"a:3", b"B:", b"nonsense", "C: \u00e4\u20ac".encode()]), max_size=4
    ).map(lambda lines: b"\r\n".join([b"NATS/1.0", *lines, b"", b""])),
    st.lists(st.sampled_from(TRAPS), max_size=4).map(b"".join),
)
messages: st.SearchStrategy[Piece] = st.builds(
    message,
    payloads,
    subject=subjects,
    sid=sids,
    reply=st.one_of(st.just(b""), subjects, ack_subjects()),
    header=st.one_of(st.none(), header_blocks),
    width=st.sampled_from([0, 0, 0, 5, 7, 8, 20]),
)
controls = st.sampled_from(
    [
        Piece(b"PING\r\n", Ping()),
        Piece(b"PONG\r\n", Pong()),
        Piece(b"+OK\r\n", Ok()),
        Piece(b'INFO {"max_payload":1048576}\r\n', Info(b'{"max_payload":1048576}')),
        Piece(b'INFO {"name":"MSG \xc3\xa9"} \r\n', Info(b'{"name":"MSG \xc3\xa9"}')),
        Piece(b"-ERR 'Unknown Protocol Operation'\r\n", Err("Unknown Protocol Operation")),
    ]
)
streams = st.lists(st.one_of(messages, messages, controls), max_size=8)


@st.composite
def hard_streams(draw: st.DrawFn) -> list[Piece]:
    """Streams without two messages that can be read at once: traps in the payloads, or sizes of many digits."""
    trapped = st.lists(st.sampled_from(TRAPS), max_size=3).map(
        lambda parts: b"".join(parts) + b"\r\nMSG a 1 3\r\nabc\r\n"
    )
    hard = st.one_of(st.builds(message, trapped), st.builds(message, payloads, width=st.just(9)))
    return draw(st.lists(hard, min_size=1, max_size=12))


def joined(pieces: Iterable[Piece]) -> bytes:
    """Return the bytes of a stream."""
    return b"".join(piece.raw for piece in pieces)


def frames_in_steps(data: bytes, cut: int, read: Callable[[bytes], Reading]) -> list[Frame]:
    """Read up to the cut, then the rest together with the following bytes."""
    first = read(data[:cut])
    second = read(first.rest + data[cut:])
    assert not first.refused
    assert not second.refused
    assert second.rest == b""
    return first.frames + second.frames
