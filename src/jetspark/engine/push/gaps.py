"""Detection of missing deliveries: a consumer numbers deliveries without gaps (ADR-15, Message Gaps)."""

from __future__ import annotations

from jetspark.jetstream.ack import parse_ack_subject
from jetspark.jetstream.errors import InvalidAckError
from jetspark.wire.messages import Message

__all__ = ["GapDetector"]


class GapDetector:
    """Detector that compares each delivery's consumer sequence with the one before.

    Parameters
    ----------
    baseline
        Consumer sequence before the first delivery: 0 for a consumer that was just created. None if it is not known;
        then the first message or heartbeat sets it (GAP-03).

    Attributes
    ----------
    last
        Consumer sequence of the last delivery; None while it is not known.
    """

    def __init__(self, baseline: int | None) -> None:
        self.last = baseline
        self._prefix = b""
        self._length = 0  # of the prefix, once it is learned

    def scan(self, messages: list[Message]) -> int:
        """Check a series of deliveries; return how many are consecutive. The others were not checked.

        The method cuts only the number out of each ack subject. It learns the position from the first one, because all
        ack subjects of a consumer begin with the same text.
        """
        last, prefix, length = self.last, self._prefix, self._length
        for index, message in enumerate(messages):
            reply = message.raw_reply
            try:
                if length and reply.startswith(prefix) and (number := reply[length:].split(b".", 3)[2]).isdigit():
                    sequence = int(number)
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
        """Read the consumer sequence with all checks, and remember the text before the numbers."""
        metadata = parse_ack_subject(reply.decode(errors="replace"))
        names = 4 if reply.count(b".") == 8 else 6
        self._length = sum(len(token) + 1 for token in reply.split(b".", names)[:names])
        self._prefix = reply[: self._length]
        return metadata.consumer_sequence

    def heartbeat(self, last: int) -> bool:
        """Return whether a heartbeat reports deliveries that did not arrive: its last one is not `last` (GAP-02)."""
        if self.last is None:
            self.last = last
        return last != self.last
