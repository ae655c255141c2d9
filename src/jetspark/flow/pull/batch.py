"""What a fetch brings: a list of messages, and the error that ended it early, if one did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from jetspark.jetstream.errors import Error

__all__ = ["Batch"]

M = TypeVar("M")


class Batch(list[M]):
    """The messages of one fetch, in order.

    Iterating gives the messages, and then raises the error that ended the fetch early (FET-05), so that it cannot be
    overlooked and no message is lost to it. Length, indexing and `error` can be looked at without that.

    Attributes
    ----------
    error
        Why the fetch ended early, None where it ended as it should: full, by time, or with nothing more there.
    """

    error: Error | None = None

    def __iter__(self) -> Iterator[M]:
        return super().__iter__() if self.error is None else self._with_error(self.error)

    def _with_error(self, error: Error) -> Iterator[M]:
        yield from super().__iter__()
        raise error
