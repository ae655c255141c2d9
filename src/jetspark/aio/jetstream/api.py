"""The calls of a context that send any request of the JetStream API."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from jetspark.aio._interfaces import HasCore
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.aio.jetstream.pager import ListPager
from jetspark.jetstream.api import PagedRequest, Request
from jetspark.jetstream.direct_get import DirectGetRequest, DirectLastRequest
from jetspark.jetstream.stored_message import StoredMessage
from jetspark.wire.argument_types import checks_arguments

__all__ = ["JetStreamAPI"]

R = TypeVar("R")


@checks_arguments()
class JetStreamAPI(HasCore[JetStreamCore]):
    """The JetStream API of one account or domain, over one connection."""

    @property
    def prefix(self) -> str:
        """Prefix of each request's subject, with its final dot: `$JS.API.`, `$JS.<domain>.API.` or an imported one."""
        return self._core.prefix

    @property
    def timeout(self) -> float:
        """Default timeout of the calls, in seconds."""
        return self._core.timeout

    async def request(self, request: Request[R], timeout: float | None = None) -> R:  # noqa: ASYNC109
        """Send a request of `jetspark.jetstream.api` and read the reply. All other calls of the API do the same.

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
        return await self._core.request(request, timeout)

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
        return await self._core.direct_get(request, timeout)

    def paginate(self, request: PagedRequest[R], timeout: float | None = None) -> ListPager[R]:
        """Return an iterable of all pages of a list. `timeout` is for each page."""
        return ListPager(partial(self.request, timeout=timeout), request)
