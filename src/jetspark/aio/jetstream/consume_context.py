"""The handle of a running consume: an iterator, or a callback in a task of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from types import TracebackType
from typing import Any, Self

from jetspark.aio._interfaces import HasCore
from jetspark.aio.jetstream._drivers.consume import Callback, ConsumeCore, ConsumeReader, ErrorHandler
from jetspark.aio.message import Msg
from jetspark.jetstream.errors import Error
from jetspark.wire.argument_types import checks_arguments

__all__ = ["Callback", "ConsumeContext", "ErrorHandler"]


@checks_arguments()
class ConsumeContext(HasCore[ConsumeCore]):
    """A running consume, created by `Consumer.consume`. An async iterator, and a context manager that stops at its end.

    The iteration ends when the consume was stopped or drained, and raises the error that ended it. When the connection
    is closed, the consume of an ordered consumer raises ConnectionClosedError. A cancelled wait loses nothing.
    """

    def __init__(self, core: ConsumeCore) -> None:
        super().__init__(core)
        self._reader = ConsumeReader(core)

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def closed(self) -> bool:
        """Whether it has ended and its messages were taken."""
        return self._core.closed

    @property
    def error(self) -> Error | None:
        """Error that ended it; None while it runs, and after a stop or drain."""
        return self._core.source.error

    @property
    def pending(self) -> tuple[int, int]:
        """Messages in the buffer, and their bytes of headers and payload."""
        return self._core.pending

    def __aiter__(self) -> AsyncIterator[Msg]:
        progress = self._core.progress
        return self._reader if progress is None else ConsumeReader(self._core, progress.new_reader())

    async def __anext__(self) -> Msg:
        return await self._reader.__anext__()

    def __await__(self) -> Generator[Any, None, Self]:
        """Wait until the server has the consumer of an ordered consume; other consumers are there already.

        The wait takes 10 s at most. If the consumer cannot be created now, the creation is repeated in the background,
        or the iteration raises the error. If the wait is cancelled, the consume ends.
        """
        yield from self._core.source.wait_started().__await__()
        return self

    async def __aenter__(self) -> Self:
        return await self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """End now. Messages in the buffer are dropped, and delivered again after the consumer's `ack_wait` (CNS-05)."""
        await self._core.stop()

    async def drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        """Pull no more. Messages that were delivered already are still returned; then it ends (CNS-05, R44).

        Parameters
        ----------
        timeout
            Seconds for the server to confirm that it sends no more; None takes the connection's `drain_timeout`. After
            that, the iteration ends with `DrainTimeoutError` after the messages that came.
        """
        self._core.drain(timeout)

    async def wait_closed(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Wait until it has ended and its messages were taken and handled; raise the error that ended it.

        Parameters
        ----------
        timeout
            Seconds until `DrainTimeoutError` is raised; the consume continues. None means no limit.
        """
        await self._core.wait_closed(timeout)
