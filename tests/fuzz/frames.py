"""Streams of hostile frames."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Final

from tests.fuzz.mutations import ODD_NUMBERS

from jetspark.wire.frames import FrameLimits

__all__ = ["LIMITS", "SIDS", "FrameMaker"]

SIDS: Final = range(1, 9)
LIMITS: Final = (FrameLimits(), FrameLimits(), FrameLimits(line=64, size=256), FrameLimits(line=1 << 10, size=1 << 12))
_LINE: Final = FrameLimits().line
_CONTROLS: Final[tuple[bytes, ...]] = (
    b"PING\r\n",
    b"PONG\r\n",
    b"+OK\r\n",
    b"-ERR 'Slow Consumer'\r\n",
    b"-ERR\r\n",
    b"PING \r\n",
    b"+OK x y\r\n",
    b'INFO {"server_id":"X","headers":true,"max_payload":1048576}\r\n',
    b"-ERR 'Permissions Violation for Publish to \"a.b\"'\r\n",
    b"PONG\tx\r\n",
    b"+OK \xff\r\n",
)
_ODD_LINES: Final[tuple[bytes, ...]] = (
    b"ping\r\n",
    b"pong\r\n",
    b"msg a 1 0\r\n\r\n",
    b"Msg a 1 0\r\n\r\n",
    b"hmsg a 1 0 0\r\n\r\n",
    b"+ok\r\n",
    b"\r\n",
    b"\n",
    b"MSG a 1 0\n\r\n",
    b"MSG a 1 0 \r\n\r\n",
    b" MSG a 1 0\r\n\r\n",
    b"MSG\ta\t1\t0\r\n\r\n",
    b"MSG a\t1 0\r\n\r\n",
    b"MSG a 1 0\t\r\n\r\n",
    b"MSG a 1  0\r\n\r\n",
    b"MSG a  1 0\r\n\r\n",
    b"HMSG a 1 5 3\r\nabc\r\n",
    b"MSG a 1\r\n",
    b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    b"HMSG a 1 0 0\r\n\r\n",
    b"HMSG a 1 3\r\nabc\r\n",
    b"PINGS\r\n",
    b"MSG \r\n",
    b"MSG a 1 3\r\nab\r\n",
    b"MSG a 1 3\r\nabcd\r\n",
    b"MSG a 1 0\r\r\n\r\n",
    b"MSG a\r 1 0\r\n\r\n",
    b"P\r\n",
    b"INFO\r\n",
    b"PUB a 0\r\n\r\n",
    b"CONNECT {}\r\n",
    b"MSG a 1 r 0 0\r\n\r\n",
    b"HMSG a 1 r q 0 0\r\n\r\n",
    b"\xff\xfe\r\n",
    b"INFO {\r\n",
    b"INFO []\r\n",
    b'INFO {"max_payload":' + b"9" * 5000 + b"}\r\n",
    b"INFO " + b"[" * 5000 + b"\r\n",
    b"HMSG a 1 00000000000000000000012 12\r\nNATS/1.0\r\n\r\n\r\n",
    b"MSG a 0000000000000000000001 0\r\n\r\n",
    b"MSG a 1 00000\r\n\r\n",
    b"MSG a 01 01\r\nx\r\n",
    b"MSG a 1 +1\r\nx\r\n",
    b"MSG a 1 \xd9\xa1\r\nx\r\n",
    b"MSG a 18446744073709551616 0\r\n\r\n",
    b"MSG a 18446744073709551615 0\r\n\r\n",
    b"MSG a 1 " + b"9" * 400 + b"\r\n",
)
_TRAPS: Final[tuple[bytes, ...]] = (
    b"",
    b"x",
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\nMSG a 1 1\r\nz\r\n",
    b"\nMSG a 1 0\r\n\r\n",
    b"\nHMSG a 1 2 3\r\n",
    b"\x00\xff",
    b"\nPING\r\n",
    b"0123456789",
    b"y" * 100,
    b'{"stream":"S", "seq":17}',
    b'{"stream":"S", "seq":007}',
    b"{" * 50,
    b'{"error":{"code":503,"err_code":10077,"description":"x"}}',
    b'{"stream":"S","seq":' + b"9" * 5000 + b"}",
)
_BLOCKS: Final[tuple[bytes, ...]] = (
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0\r\nA: b\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0 404 No Messages\r\n\r\n",
    b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 1\r\nNats-Pending-Bytes: 0\r\n\r\n",
    b"",
    b"\r\n",
    b"x",
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 17\r\n\r\n",
    b"NATS/1.0 100 FlowControl Request\r\n\r\n",
    b"NATS/1.0 409 Consumer Deleted\r\n\r\n",
    b"NATS/1.0 409 Leadership Change\r\n\r\n",
    b"NATS/1.0 204 EOB\r\n\r\n",
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: \xd9\xa1\r\nNats-Consumer-Stalled: a.b\r\n\r\n",
    b"NATS/1.0 409 Message Size Exceeds MaxBytes\r\nNats-Pending-Messages: 1_0\r\nNats-Pending-Bytes: -1\r\n\r\n",
    b"NATS/1.0 \xd9\xa1\xd9\xa0\xd9\xa0\r\n\r\n",
    b"NATS/1.0 1_0 x\r\n\r\n",
    b"NATS/1.0 +10\r\n\r\n",
    b"NATS/1.0 4040\r\n\r\n",
    b"NATS/1.0 423 Nats-Wrong-Pin-Id\r\n\r\n",
    b"NATS/1.0\r\nno colon\r\n: no key\r\nK:v\xff\xfe\r\nN : x\r\n\r\n",
    b"NATS/1.0",
    b"NATS/1.0\r\nA:  b  \r\nA:\t\tc\r\n\r\n",
    b"NATS/1.0\nA: b\n\n",
    b"NATS/1.0 400 Bad Request\r\n\r\n",
    b"NATS/1.1\r\n\r\n",
)
_WORDS: Final[tuple[bytes, ...]] = (
    b"a",
    b"orders.a",
    b"a.b",
    b"\xc3\xa4",
    b"\xff",
    b"x" * 50,
    b"q.r",
    b">",
    b"a..b",
    b"\t",
)


class FrameMaker:
    """Makes streams of hostile frames.

    Parameters
    ----------
    rng
        Source of chance.
    """

    def __init__(self, rng: random.Random) -> None:
        self._chance = rng.random
        self._choice = rng.choice
        self._below = rng.randrange

    def stream(self) -> tuple[list[bytes], FrameLimits]:
        """Return the frames of a stream, and the limits to read it with."""
        limits = self._choice(LIMITS)
        frames: list[bytes] = []
        hostile = self._chance() < 0.6  # else all frames are legal
        for _ in range(1 + self._below(48)):
            kind = self._chance()
            if kind < 0.03:
                frames += self._run(hostile)
            elif hostile and kind < 0.05:
                frames.append(self._choice(_ODD_LINES))
            elif hostile and kind < 0.06:
                frames.append(self._long_line(limits.line))
            elif hostile and kind < 0.08:
                frames.append(self._damaged(self._message()))
            elif kind < 0.25:
                frames.append(self._choice(_CONTROLS))
            else:
                frames.append(self._message())
        if hostile and self._chance() < 0.001:
            frames.append(self._long_line(_LINE))
        return frames, limits

    def pieces(self, data: bytes) -> list[bytes]:
        """Split a stream somewhere."""
        kind = self._chance()
        if kind < 0.3 or not data:
            return [data]
        if kind < 0.305 and len(data) < 400:
            return [data[at : at + 1] for at in range(len(data))]
        places = sorted({0, len(data), *(self._below(len(data)) for _ in range(1 + self._below(3)))})
        return [data[start:end] for start, end in pairwise(places)]

    def ack_subject(self, *, good: bool) -> bytes:
        """Return an ack subject of any form, in which a number may be odd."""
        numbers = [b"%d" % (1 + self._below(99)) for _ in range(5)]
        numbers[3] = b"1767323045000000000"
        kind = self._chance()
        names = b"S.c" if kind < 0.5 else b"_.h.S.c" if kind < 0.8 else b"hub.h.S.c"
        further = b".Zx" if kind >= 0.95 else b""
        if not good:
            numbers[self._below(5)] = self._choice(ODD_NUMBERS).replace(b" ", b"")
            if kind < 0.03:
                names = self._choice((b"S", b"S.c.d", b"", b"."))
        return b"$JS.ACK.%b.%b%b" % (names, b".".join(numbers), further)

    def _message(self) -> bytes:
        chance = self._chance()
        subject = self._choice(_WORDS)
        if chance < 0.6:  # the inbox of a connection
            subject = b"@%d." % self._choice(SIDS) + self._choice(
                (b"1", b"1", b"2", b"3", b"0", b"9999", *ODD_NUMBERS[:24])
            )
        reply, kind = b"", self._chance()
        if kind < 0.5:
            reply = self.ack_subject(good=kind < 0.45) + b" "
        elif kind < 0.6:
            reply = self._choice(_WORDS) + b" "
        elif kind < 0.62:
            reply = b" "
        payload = self._choice(_TRAPS)
        sid = (
            b"%d" % self._choice(SIDS) if chance < 0.95 else self._choice((b"0", b"77", b"01", b"18446744073709551615"))
        )
        width = 0 if self._chance() < 0.9 else self._choice((3, 8, 9, 16, 20))
        if self._chance() < 0.6:
            return b"MSG %b %b %b%0*d\r\n%b\r\n" % (subject, sid, reply, width, len(payload), payload)
        block = self._choice(_BLOCKS)
        if kind > 0.7:
            payload = b""
        size = len(block) + len(payload)
        line = b"HMSG %b %b %b%0*d %0*d\r\n" % (subject, sid, reply, width, len(block), width, size)
        return b"%b%b%b\r\n" % (line, block, payload)

    def _run(self, hostile: bool) -> list[bytes]:
        """Return messages of one length, as a consumer sends them; one of them may be odd."""
        count = 60 + self._below(80)
        names = self._choice((b"S.c", b"_.h.S.c"))
        kind = self._chance()
        if hostile and kind < 0.05:  # lines that are longer than the decoder expects, with a carriage return in them
            size = 1100 + self._below(200)
            line = b"MSG a 1 $JS.ACK.%b.c.1.1.1.1.1 %d\rx" % (b"S" * (980 + self._below(20)), size - 2)
            return [line.ljust(size - 2, b"y") + b"\r\n"] * 66
        if kind < 0.6:
            line = b"MSG orders.a 1 $JS.ACK." + names + b".1.%d.%d.1767323045%09d.%d 3\r\nabc\r\n"
            frames = [line % (1000 + at, 2000 + at, at, 900 - at) for at in range(count)]
        else:
            frames = [
                b'MSG _INBOX.x.%04d 1 24\r\n{"stream":"S", "seq":%03d}\r\n' % (at, 100 + at) for at in range(count)
            ]
        if hostile and kind < 0.9:
            at = self._below(count)
            frames[at] = self._damaged(frames[at])
        return frames

    def _damaged(self, frame: bytes) -> bytes:
        at = self._below(len(frame))
        kind = self._chance()
        byte = bytes((b"\r\n\t 0x:;.-+9\x00\xffM"[self._below(15)],))
        if kind < 0.5:
            return frame[:at] + byte + frame[at + 1 :]
        if kind < 0.7:
            return frame[:at] + byte + frame[at:]
        if kind < 0.85:
            return frame[:at] + frame[at + 1 :]
        return frame[:at] + self._choice(ODD_NUMBERS) + frame[at + 1 :]

    def _long_line(self, limit: int) -> bytes:
        """Return a line as long as the limit allows, or nearly."""
        size = max(limit, 16) - 3 + self._below(7) if limit < _LINE or self._chance() < 0.02 else 40
        kind = self._below(4)
        if kind == 0:
            line = b"MSG %b 1 0" % (b"a" * (size - 8))
        elif kind == 1:
            line = b"HMSG a 1 %b 0 0" % (b"r" * (size - 14))
        else:
            line = self._choice((b"INFO ", b"-ERR ", b"+OK  ", b"PING ")) + b"x" * (size - 5)
        return line + self._choice((b"\r\n", b"\r\n\r\n", b"\r\n\r\n", b"\n", b"\r"))
