"""Sends a request of the JetStream API and reads its reply.

A request that only reads is repeated: after the loss of the session, and a few times while no answer comes, because a
server without a leader does not answer (an election). A request that changes something is sent once, unless the server
answers that nothing was changed and that a retry may succeed (`Request.retry_delay`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from jetspark.aio.jetstream.pager import ListPager
from jetspark.aio.jetstream.requests import request_with_retry
from jetspark.jetstream.api import PagedRequest, Request
from jetspark.jetstream.direct_get import DirectGetRequest, DirectLastRequest, read_direct_message
from jetspark.jetstream.errors import APIError, NoDirectGetError, NoRespondersError, RequestTimeoutError
from jetspark.jetstream.stored_message import StoredMessage

if TYPE_CHECKING:
    from jetspark.aio.connection import Connection

__all__ = ["JetStreamAPI"]

R = TypeVar("R")


class JetStreamAPI:
    """The JetStream API of one account or domain, over one connection."""

    def __init__(self, connection: Connection, prefix: str, timeout: float) -> None:
        self._connection = connection
        self._prefix = prefix
        self._timeout = timeout

    @property
    def connection(self) -> Connection:
        """The connection in use."""
        return self._connection

    @property
    def prefix(self) -> str:
        """Prefix of each request's subject, with its final dot: `$JS.API.`, `$JS.<domain>.API.` or an imported one."""
        return self._prefix

    @property
    def timeout(self) -> float:
        """Default timeout of the calls, in seconds."""
        return self._timeout

    async def request(self, request: Request[R], timeout: float | None = None) -> R:  # noqa: ASYNC109
        """Send a request of `jetspark.jetstream.api` and read the reply. All other calls use this one.

        Parameters
        ----------
        request
            The request. A request that only reads is repeated within the timeout if its reply is lost, or while the
            server reports that it cannot answer now (10008). A stream is created with a few retries: while the server
            cannot create its store (10049), which passes if the account's last stream was just deleted, and while a
            cluster has not heard from the servers that it needs (10005).
        timeout
            Seconds; None takes `timeout` of the context.

        Raises
        ------
        APIError
            The server refuses; the class says why (WIR-10).
        JetStreamNotEnabledError
            Nobody serves this API: the server has no JetStream, or there is no such domain (WIR-11).
        RequestTimeoutError
            No answer came in time. If a request that only reads was refused before, that refusal is raised instead.
            Whether a change was done is not known.
        DisconnectedError
            The session was lost during a request that changes something. Whether it did is not known.
        InvalidReplyError
            The reply is not valid.
        """
        loop = asyncio.get_running_loop()
        left = self._timeout if timeout is None else timeout
        deadline = loop.time() + left
        tries = 0
        refused: APIError | None = None
        while True:
            tries += 1
            try:
                return await self._request_once(request, left)
            except APIError as error:
                pause = request.retry_delay(error, tries)
                if pause is None or (left := deadline - loop.time() - pause) <= 0:
                    raise
                refused = error.with_traceback(None)  # the traceback would hold this frame
            except RequestTimeoutError:
                if refused is None or not request.idempotent:
                    raise
                try:
                    raise refused from None  # the server has answered once, but not again in the remaining time
                finally:
                    del refused  # it holds this frame again
            await asyncio.sleep(pause)

    async def _request_once(self, request: Request[R], timeout: float) -> R:  # noqa: ASYNC109
        subject, payload = request.subject(self._prefix), request.payload()
        try:
            if request.idempotent:
                reply = await request_with_retry(self._connection, subject, payload, timeout)
            else:
                reply = await self._connection._api_request(subject, payload, timeout=timeout)
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
        """Send a direct get for one message (ADR-31). Users usually call `Stream.get_msg`.

        Raises
        ------
        MessageNotFoundError
            There is no such message.
        NoDirectGetError
            The stream does not allow direct get, or there is no such stream (DIR-04).
        DirectGetRequestError
            The server rejects the request as malformed.
        RequestTimeoutError
            No answer in time.
        """
        seconds = self._timeout if timeout is None else timeout
        where = f"direct get from stream {request.stream!r}"
        try:
            reply = await request_with_retry(
                self._connection, request.subject(self._prefix), request.payload(), seconds
            )
        except NoRespondersError:
            raise NoDirectGetError(503, "nobody answers; does the stream allow direct get?", where=where) from None
        return read_direct_message(reply.status, reply.headers, reply.payload, where)

    def paginate(self, request: PagedRequest[R], timeout: float | None = None) -> ListPager[R]:
        """Return an iterable of all pages of a list. `timeout` is for each page."""
        return ListPager(partial(self.request, timeout=timeout), request)
