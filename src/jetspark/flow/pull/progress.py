"""Which messages of a consume to report as in progress, so that none is delivered again while it waits its turn (R26).

What is in the buffer was delivered, and its `ack_wait` runs as it does for the message that a handler is at. So both
are reported, several times within that time. What a handler has left without an acknowledgement is not: it is delivered
again, as without this.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final

from jetspark.jetstream.config import AckPolicy, ConsumerConfig
from jetspark.jetstream.delivery import Delivery
from jetspark.jetstream.times import duration_ns

__all__ = ["Progress"]

_SHARE: Final = 3
"""Reports within the shortest time after which the server delivers again: one may be late, and one lost."""
_ACK_WAIT: Final = 30.0


class Progress:
    """See the module. Who takes the messages, a task or a thread, is a worker here; each is at one message at most.

    Parameters
    ----------
    ack_wait
        Seconds after which the server delivers again.

    Attributes
    ----------
    interval
        Seconds between two reports.
    handler
        The worker that runs the callback, where there is one.
    """

    def __init__(self, ack_wait: float) -> None:
        self.interval = ack_wait / _SHARE
        self.handler: Hashable | None = None
        self._at: dict[Hashable, Delivery] = {}

    @classmethod
    def of(cls, config: ConsumerConfig) -> Progress | None:
        """For a consumer; None where it wants no acknowledgements, as then nothing is delivered again."""
        if config.ack_policy == AckPolicy.NONE:
            return None
        waits = config.backoff or ([] if config.ack_wait is None else [config.ack_wait])
        return cls(min((duration_ns(wait) / 1e9 for wait in waits), default=_ACK_WAIT))

    def began(self, worker: Hashable, message: Delivery) -> None:
        """A worker took a message, and is done with the one before."""
        self._at[worker] = message

    def ended(self, worker: Hashable) -> None:
        """A worker is done with its message."""
        self._at.pop(worker, None)

    def stopped(self) -> None:
        """The consume was stopped. A callback is still at its message; who iterates may never say that it is done."""
        for worker in list(self._at):
            if worker is not self.handler:
                self.ended(worker)

    def due(self, waiting: Iterable[Delivery], is_over: Callable[[Hashable], bool]) -> list[Delivery]:
        """The messages to report now, of those in the buffer and those that workers are at.

        Parameters
        ----------
        waiting
            What is in the buffer.
        is_over
            Says of a worker whether it has ended, and will never say that it is done.
        """
        for worker in list(self._at):
            if is_over(worker):
                self.ended(worker)
        return [message for message in (*self._at.copy().values(), *waiting) if not message.settled]

    @property
    def idle(self) -> bool:
        """No worker is at a message."""
        return not self._at
