"""Writes the content of an object to a file: beside its place, and moved there when it is complete."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import IO

from jetspark.aio.jetstream._drivers.object_read import ObjectReadCore
from jetspark.aio.reader_threads import ReaderThreads

__all__ = ["write_file"]


class _NewFile:
    """A file that gets its name when it is complete. Its calls block."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._beside = path.with_name(f".{path.name[:64]}.{secrets.token_hex(8)}.part")
        self._file: IO[bytes] | None = None

    def write(self, chunks: Iterable[bytes | memoryview]) -> None:
        """Append chunks."""
        if self._file is None:
            self._file = self._beside.open("xb")
        self._file.writelines(chunks)

    def finish(self) -> None:
        """Give it its name."""
        self._close()
        self._beside.replace(self._path)

    def remove(self) -> None:
        """Leave nothing."""
        self._close()
        self._beside.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()


async def write_file(reader: ObjectReadCore, path: Path, threads: ReaderThreads) -> None:
    """Write what a reader returns to a file. The file appears only if all of it came, with the right digest.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    file = _NewFile(path)
    try:
        complete = False
        while not complete:
            await reader.fill()
            chunks = list(reader.chunks)
            reader.chunks.clear()
            await _in_thread(threads, partial(file.write, chunks))
            complete = reader.closed
        await _in_thread(threads, file.finish)
    except BaseException:
        await _in_thread(threads, file.remove)
        raise


async def _in_thread(threads: ReaderThreads, work: Callable[[], None]) -> None:
    """Run a call in a thread. If the task is cancelled, the call still ends before the next one begins."""
    call = asyncio.wrap_future(threads.submit(work))
    try:
        await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        raise
