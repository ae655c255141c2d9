"""Result of a fetch: a list of messages, and the error that ended it early, if there is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from jetspark.jetstream.errors import Error

__all__ = ["MessageBatch"]

M = TypeVar("M")


class MessageBatch(list[M]):
    """The messages of one fetch, in order.

    Iteration yields all messages and then raises the error that ended the fetch early (FET-05). So the error cannot be
    overlooked, and no message is lost. Length, indexing and `error` do not raise it.

    Attributes
    ----------
    error
        Error that ended the fetch early; None if it ended normally: full, by timeout, or with no more messages.
    """

    error: Error | None = None

    def __iter__(self) -> Iterator[M]:
        return super().__iter__() if self.error is None else self._with_error(self.error)

    def _with_error(self, error: Error) -> Iterator[M]:
        yield from super().__iter__()
        raise error
