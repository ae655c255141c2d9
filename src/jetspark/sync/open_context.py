"""Opens a JetStream context over a blocking connection."""

from __future__ import annotations

from dataclasses import replace

from jetspark.aio.jetstream import context as aio
from jetspark.engine.publish_window import AsyncPublishOptions
from jetspark.sync.core import ConnectionCore
from jetspark.sync.jetstream.context import JetStream

__all__ = ["open_context"]


def open_context(
    connection: ConnectionCore, prefix: str, timeout: float, publishing: AsyncPublishOptions | None
) -> JetStream:
    """Return a context over a connection. A handler of failed publishes runs in a thread of its own."""
    if publishing is not None and publishing.on_error is not None:
        publishing = replace(publishing, on_error=connection.in_callback_thread(publishing.on_error))
    return JetStream(connection, aio.open_context(connection.inner, prefix, timeout, publishing))
