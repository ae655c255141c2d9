"""What the server answers in pages, to the user one sequence; as the asyncio one, only blocking.

Written by hand: each page crosses from the event loop at once, and its entries are handed out here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from jetspark.aio.jetstream import results as aio
from jetspark.sync.blocking import Blocking, blocking_iterator

__all__ = ["Listing", "Results"]

T = TypeVar("T")


class Results(Blocking, Generic[T]):
    """An iterable of what comes in pages. Each iteration asks anew, page by page, as far as it is read.

    for name in js.stream_names():
        ...
    names = js.stream_names().all()
    """

    _inner: aio.Results[T]

    def pages(self) -> Iterator[list[T]]:
        """The entries, one list a page; a page may be empty."""
        return blocking_iterator(self._connection, self._inner.pages(), list)

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page

    def all(self) -> list[T]:
        """Everything, in one list."""
        return self._call(self._inner.all())


class Listing(Results[T]):
    """A list of the JetStream API. In a cluster entries can be missing, which `missing` and `offline` tell."""

    _inner: aio.Listing[T]

    @property
    def missing(self) -> list[str]:
        """Names whose servers did not answer, in the pages of the latest iteration."""
        return self._inner.missing

    @property
    def offline(self) -> dict[str, str]:
        """Names that no server can serve, with the reason, in the pages of the latest iteration."""
        return self._inner.offline
