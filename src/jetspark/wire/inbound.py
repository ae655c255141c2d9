"""Read loop: puts messages from the socket's bytes directly into the subscriptions' queues.

It is one loop that creates one object for each message and calls only the library's own handlers. It accepts the same
bytes as `frames.Parser`, the readable version, and gives the same messages; a test compares the two. All other frames
go to `on_control`, in order. Memory is bounded: control lines, messages and subscriptions have limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jetspark.wire.errors import ProtocolError
from jetspark.wire.frames import Control, Limits, Tail, parse_control, parse_message_line
from jetspark.wire.messages import Message
from jetspark.wire.routes import Route

__all__ = ["Inbound"]

_CR: Final = 13
_SPACE: Final = 32
_NO_WORDS: Final = b"\n"  # no line begins with it
_REMEMBERED: Final = 1024
_MESSAGE_VERBS: Final = frozenset({b"MSG", b"HMSG"})


class Inbound(Tail):
    """Reader of the bytes that one session of a connection receives.

    Parameters
    ----------
    routes
        Subscriptions by their id as text. Messages for other ids are dropped: they were in transit at the UNSUB.
    on_control
        Takes every frame that is not a message.
    on_full
        Called when a message comes for a full subscription; returns whether to keep the message.
    on_last
        Called after a subscription got its last message (`max_msgs`).
    message_type
        Class of the messages.
    limits
        Largest line and frame; a larger one is a ProtocolError.
    """

    __slots__ = (
        "_message_type",
        "_on_control",
        "_on_full",
        "_on_last",
        "_routes",
        "_sizes",
    )

    def __init__(
        self,
        routes: dict[bytes, Route],
        *,
        on_control: Callable[[Control], None],
        on_full: Callable[[Route], bool],
        on_last: Callable[[Route], None],
        message_type: type[Message] = Message,
        limits: Limits = Limits(),  # noqa: B008 (immutable)
    ) -> None:
        super().__init__(limits)
        self._routes = routes
        self._on_control = on_control
        self._on_full = on_full
        self._on_last = on_last
        self._message_type = message_type
        self._sizes: dict[bytes, int] = {}

    def feed(self, data: bytes) -> None:
        """Read received bytes, cut anywhere.

        Raises
        ------
        ProtocolError
            They are not the NATS protocol; the session cannot be used any more. Earlier messages were delivered.
        """
        tail = self._tail
        if tail:
            tail += data
            if not self._is_complete():
                return
            data = bytes(tail)
            tail.clear()
        self._wanted = self._seen = 0
        woken: list[Route] = []
        try:
            at = self._read(data, woken)
        finally:
            for route in woken:
                if route.wake is not None:
                    route.wake()
        if at < len(data):
            tail += memoryview(data)[at:]
            self._is_complete()

    def _read(self, data: bytes, woken: list[Route]) -> int:
        """Deliver the complete frames in `data`; return where the first incomplete frame begins."""
        routes, sizes, message_type = self._routes, self._sizes, self._message_type
        line_limit = self._limits.line + 1  # with the carriage return
        find = data.find
        at, length = 0, len(data)
        while (feed := find(b"\n", at)) >= 0:
            if feed == at or data[feed - 1] != _CR or feed - at > line_limit:
                raise ProtocolError(_broken_line(data[at:feed], self._limits.line))
            words = data[at : feed - 1].split(b" ")
            count = len(words)
            if (
                words[0] == b"MSG"
                and 4 <= count <= 5
                and words[1]
                and words[3]
                and (route := routes.get(words[2])) is not None
                and ((found := sizes.get(words[-1])) is not None or (found := self._learn(words[-1])) is not None)
            ):
                size = found
                subject = words[1]
                reply = words[3] if count == 5 else b""
                header_size = 0
            elif words[0] in _MESSAGE_VERBS:
                subject, sid, reply, header_size, size = parse_message_line(data[at : feed - 1], self._limits)
                route = routes.get(b"%d" % sid)
            else:
                self._on_control(parse_control(data[at : feed - 1]))
                at = feed + 1
                continue
            begin = feed + 1
            end = begin + size
            if length < end + 2:
                self._wanted = end + 2 - at
                break
            if not data.startswith(b"\r\n", end):
                raise ProtocolError(f"no line end behind the payload of {data[at : min(feed, at + 120)]!r}")
            at = end + 2
            if route is not None:
                middle = begin + header_size
                header = data[begin:middle] if header_size else b""
                message = message_type(subject, reply, header, data[middle:end], route.owner)
                route.received += 1
                if header_size and header_size == size and route.on_status is not None and route.on_status(message):
                    pass
                elif route.handler is not None:
                    route.handler(message)
                    at = self._handle_run(data, at, route)
                elif (
                    route.unlimited
                    or (
                        len(route.pending) < route.limit_msgs
                        and route.received_bytes - route.taken_bytes < route.limit_bytes
                    )
                    or self._on_full(route)
                ):
                    route.pending.append(message)
                    route.received_bytes += size
                    if route.waiting:
                        route.waiting = False
                        woken.append(route)
                    if route.unlimited:
                        at = self._read_run(data, at, route)
                else:
                    route.dropped += 1
                if route.received == route.max_msgs:
                    self._on_last(route)
        return at

    def _handle_run(self, data: bytes, at: int, route: Route) -> int:
        """Offer the bytes from `at` on to the route's `on_run`; return where the frames that it took end."""
        if route.on_run is not None:
            at, count = route.on_run(data, at)
            route.received += count
        return at

    def _read_run(self, data: bytes, at: int, route: Route) -> int:
        """Deliver the next MSG frames with a reply for a route without limits; return where they end.

        Most messages of a consumer differ only in the ack subject. So the loop first compares the other words with
        those of the previous line. It stops at any other frame, which the caller then reads.
        """
        if route.max_msgs:
            return at
        sizes, message_type, owner = self._sizes, self._message_type, route.owner
        longest = self._limits.line + 1
        find, startswith, keep = data.find, data.startswith, route.pending.append
        sid = b"%d" % route.sid
        head = tail = _NO_WORDS
        subject, head_size, tail_size, size = b"", 0, 0, 0
        count = total = 0
        while 0 < (begin := find(b"\n", at) + 1) - at <= longest:
            if startswith(head, at) and startswith(tail, begin - tail_size):
                reply = data[at + head_size : begin - tail_size]
                if not reply or _SPACE in reply:
                    break
            else:
                words = data[at : begin - 2].split(b" ")
                if len(words) != 5 or words[0] != b"MSG" or words[2] != sid or data[begin - 2] != _CR:
                    break
                _, subject, _, reply, digits = words
                if not subject or not reply or (found := sizes.get(digits)) is None:
                    break
                size = found
                head, tail = b"MSG %b %b " % (subject, sid), b" %b\r\n" % digits
                head_size, tail_size = len(head), len(tail)
            end = begin + size
            if not startswith(b"\r\n", end):  # or the frame is incomplete
                break
            keep(message_type(subject, reply, b"", data[begin:end], owner))
            at = end + 2
            count += 1
            total += size
        route.received += count
        route.received_bytes += total
        return at

    def _learn(self, digits: bytes) -> int | None:
        """Return the size at the end of a control line, None if it is not valid. Sizes recur, so they are cached."""
        if not digits.isdigit() or len(digits) > 9 or (size := int(digits)) > self._limits.size:
            return None
        if len(self._sizes) >= _REMEMBERED:
            self._sizes.clear()
        self._sizes[digits] = size
        return size


def _broken_line(line: bytes, limit: int) -> str:
    if len(line) > limit:
        return f"a control line is longer than {limit} bytes"
    return f"a line feed without a carriage return behind {line[:120]!r}"
