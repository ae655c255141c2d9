"""Root of the error tree, and the errors of the wire: the connection, timeouts, wrong arguments.

`Error` is the base class of everything that the library raises on purpose. Each subclass also derives from a similar
builtin (TimeoutError, ConnectionError, ValueError, LookupError, PermissionError, RuntimeError and others), so that
code that knows nothing of NATS can handle it. Errors are sent between processes (Spark sends a task's failure to its
driver): all of them keep every attribute when they are pickled. `jetspark.jetstream.errors` has the errors that
JetStream itself answers.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
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
    "CredentialsCallbackError",
    "DataLossError",
    "DisconnectedError",
    "DrainTimeoutError",
    "Error",
    "FlushTimeoutError",
    "InvalidAckError",
    "InvalidReplyError",
    "MaxControlLineError",
    "MaxPayloadError",
    "MaxSubscriptionsError",
    "MissedHeartbeatError",
    "NoMessageError",
    "NoRespondersError",
    "NoServersError",
    "NoStreamResponseError",
    "OutboundBufferLimitError",
    "PayloadError",
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
    """Base of all errors of this library. `str()` says what happened, where, and how to fix it if that is known.

    Three attributes of each class say what a retry can do. They are False unless the class sets them.

    Attributes
    ----------
    transient
        Whether the same operation may succeed later although the caller changes nothing: the connection, a server or
        a leader is away for a moment.
    needs_recreation
        Whether the connection or the consumer in use is gone. No later try with it succeeds, but one with a new
        connection or consumer may.
    outcome_unknown
        Whether the reply to a request was lost, so that the server may have executed it.
    """

    # The asyncio connection reconnects by itself: when it is closed, a retry is of no use, so only `transient` counts.
    # Bulk reads and Spark open new connections and consumers, so they also retry when these need recreation.
    transient: bool = False
    needs_recreation: bool = False
    outcome_unknown: bool = False

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        # The default calls the class with `args`, which a constructor with other parameters would not take.
        return _restore, (type(self), self.args), self.__dict__


def _restore(cls: type[Error], args: tuple[object, ...]) -> Error:
    # Only OSError.__new__ can create an instance of a subclass of OSError, at any place among the bases.
    error = OSError.__new__(cls) if issubclass(cls, OSError) else cls.__new__(cls)
    error.args = args
    return error


class ConnectionClosedError(Error, ConnectionError):
    """The connection was closed by the caller, or after an error that allows no reconnect."""

    needs_recreation = True


class DisconnectedError(Error, ConnectionError):
    """The connection was lost during the operation; the client may reconnect."""

    transient = True
    outcome_unknown = True


class ConnectError(Error, ConnectionError):
    """A server could not be reached or refused the connection. The message names the address, never credentials.

    Attributes
    ----------
    timed_out
        Whether a server did not answer in time. Then the server may be there: it is paused or overloaded.
    """

    transient = True

    def __init__(self, message: str = "", *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class CredentialsCallbackError(ConnectError):
    """A function that the program gave for a credential raised. The error has the exception as its cause.

    Attributes
    ----------
    callback
        Qualified name of the function.
    """

    def __init__(self, message: str = "", *, callback: str | None = None) -> None:
        super().__init__(message)
        self.callback = callback


class NoServersError(ConnectError):
    """None of the servers could be reached; the message lists what each of them answered."""


class TLSError(ConnectError):
    """TLS is missing or required, or its handshake failed: certificate, host name, protocol version."""

    transient = False


class AuthenticationError(Error, PermissionError):
    """The server refused the credentials."""


class AuthenticationExpiredError(AuthenticationError):
    """The credentials were valid before; now they are expired or revoked."""


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
    """The received bytes are not the NATS protocol, or the server reports an error that has no class (`-ERR`)."""

    transient = True  # a new connection starts at the beginning of a frame


class StaleConnectionError(Error, ConnectionError):
    """The server, or this client, did not answer PINGs in time; the connection counts as dead."""

    transient = True
    outcome_unknown = True


class SlowConsumerError(Error, BufferError):
    """Messages of a subscription were dropped, because they arrived faster than the program took them.

    Attributes
    ----------
    dropped
        Number of messages dropped so far.
    """

    transient = True

    def __init__(self, message: str = "", *, dropped: int = 0) -> None:
        super().__init__(message)
        self.dropped = dropped


class MaxPayloadError(Error, ValueError):
    """A message is larger than the server accepts (`max_payload`); it was not sent.

    Attributes
    ----------
    size
        Bytes of headers and payload together.
    limit
        Bytes that the server accepts.
    """

    def __init__(self, message: str = "", *, size: int = 0, limit: int = 0) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class OutboundBufferLimitError(Error, BufferError):
    """The buffer of frames to send is full, for instance while there is no connection."""


class DrainTimeoutError(Error, TimeoutError):
    """The drain did not end in time; the remaining messages were dropped."""


class FlushTimeoutError(Error, TimeoutError):
    """The server did not confirm in time that it received everything sent so far."""


class NoMessageError(Error, TimeoutError):
    """No message came to a subscription in time."""


class SubscriptionClosedError(Error, RuntimeError):
    """The subscription has ended, and its last message was taken."""


class WrongEventLoopError(Error, RuntimeError):
    """A connection was used from another event loop or another process than the one that opened it."""


class RequestTimeoutError(Error, TimeoutError):
    """No reply came in time. It is not known whether the server executed the request."""

    transient = True
    outcome_unknown = True


class NoRespondersError(Error, ConnectionError):
    """Nobody listens on the subject of a request (status 503)."""


class MissedHeartbeatError(Error, TimeoutError):
    """Neither a message nor a heartbeat came in the time in which the consumer must send one."""


class BadSubjectError(Error, ValueError):
    """A subject cannot be used; nothing was sent."""


class BadNameError(BadSubjectError):
    """A stream or consumer name cannot be used; nothing was sent."""


class MaxControlLineError(BadSubjectError):
    """A control line with this subject is longer than the server accepts (`max_control_line`).

    Attributes
    ----------
    size
        Bytes of the line without its verb; 0 if the server refused it, and it is not known which one it was.
    limit
        Bytes that the server accepts, as far as is known; 0 if that is not known.
    """

    def __init__(self, message: str = "", *, size: int = 0, limit: int = 0) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class MaxSubscriptionsError(Error, RuntimeError):
    """The server accepts no more subscriptions of this connection (`max_subscriptions`)."""


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
    """An option or a combination of options is not valid; the message names it. Nothing was sent."""


class ArgumentError(ConfigError, TypeError):
    """An argument has the wrong type, or there is no argument or field of that name. Nothing was sent."""


class InvalidAckError(Error, ValueError):
    """An acknowledgement cannot be read: no ack subject on a message, or no valid answer to a publish."""


class InvalidReplyError(Error, ValueError):
    """A reply of the JetStream API is neither the expected JSON nor an error."""


class PayloadError(Error, ValueError):
    """The payload of a message cannot be decoded into the columns that were asked for, or a row cannot be encoded."""


class PublishTimeoutError(RequestTimeoutError):
    """No acknowledgement of a publish came in time. The stream may still have stored the message."""


class NoStreamResponseError(NoRespondersError):
    """No stream captures the subject of a publish, also after all retries. The message was not stored."""

    transient = True


class TooManyStalledError(Error, TimeoutError):
    """The window of unacknowledged publishes stayed full for too long."""


class BatchClosedError(Error, RuntimeError):
    """An atomic batch was used after its end: committed, discarded or failed. Nothing was sent."""


class ConsumerBusyError(Error, RuntimeError):
    """Two calls used an ordered consumer at the same time. It allows one reader, as its messages have one order."""


class DataLossError(Error, LookupError):
    """Requested messages are not in the stream any more: purged, deleted, expired, or it is another stream.

    Attributes
    ----------
    stream
        Name of the stream.
    first, last
        First and last missing sequence, both included; None if not known.
    """

    def __init__(
        self, message: str = "", *, stream: str | None = None, first: int | None = None, last: int | None = None
    ) -> None:
        super().__init__(message)
        self.stream = stream
        self.first = first
        self.last = last
