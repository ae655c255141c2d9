"""Read the sequences `[start, end)` of a stream once and in order, from a consumer of our own.

`RangePulls` decides which pulls to keep open. Two are open at a time, so that the server never waits for us, and each
brings about half of the bytes that may be under way: so many messages as make that up at the size that they had so far.
The server can count bytes itself (`max_bytes`), but that costs it an eighth of its speed, so only a reader that was cut
off once asks for it. A pull never asks for more messages than there are sequences left, so that a range in the middle
of a stream is not overshot where nothing is missing in it.

`RangeProgress` decides when the range is read. A consumer numbers its deliveries without gaps, whatever is deleted or
filtered away in the stream; so the range is read completely when the deliveries were consecutive and one of these
holds: a sequence of `end - 1` or above was delivered; the last delivery said that nothing is pending behind it; or the
server says so later on, because what was pending has been deleted since.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import Final

from jetspark.jetstream.errors import (
    ConnectError,
    ConnectionClosedError,
    ConsumerNotFoundError,
    DisconnectedError,
    Error,
    JetStreamNotEnabledError,
    JetStreamUnavailableError,
    NoServersError,
    ProtocolError,
    RequestTimeoutError,
    SlowConsumerError,
    StaleConnectionError,
)
from jetspark.jetstream.status import ConsumeEffect, StatusClass, classify

__all__ = ["InterruptedReadError", "Pull", "RangeProgress", "RangePulls", "StatusEffect", "is_passing"]

MAX_BATCH: Final = 1_000_000
OPEN_PULLS: Final = 2


class InterruptedReadError(Error, ConnectionError):
    """The consumer that a range is read from is of no more use; a new one goes on behind the last sequence."""


class StatusEffect(Enum):
    """What a status means for a range."""

    NONE = "none"
    """Nothing to do but to send the pulls that are due."""
    RESTART = "restart"
    """The consumer is of no more use: make a new one behind the last sequence."""


@dataclass(slots=True)
class Pull:
    """A pull to send. `token` is the last token of its reply subject; `left` is what it may still bring."""

    token: int
    batch: int
    max_bytes: int | None
    left: int


class RangePulls:
    """Which pulls to send.

    Parameters
    ----------
    start, end
        Next sequence to read and the one to stop before.
    bytes_in_flight
        Bytes that may be under way.
    message_bytes
        What a message is thought to take, until messages have been seen.
    max_bytes
        Let the server end a pull after so many bytes; None leaves it to our estimate. It grows when a single message is
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
        self._open: OrderedDict[int, Pull] = OrderedDict()
        self._tokens = 0
        self._delivered_since = 0

    def due(self) -> list[Pull]:
        """The pulls to send now; they count as open from here on."""
        pulls: list[Pull] = []
        while len(self._open) < OPEN_PULLS:
            asked = sum(pull.left for pull in self._open.values())
            # A deleted message's sequence is never delivered: without an open pull, ask at least for one message.
            room = max(self._end - self._next - asked, 0 if self._open else 1)
            if room <= 0:
                break
            self._tokens += 1
            batch = min(room, max(self._pull_bytes // self._message_bytes, 1), MAX_BATCH)
            pull = Pull(self._tokens, batch, self._max_bytes, batch)
            self._open[pull.token] = pull
            pulls.append(pull)
        return pulls

    def delivered(self, count: int, size: int, last_sequence: int) -> None:
        """So many messages of so many bytes arrived; the server serves pulls in the order they came."""
        self._next = last_sequence + 1
        self._delivered_since += count
        self._message_bytes = max(size // count, 1)
        while count and self._open:
            oldest = next(iter(self._open.values()))
            taken = min(count, oldest.left)
            oldest.left -= taken
            count -= taken
            if not oldest.left:
                del self._open[oldest.token]

    def status(self, token: int, code: int, description: str, *, where: str = "") -> StatusEffect:
        """A status came for a pull.

        Raises
        ------
        StatusError
            The server cannot make sense of the pull (400).
        """
        rule = classify(code, description)
        if rule.consume in {ConsumeEffect.IGNORE, ConsumeEffect.TIMER}:
            return StatusEffect.NONE
        if rule.consume is ConsumeEffect.END and code == 400:
            raise rule.make_error(code, description, where=where)
        if rule.kind is not StatusClass.SILENT:
            return StatusEffect.RESTART
        if rule.id == "STA-08" and not self._delivered_since and self._max_bytes is not None:
            self._max_bytes *= 2  # a single message is larger than what a pull may bring
        if self._open.pop(token, None) is not None:
            self._delivered_since = 0
        return StatusEffect.NONE


class RangeProgress:
    """How far a range is read.

    Parameters
    ----------
    start, end
        First sequence and the one to stop before.
    """

    def __init__(self, start: int, end: int) -> None:
        self.next_sequence = start
        """First sequence that was not seen yet: where a new consumer starts."""
        self.end = end
        self.done = start >= end
        self._consumer_sequence = 0

    def new_consumer(self, pending: int) -> None:
        """A consumer was made at `next_sequence`; so many messages are pending for it."""
        self._consumer_sequence = 0
        self.done = self.done or not pending

    @property
    def consumer_sequence(self) -> int:
        """Last delivery that was seen of the present consumer."""
        return self._consumer_sequence

    def delivered(self, count: int, consumer_sequence: int, stream_sequence: int, pending: int) -> None:
        """Consecutive deliveries arrived; the last one has these sequences, and so many messages are behind it."""
        assert consumer_sequence == self._consumer_sequence + count
        self._consumer_sequence = consumer_sequence
        self.next_sequence = max(self.next_sequence, stream_sequence + 1)
        self.done = self.done or self.next_sequence >= self.end or not pending

    def read(self, sequence: int) -> None:
        """What is up to this sequence was read, by a way that does not number its deliveries."""
        self.next_sequence = max(self.next_sequence, sequence + 1)
        self.done = self.done or self.next_sequence >= self.end

    def finish(self) -> None:
        """The server has nothing more in the range."""
        self.done = True

    def doubt(self) -> bool:
        """Read on, to see whether there really is nothing more; false where the end of the range was seen."""
        self.done = self.next_sequence >= self.end
        return not self.done

    def idle(self, delivered: int, pending: int) -> None:
        """Nothing came for a while, and the server says how many it delivered and what is pending."""
        self.done = self.done or (not pending and delivered <= self._consumer_sequence)


_PASSING: Final = (
    ConnectionClosedError,
    ConsumerNotFoundError,
    DisconnectedError,
    InterruptedReadError,
    JetStreamUnavailableError,
    ProtocolError,
    RequestTimeoutError,
    SlowConsumerError,
    StaleConnectionError,
)
# Not their subclasses: refused credentials and TLS stay refused.
_PASSING_ITSELF: Final = {ConnectError, NoServersError, JetStreamNotEnabledError}


def is_passing(error: Error) -> bool:
    """Whether an error may go away by itself, so that reading can go on with a new consumer."""
    return isinstance(error, _PASSING) or type(error) in _PASSING_ITSELF
