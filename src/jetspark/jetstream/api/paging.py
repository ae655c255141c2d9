"""Pages of lists: 1,024 names, 256 full entries or 100,000 subjects per page.

`pages` is a generator without I/O: it yields requests, receives pages, and ends after the last page. The next page
starts at the previous offset plus the page's limit, not after its entries: in a cluster, entries of a page can be
missing because their servers did not answer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, TypeVar

from jetspark.jetstream.api.base import Request
from jetspark.jetstream.codec import JsonStruct
from jetspark.jetstream.errors import InvalidReplyError
from jetspark.wire.argument_types import checks_arguments

__all__ = ["Page", "PagedReply", "PagedRequest", "collect", "next_request", "pages"]

I = TypeVar("I")  # noqa: E741


@dataclass(frozen=True, slots=True)
class Page(Generic[I]):
    """One page of a list."""

    items: list[I]
    """Entries."""
    total: int
    """Number of entries of the whole list, when the page was created."""
    offset: int
    """Number of the page's first entry."""
    limit: int
    """Maximum number of entries of a page."""
    missing: list[str] = field(default_factory=list)
    """Names whose servers did not answer (clusters)."""
    offline: dict[str, str] = field(default_factory=dict)
    """Names that no server can serve, with the reason (clusters)."""


class PagedReply(JsonStruct):
    """Fields of a reply to a list, without the entries."""

    type: str = ""
    total: int = 0
    offset: int = 0
    limit: int = 0
    missing: list[str] | None = None
    offline: dict[str, str] | None = None

    def page(self, items: list[I] | None) -> Page[I]:
        """Return the page with these entries; the server writes null for an empty list."""
        return Page(items or [], self.total, self.offset, self.limit, self.missing or [], self.offline or {})


@dataclass(frozen=True)
class PagedRequest(Request[Page[I]]):
    """Request for one page of a list."""

    idempotent: ClassVar[bool] = True

    offset: int = field(default=0, kw_only=True)
    """Number of the first entry to get."""

    @abstractmethod
    def read(self, payload: bytes) -> Page[I]:
        """Read one page."""


@checks_arguments()
def next_request(request: PagedRequest[I], page: Page[I], before: Page[I] | None = None) -> PagedRequest[I] | None:
    """Return the request for the page after `page`, None if there is none. `before` is the page before it.

    Raises
    ------
    InvalidReplyError
        The page brings the list no further, although more entries are said to follow.
    """
    problem = ""
    following = page.offset + max(page.limit, len(page.items))
    beyond = page.offset == page.total < request.offset  # the list has become shorter
    if page.offset != request.offset and not beyond:
        problem = f"the page begins at entry {page.offset}, not at {request.offset}"
    elif following >= page.total:
        return None
    elif following <= request.offset or not (page.items or page.missing or page.offline):
        problem = "the page is empty"
    elif before is not None and page.items and page.items == before.items:
        problem = "the page repeats the one before"
    if problem:
        raise InvalidReplyError(
            f"{request.endpoint}: {problem}, and the server says that the list has {page.total} entries"
        )
    return replace(request, offset=following)


@checks_arguments()
def pages(request: PagedRequest[I]) -> Generator[PagedRequest[I], Page[I], None]:
    """Yield the requests of a whole list; the caller sends in the page of each."""
    following: PagedRequest[I] | None = request
    before: Page[I] | None = None
    while following is not None:
        page = yield following
        following, before = next_request(following, page, before), page


@checks_arguments()
def collect(request: PagedRequest[I]) -> Generator[PagedRequest[I], Page[I], list[I]]:
    """Yield the requests of a whole list; the caller sends in the page of each. Return all entries."""
    items: list[I] = []
    following: PagedRequest[I] | None = request
    before: Page[I] | None = None
    while following is not None:
        page = yield following
        items += page.items
        following, before = next_request(following, page, before), page
    return items
