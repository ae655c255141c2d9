"""The streams of an account (ADR-37).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.stream_manager`: change that, then `make sync`.
"""

from __future__ import annotations

from jetspark.aio.jetstream import stream_manager as aio
from jetspark.jetstream.config import StreamConfig
from jetspark.jetstream.info import StreamInfo
from jetspark.sync.jetstream.consumer_manager import ConsumerManager
from jetspark.sync.jetstream.results import Listing
from jetspark.sync.jetstream.stream import Stream

__all__ = ["StreamManager"]


class StreamManager(ConsumerManager):
    """What a context does with streams.

    A configuration is given as a `StreamConfig`, as its fields, or as both; then the fields are set on top of it. Names
    are checked here (CFG-05), everything else by the server, which knows the rules of its version.
    """

    _inner: aio.StreamManager

    def create_stream(
        self, config: StreamConfig | None = None, *, timeout: float | None = None, **fields: object
    ) -> Stream:
        """Make a stream. One that exists with the same configuration is returned.

        Parameters
        ----------
        config, fields
            The configuration: `create_stream(name="ORDERS", subjects=["orders.>"])`.
        timeout
            Seconds; None takes `timeout` of the context.

        Raises
        ------
        ConfigError, BadNameError
            It cannot be sent.
        StreamNameInUseError
            A stream of that name has another configuration (10058).
        SubjectOverlapError
            Another stream stores some of the subjects (10065).
        StreamConfigError, APIError
            The server refuses it.
        """
        return Stream(self._connection, self._call(self._inner.create_stream(config, timeout=timeout, **fields)))

    def update_stream(
        self, config: StreamConfig | None = None, *, timeout: float | None = None, **fields: object
    ) -> Stream:
        """Give a stream a new configuration, the whole of it: what is left unset falls back to the server's default.

        To change some fields and keep the others, those of a newer server included, use `Stream.update`.

        Raises
        ------
        StreamNotFoundError
            There is no such stream (10059).
        StreamConfigError, APIError
            The change is not possible.
        """
        return Stream(self._connection, self._call(self._inner.update_stream(config, timeout=timeout, **fields)))

    def create_or_update_stream(
        self, config: StreamConfig | None = None, *, timeout: float | None = None, **fields: object
    ) -> Stream:
        """Update a stream, or make it where there is none. Parameters and errors are those of the two calls.

        `timeout` is for each of the two requests that this may take.
        """
        return Stream(
            self._connection, self._call(self._inner.create_or_update_stream(config, timeout=timeout, **fields))
        )

    def stream(self, name: str, *, timeout: float | None = None) -> Stream:
        """The handle of a stream that exists.

        Raises
        ------
        StreamNotFoundError
            There is no such stream (10059).
        """
        return Stream(self._connection, self._call(self._inner.stream(name, timeout=timeout)))

    def delete_stream(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a stream with its messages and consumers.

        Raises
        ------
        StreamNotFoundError
            There is no such stream (10059).
        """
        self._call(self._inner.delete_stream(name, timeout=timeout))

    def streams(self, subject: str | None = None, *, timeout: float | None = None) -> Listing[StreamInfo]:
        """Configuration and state of the streams, in pages of 256.

            for info in js.streams():
                ...
            infos = js.streams().all()

        Parameters
        ----------
        subject
            Only streams that store subjects which match; wildcards are allowed.
        timeout
            Seconds, for each page; None takes `timeout` of the context.
        """
        return Listing(self._connection, self._run(lambda: self._inner.streams(subject, timeout=timeout)))

    def stream_names(self, subject: str | None = None, *, timeout: float | None = None) -> Listing[str]:
        """Names of the streams, in pages of 1,024. Parameters are those of `streams`."""
        return Listing(self._connection, self._run(lambda: self._inner.stream_names(subject, timeout=timeout)))

    def stream_name_by_subject(self, subject: str, *, timeout: float | None = None) -> str:
        """Name of the one stream that stores a subject (STR-01).

        Raises
        ------
        NoMatchingStreamError
            None does, or more than one (STR-02).
        """
        return self._call(self._inner.stream_name_by_subject(subject, timeout=timeout))
