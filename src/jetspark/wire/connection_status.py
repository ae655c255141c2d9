"""The states of a connection."""

from __future__ import annotations

import enum

__all__ = ["ConnectionStatus"]


class ConnectionStatus(enum.Enum):
    """State of a connection."""

    CONNECTING = "connecting"
    """The first connect is in progress."""
    CONNECTED = "connected"
    """There is a session."""
    RECONNECTING = "reconnecting"
    """The session is lost; the client tries to open another one."""
    DRAINING = "draining"
    """`drain` was called; the connection closes after it."""
    CLOSED = "closed"
    """The connection is closed for good."""
