"""Base class and helpers of the blocking classes that `tools/make_sync.py` generates from the asyncio classes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from jetspark.sync.core import ConnectionCore
from jetspark.wire.errors import ConnectionClosedError, WrongEventLoopError

__all__ = ["LoopProxy", "blocking_iterator"]

T = TypeVar("T")
V = TypeVar("V")


class LoopProxy:
    """Holds an object of the asyncio front and runs its calls on the connection's event loop."""

    _inner: object

    def __init__(self, connection: ConnectionCore, inner: Any) -> None:
        self._connection = connection
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result."""
        return self._connection.call(coroutine)

    def _run(self, function: Callable[[], T]) -> T:
        """Run a plain function on the loop and wait for its result."""
        return self._connection.run(function)


def blocking_iterator(connection: ConnectionCore, source: AsyncIterator[T], front: Callable[[T], V]) -> Iterator[V]:
    """Iterate over an asynchronous iterator; `front` converts each entry to an object of the blocking front."""
    try:
        while True:
            try:
                entry = connection.call(_next(source))
            except StopAsyncIteration:
                return
            yield front(entry)
    finally:
        if isinstance(source, AsyncGenerator):
            with suppress(ConnectionClosedError, WrongEventLoopError):  # closed, or collected in the loop's thread
                connection.call(source.aclose())


async def _next(source: AsyncIterator[T]) -> T:
    return await anext(source)
