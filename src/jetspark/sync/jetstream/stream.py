"""The handle of a stream (ADR-37).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.stream`: change that, then `make sync`.
"""

from __future__ import annotations

from jetspark.aio.jetstream import stream as aio
from jetspark.jetstream.info import StreamInfo
from jetspark.sync.blocking import Blocking

__all__ = ["Stream"]


class Stream(Blocking):
    """A stream by its name. Made by `create_stream`, `stream` and their like."""

    _inner: aio.Stream

    @property
    def name(self) -> str:
        """Its name."""
        return self._inner.name

    @property
    def cached_info(self) -> StreamInfo:
        """Configuration and state as last told; `info` asks anew."""
        return self._inner.cached_info

    def info(self, *, timeout: float | None = None) -> StreamInfo:
        """Ask for configuration and state.

        Raises
        ------
        StreamNotFoundError
            It is gone (10059).
        """
        return self._call(self._inner.info(timeout=timeout))
