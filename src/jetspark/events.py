"""The events of a connection, under one short name. They are defined in `jetspark.wire.events`."""

from jetspark.wire.events import (
    Closed,
    Connected,
    Disconnected,
    ErrorOccurred,
    Event,
    LameDuck,
    Reconnected,
    ServerLeft,
    ServersDiscovered,
    SlowConsumer,
    StreamRecreated,
)

__all__ = [
    "Closed",
    "Connected",
    "Disconnected",
    "ErrorOccurred",
    "Event",
    "LameDuck",
    "Reconnected",
    "ServerLeft",
    "ServersDiscovered",
    "SlowConsumer",
    "StreamRecreated",
]
