"""Deletes the consumer that a subscription created, at its end. Without a session this is done after the reconnect."""

from __future__ import annotations

import asyncio
from typing import Any

from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.jetstream.api import ConsumerDeleteRequest, Request
from jetspark.jetstream.errors import (
    ConnectionClosedError,
    ConsumerNotFoundError,
    DisconnectedError,
    Error,
    StreamNotFoundError,
)
from jetspark.wire.connection_status import ConnectionStatus
from jetspark.wire.events import ErrorOccurred

__all__ = ["delete_later", "request_or_delete_later"]


async def request_or_delete_later(js: JetStreamCore, request: Request[Any]) -> Any:
    """Send a request of the workflow of a subscription.

    Raises
    ------
    DisconnectedError
        A deletion could not be sent. It is sent after the reconnect, if there is one.
    """
    if not isinstance(request, ConsumerDeleteRequest):
        return await js.request(request)
    connection = js.connection
    if connection.connected or connection.status is not ConnectionStatus.RECONNECTING:
        try:
            return await js.request(request)
        except DisconnectedError:
            if connection.status is not ConnectionStatus.RECONNECTING:
                raise
    delete_later(js, request)
    raise DisconnectedError(
        f"consumer {request.consumer!r} of stream {request.stream!r} is not deleted yet: the connection is down; "
        "it is deleted after the reconnect"
    )


def delete_later(js: JetStreamCore, request: ConsumerDeleteRequest, *, report: bool = True) -> None:
    """Delete a consumer without waiting, when there is a session. With `report`, an event reports if that fails."""
    connection = js.connection

    async def run() -> None:
        while connection.status is not ConnectionStatus.DRAINING:
            try:
                if not connection.connected:
                    await connection.ping_roundtrip(None)
                await js.request(request)
            except DisconnectedError:
                continue  # it waits for the next session
            except (ConsumerNotFoundError, StreamNotFoundError, ConnectionClosedError):
                return
            except Error as error:
                if report:
                    connection.emit(ErrorOccurred(error))
            return

    connection.tasks.track(asyncio.create_task(run(), name="jetspark deletion of a consumer"))
