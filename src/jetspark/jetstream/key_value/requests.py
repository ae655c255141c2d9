"""Lists of the buckets of an account: the lists of its streams, without those that are no bucket."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jetspark.jetstream.api.paging import Page, PagedRequest
from jetspark.jetstream.api.streams import StreamListRequest, StreamNamesRequest
from jetspark.jetstream.errors import BadBucketError
from jetspark.jetstream.info import StreamInfo
from jetspark.jetstream.key_value.config import check_stream
from jetspark.jetstream.key_value.names import bucket_of
from jetspark.jetstream.key_value.status import KeyValueStatus

__all__ = ["BucketListRequest", "BucketNamesRequest"]


@dataclass(frozen=True)
class BucketNamesRequest(PagedRequest[str]):
    """List the names of the buckets. A filter by subject would miss mirrors, which have no subjects."""

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
        return replace(page, items=[bucket for name in page.items if (bucket := bucket_of(name)) is not None])

    @property
    def _streams(self) -> StreamNamesRequest:
        return StreamNamesRequest(offset=self.offset)


@dataclass(frozen=True)
class BucketListRequest(PagedRequest[KeyValueStatus]):
    """List the state of the buckets."""

    @property
    def endpoint(self) -> str:
        """The subject without the API's prefix."""
        return self._streams.endpoint

    def payload(self) -> bytes:
        """Return the request as JSON."""
        return self._streams.payload()

    def read(self, payload: bytes) -> Page[KeyValueStatus]:
        """Read one page."""
        page = self._streams.read(payload)
        found = (_status(info) for info in page.items)
        return Page(
            [status for status in found if status], page.total, page.offset, page.limit, page.missing, page.offline
        )

    @property
    def _streams(self) -> StreamListRequest:
        return StreamListRequest(offset=self.offset)


def _status(info: StreamInfo) -> KeyValueStatus | None:
    try:
        return KeyValueStatus(check_stream(info.config), info)
    except BadBucketError:
        return None
