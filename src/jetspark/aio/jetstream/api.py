"""Sends a request of the JetStream API and reads its reply.

A request that only reads may be asked again, and is: when the session is lost under it, and a few times while no answer
comes, because a server without a leader says nothing (an election). What changes something is sent once, unless the
server's answer says that nothing was changed and that the next try may succeed (`Request.retry_pause`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from jetspark.aio.jetstream.asking import ask_until_answered
from jetspark.aio.jetstream.results import Listing
from jetspark.jetstream.api import PagedRequest, Request
from jetspark.jetstream.direct import DirectGetRequest, DirectLastRequest, read_direct_message
from jetspark.jetstream.errors import APIError, NoDirectGetError, NoRespondersError, RequestTimeoutError
from jetspark.jetstream.stored import StoredMessage

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
        """The connection that it uses."""
        return self._connection

    @property
    def prefix(self) -> str:
        """Prefix of every request's subject, with its final dot: `$JS.API.`, `$JS.<domain>.API.` or an imported one."""
        return self._prefix

    @property
    def timeout(self) -> float:
        """Seconds that a call waits for its answer, unless it says otherwise."""
        return self._timeout

    async def request(self, request: Request[R], timeout: float | None = None) -> R:  # noqa: ASYNC109
        """Send any request of `jetspark.jetstream.api` and read the reply. All other calls go through here.

        Parameters
        ----------
        request
            The request. What only reads is asked again within the time-out when its reply is lost, or while the server
            says that it cannot answer at the moment (10008). A stream is asked for a few times while the server cannot
            make its store (10049), which passes when the account's last stream has just been deleted, and while a
            cluster has not heard from the servers that it needs (10005).
        timeout
            Seconds; None takes `timeout` of the context.

        Raises
        ------
        APIError
            The server refuses; the class tells why (WIR-10).
        JetStreamNotEnabledError
            Nobody serves this API: no JetStream on the server, or no such domain (WIR-11).
        RequestTimeoutError
            No answer in time; for what only reads, none at all. Whether a change was made is not known.
        DisconnectedError
            The session was lost under a request that changes something; whether it did is not known.
        InvalidReplyError
            The reply cannot be understood.
        """
        loop = asyncio.get_running_loop()
        left = self._timeout if timeout is None else timeout
        deadline = loop.time() + left
        tries = 0
        refused: APIError | None = None
        while True:
            tries += 1
            try:
                return await self._ask(request, left)
            except APIError as error:
                pause = request.retry_pause(error, tries)
                if pause is None or (left := deadline - loop.time() - pause) <= 0:
                    raise
                refused = error.with_traceback(None)  # which would hold this frame
            except RequestTimeoutError:
                if refused is None or not request.repeatable:
                    raise
                try:
                    raise refused from None  # the server has answered, though not once more in what time was left
                finally:
                    del refused  # it holds this frame again
            await asyncio.sleep(pause)

    async def _ask(self, request: Request[R], timeout: float) -> R:  # noqa: ASYNC109
        subject, payload = request.subject(self._prefix), request.payload()
        try:
            if request.repeatable:
                reply = await ask_until_answered(self._connection, subject, payload, timeout)
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
        """Send a direct get for one message (ADR-31). `Stream.get_msg` is the usual way to it.

        Raises
        ------
        MessageNotFoundError
            There is no such message.
        NoDirectGetError
            The stream does not allow direct get, or there is no such stream (DIR-04).
        DirectGetRequestError
            The server does not understand the request.
        RequestTimeoutError
            No answer in time.
        """
        seconds = self._timeout if timeout is None else timeout
        where = f"direct get from stream {request.stream!r}"
        try:
            reply = await ask_until_answered(
                self._connection, request.subject(self._prefix), request.payload(), seconds
            )
        except NoRespondersError:
            raise NoDirectGetError(503, "nobody answers; does the stream allow direct get?", where=where) from None
        return read_direct_message(reply.status, reply.headers, reply.payload, where)

    def listing(self, request: PagedRequest[R], timeout: float | None = None) -> Listing[R]:
        """All pages of a list. `timeout` is for each page."""
        return Listing(partial(self.request, timeout=timeout), request)
