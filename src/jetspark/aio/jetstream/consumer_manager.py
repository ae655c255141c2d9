"""The consumers of the account's streams (ADR-37). `Stream` has the same calls without the stream's name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Unpack

from jetspark.aio.jetstream.api import JetStreamAPI
from jetspark.aio.jetstream.consumer import Consumer
from jetspark.aio.jetstream.ordered_consumer import OrderedConsumer
from jetspark.aio.jetstream.pager import ListPager
from jetspark.engine.ordered_config import OrderedFields, ordered_config
from jetspark.engine.ordered_cursor import OrderedCursor
from jetspark.engine.ordered_stream import OnStreamRecreated
from jetspark.jetstream.api import (
    ConsumerAction,
    ConsumerCreateRequest,
    ConsumerDeleteRequest,
    ConsumerInfoRequest,
    ConsumerListRequest,
    ConsumerNamesRequest,
    ConsumerPauseRequest,
    ConsumerResetRequest,
    ConsumerUnpinRequest,
)
from jetspark.jetstream.config import AckPolicy, ConsumerConfig
from jetspark.jetstream.config_fields import make_config
from jetspark.jetstream.config_keywords import ConsumerConfigFields
from jetspark.jetstream.errors import ConfigError, NotPullConsumerError
from jetspark.jetstream.info import ConsumerInfo, ConsumerPause, ConsumerReset
from jetspark.jetstream.names import check_stream_name, new_name
from jetspark.wire.argument_types import checks_arguments

__all__ = ["ConsumerManager"]


@checks_arguments()
class ConsumerManager(JetStreamAPI):
    """The calls of a context for consumers.

    A configuration is a `ConsumerConfig`, its fields, or both; then the fields replace those of the `ConsumerConfig`.
    The default ack policy is `explicit`. Without a name, a name is generated.
    """

    async def create_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[ConsumerConfigFields],
    ) -> Consumer:
        """Create a consumer. If it exists with the same configuration, it is returned (MGT-07).

        Parameters
        ----------
        stream
            Name of the stream.
        config, fields
            The configuration: `create_consumer("ORDERS", durable_name="worker", filter_subject="orders.eu.>")`.
            Without a durable name the server deletes the consumer if it is unused for `inactive_threshold`.
        timeout
            Seconds; None takes `timeout` of the context.

        Raises
        ------
        ConfigError, BadNameError
            The configuration cannot be sent.
        StreamNotFoundError
            There is no such stream (10059).
        ConsumerExistsError
            A consumer of that name has another configuration (10148).
        MaximumConsumersError
            The stream or the account allows no more consumers (10026).
        ConsumerConfigError, APIError
            The server refuses the configuration.
        """
        return await self._send_config(stream, ConsumerAction.CREATE, config, fields, timeout)

    async def update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[ConsumerConfigFields],
    ) -> Consumer:
        """Replace the whole configuration of a consumer (MGT-08).

        Raises
        ------
        ConsumerDoesNotExistError
            There is no consumer of that name (10149).
        ConsumerCreateError
            A field cannot be changed (10012).
        """
        return await self._send_config(stream, ConsumerAction.UPDATE, config, fields, timeout)

    async def create_or_update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[ConsumerConfigFields],
    ) -> Consumer:
        """Create a consumer, or update the one of that name (MGT-09). Parameters and errors as in the two calls."""
        return await self._send_config(stream, ConsumerAction.CREATE_OR_UPDATE, config, fields, timeout)

    async def consumer(self, stream: str, name: str, *, timeout: float | None = None) -> Consumer:  # noqa: ASYNC109
        """Return the handle of a pull consumer that exists (MGT-11).

        Raises
        ------
        ConsumerNotFoundError
            There is no such consumer (10014).
        StreamNotFoundError
            There is no such stream (10059).
        NotPullConsumerError
            It is a push consumer; read it with `JetStream.subscribe`.
        """
        info = await self._core.request(ConsumerInfoRequest(stream, name), timeout)
        if info.config.deliver_subject:
            raise NotPullConsumerError(
                f"consumer {name!r} of stream {stream!r} pushes, to {info.config.deliver_subject!r}; subscribe to it",
                stream=stream,
                consumer=name,
            )
        return Consumer(self._core, info)

    def ordered_consumer(
        self,
        stream: str,
        *,
        name_prefix: str | None = None,
        max_reset_attempts: int | None = None,
        on_stream_recreated: OnStreamRecreated = "error",
        **fields: Unpack[OrderedFields],
    ) -> OrderedConsumer:
        """Return an ordered consumer, which reads a stream once and in order. Nothing is sent before it is read.

        Parameters
        ----------
        stream
            Name of the stream.
        name_prefix
            Prefix of the names of its consumers, followed by a number; generated by default.
        max_reset_attempts
            Most tries in a row to create a consumer while the stream cannot be reached; no limit by default (ORD-08).
        on_stream_recreated
            If the stream was deleted and created again, or lost messages that were read: `error` ends the reading with
            StreamRecreatedError, `restart` reads the present stream from its beginning. The event `StreamRecreated`
            reports either.
        fields
            `filter_subject` or `filter_subjects`, `deliver_policy` with `opt_start_seq` or `opt_start_time`,
            `replay_policy`, `headers_only`, `inactive_threshold` (5 minutes by default) and `metadata`, as of a
            `ConsumerConfig`.

        Raises
        ------
        ConfigError, BadNameError
            A field is fixed for ordered consumers, or its value is not valid.
        """
        check_stream_name(stream)
        return OrderedConsumer(
            self._core,
            stream,
            OrderedCursor(ordered_config(fields), name_prefix, on_stream_recreated),
            max_reset_attempts,
        )

    async def delete_consumer(self, stream: str, name: str, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Delete a pull or push consumer.

        Raises
        ------
        ConsumerNotFoundError, StreamNotFoundError
            There is no such consumer (10014) or no such stream (10059).
        """
        await self._core.request(ConsumerDeleteRequest(stream, name), timeout)

    async def consumer_info(self, stream: str, name: str, *, timeout: float | None = None) -> ConsumerInfo:  # noqa: ASYNC109
        """Return configuration and state of a pull or push consumer. Errors are those of `delete_consumer`."""
        return await self._core.request(ConsumerInfoRequest(stream, name), timeout)

    async def pause_consumer(
        self,
        stream: str,
        name: str,
        until: datetime,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> ConsumerPause:
        """Pause the delivery of a consumer until a time; its open pulls still get heartbeats.

        Parameters
        ----------
        until
            Aware time; a past time resumes delivery.
        """
        return await self._core.request(ConsumerPauseRequest(stream, name, until), timeout)

    async def resume_consumer(
        self,
        stream: str,
        name: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> ConsumerPause:
        """Resume the delivery of a paused consumer."""
        return await self._core.request(ConsumerPauseRequest(stream, name), timeout)

    async def unpin_consumer(
        self,
        stream: str,
        name: str,
        group: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> None:
        """Release the pinned client of a priority group (ADR-42).

        Raises
        ------
        InvalidPriorityGroupError
            The consumer has no such group (10160).
        """
        await self._core.request(ConsumerUnpinRequest(stream, name, group), timeout)

    async def reset_consumer(
        self,
        stream: str,
        name: str,
        sequence: int | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> ConsumerReset:
        """Move a consumer to a sequence of the stream; the answer has that `sequence`, and the consumer's info.

        Parameters
        ----------
        sequence
            Next sequence to deliver; None is the first one after the ack floor, so that messages that are not
            acknowledged are delivered again.
        timeout
            Seconds, for each of the two requests that this takes; None takes `timeout` of the context.
        """
        await self.consumer_info(stream, name, timeout=timeout)  # the server does not answer if there is no consumer
        return await self._core.request(ConsumerResetRequest(stream, name, sequence), timeout)

    def consumers(self, stream: str, *, timeout: float | None = None) -> ListPager[ConsumerInfo]:
        """List configuration and state of a stream's consumers, in pages of 256; `timeout` is for each page."""
        return self.paginate(ConsumerListRequest(stream), timeout)

    def consumer_names(self, stream: str, *, timeout: float | None = None) -> ListPager[str]:
        """List the names of a stream's consumers, in pages of 1,024; `timeout` is for each page."""
        return self.paginate(ConsumerNamesRequest(stream), timeout)

    async def _send_config(
        self,
        stream: str,
        action: ConsumerAction,
        config: ConsumerConfig | None,
        fields: Mapping[str, object],
        timeout: float | None,  # noqa: ASYNC109
    ) -> Consumer:
        wanted = make_config(ConsumerConfig, config, fields)
        if wanted.ack_policy is None:
            wanted = wanted.replace(ack_policy=AckPolicy.EXPLICIT)
        if wanted.name is None:
            if action is ConsumerAction.UPDATE and wanted.durable_name is None:
                raise ConfigError("give the name of the consumer that is to be changed")
            wanted = wanted.replace(name=wanted.durable_name or new_name())
        return Consumer(self._core, await self._core.request(ConsumerCreateRequest(stream, wanted, action), timeout))
