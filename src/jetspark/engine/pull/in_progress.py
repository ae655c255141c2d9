"""Which messages of a consume to report as in progress, so that none is redelivered while it waits (R26).

Messages in the buffer are delivered messages, so their `ack_wait` runs, as for messages that are being processed. Both
are reported several times within that time. Messages that a handler left without an acknowledgement are not reported:
they are redelivered as usual.

The task or thread that took a message does not show who processes it: on Python 3.11, `asyncio.wait_for` takes it in a
task that ends at once, and a thread pool takes each message in another thread. So the iterator decides: its last
message is being processed until the next one is requested from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable
from typing import Final

from jetspark.jetstream.config import AckPolicy, ConsumerConfig
from jetspark.jetstream.message import JetStreamMessage
from jetspark.jetstream.times import duration_ns

__all__ = ["HANDLE", "InProgressTracker"]

HANDLE: Final = 0
"""Number of the reader that is the handle of the consume itself: its own `next` calls, and its callback."""

_SHARE: Final = 3
"""Reports within the shortest redelivery time of the server: one may be late, and one may be lost."""
_ACK_WAIT: Final = 30.0


class InProgressTracker:
    """Messages being processed; see the module. A reader is an iterator, by number, with at most one current message.

    Threads of the blocking front call it while the event loop reads it, so each step is one operation on a dict.

    Parameters
    ----------
    config
        Returns the consumer's configuration as known now; it may change during the consume.

    """

    def __init__(self, config: Callable[[], ConsumerConfig]) -> None:
        self._config = config
        self._handlers: frozenset[int] = frozenset()  # readers whose messages a callback handles
        self._numbers = itertools.count(HANDLE + 1)
        self._current: dict[int, JetStreamMessage] = {}
        self._last: JetStreamMessage | None = None  # of all readers: a program may leave a loop and still process it
        self._stopped = False

    @classmethod
    def for_consumer(cls, config: Callable[[], ConsumerConfig]) -> InProgressTracker | None:
        """Create it for a consumer; None if the consumer needs no acknowledgements, as it never redelivers."""
        return None if config().ack_policy == AckPolicy.NONE else cls(config)

    @property
    def interval(self) -> float:
        """Seconds between two reports, by the current configuration."""
        config = self._config()
        waits = config.backoff or ([] if config.ack_wait is None else [config.ack_wait])
        return min((duration_ns(wait) / 1e9 for wait in waits), default=_ACK_WAIT) / _SHARE

    def new_reader(self) -> int:
        """Return the number of a new reader."""
        return next(self._numbers)

    def add_handlers(self, count: int) -> list[int]:
        """Return the numbers of the readers of a callback that runs `count` times at once."""
        numbers = [HANDLE, *(self.new_reader() for _ in range(1, count))][:count]
        self._handlers = frozenset(numbers)
        return numbers

    def set_current(self, reader: int, message: JetStreamMessage) -> None:
        """Set the current message of a reader, which replaces the one before."""
        if self._stopped and reader not in self._handlers:
            return
        self._current[reader] = message
        self._last = message

    def clear_current(self, reader: int) -> None:
        """Remove the current message of a reader: the next one is requested, or the reader has ended."""
        self._current.pop(reader, None)
        self._last = None

    def reader_collected(self, reader: int) -> None:
        """Remove a reader that was garbage-collected. The last message stays current until a reader's next request."""
        self._current.pop(reader, None)

    def stopped(self) -> None:
        """Handle the stop of the consume. A callback keeps its messages; iterators may never request the next one."""
        self._stopped = True
        for reader in list(self._current):
            if reader not in self._handlers:
                self._current.pop(reader, None)
        self._last = None

    def messages_to_report(
        self, waiting: Iterable[JetStreamMessage] = (), reported: Container[JetStreamMessage] = ()
    ) -> list[JetStreamMessage]:
        """Return the messages to report now: current messages and those that wait in the buffer.

        Messages that were `reported` in this round are left out.
        """
        at, last = list(self._current.values()), self._last
        if last is not None and all(each is not last for each in at):
            at.append(last)
        return [message for message in (*at, *waiting) if not (message.settled or message in reported)]

    @property
    def idle(self) -> bool:
        """Whether no message is being processed."""
        return not self.messages_to_report()
