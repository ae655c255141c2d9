"""The core of a JetStream context: sends a request of the JetStream API and reads its reply.

A request that only reads is repeated: after the loss of the session, and a few times while no answer comes, because a
server without a leader does not answer (an election). A request that changes something is sent once, unless the server
answers that nothing was changed and that a retry may succeed (`Request.retry_delay`).
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from jetspark.aio.core import ConnectionCore
from jetspark.aio.jetstream.async_publisher import AsyncPublisher
from jetspark.aio.jetstream.requests import request_with_retry
from jetspark.aio.server_check import CallWatch
from jetspark.engine.publish_window import AsyncPublishOptions
from jetspark.engine.request_retry import RequestRetry
from jetspark.jetstream.api import Request
from jetspark.jetstream.direct_get import DirectGetRequest, DirectLastRequest, read_direct_message
from jetspark.jetstream.errors import APIError, NoDirectGetError, NoRespondersError, RequestTimeoutError
from jetspark.jetstream.stored_message import StoredMessage

__all__ = ["JetStreamCore"]

R = TypeVar("R")


class JetStreamCore:
    """The JetStream API of one account or domain, over one connection.

    Attributes
    ----------
    connection
        The core of the connection.
    prefix
        Prefix of each request's subject, with its final dot.
    api_prefix
        Whether JetStream has answered to that prefix.
    timeout
        Default timeout of the calls, in seconds.
    publish_options
        Options of `publish_async`.
    publisher
        The publisher of `publish_async`, once there is one.
    """

    def __init__(
        self,
        connection: ConnectionCore,
        prefix: str,
        timeout: float,
        publish_options: AsyncPublishOptions | None = None,
    ) -> None:
        self.connection = connection
        self.prefix = prefix
        self.timeout = timeout
        self.publish_options = publish_options or AsyncPublishOptions()
        self.publisher: AsyncPublisher | None = None
        self.api_prefix = connection.server_check.use(prefix, self)
        connection.outbound.add_api_prefix(prefix)

    async def request(
        self,
        request: Request[R],
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        prefix: str | None = None,
    ) -> R:
        """Send a request and read the reply; see `JetStream.request`. `prefix` replaces the prefix of the context."""
        now = asyncio.get_running_loop().time
        retry = RequestRetry(request, self.timeout if timeout is None else timeout, now())
        while True:
            try:
                return await self._request_once(request, retry.left, prefix or self.prefix)
            except APIError as error:
                if (pause := retry.delay(error, now())) is None:
                    raise
            except RequestTimeoutError:
                retry.on_silence()
                raise
            await asyncio.sleep(pause)

    async def _request_once(self, request: Request[R], timeout: float, prefix: str) -> R:  # noqa: ASYNC109
        subject, payload = request.subject(prefix), request.payload()
        check = self.connection.server_check
        with CallWatch(check, self.api_prefix if prefix == self.prefix else check.use(prefix)):
            try:
                if request.idempotent:
                    reply = await request_with_retry(self.connection, subject, payload, timeout)
                else:
                    reply = await self.connection.api_request(subject, payload, timeout=timeout)
            except NoRespondersError:
                raise request.status_error(503) from None
            if (status := reply.status) is not None:
                raise request.status_error(status.code, status.description)
            return request.read(reply.payload)

    async def direct_get(
        self,
        request: DirectGetRequest | DirectLastRequest,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> StoredMessage:
        """Send a direct get for one message; see `JetStream.direct_get`."""
        seconds = self.timeout if timeout is None else timeout
        where = f"direct get from stream {request.stream!r}"
        try:
            with CallWatch(self.connection.server_check, self.api_prefix):
                subject = request.subject(self.prefix)
                reply = await request_with_retry(self.connection, subject, request.payload(), seconds)
        except NoRespondersError:
            raise NoDirectGetError(503, "No Responders", where=where) from None
        return read_direct_message(request, reply.status, reply.headers, reply.payload)
