"""Events of a connection, in the order in which they happened.

    match event:
        case Disconnected(error=error): ...
        case Reconnected(address=address): ...

A separate task (or thread) reports the events, never the read path. They wait in a queue. If a handler is too slow, the
queue drops and counts the oldest errors and news of servers; it never drops changes of state.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from jetspark.wire.callbacks import as_exception, callback_name
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
    "ServerLeft",
    "ServersDiscovered",
    "SlowConsumer",
    "StreamRecreated",
    "callback_failed",
]


@dataclass(frozen=True, slots=True)
class Connected:
    """The first session is open."""

    address: ServerAddress
    """The server."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The session is lost, or the caller closed it."""

    error: Error | None
    """Reason of the loss; None if the caller closed the connection."""


@dataclass(frozen=True, slots=True)
class Reconnected:
    """Another session is open. Subscriptions are restored, and waiting publishes are being sent."""

    address: ServerAddress
    """The server."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The connection is closed: by the caller, or because of an error. The last event."""

    error: Error | None
    """Reason of the close; None if the caller closed the connection."""


@dataclass(frozen=True, slots=True)
class ErrorOccurred:
    """An error that no call could raise: the server's `-ERR`, a failed reconnect attempt, a callback that raised."""

    error: Exception
    """The error; an `Error` of the library, unless a callback raised it. It has its traceback."""
    callback: str | None = None
    """Qualified name of the program's function that raised the error; None if no callback raised it."""
    subject: str | None = None
    """Subject of the message that the callback handled, or published; None if the callback got no message."""
    subscription: str | None = None
    """Where the message came from, such as `subscription 3 to 'orders.>'` or `consume of ORDERS/worker`."""


def callback_failed(
    callback: object, error: BaseException, *, subject: str | None = None, subscription: str | None = None
) -> ErrorOccurred:
    """Return the event of a callback that raised."""
    return ErrorOccurred(as_exception(error), callback_name(callback), subject, subscription)


@dataclass(frozen=True, slots=True)
class SlowConsumer:
    """A subscription is full. Reported once each time that it becomes full."""

    subject: str
    """Subject of the subscription."""
    error: SlowConsumerError
    """The error, with the number of dropped messages."""


@dataclass(frozen=True, slots=True)
class StreamRecreated:
    """The stream of an ordered reader was deleted and created again, or an older state of it was restored."""

    stream: str
    """Name of the stream."""
    error: Error
    """Says how the stream differs."""
    restarted: bool
    """Whether the reader starts again at the beginning of the present stream; otherwise it has ended."""


@dataclass(frozen=True, slots=True)
class ServersDiscovered:
    """The cluster reported servers that were not known."""

    addresses: tuple[ServerAddress, ...]
    """The new servers."""


@dataclass(frozen=True, slots=True)
class ServerLeft:
    """The client leaves a server whose JetStream does not serve. Then come `Disconnected` and `Reconnected`."""

    address: ServerAddress
    """The server that is left."""
    reason: str
    """Reason: JetStream is silent or unavailable on that server, or the server has lost its cluster."""


@dataclass(frozen=True, slots=True)
class LameDuck:
    """The server will shut down soon (lame duck mode); the client then connects to another one."""

    address: ServerAddress
    """The server that will shut down."""


Event = (
    Connected
    | Disconnected
    | Reconnected
    | Closed
    | ErrorOccurred
    | SlowConsumer
    | StreamRecreated
    | ServersDiscovered
    | LameDuck
    | ServerLeft
)
"""Any event of a connection."""

_MAX_ERRORS: Final = 1000
_DROPPABLE: Final = (ErrorOccurred, SlowConsumer, ServersDiscovered, LameDuck)
"""Events that a server can cause at any rate. The others come once in each session."""


class EventQueue:
    """Events that are not reported yet.

    Attributes
    ----------
    dropped
        Number of errors dropped because too many of them waited.
    """

    def __init__(self, max_errors: int = _MAX_ERRORS) -> None:
        self._events: deque[Event] = deque()
        self._errors = 0
        self._max_errors = max_errors
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Append an event; drops the oldest one that a server can repeat at any rate, if too many of them wait."""
        if isinstance(event, _DROPPABLE):
            if self._errors >= self._max_errors:
                oldest = next(each for each in self._events if isinstance(each, _DROPPABLE))
                self._events.remove(oldest)
                self._errors -= 1
                self.dropped += 1
            self._errors += 1
        self._events.append(event)

    def take(self) -> Event:
        """Remove and return the oldest event. Raises IndexError when there is none."""
        event = self._events.popleft()
        if isinstance(event, _DROPPABLE):
            self._errors -= 1
        return event
