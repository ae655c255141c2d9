"""Paged answers of the server as one sequence; as in the asyncio front, but blocking.

Written by hand: each page is fetched from the event loop in one call, and its entries are returned here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from jetspark.aio.jetstream import pager as aio
from jetspark.sync.loop_proxy import LoopProxy, blocking_iterator

__all__ = ["ListPager", "Pager"]

T = TypeVar("T")


class Pager(LoopProxy, Generic[T]):
    """An iterable of entries that come in pages. Each iteration requests the pages again, as far as it is read.

    for name in js.stream_names():
        ...
    names = js.stream_names().all()
    """

    _inner: aio.Pager[T]

    def pages(self) -> Iterator[list[T]]:
        """Return an iterator of the pages, a list each; a page may be empty."""
        return blocking_iterator(self._connection, self._inner.pages(), list)

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page

    def all(self) -> list[T]:
        """Return all entries in one list."""
        return self._call(self._inner.all())


class ListPager(Pager[T]):
    """A list of the JetStream API. In a cluster entries can be missing; see `missing` and `offline`."""

    _inner: aio.ListPager[T]

    @property
    def missing(self) -> list[str]:
        """Names whose servers did not answer, in the pages of the latest iteration."""
        return self._inner.missing

    @property
    def offline(self) -> dict[str, str]:
        """Names that no server can serve, with the reason, in the pages of the latest iteration."""
        return self._inner.offline
