"""Lists of the buckets of an account: the lists of its streams, without those that are no bucket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from jetspark.jetstream.api.paging import Page, PagedRequest
from jetspark.jetstream.api.streams import StreamListRequest, StreamNamesRequest
from jetspark.jetstream.buckets import BucketKind
from jetspark.jetstream.errors import BadBucketError
from jetspark.jetstream.info import StreamInfo

__all__ = ["BucketListRequest", "BucketNamesRequest"]

S = TypeVar("S")


@dataclass(frozen=True)
class BucketNamesRequest(PagedRequest[str]):
    """List the names of the buckets. A filter by subject would miss mirrors, which have no subjects."""

    kind: BucketKind
    """Kind of the buckets."""

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return self._streams.endpoint

    def payload(self) -> bytes:
        """Return the request as JSON."""
        return self._streams.payload()

    def read(self, payload: bytes) -> Page[str]:
        """Read one page."""
        page = self._streams.read(payload)
        return replace(page, items=[bucket for name in page.items if (bucket := self.kind.bucket_of(name)) is not None])

    @property
    def _streams(self) -> StreamNamesRequest:
        return StreamNamesRequest(offset=self.offset)


@dataclass(frozen=True)
class BucketListRequest(PagedRequest[S], Generic[S]):
    """List the state of the buckets."""

    status: Callable[[StreamInfo], S]
    """Returns the state of a bucket from that of its stream; raises BadBucketError if it is no bucket."""

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return self._streams.endpoint

    def payload(self) -> bytes:
        """Return the request as JSON."""
        return self._streams.payload()

    def read(self, payload: bytes) -> Page[S]:
        """Read one page."""
        page = self._streams.read(payload)
        found: list[S] = []
        for info in page.items:
            try:
                found.append(self.status(info))
            except BadBucketError:
                continue
        return Page(found, page.total, page.offset, page.limit, page.missing, page.offline)

    @property
    def _streams(self) -> StreamListRequest:
        return StreamListRequest(offset=self.offset)
