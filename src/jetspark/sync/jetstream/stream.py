"""The handle of a stream (ADR-37).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.stream`: change that, then `make sync`.
"""

from __future__ import annotations

from jetspark.aio.jetstream import stream as aio
from jetspark.jetstream.info import StreamInfo
from jetspark.sync.jetstream.stream_columns import StreamColumns

__all__ = ["Stream"]


class Stream(StreamColumns):
    """A stream by its name. Made by `create_stream`, `stream` and their like, on a context."""

    _inner: aio.Stream

    @property
    def cached_info(self) -> StreamInfo:
        """Configuration and state as last told; `info` asks anew."""
        return self._inner.cached_info

    def info(
        self, *, deleted_details: bool = False, subjects_filter: str | None = None, timeout: float | None = None
    ) -> StreamInfo:
        """Ask for configuration and state (STM-02).

        Parameters
        ----------
        deleted_details
            Tell in `state.deleted` which sequences are gone.
        subjects_filter
            Tell in `state.subjects` how many messages each subject has that matches; `>` for all. There may be any
            number of them: the server tells 100,000 at a time, and all pages are asked for.
        timeout
            Seconds, for each page; None takes `timeout` of the context.

        Raises
        ------
        StreamNotFoundError
            It is gone (10059).
        """
        return self._call(
            self._inner.info(deleted_details=deleted_details, subjects_filter=subjects_filter, timeout=timeout)
        )

    def update(self, *, timeout: float | None = None, **changes: object) -> StreamInfo:
        """Change some fields of the configuration and keep the others, those of a newer server included.

            stream.update(max_age=timedelta(days=7))

        The configuration is read, changed and written; somebody else's change between the two is overwritten.

        Raises
        ------
        StreamNotFoundError
            It is gone (10059).
        StreamConfigError, APIError
            The change is not possible.
        """
        return self._call(self._inner.update(timeout=timeout, **changes))

    def delete(self, *, timeout: float | None = None) -> None:
        """Delete it with its messages and consumers. Errors are those of `info`."""
        self._call(self._inner.delete(timeout=timeout))
