"""Sends a request of the JetStream API and reads its reply.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.api`: change that, then `make sync`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from jetspark.aio.jetstream import api as aio
from jetspark.jetstream.api import PagedRequest, Request
from jetspark.jetstream.direct import DirectGetRequest, DirectLastRequest
from jetspark.jetstream.stored import StoredMessage
from jetspark.sync.blocking import Blocking
from jetspark.sync.jetstream.results import Listing

if TYPE_CHECKING:
    from jetspark.sync.connection import Connection

__all__ = ["JetStreamAPI"]

R = TypeVar("R")


class JetStreamAPI(Blocking):
    """The JetStream API of one account or domain, over one connection."""

    _inner: aio.JetStreamAPI

    @property
    def connection(self) -> Connection:
        """The connection that it uses."""
        return self._connection

    @property
    def prefix(self) -> str:
        """Prefix of every request's subject, with its final dot: `$JS.API.`, `$JS.<domain>.API.` or an imported one."""
        return self._inner.prefix

    @property
    def timeout(self) -> float:
        """Seconds that a call waits for its answer, unless it says otherwise."""
        return self._inner.timeout

    def request(self, request: Request[R], timeout: float | None = None) -> R:
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
        return self._call(self._inner.request(request, timeout))

    def direct_get(self, request: DirectGetRequest | DirectLastRequest, timeout: float | None = None) -> StoredMessage:
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
        return self._call(self._inner.direct_get(request, timeout))

    def listing(self, request: PagedRequest[R], timeout: float | None = None) -> Listing[R]:
        """All pages of a list. `timeout` is for each page."""
        return Listing(self._connection, self._run(lambda: self._inner.listing(request, timeout)))
