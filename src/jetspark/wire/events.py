"""What a connection tells of itself, in the order in which it happened.

    match event:
        case Disconnected(error=error): ...
        case Reconnected(address=address): ...

Events are told on a task (or thread) of their own, never on the read path. They wait in a queue of bounded length:
where a handler is slower than its errors, the oldest errors are dropped and counted; changes of state never are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from jetspark.wire.errors import Error, SlowConsumerError
from jetspark.wire.options import ServerAddress

__all__ = [
    "Closed",
    "Connected",
    "Disconnected",
    "ErrorOccurred",
    "Event",
    "EventQueue",
    "LameDuck",
    "Reconnected",
    "ServersDiscovered",
    "SlowConsumer",
]


@dataclass(frozen=True, slots=True)
class Connected:
    """The first session is open."""

    address: ServerAddress


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The session is lost, or (with None) was closed by the caller."""

    error: Error | None


@dataclass(frozen=True, slots=True)
class Reconnected:
    """Another session is open: subscriptions are restored, waiting publishes are on their way."""

    address: ServerAddress


@dataclass(frozen=True, slots=True)
class Closed:
    """The connection is closed for good: by the caller (None), or for this reason. The last event."""

    error: Error | None


@dataclass(frozen=True, slots=True)
class ErrorOccurred:
    """An error that no call could raise: the server's `-ERR`, a failed try to reconnect, a callback that raised.

    `error` is one of the library's, except where a callback raised.
    """

    error: Exception


@dataclass(frozen=True, slots=True)
class SlowConsumer:
    """A subscription is full. Told once each time that it fills."""

    subject: str
    error: SlowConsumerError


@dataclass(frozen=True, slots=True)
class ServersDiscovered:
    """The cluster told of servers that were not known."""

    addresses: tuple[ServerAddress, ...]


@dataclass(frozen=True, slots=True)
class LameDuck:
    """The server is about to go; the connection will move to another one when it does."""

    address: ServerAddress


Event = Connected | Disconnected | Reconnected | Closed | ErrorOccurred | SlowConsumer | ServersDiscovered | LameDuck

_MAX_ERRORS: Final = 1000


class EventQueue:
    """Events that were not told yet.

    Attributes
    ----------
    dropped
        Errors dropped because too many of them waited.
    """

    def __init__(self, max_errors: int = _MAX_ERRORS) -> None:
        self._events: deque[Event] = deque()
        self._errors = 0
        self._max_errors = max_errors
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Append; may drop the oldest error."""
        if isinstance(event, ErrorOccurred | SlowConsumer):
            if self._errors >= self._max_errors:
                oldest = next(each for each in self._events if isinstance(each, ErrorOccurred | SlowConsumer))
                self._events.remove(oldest)
                self._errors -= 1
                self.dropped += 1
            self._errors += 1
        self._events.append(event)

    def take(self) -> Event:
        """The oldest one. Raises IndexError when there is none."""
        event = self._events.popleft()
        if isinstance(event, ErrorOccurred | SlowConsumer):
            self._errors -= 1
        return event
