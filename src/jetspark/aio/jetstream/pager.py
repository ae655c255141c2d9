"""Paged answers of the server as one sequence: to iterate, or as one list.

Both fronts use `pages`, so the blocking front calls the event loop once for a page and not for each entry.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from jetspark.jetstream.api import Page, PagedRequest, next_request

__all__ = ["ListPager", "Pager"]

T = TypeVar("T")


class Pager(Generic[T]):
    """An async iterable of entries that come in pages. Each iteration requests the pages again, as far as it is read.

    async for name in js.stream_names():
        ...
    names = await js.stream_names().all()
    """

    def __init__(self, pages: Callable[[], AsyncGenerator[list[T], None]]) -> None:
        self._pages = pages

    def pages(self) -> AsyncGenerator[list[T], None]:
        """Return an async generator of the pages, a list each; a page may be empty."""
        return self._pages()

    async def __aiter__(self) -> AsyncIterator[T]:
        pages = self._pages()
        try:
            async for page in pages:
                for entry in page:
                    yield entry
        finally:
            await pages.aclose()

    async def all(self) -> list[T]:
        """Return all entries in one list."""
        return [entry async for page in self._pages() for entry in page]


class ListPager(Pager[T]):
    """A list of the JetStream API. In a cluster entries can be missing; see `missing` and `offline`."""

    def __init__(self, request_page: Callable[[PagedRequest[T]], Awaitable[Page[T]]], request: PagedRequest[T]) -> None:
        super().__init__(self._all_pages)
        self._request_page = request_page
        self._request = request
        self._missing: list[str] = []
        self._offline: dict[str, str] = {}

    @property
    def missing(self) -> list[str]:
        """Names whose servers did not answer, in the pages of the latest iteration."""
        return self._missing

    @property
    def offline(self) -> dict[str, str]:
        """Names that no server can serve, with the reason, in the pages of the latest iteration."""
        return self._offline

    async def _all_pages(self) -> AsyncGenerator[list[T], None]:
        self._missing, self._offline = [], {}
        following: PagedRequest[T] | None = self._request
        before: Page[T] | None = None
        while following is not None:
            page = await self._request_page(following)
            self._missing += page.missing
            self._offline |= page.offline
            following, before = next_request(following, page, before), page
            yield page.items
