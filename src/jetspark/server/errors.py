"""What can go wrong with a managed server.

The room stands alone, so that it can be used to test any NATS client; its errors are therefore not part of the
client's own tree. Each class is also the builtin that it resembles.
"""

__all__ = ["PortInUseError", "ServerBinaryNotFoundError", "ServerError", "ServerStartError", "ServerTimeoutError"]


class ServerError(RuntimeError):
    """Base class: the managed nats-server, or the request about it, is at fault."""


class ServerBinaryNotFoundError(ServerError, FileNotFoundError):
    """No nats-server executable was found; the message names the ways to provide one."""


class ServerStartError(ServerError):
    """The server ended or did not become ready; the message has the exit code, the config path and the log's tail."""


class PortInUseError(ServerStartError):
    """The server could not listen because another process has the port."""


class ServerTimeoutError(ServerError, TimeoutError):
    """The server did not do what was asked within the time given."""
