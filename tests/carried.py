"""Makes the blocking front look like the asyncio front, so that one test covers both.

`carry` takes any object of `jetspark.sync` and makes it look like its twin of `jetspark.aio`. Coroutine functions of
the twin are coroutine functions here and run the blocking call in a thread. Results are wrapped as well. Iterators
become asynchronous, and so do context managers. Callbacks may be coroutine functions, as on the asyncio front.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import partial
from typing import Any, Literal, cast

from jetspark import aio, sync
from jetspark.engine.pull import MessageBatch
from jetspark.sync.jetstream import ConsumeContext

__all__ = ["FrontName", "carry", "connect"]

FrontName = Literal["aio", "sync"]

_QUEUED = {(aio.Connection, "publish"), (aio.Msg, "respond")}
"""Calls that only queue data. They need no thread."""
_STARTING = (aio.jetstream.OrderedConsumer, "consume")
"""Returns an object that awaits the rest of the call on asyncio. The blocking call waits."""
_END = object()


async def connect(front: FrontName, *args: Any, **options: Any) -> aio.Connection:
    """Open a connection of a front. The blocking one looks like the asyncio one."""
    if front == "aio":
        return await aio.connect(*args, **options)
    return cast("aio.Connection", carry(await asyncio.to_thread(lambda: sync.connect(*args, **options))))


def carry(value: Any) -> Any:
    """Return the value in the form of the asyncio front."""
    if isinstance(value, list):
        items = [carry(each) for each in list.__iter__(value)]
        if not isinstance(value, MessageBatch):
            return items
        batch: MessageBatch[Any] = MessageBatch(items)
        batch.error = value.error
        return batch
    if isinstance(value, concurrent.futures.Future):
        return asyncio.wrap_future(value)
    if type(value).__module__.startswith("jetspark.sync"):
        return Carried(value)
    if isinstance(value, Iterator):
        return _iterate(value)
    return value


class Carried:
    """Wraps an object of the blocking front."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        module = importlib.import_module(
            type(inner)
            .__module__.replace("jetspark.sync._handwritten", "jetspark.aio.jetstream", 1)
            .replace("jetspark.sync", "jetspark.aio", 1)
        )
        self._twin = getattr(module, type(inner).__qualname__)

    @property  # type: ignore[misc]  # so that isinstance() takes it for its twin
    def __class__(self) -> Any:
        return self._twin

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if not inspect.ismethod(value):
            return carry(value)
        if (self._twin, name) in _QUEUED:
            return partial(_call_soon, value)
        if (self._twin, name) == _STARTING:
            return partial(_Starting, value)
        if inspect.iscoroutinefunction(getattr(self._twin, name)):
            return partial(_call, value)
        return partial(_call_now, value)

    def __repr__(self) -> str:
        return f"<carried {self.inner!r}>"

    def __eq__(self, other: object) -> bool:
        return bool(self.inner == _lowered(other, None))

    def __hash__(self) -> int:
        return hash(self.inner)

    def __len__(self) -> int:
        return len(self.inner)

    def __bool__(self) -> bool:
        return bool(self.inner)

    def __aiter__(self) -> AsyncIterator[Any]:
        found = iter(self.inner)  # a consume begins another reader
        return self if found is self.inner else _iterate(found)

    async def __anext__(self) -> Any:
        entry = await asyncio.to_thread(next, self.inner, _END)
        if entry is _END:
            raise StopAsyncIteration
        return carry(entry)

    def __await__(self) -> Generator[Any, None, Any]:
        if isinstance(self.inner, ConsumeContext):
            return asyncio.sleep(0, self).__await__()
        return _call(self.inner.result).__await__()

    async def __aenter__(self) -> Any:
        entered = await asyncio.to_thread(self.inner.__enter__)
        return self if entered is self.inner else carry(entered)

    async def __aexit__(self, *exception: object) -> Any:
        return await asyncio.to_thread(self.inner.__exit__, *exception)


class _Starting:
    """A blocking call in a thread, which begins when it is awaited or entered."""

    def __init__(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self._call = partial(_call, method, *args, **kwargs)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._call().__await__()

    async def __aenter__(self) -> Any:
        self._entered = await self
        return await self._entered.__aenter__()

    async def __aexit__(self, *exception: object) -> Any:
        return await self._entered.__aexit__(*exception)


async def _call(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    loop = asyncio.get_running_loop()
    given = [_lowered(each, loop) for each in args]
    named = {name: _lowered(each, loop) for name, each in kwargs.items()}
    return carry(await asyncio.to_thread(method, *given, **named))


async def _call_soon(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return method(*args, **kwargs)


def _call_now(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    loop = asyncio.get_running_loop()
    given = [_lowered(each, loop) for each in args]
    named = {name: _lowered(each, loop) for name, each in kwargs.items()}
    return carry(method(*given, **named))


def _lowered(value: Any, loop: asyncio.AbstractEventLoop | None) -> Any:
    """Return the value in the form of the blocking front."""
    if type(value) is Carried:
        return value.inner
    if isinstance(value, list | tuple) or _is_plain_iterator(value):
        return [_lowered(each, loop) for each in value]
    if loop is not None and (inspect.isroutine(value) or isinstance(value, partial)):
        return partial(_call_back, loop, value)
    return value


def _is_plain_iterator(value: Any) -> bool:
    """Return whether a value is only an iterator, such as a generator; files and readers of Arrow are more."""
    return isinstance(value, Iterator) and type(value).__module__ == "builtins"


def _call_back(loop: asyncio.AbstractEventLoop, callback: Callable[..., Any], *args: Any) -> Any:
    """Run a callback in the calling thread, or on the loop of the test if it is a coroutine function."""
    result = callback(*(carry(each) for each in args))
    if inspect.iscoroutine(result):
        return asyncio.run_coroutine_threadsafe(result, loop).result()
    return result


async def _iterate(inner: Iterator[Any]) -> AsyncIterator[Any]:
    try:
        while (entry := await asyncio.to_thread(next, inner, _END)) is not _END:
            yield carry(entry)
    finally:
        if (close := getattr(inner, "close", None)) is not None:
            await asyncio.to_thread(close)
