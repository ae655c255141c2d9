"""Read loop: puts messages from the socket's bytes directly into the subscriptions' queues.

It is one loop that creates one object for each message and calls only the library's own handlers. It accepts the same
bytes as `frames.Parser`, the readable version, and gives the same messages; a test compares the two. All other frames
go to `on_control`, in order. Memory is bounded: control lines, messages and subscriptions have limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jetspark.wire.errors import ProtocolError
from jetspark.wire.frames import Control, FrameBuffer, FrameLimits, parse_control, parse_message_line
from jetspark.wire.messages import Message
from jetspark.wire.subscriptions import SubscriptionState

__all__ = ["Inbound"]

_CR: Final = 13
_SPACE: Final = 32
_NEVER_MATCHES: Final = b"\n"  # no line begins with it
_MAX_CACHED_SIZES: Final = 1024
_MAX_CONTROLS: Final = 256
"""Other frames than messages that one call reads: each may take much more work than its bytes."""
_MESSAGE_VERBS: Final = frozenset({b"MSG", b"HMSG"})


class Inbound(FrameBuffer):
    """Reader of the bytes that one session of a connection receives.

    Parameters
    ----------
    subscriptions
        Subscriptions by their id as text. Messages for other ids are dropped: they were in transit at the UNSUB.
    on_control
        Takes every frame that is not a message.
    on_full
        Called when a message comes for a full subscription; returns whether to keep the message.
    on_last_message
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
        "_sizes",
        "_subscriptions",
    )

    def __init__(
        self,
        subscriptions: dict[bytes, SubscriptionState],
        *,
        on_control: Callable[[Control], None],
        on_full: Callable[[SubscriptionState], bool],
        on_last_message: Callable[[SubscriptionState], object],
        message_type: type[Message] = Message,
        limits: FrameLimits = FrameLimits(),  # noqa: B008 (immutable)
    ) -> None:
        super().__init__(limits)
        self._subscriptions = subscriptions
        self._on_control = on_control
        self._on_full = on_full
        self._on_last = on_last_message
        self._message_type = message_type
        self._sizes: dict[bytes, int] = {}

    def feed(self, data: bytes) -> bool:
        """Read received bytes, cut anywhere.

        Returns
        -------
        bool
            Whether it has stopped after very many control frames. Then call it again, without bytes, when other work
            is done.

        Raises
        ------
        ProtocolError
            They are not the NATS protocol; the session cannot be used any more. Earlier messages were delivered.
        """
        tail = self._pending
        if tail:
            tail += data
            if not self._may_hold_frame():
                return False
            data = bytes(tail)
            tail.clear()
        self._frame_size = self._scanned = 0
        woken: list[SubscriptionState] = []
        try:
            at = self._deliver_frames(data, woken)
        finally:
            for sub in woken:
                if sub.wake is not None:
                    sub.wake()
        if at < len(data):
            tail += memoryview(data)[at:]
            return self._may_hold_frame()
        return False

    def _deliver_frames(self, data: bytes, woken: list[SubscriptionState]) -> int:
        """Deliver the complete frames in `data`; return where the first frame begins that was not read."""
        routes, sizes, message_type = self._subscriptions, self._sizes, self._message_type
        line_limit = self._limits.line + 1  # with the carriage return
        find = data.find
        at, length = 0, len(data)
        controls_left = _MAX_CONTROLS
        while controls_left and (feed := find(b"\n", at)) >= 0:
            if feed == at or data[feed - 1] != _CR or feed - at > line_limit:
                raise ProtocolError(_line_error(data[at:feed], self._limits.line))
            words = data[at : feed - 1].split(b" ")
            count = len(words)
            if (
                words[0] == b"MSG"
                and 4 <= count <= 5
                and words[1]
                and words[3]
                and (sub := routes.get(words[2])) is not None
                and ((found := sizes.get(words[-1])) is not None or (found := self._parse_size(words[-1])) is not None)
            ):
                size = found
                subject = words[1]
                reply = words[3] if count == 5 else b""
                header_size = 0
            elif words[0] in _MESSAGE_VERBS:
                subject, sid, reply, header_size, size = parse_message_line(data[at : feed - 1], self._limits)
                sub = routes.get(b"%d" % sid)
            else:
                self._on_control(parse_control(data[at : feed - 1]))
                at = feed + 1
                controls_left -= 1
                continue
            begin = feed + 1
            end = begin + size
            if length < end + 2:
                self._frame_size = end + 2 - at
                break
            if not data.startswith(b"\r\n", end):
                raise ProtocolError(f"no CR LF after the payload of {data[at : min(feed, at + 120)]!r}")
            at = end + 2
            if sub is not None:
                middle = begin + header_size
                header = data[begin:middle] if header_size else b""
                message = message_type(subject, reply, header, data[middle:end], sub.connection)
                sub.received += 1
                if (header_size and header_size == size and sub.on_status is not None and sub.on_status(message)) or (
                    sub.reply_prefix and _has_other_reply(sub, message)
                ):
                    pass
                elif sub.handler is not None:
                    sub.handler(message)
                    at = self._offer_following_frames(data, at, sub)
                elif (
                    sub.unlimited
                    or (
                        len(sub.pending) < sub.pending_msgs_limit
                        and sub.received_bytes - sub.taken_bytes < sub.pending_bytes_limit
                    )
                    or self._on_full(sub)
                ):
                    sub.pending.append(message)
                    sub.received_bytes += size
                    if sub.waiting:
                        sub.waiting = False
                        woken.append(sub)
                    if sub.unlimited:
                        at = self._read_following_messages(data, at, sub)
                else:
                    sub.dropped += 1
                if sub.received == sub.max_msgs:
                    self._on_last(sub)
        return at

    def _offer_following_frames(self, data: bytes, at: int, sub: SubscriptionState) -> int:
        """Offer the bytes from `at` on to the subscription's `on_following_frames`.

        Return where the frames that it took end.
        """
        if sub.on_following_frames is not None:
            at, count = sub.on_following_frames(data, at)
            sub.received += count
        return at

    def _read_following_messages(self, data: bytes, at: int, sub: SubscriptionState) -> int:
        """Deliver the next MSG frames with a reply for a subscription without limits; return where they end.

        Most messages of a consumer differ only in the ack subject. So the loop first compares the other words with
        those of the previous line. It stops at any other frame, which the caller then reads.
        """
        if sub.max_msgs:
            return at
        sizes, message_type, owner = self._sizes, self._message_type, sub.connection
        longest = self._limits.line + 1
        find, startswith, keep = data.find, data.startswith, sub.pending.append
        sid, prefix = b"%d" % sub.sid, sub.reply_prefix
        head = tail = _NEVER_MATCHES
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
                if not subject or not reply or not reply.startswith(prefix) or (found := sizes.get(digits)) is None:
                    break
                size = found
                head, tail = b"MSG %b %b %b" % (subject, sid, prefix), b" %b\r\n" % digits
                head_size, tail_size = len(head) - len(prefix), len(tail)
            end = begin + size
            if not startswith(b"\r\n", end):  # or the frame is incomplete
                break
            keep(message_type(subject, reply, b"", data[begin:end], owner))
            at = end + 2
            count += 1
            total += size
        sub.received += count
        sub.received_bytes += total
        return at

    def _parse_size(self, digits: bytes) -> int | None:
        """Return the size at the end of a control line, None if it is not valid. Sizes recur, so they are cached."""
        if not digits.isdigit() or len(digits) > 9 or (size := int(digits)) > self._limits.size:
            return None
        if len(self._sizes) >= _MAX_CACHED_SIZES:
            self._sizes.clear()
        self._sizes[digits] = size
        return size


def _has_other_reply(sub: SubscriptionState, message: Message) -> bool:
    """Return whether the message has not the reply that the subscription expects, and pass it on then."""
    if message.raw_reply.startswith(sub.reply_prefix):
        return False
    if sub.on_other_reply is not None:
        sub.on_other_reply(message)
    return True


def _line_error(line: bytes, limit: int) -> str:
    if len(line) > limit:
        return f"a control line is longer than {limit} bytes"
    return f"a line ends with LF instead of CR LF: {line[:120]!r}"
