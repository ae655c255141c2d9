"""The stream that a handle is for."""

from __future__ import annotations

from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.jetstream.info import StreamInfo
from jetspark.wire.argument_types import checks_arguments

__all__ = ["StreamBase"]


@checks_arguments()
class StreamBase:
    """A stream by its name, with the last answer of the server."""

    def __init__(self, core: JetStreamCore, info: StreamInfo) -> None:
        self._core = core
        self._info = info

    def __repr__(self) -> str:
        return f"<Stream {self.name!r}>"

    @property
    def name(self) -> str:
        """Name of the stream."""
        return self._info.config.name

    @property
    def cached_info(self) -> StreamInfo:
        """Configuration and state from the last answer; `info` asks the server."""
        return self._info
