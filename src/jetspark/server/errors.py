"""Errors of a managed server.

This package is independent, so that it can test any NATS client. So its errors are not part of the client's error tree.
Each class also derives from a similar builtin.
"""

__all__ = [
    "PortInUseError",
    "ServerArgumentError",
    "ServerBinaryNotFoundError",
    "ServerError",
    "ServerStartError",
    "ServerTimeoutError",
]


class ServerError(RuntimeError):
    """Base class of errors of the managed nats-server, or of a call to it."""


class ServerArgumentError(ServerError, TypeError):
    """An argument has a wrong type; the message has its name, what it takes and what it got."""


class ServerBinaryNotFoundError(ServerError, FileNotFoundError):
    """No nats-server executable was found; the message names the ways to provide one."""


class ServerStartError(ServerError):
    """The server ended or did not become ready; the message has the exit code, the config path and the log's end."""


class PortInUseError(ServerStartError):
    """The server could not listen because another process uses the port."""


class ServerTimeoutError(ServerError, TimeoutError):
    """The server did not do the requested action before the timeout."""
