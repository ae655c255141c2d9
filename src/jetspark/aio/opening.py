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
        Options, a URL, a comma-separated list or a sequence of URLs. None means `nats://localhost:4222`.
    on_event
        Called with each event of the connection (see `jetspark.wire.events`), in order, in a task of its own.
    changes
        Fields of `ConnectOptions` that replace those of `where`.

    Raises
    ------
    ConnectError
        A server cannot be reached; the message has its address. With several servers `NoServersError` lists them.
        With `retry_connect=True` it keeps trying instead.
    AuthenticationError, TLSError
        The server rejects the client.
    """
    connection = Connection(ConnectOptions.of(where, **changes), on_event)
    await connection._open()
    return connection
