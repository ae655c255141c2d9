"""Read the sequences `[start, end)` of a stream once and in order, with a consumer created for it.

`RangePulls` decides which pulls to keep open. Two are open at a time, so that the server never waits for the client.
Each pull asks for about half of the bytes in flight; the size of recent messages gives the number of messages. The
server can count bytes itself (`max_bytes`), but then it is slower by an eighth, so only a reader that was cut off once
uses it. A pull never asks for more messages than there are sequences left. So the server delivers no message after the
range, unless sequences in it are missing.

`RangeProgress` decides when the range is complete. A consumer numbers its deliveries without gaps, also if messages are
deleted or filtered out. So the range is complete if the deliveries were consecutive and one of these holds: a sequence
of `end - 1` or higher was delivered; the last delivery said that no more messages are pending; or the server says so
later, because the pending messages were deleted.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import Final

from jetspark.jetstream.errors import Error
from jetspark.jetstream.status import ConsumeEffect, StatusSeverity, classify

__all__ = ["InterruptedReadError", "RangeEffect", "RangeProgress", "RangePull", "RangePulls"]

MAX_BATCH: Final = 1_000_000
OPEN_PULLS: Final = 2


class InterruptedReadError(Error, ConnectionError):
    """The consumer of a range cannot be used any more; a new one must continue after the last sequence."""

    needs_recreation = True


class RangeEffect(Enum):
    """Effect of a status on a range."""

    NONE = "none"
    """Only send the pulls that are due."""
    RECREATE_CONSUMER = "restart"
    """The consumer cannot be used any more: create a new one that starts after the last sequence."""


@dataclass(slots=True)
class RangePull:
    """A pull to send.

    `token` is the last token of its reply subject; `remaining` are the messages not yet delivered.
    """

    token: int
    batch: int
    max_bytes: int | None
    remaining: int


class RangePulls:
    """Decides which pulls to send.

    Parameters
    ----------
    start, end
        Next sequence to read, and the sequence to stop before.
    bytes_in_flight
        Maximum of requested bytes that have not arrived.
    message_bytes
        Estimated bytes of a message, used until messages arrive.
    max_bytes
        Bytes after which the server ends a pull; None uses only the estimate. It is doubled if a single message is
        larger.
    """

    def __init__(
        self, start: int, end: int, *, bytes_in_flight: int, message_bytes: int, max_bytes: int | None = None
    ) -> None:
        self._next = start
        self._end = end
        self._pull_bytes = bytes_in_flight // OPEN_PULLS
        self._message_bytes = max(message_bytes, 1)
        self._max_bytes = max_bytes
        self._open: OrderedDict[int, RangePull] = OrderedDict()
        self._tokens = 0
        self._delivered_since = 0

    def due(self) -> list[RangePull]:
        """Return the pulls to send now; they count as open from now on."""
        pulls: list[RangePull] = []
        while len(self._open) < OPEN_PULLS:
            asked = sum(pull.remaining for pull in self._open.values())
            # Deleted sequences are never delivered: without an open pull, ask for at least one message.
            room = max(self._end - self._next - asked, 0 if self._open else 1)
            if room <= 0:
                break
            self._tokens += 1
            batch = min(room, max(self._pull_bytes // self._message_bytes, 1), MAX_BATCH)
            pull = RangePull(self._tokens, batch, self._max_bytes, batch)
            self._open[pull.token] = pull
            pulls.append(pull)
        return pulls

    def delivered(self, count: int, size: int, last_sequence: int) -> None:
        """Count `count` messages of `size` bytes that arrived. The server serves pulls in order."""
        self._next = last_sequence + 1
        self._delivered_since += count
        self._message_bytes = max(size // count, 1)
        while count and self._open:
            oldest = next(iter(self._open.values()))
            taken = min(count, oldest.remaining)
            oldest.remaining -= taken
            count -= taken
            if not oldest.remaining:
                del self._open[oldest.token]

    def status(self, token: int, code: int, description: str, *, where: str = "") -> RangeEffect:
        """Handle a status for a pull; ignore it if no such pull was sent.

        Raises
        ------
        StatusError
            The server refuses the pull as a bad request (400).
        """
        rule = classify(code, description)
        if not 1 <= token <= self._tokens or rule.consume in {ConsumeEffect.IGNORE, ConsumeEffect.TIMER}:
            return RangeEffect.NONE
        if rule.consume is ConsumeEffect.END and code == 400:
            raise rule.make_error(code, description, where=where)
        if rule.severity is not StatusSeverity.SILENT:
            return RangeEffect.RECREATE_CONSUMER
        if rule.id == "STA-08" and not self._delivered_since and self._max_bytes is not None:
            self._max_bytes *= 2  # a single message is larger than max_bytes
        if self._open.pop(token, None) is not None:
            self._delivered_since = 0
        return RangeEffect.NONE


class RangeProgress:
    """Progress of the read of a range.

    Parameters
    ----------
    start, end
        First sequence, and the sequence to stop before.
    """

    def __init__(self, start: int, end: int) -> None:
        self.next_sequence = start
        """First sequence that is not read yet; a new consumer starts there."""
        self.end = end
        self.done = start >= end
        self._consumer_sequence = 0

    def consumer_created(self, pending: int) -> None:
        """Handle a new consumer that starts at `next_sequence` and has `pending` messages."""
        self._consumer_sequence = 0
        self.done = self.done or not pending

    @property
    def consumer_sequence(self) -> int:
        """Number of the last delivery received from the current consumer."""
        return self._consumer_sequence

    def delivered(self, count: int, consumer_sequence: int, stream_sequence: int, pending: int) -> None:
        """Count consecutive deliveries. The sequences and `pending` are those of the last one."""
        assert consumer_sequence == self._consumer_sequence + count
        self._consumer_sequence = consumer_sequence
        self.next_sequence = max(self.next_sequence, stream_sequence + 1)
        self.done = self.done or self.next_sequence >= self.end or not pending

    def advance_to(self, sequence: int) -> None:
        """Set the progress to `sequence`, after a read that does not number its deliveries."""
        self.next_sequence = max(self.next_sequence, sequence + 1)
        self.done = self.done or self.next_sequence >= self.end

    def finish(self) -> None:
        """End the range, as the server has no more messages in it."""
        self.done = True

    def reopen(self) -> bool:
        """Continue to read, to verify that there are no more messages; return False if the range's end was reached."""
        self.done = self.next_sequence >= self.end
        return not self.done

    def info_received(self, delivered: int, pending: int) -> None:
        """Handle the server's numbers of delivered and pending messages, requested while nothing came."""
        self.done = self.done or (not pending and delivered <= self._consumer_sequence)
