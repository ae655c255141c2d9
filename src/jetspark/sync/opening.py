"""Opens a blocking connection: `jetspark.sync.connect`."""

from __future__ import annotations

from collections.abc import Sequence

from jetspark.sync.connection import Connection, EventHandler
from jetspark.wire.options import ConnectOptions

__all__ = ["connect"]


def connect(
    where: ConnectOptions | str | Sequence[str] | None = None,
    *,
    on_event: EventHandler | None = None,
    **changes: object,
) -> Connection:
    """Open a blocking connection; parameters and errors are those of `jetspark.connect`.

        with jetspark.sync.connect("nats://localhost:4222") as connection:
            connection.publish("greetings", b"hello")

    `on_event` is called in a thread of its own. The connection may be used from any thread of one process.
    """
    return Connection(ConnectOptions.of(where, **changes), on_event)
