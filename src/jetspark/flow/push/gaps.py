"""Whether deliveries are missing: a consumer numbers them without gaps (ADR-15, Message Gaps)."""

from __future__ import annotations

from jetspark.jetstream.ack import parse_ack_subject
from jetspark.jetstream.errors import InvalidAckError
from jetspark.wire.messages import Message

__all__ = ["GapDetector"]


class GapDetector:
    """Compares each delivery's consumer sequence with the one before.

    Parameters
    ----------
    baseline
        Consumer sequence of the last delivery before ours: 0 for a consumer that was just made. None when it is not
        known; then the first message, or heartbeat, tells (GAP-03).

    Attributes
    ----------
    last
        Consumer sequence of the last delivery; None as long as it is not known.
    """

    def __init__(self, baseline: int | None) -> None:
        self.last = baseline
        self._prefix = b""
        self._length = 0  # of the prefix, once it is learned

    def scan(self, messages: list[Message]) -> int:
        """Follow a run of deliveries; returns how many of them are consecutive. What comes behind was not looked at.

        Only the number itself is cut out of each ack subject. Where that begins is learned from the first one, since
        a consumer's ack subjects begin alike.
        """
        last, prefix, length = self.last, self._prefix, self._length
        for index, message in enumerate(messages):
            reply = message.raw_reply
            try:
                if length and reply.startswith(prefix):
                    sequence = int(reply[length:].split(b".", 3)[2])
                else:
                    sequence = self._learn(reply)
                    prefix, length = self._prefix, self._length
            except (InvalidAckError, IndexError, ValueError):
                self.last = last
                return index
            if last is not None and sequence != last + 1:
                self.last = last
                return index
            last = sequence
        self.last = last
        return len(messages)

    def _learn(self, reply: bytes) -> int:
        """The consumer sequence, read with all checks; from then on what stands before the numbers is known."""
        metadata = parse_ack_subject(reply.decode(errors="replace"))
        names = 4 if reply.count(b".") == 8 else 6
        self._length = sum(len(token) + 1 for token in reply.split(b".", names)[:names])
        self._prefix = reply[: self._length]
        return metadata.consumer_sequence

    def heartbeat(self, last: int) -> bool:
        """Whether a heartbeat tells of deliveries that did not come: the consumer's last one is not ours (GAP-02)."""
        if self.last is None:
            self.last = last
        return last != self.last
