"""Root of the error tree, and the errors of the wire: the connection, time-outs, the caller's own mistakes.

One class catches everything the library raises on purpose: `Error`. Each class below it is also the builtin it
resembles (TimeoutError, ConnectionError, ValueError, LookupError, PermissionError, RuntimeError and others), so that
code that knows nothing of NATS can handle it. Errors travel between processes (Spark sends a task's failure to its
driver): all of them keep every attribute when they are pickled. What JetStream itself answers is told by
`jetspark.jetstream.errors`.
"""

from __future__ import annotations

__all__ = [
    "AuthenticationError",
    "AuthenticationExpiredError",
    "BadHeadersError",
    "BadNameError",
    "BadSubjectError",
    "BatchClosedError",
    "ConfigError",
    "ConnectError",
    "ConnectionClosedError",
    "ConsumerBusyError",
    "DataLossError",
    "DisconnectedError",
    "DrainTimeoutError",
    "Error",
    "FlushTimeoutError",
    "InvalidAckError",
    "InvalidReplyError",
    "MaxPayloadError",
    "MissedHeartbeatError",
    "NoMessageError",
    "NoRespondersError",
    "NoServersError",
    "NoStreamResponseError",
    "OutboundBufferLimitError",
    "PermissionsViolationError",
    "ProtocolError",
    "PublishTimeoutError",
    "RequestTimeoutError",
    "SlowConsumerError",
    "StaleConnectionError",
    "SubscriptionClosedError",
    "TLSError",
    "TooManyStalledError",
    "WrongEventLoopError",
]


class Error(Exception):
    """Base of all errors of this library. `str()` tells what happened, where, and how to mend it if that is known."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        # The default calls the class with `args`, which a constructor with other parameters would not take.
        return _restore, (type(self), self.args), self.__dict__


def _restore(cls: type[Error], args: tuple[object, ...]) -> Error:
    # Whose instances are laid out as OSError's are made by it alone, wherever it stands among the bases.
    error = OSError.__new__(cls) if issubclass(cls, OSError) else cls.__new__(cls)
    error.args = args
    return error


class ConnectionClosedError(Error, ConnectionError):
    """The connection was closed, by the caller or for good after an error."""


class DisconnectedError(Error, ConnectionError):
    """The connection was lost while the operation was under way; it may come back."""


class ConnectError(Error, ConnectionError):
    """A server could not be reached or refused the connection. The message names the address, never credentials."""


class NoServersError(ConnectError):
    """None of the servers could be reached; the message lists what each of them answered."""


class TLSError(ConnectError):
    """TLS is missing, unwanted or failed: certificate, host name, protocol version."""


class AuthenticationError(Error, PermissionError):
    """The server refused the credentials."""


class AuthenticationExpiredError(AuthenticationError):
    """The credentials were good once and have run out."""


class PermissionsViolationError(Error, PermissionError):
    """The user may not publish or subscribe to a subject.

    Attributes
    ----------
    subject
        The subject in question, None when the server did not name it.
    operation
        `publish` or `subscribe`, None when the server did not say.
    """

    def __init__(self, message: str = "", *, subject: str | None = None, operation: str | None = None) -> None:
        super().__init__(message)
        self.subject = subject
        self.operation = operation


class ProtocolError(Error, ConnectionError):
    """What came from the server is not the NATS protocol, or the server says that of us (`-ERR`)."""


class StaleConnectionError(Error, ConnectionError):
    """The server did not answer the PINGs and is taken for gone."""


class SlowConsumerError(Error, BufferError):
    """Messages of a subscription were dropped, because they came faster than they were taken.

    Attributes
    ----------
    dropped
        How many messages were dropped so far.
    """

    def __init__(self, message: str = "", *, dropped: int = 0) -> None:
        super().__init__(message)
        self.dropped = dropped


class MaxPayloadError(Error, ValueError):
    """A message is larger than the server takes (`max_payload`); it was not sent.

    Attributes
    ----------
    size
        Bytes of headers and payload together.
    limit
        What the server takes.
    """

    def __init__(self, message: str = "", *, size: int = 0, limit: int = 0) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class OutboundBufferLimitError(Error, BufferError):
    """The buffer of what waits to be sent is full, for instance while the server is away."""


class DrainTimeoutError(Error, TimeoutError):
    """Draining did not end in time; the rest was dropped."""


class FlushTimeoutError(Error, TimeoutError):
    """The server did not confirm in time that it has everything sent so far."""


class NoMessageError(Error, TimeoutError):
    """No message came to a subscription in time."""


class SubscriptionClosedError(Error, RuntimeError):
    """The subscription has ended, and its last message was taken."""


class WrongEventLoopError(Error, RuntimeError):
    """A connection was used from another event loop than the one it was opened in, or from another process."""


class RequestTimeoutError(Error, TimeoutError):
    """No reply came in time. Whether the request was carried out is not known."""


class NoRespondersError(Error, ConnectionError):
    """Nobody listens on the subject of a request (status 503)."""


class MissedHeartbeatError(Error, TimeoutError):
    """Neither a message nor a heartbeat came for longer than the consumer promised."""


class BadSubjectError(Error, ValueError):
    """A subject cannot be used; nothing was sent."""


class BadNameError(BadSubjectError):
    """A stream or consumer name cannot be used; nothing was sent."""


class BadHeadersError(Error, ValueError):
    """A header's name or value cannot be sent, or a received header block cannot be read.

    Attributes
    ----------
    row
        Row of the record batch that the header belongs to, None outside of bulk publishing.
    """

    def __init__(self, message: str = "", *, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class ConfigError(Error, ValueError):
    """An option or a combination of options makes no sense; the message names it. Nothing was sent."""


class InvalidAckError(Error, ValueError):
    """An acknowledgement cannot be read: no ack subject on a message, or no valid answer to a publish."""


class InvalidReplyError(Error, ValueError):
    """A reply of the JetStream API is neither the expected JSON nor an error."""


class PublishTimeoutError(RequestTimeoutError):
    """No acknowledgement of a publish came in time. The message may have been stored all the same."""


class NoStreamResponseError(NoRespondersError):
    """No stream takes the subject of a publish, retries included. The message was not stored."""


class TooManyStalledError(Error, TimeoutError):
    """The window of unacknowledged publishes stayed full for too long."""


class BatchClosedError(Error, RuntimeError):
    """An atomic batch was used after its end: committed, discarded or failed. Nothing was sent."""


class ConsumerBusyError(Error, RuntimeError):
    """An ordered consumer was used by two calls at a time; its messages have one order and one reader."""


class DataLossError(Error, LookupError):
    """Messages that were asked for are not in the stream any more: purged, deleted, expired, or it is another stream.

    Attributes
    ----------
    stream
        Name of the stream.
    first, last
        First and last sequence of what is missing, both included; None when it cannot be told.
    """

    def __init__(
        self, message: str = "", *, stream: str | None = None, first: int | None = None, last: int | None = None
    ) -> None:
        super().__init__(message)
        self.stream = stream
        self.first = first
        self.last = last
