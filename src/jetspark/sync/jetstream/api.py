"""The calls of a context that send any request of the JetStream API.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.api`: change that, then `make sync`.
"""

from __future__ import annotations

from typing import TypeVar

from jetspark.aio.jetstream import api as aio
from jetspark.jetstream.api import PagedRequest, Request
from jetspark.jetstream.direct_get import DirectGetRequest, DirectLastRequest
from jetspark.jetstream.stored_message import StoredMessage
from jetspark.sync._handwritten.pager import ListPager
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.wire.argument_types import checks_arguments

__all__ = ["JetStreamAPI"]

R = TypeVar("R")


@checks_arguments()
class JetStreamAPI(LoopProxy):
    """The JetStream API of one account or domain, over one connection."""

    _inner: aio.JetStreamAPI

    @property
    def prefix(self) -> str:
        """Prefix of each request's subject, with its final dot: `$JS.API.`, `$JS.<domain>.API.` or an imported one."""
        return self._inner.prefix

    @property
    def timeout(self) -> float:
        """Default timeout of the calls, in seconds."""
        return self._inner.timeout

    def request(self, request: Request[R], timeout: float | None = None) -> R:
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
        return self._call(self._inner.request(request, timeout))

    def direct_get(self, request: DirectGetRequest | DirectLastRequest, timeout: float | None = None) -> StoredMessage:
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
        return self._call(self._inner.direct_get(request, timeout))

    def paginate(self, request: PagedRequest[R], timeout: float | None = None) -> ListPager[R]:
        """Return an iterable of all pages of a list. `timeout` is for each page."""
        return ListPager(self._connection, self._run(lambda: self._inner.paginate(request, timeout)))
