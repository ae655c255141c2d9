"""The streams of an account (ADR-37)."""

from __future__ import annotations

from typing import Unpack

from jetspark.aio.jetstream.consumer_manager import ConsumerManager
from jetspark.aio.jetstream.counter import Counter
from jetspark.aio.jetstream.pager import ListPager
from jetspark.aio.jetstream.schedules import Schedules
from jetspark.aio.jetstream.stream import Stream
from jetspark.jetstream.api import (
    StreamCreateRequest,
    StreamDeleteRequest,
    StreamInfoRequest,
    StreamListRequest,
    StreamNamesRequest,
    StreamUpdateRequest,
)
from jetspark.jetstream.config import StreamConfig
from jetspark.jetstream.config_fields import make_config
from jetspark.jetstream.config_keywords import StreamConfigFields
from jetspark.jetstream.counter import check_counter_stream
from jetspark.jetstream.errors import ConfigError, NoMatchingStreamError, StreamNotFoundError
from jetspark.jetstream.info import StreamInfo
from jetspark.wire.argument_types import checks_arguments

__all__ = ["StreamManager"]


@checks_arguments()
class StreamManager(ConsumerManager):
    """The calls of a context for streams.

    A configuration is a `StreamConfig`, its fields, or both; then the fields replace those of the `StreamConfig`. Names
    are checked here (CFG-05). The server checks everything else, by the rules of its version.
    """

    async def create_stream(
        self,
        config: StreamConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[StreamConfigFields],
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
        request = StreamCreateRequest(make_config(StreamConfig, config, fields))
        return Stream(self._core, await self._core.request(request, timeout))

    async def update_stream(
        self,
        config: StreamConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[StreamConfigFields],
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
        request = StreamUpdateRequest(make_config(StreamConfig, config, fields))
        return Stream(self._core, await self._core.request(request, timeout))

    async def create_or_update_stream(
        self,
        config: StreamConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[StreamConfigFields],
    ) -> Stream:
        """Update a stream, or create it if there is none. Parameters and errors are those of the two calls.

        `timeout` is for each of the two requests that this may take.
        """
        wanted = make_config(StreamConfig, config, fields)
        try:
            return await self.update_stream(wanted, timeout=timeout)
        except StreamNotFoundError:
            return await self.create_stream(wanted, timeout=timeout)

    async def stream(self, name: str, *, timeout: float | None = None) -> Stream:  # noqa: ASYNC109
        """Return the handle of a stream that exists.

        Raises
        ------
        StreamNotFoundError
            There is no such stream (10059).
        """
        return Stream(self._core, await self._core.request(StreamInfoRequest(name), timeout))

    async def counter(self, stream: str, *, timeout: float | None = None) -> Counter:  # noqa: ASYNC109
        """Return the counters of a stream that exists (ADR-49).

        Raises
        ------
        ConfigError
            The stream lacks `allow_msg_counter` or `allow_direct`.
        StreamNotFoundError
            There is no such stream (10059).
        """
        info = await self.request(StreamInfoRequest(stream), timeout)
        check_counter_stream(info.config)
        return Counter(self._core, info)

    async def schedules(self, stream: str, *, timeout: float | None = None) -> Schedules:  # noqa: ASYNC109
        """Return the schedules of a stream that exists (ADR-51).

        Raises
        ------
        ConfigError
            The stream lacks `allow_msg_schedules`.
        StreamNotFoundError
            There is no such stream (10059).
        """
        info = await self.request(StreamInfoRequest(stream), timeout)
        if not info.config.allow_msg_schedules:
            raise ConfigError(f"stream {stream!r} has no schedules: allow_msg_schedules is not set")
        return Schedules(self._core, stream)

    async def delete_stream(self, name: str, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Delete a stream with its messages and consumers.

        Raises
        ------
        StreamNotFoundError
            There is no such stream (10059).
        """
        await self._core.request(StreamDeleteRequest(name), timeout)

    def streams(self, subject: str | None = None, *, timeout: float | None = None) -> ListPager[StreamInfo]:
        """List configuration and state of the streams, in pages of 256.

            async for info in js.streams():
                ...
            infos = await js.streams().all()

        Parameters
        ----------
        subject
            Only streams that store matching subjects; wildcards are allowed.
        timeout
            Seconds, for each page; None takes `timeout` of the context.
        """
        return self.paginate(StreamListRequest(subject), timeout)

    def stream_names(self, subject: str | None = None, *, timeout: float | None = None) -> ListPager[str]:
        """List the names of the streams, in pages of 1,024. Parameters are those of `streams`."""
        return self.paginate(StreamNamesRequest(subject), timeout)

    async def stream_name_by_subject(self, subject: str, *, timeout: float | None = None) -> str:  # noqa: ASYNC109
        """Return the name of the only stream that stores a subject (STR-01).

        Raises
        ------
        NoMatchingStreamError
            No stream stores it, or more than one (STR-02).
        """
        names = (await self._core.request(StreamNamesRequest(subject), timeout)).items
        if len(names) == 1:
            return names[0]
        found = f"several streams store {subject!r}: {', '.join(names)}" if names else f"no stream stores {subject!r}"
        raise NoMatchingStreamError(found, subject=subject, streams=tuple(names))
