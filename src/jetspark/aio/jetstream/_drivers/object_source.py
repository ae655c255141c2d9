"""The sources of a put: buffers, paths, binary files and iterables, all read as parts of any size."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeAlias, cast

from jetspark.aio.reader_threads import ReaderThreads
from jetspark.jetstream.errors import ArgumentError
from jetspark.wire.outbound import Payload

__all__ = ["ObjectSource", "Source", "open_source"]

_BLOCK: Final = 1 << 20
"""Bytes that a thread reads at a time."""


class BinaryFile(Protocol):
    """A file that is open for reading bytes."""

    def read(self, size: int, /) -> bytes | None:
        """Return at most so many bytes, none at the end."""


ObjectSource: TypeAlias = Payload | Path | BinaryFile | Iterable[bytes] | AsyncIterable[bytes]
"""Content of an object: bytes, a path, a file that is open in binary mode, or an iterable of bytes."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source that was checked."""

    parts: Callable[[], AsyncGenerator[Payload]]
    """Reads it from its beginning."""
    total: int | None = None
    """Bytes, if they are known."""
    restartable: bool = False
    """Whether it can be read twice."""


def open_source(source: object, threads: ReaderThreads, *, in_threads: bool) -> Source:
    """Check a source.

    Parameters
    ----------
    source
        An `ObjectSource`.
    threads
        The threads that read files.
    in_threads
        Whether they also read iterables, as these may block.

    Raises
    ------
    ArgumentError
        It is text, a text file, or something else.
    OSError
        A path cannot be read.
    """
    if isinstance(source, Path):
        return Source(partial(_read_path, source, threads), source.stat().st_size, restartable=True)
    if isinstance(source, str):
        raise ArgumentError("source takes bytes, a Path, a binary file or an iterable of bytes, not text; encode it")
    if isinstance(source, io.TextIOBase):
        raise ArgumentError("source takes a file that is open in binary mode ('rb'), not a text file")
    with suppress(TypeError):
        view = memoryview(cast("bytes", source))
        flat: Payload = b"" if not view.nbytes else view.cast("B") if view.c_contiguous else view.tobytes()
        return Source(partial(_read_buffer, flat), len(flat), restartable=True)
    if isinstance(source, AsyncIterable):
        return Source(partial(_read_async, source))
    if callable(getattr(source, "read", None)):
        return Source(partial(_read_file, cast("BinaryFile", source), threads))
    if isinstance(source, Iterable):
        return Source(partial(_read_in_threads, source, threads) if in_threads else partial(_read_here, source))
    raise ArgumentError(
        f"source takes bytes, a Path, a binary file or an iterable of bytes, not {type(source).__name__}"
    )


async def _read_buffer(buffer: Payload) -> AsyncGenerator[Payload]:
    yield buffer


async def _read_async(source: AsyncIterable[object]) -> AsyncGenerator[Payload]:
    async for item in source:
        yield _checked(item)


async def _read_here(source: Iterable[object]) -> AsyncGenerator[Payload]:
    for item in source:
        yield _checked(item)


async def _read_in_threads(source: Iterable[object], threads: ReaderThreads) -> AsyncGenerator[Payload]:
    items = iter(source)
    while parts := await asyncio.wrap_future(threads.submit(partial(_take, items))):
        for part in parts:
            yield part


def _take(items: Iterator[object]) -> list[Payload]:
    """Return the next items, not too many at a time; none at the end."""
    taken: list[Payload] = []
    size = 0
    for item in items:
        part = _checked(item)
        taken.append(part)
        size += max(len(part), 1)
        if size >= _BLOCK // 4 or len(taken) >= _BLOCK // 1024:
            break
    return taken


async def _read_path(path: Path, threads: ReaderThreads) -> AsyncGenerator[Payload]:
    file = await asyncio.wrap_future(threads.submit(partial(_open, path)))
    reading: Future[Payload] | None = None
    try:
        reading = threads.submit(partial(_read, file))
        while part := await asyncio.wrap_future(reading):
            reading = threads.submit(partial(_read, file))
            yield part
    finally:  # a thread may still read it
        if reading is None:
            file.close()
        else:
            reading.add_done_callback(lambda _: file.close())


def _open(path: Path) -> io.FileIO:
    return io.FileIO(os.fspath(path))


async def _read_file(file: BinaryFile, threads: ReaderThreads) -> AsyncGenerator[Payload]:
    while part := await asyncio.wrap_future(threads.submit(partial(_read, file))):
        yield part


def _read(file: BinaryFile) -> Payload:
    return _checked(file.read(_BLOCK))


def _checked(item: object) -> Payload:
    """Return a part of the content. The program may change a buffer later, so other types than bytes are copied."""
    if isinstance(item, bytes):
        return item
    if isinstance(item, (bytearray, memoryview)):
        return bytes(item)
    raise ArgumentError(f"source yields {type(item).__name__}; each part must be bytes")
