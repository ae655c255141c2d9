"""The streams of an account (ADR-37).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.stream_manager`: change that, then `make sync`.
"""

from __future__ import annotations

from typing import Unpack

from jetspark.aio.jetstream import stream_manager as aio
from jetspark.jetstream.config import StreamConfig
from jetspark.jetstream.config_keywords import StreamConfigFields
from jetspark.jetstream.info import StreamInfo
from jetspark.sync._handwritten.pager import ListPager
from jetspark.sync.jetstream.consumer_manager import ConsumerManager
from jetspark.sync.jetstream.counter import Counter
from jetspark.sync.jetstream.schedules import Schedules
from jetspark.sync.jetstream.stream import Stream
from jetspark.wire.argument_types import checks_arguments

__all__ = ["StreamManager"]


@checks_arguments()
class StreamManager(ConsumerManager):
    """The calls of a context for streams.

    A configuration is a `StreamConfig`, its fields, or both; then the fields replace those of the `StreamConfig`. Names
    are checked here (CFG-05). The server checks everything else, by the rules of its version.
    """

    _inner: aio.StreamManager

    def create_stream(
        self, config: StreamConfig | None = None, *, timeout: float | None = None, **fields: Unpack[StreamConfigFields]
    ) -> Stream:
        """Create a stream. If it exists with the same configuration, it is returned.

        Parameters
        ----------
        config, fields
            The configuration: `create_stream(name="ORDERS", subjects=["orders.>"])`.
        timeout
            Seconds; None takes `timeout` of the context.

        Raises
        ------
        ConfigError, BadNameError
            The configuration cannot be sent.
        StreamNameInUseError
            A stream of that name has another configuration (10058).
        SubjectOverlapError
            Another stream stores some of the subjects (10065).
        StreamConfigError, APIError
            The server refuses the configuration.
        """
        return Stream(self._connection, self._call(self._inner.create_stream(config, timeout=timeout, **fields)))

    def update_stream(
        self, config: StreamConfig | None = None, *, timeout: float | None = None, **fields: Unpack[StreamConfigFields]
    ) -> Stream:
        """Replace the whole configuration of a stream: fields that are not set get the server's default.

        To change some fields and keep the others, also fields of a newer server, use `Stream.update`.

        Raises
        ------
        StreamNotFoundError
            There is no such stream (10059).
        StreamConfigError, APIError
            The change is not possible.
        """
        return Stream(self._connection, self._call(self._inner.update_stream(config, timeout=timeout, **fields)))

    def create_or_update_stream(
        self, config: StreamConfig | None = None, *, timeout: float | None = None, **fields: Unpack[StreamConfigFields]
    ) -> Stream:
        """Update a stream, or create it if there is none. Parameters and errors are those of the two calls.

        `timeout` is for each of the two requests that this may take.
        """
        return Stream(
            self._connection, self._call(self._inner.create_or_update_stream(config, timeout=timeout, **fields))
        )

    def stream(self, name: str, *, timeout: float | None = None) -> Stream:
        """Return the handle of a stream that exists.

        Raises
        ------
        StreamNotFoundError
            There is no such stream (10059).
        """
        return Stream(self._connection, self._call(self._inner.stream(name, timeout=timeout)))

    def counter(self, stream: str, *, timeout: float | None = None) -> Counter:
        """Return the counters of a stream that exists (ADR-49).

        Raises
        ------
        ConfigError
            The stream lacks `allow_msg_counter` or `allow_direct`.
        StreamNotFoundError
            There is no such stream (10059).
        """
        return Counter(self._connection, self._call(self._inner.counter(stream, timeout=timeout)))

    def schedules(self, stream: str, *, timeout: float | None = None) -> Schedules:
        """Return the schedules of a stream that exists (ADR-51).

        Raises
        ------
        ConfigError
            The stream lacks `allow_msg_schedules`.
        StreamNotFoundError
            There is no such stream (10059).
        """
        return Schedules(self._connection, self._call(self._inner.schedules(stream, timeout=timeout)))

    def delete_stream(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a stream with its messages and consumers.

        Raises
        ------
        StreamNotFoundError
            There is no such stream (10059).
        """
        self._call(self._inner.delete_stream(name, timeout=timeout))

    def streams(self, subject: str | None = None, *, timeout: float | None = None) -> ListPager[StreamInfo]:
        """List configuration and state of the streams, in pages of 256.

            for info in js.streams():
                ...
            infos = js.streams().all()

        Parameters
        ----------
        subject
            Only streams that store matching subjects; wildcards are allowed.
        timeout
            Seconds, for each page; None takes `timeout` of the context.
        """
        return ListPager(self._connection, self._run(lambda: self._inner.streams(subject, timeout=timeout)))

    def stream_names(self, subject: str | None = None, *, timeout: float | None = None) -> ListPager[str]:
        """List the names of the streams, in pages of 1,024. Parameters are those of `streams`."""
        return ListPager(self._connection, self._run(lambda: self._inner.stream_names(subject, timeout=timeout)))

    def stream_name_by_subject(self, subject: str, *, timeout: float | None = None) -> str:
        """Return the name of the only stream that stores a subject (STR-01).

        Raises
        ------
        NoMatchingStreamError
            No stream stores it, or more than one (STR-02).
        """
        return self._call(self._inner.stream_name_by_subject(subject, timeout=timeout))
