"""The stream that a handle is for.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.stream_base`: change that, then `make sync`.
"""

from __future__ import annotations

from jetspark.aio.jetstream import stream_base as aio
from jetspark.jetstream.info import StreamInfo
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.wire.argument_types import checks_arguments

__all__ = ["StreamBase"]


@checks_arguments()
class StreamBase(LoopProxy):
    """A stream by its name, with the last answer of the server."""

    _inner: aio.StreamBase

    @property
    def name(self) -> str:
        """Name of the stream."""
        return self._inner.name

    @property
    def cached_info(self) -> StreamInfo:
        """Configuration and state from the last answer; `info` asks the server."""
        return self._inner.cached_info
