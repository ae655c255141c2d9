"""Which messages of a consume to report as in progress, so that none is delivered again while it waits its turn (R26).

What is in the buffer was delivered, and its `ack_wait` runs as it does for the message that is worked on. So both are
reported, several times within that time. What was left without an acknowledgement is not: it is delivered again, as
without this.

Who works on a message cannot be told by the task or the thread that took it: `asyncio.wait_for` takes it in a task that
ends at once on Python 3.11, and a pool of threads takes each in another one. So it goes by the iterator: the message
that it gave last is worked on until the next one is asked of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable
from typing import Final

from jetspark.jetstream.config import AckPolicy, ConsumerConfig
from jetspark.jetstream.delivery import Delivery
from jetspark.jetstream.times import duration_ns

__all__ = ["HANDLE", "Progress"]

HANDLE: Final = 0
"""The reader that is the handle of the consume itself: who asks it for the next message, and its callback."""

_SHARE: Final = 3
"""Reports within the shortest time after which the server delivers again: one may be late, and one lost."""
_ACK_WAIT: Final = 30.0


class Progress:
    """See the module. A reader is an iterator of the consume, by number; each is at one message at most.

    The threads of the blocking front call it while the event loop looks, so each step is a single one on a dict.

    Parameters
    ----------
    config
        Tells the consumer's configuration as it is known now: it may be changed while the consume goes on.

    Attributes
    ----------
    called_back
        A callback takes what the handle gives.
    """

    def __init__(self, config: Callable[[], ConsumerConfig]) -> None:
        self._config = config
        self.called_back = False
        self._numbers = itertools.count(HANDLE + 1)
        self._at: dict[int, Delivery] = {}
        self._last: Delivery | None = None  # of all readers, so that one who leaves a loop with it keeps it
        self._stopped = False

    @classmethod
    def of(cls, config: Callable[[], ConsumerConfig]) -> Progress | None:
        """For a consumer; None where it wants no acknowledgements, as then nothing is delivered again."""
        return None if config().ack_policy == AckPolicy.NONE else cls(config)

    @property
    def interval(self) -> float:
        """Seconds between two reports, as the configuration is now."""
        config = self._config()
        waits = config.backoff or ([] if config.ack_wait is None else [config.ack_wait])
        return min((duration_ns(wait) / 1e9 for wait in waits), default=_ACK_WAIT) / _SHARE

    def reader(self) -> int:
        """One more reader, beside the handle."""
        return next(self._numbers)

    def began(self, reader: int, message: Delivery) -> None:
        """A reader gave a message, and is done with the one before."""
        if self._stopped and not self.called_back:
            return
        self._at[reader] = message
        self._last = message

    def ended(self, reader: int) -> None:
        """The next message is asked of a reader, or it will never be: it is done with its message."""
        self._at.pop(reader, None)
        self._last = None

    def forgotten(self, reader: int) -> None:
        """Nobody holds the reader any more. What it gave may still be worked on, until anybody asks for the next."""
        self._at.pop(reader, None)

    def stopped(self) -> None:
        """The consume was stopped. A callback is still at its message; who iterates may never say that it is done."""
        self._stopped = True
        for reader in list(self._at):
            if not (self.called_back and reader == HANDLE):
                self._at.pop(reader, None)
        self._last = None

    def due(self, waiting: Iterable[Delivery] = (), reported: Container[Delivery] = ()) -> list[Delivery]:
        """The messages to report now, of those that are worked on and of those that wait in the buffer.

        Those that were `reported` in this round are left out.
        """
        at, last = list(self._at.values()), self._last
        if last is not None and all(each is not last for each in at):
            at.append(last)
        return [message for message in (*at, *waiting) if not (message.settled or message in reported)]

    @property
    def idle(self) -> bool:
        """No message is worked on."""
        return not self.due()
