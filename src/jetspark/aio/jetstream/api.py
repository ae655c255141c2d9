"""Sends a request of the JetStream API and reads its reply.

A request that only reads may be asked again, and is: when the session is lost under it, and a few times while no answer
comes, because a server without a leader says nothing (an election). What changes something is sent once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from jetspark.aio.jetstream.results import Listing
from jetspark.jetstream.api import PagedRequest, Request
from jetspark.wire.errors import DisconnectedError, FlushTimeoutError, NoRespondersError, RequestTimeoutError

if TYPE_CHECKING:
    from jetspark.aio.connection import Connection
    from jetspark.aio.message import Msg

__all__ = ["JetStreamAPI"]

R = TypeVar("R")

_TRIES: Final = 4
"""How often a reading request is sent within its time-out, at most, while no answer comes."""
_LOST: Final = (DisconnectedError, RequestTimeoutError)


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
            The request. What only reads is asked again within the time-out when its reply is lost.
        timeout
            Seconds; None takes `timeout` of the context.

        Raises
        ------
        APIError
            The server refuses; the class tells why (WIR-10).
        JetStreamNotEnabledError
            Nobody serves this API: no JetStream on the server, or no such domain (WIR-11).
        RequestTimeoutError
            No answer in time. Whether a change was made is not known.
        DisconnectedError
            The session was lost under a request that changes something; whether it did is not known.
        InvalidReplyError
            The reply cannot be understood.
        """
        seconds = self._timeout if timeout is None else timeout
        subject, payload = request.subject(self._prefix), request.payload()
        try:
            if request.repeatable:
                reply = await _ask_until_answered(self._connection, subject, payload, seconds)
            else:
                reply = await self._connection.request(subject, payload, timeout=seconds)
        except NoRespondersError:
            raise request.status_error(503) from None
        if (status := reply.status) is not None:
            raise request.status_error(status.code, status.description)
        return request.read(reply.payload)

    def listing(self, request: PagedRequest[R]) -> Listing[R]:
        """All pages of a list."""
        return Listing(self.request, request)


async def _ask_until_answered(connection: Connection, subject: str, payload: bytes, timeout: float) -> Msg:  # noqa: ASYNC109
    """Ask, and ask again after a while without an answer or a loss of the session; the first answer counts."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    asked: set[asyncio.Task[Msg]] = set()
    try:
        while (left := deadline - loop.time()) > 0:
            asked.add(loop.create_task(connection.request(subject, payload, timeout=left)))
            until = min(loop.time() + timeout / _TRIES, deadline)
            while asked and (wait := until - loop.time()) > 0:
                done, asked = await asyncio.wait(asked, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                answers = [task for task in done if not isinstance(task.exception(), _LOST)]
                if answers:
                    return answers[0].result()
            if not asked and (left := deadline - loop.time()) > 0:
                await _wait_for_session(connection, left)
    finally:
        for task in asked:
            task.cancel()
        if asked:
            await asyncio.wait(asked)
    raise RequestTimeoutError(f"no answer on {subject!r} within {timeout:g} s")


async def _wait_for_session(connection: Connection, timeout: float) -> None:  # noqa: ASYNC109
    try:
        await connection.confirm(timeout)
    except (FlushTimeoutError, DisconnectedError):
        return  # the caller looks at the time
