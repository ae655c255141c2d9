"""What a connection tells of itself, under one short name. The events themselves are in `jetspark.wire.events`."""

from jetspark.wire.events import (
    Closed,
    Connected,
    Disconnected,
    ErrorOccurred,
    Event,
    LameDuck,
    Reconnected,
    ServersDiscovered,
    SlowConsumer,
)

__all__ = [
    "Closed",
    "Connected",
    "Disconnected",
    "ErrorOccurred",
    "Event",
    "LameDuck",
    "Reconnected",
    "ServersDiscovered",
    "SlowConsumer",
]
