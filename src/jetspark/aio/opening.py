"""Opens a connection: `jetspark.connect`."""

from __future__ import annotations

from collections.abc import Sequence

from jetspark.aio.connection import Connection, EventHandler
from jetspark.wire.options import ConnectOptions

__all__ = ["connect"]


async def connect(
    where: ConnectOptions | str | Sequence[str] | None = None,
    *,
    on_event: EventHandler | None = None,
    **changes: object,
) -> Connection:
    """Open a connection.

        async with await jetspark.connect("nats://localhost:4222") as connection:
            await connection.publish("greetings", b"hello")

    Parameters
    ----------
    where
        Options, a URL, a comma-separated list or a sequence of URLs. None takes `nats://localhost:4222`.
    on_event
        Told what happens to the connection (see `jetspark.wire.events`), in order, on a task of its own.
    changes
        Fields of `ConnectOptions` to set on top.

    Raises
    ------
    ConnectError
        A server cannot be reached, with its address; `NoServersError` lists them where there are several. With
        `retry_connect=True` it goes on trying instead.
    AuthenticationError, TLSError
        The server does not take us.
    """
    connection = Connection(ConnectOptions.of(where, **changes), on_event)
    await connection._open()
    return connection
