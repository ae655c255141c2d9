"""The handle of a running consume: an iterator, or a callback in a thread of its own.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.consume_context`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from jetspark.jetstream.errors import Error
from jetspark.sync._handwritten.consume import Callback, ConsumeCore, ConsumeReader, ErrorHandler
from jetspark.sync._interfaces import HasCore
from jetspark.sync.message import Msg
from jetspark.wire.argument_types import checks_arguments

__all__ = ["Callback", "ConsumeContext", "ErrorHandler"]


@checks_arguments()
class ConsumeContext(HasCore[ConsumeCore]):
    """A running consume, created by `Consumer.consume`. An iterator, and a context manager that stops at its end.

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

    def __iter__(self) -> Iterator[Msg]:
        progress = self._core.progress
        return self._reader if progress is None else ConsumeReader(self._core, progress.new_reader())

    def __next__(self) -> Msg:
        return self._reader.__next__()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End now. Messages in the buffer are dropped, and delivered again after the consumer's `ack_wait` (CNS-05)."""
        self._core.stop()

    def drain(self, timeout: float | None = None) -> None:
        """Pull no more. Messages that were delivered already are still returned; then it ends (CNS-05, R44).

        Parameters
        ----------
        timeout
            Seconds for the server to confirm that it sends no more; None takes the connection's `drain_timeout`. After
            that, the iteration ends with `DrainTimeoutError` after the messages that came.
        """
        self._core.drain(timeout)

    def wait_closed(self, timeout: float | None = None) -> None:
        """Wait until it has ended and its messages were taken and handled; raise the error that ended it.

        Parameters
        ----------
        timeout
            Seconds until `DrainTimeoutError` is raised; the consume continues. None means no limit.
        """
        self._core.wait_closed(timeout)
