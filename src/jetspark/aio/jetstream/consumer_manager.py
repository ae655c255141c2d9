"""The consumers of the account's streams (ADR-37). `Stream` offers the same with its name filled in."""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from jetspark.aio.jetstream.api import JetStreamAPI
from jetspark.aio.jetstream.consumer import Consumer
from jetspark.aio.jetstream.ordered import OrderedConsumer
from jetspark.aio.jetstream.results import Listing
from jetspark.flow.ordered import OrderedCursor, OrderedFields, ordered_config
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
from jetspark.jetstream.errors import ConfigError, NotPullConsumerError
from jetspark.jetstream.info import ConsumerInfo, ConsumerPause
from jetspark.jetstream.making import make_config
from jetspark.jetstream.names import check_stream_name, new_name

__all__ = ["ConsumerManager"]


class ConsumerManager(JetStreamAPI):
    """What a context does with consumers.

    A configuration is given as a `ConsumerConfig`, as its fields, or as both; then the fields are set on top of it.
    Where they name no ack policy it is `explicit`; where they name no consumer a name is made up.
    """

    async def create_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: object,
    ) -> Consumer:
        """Make a consumer. One that exists with the same configuration is returned (MGT-07).

        Parameters
        ----------
        stream
            Name of the stream.
        config, fields
            The configuration: `create_consumer("ORDERS", durable_name="worker", filter_subject="orders.eu.>")`.
            Without a durable name the server deletes the consumer when nobody uses it for `inactive_threshold`.
        timeout
            Seconds; None takes `timeout` of the context.

        Raises
        ------
        ConfigError, BadNameError
            It cannot be sent.
        StreamNotFoundError
            There is no such stream (10059).
        ConsumerExistsError
            A consumer of that name has another configuration (10148).
        MaximumConsumersError
            The stream or the account takes no more (10026).
        ConsumerConfigError, APIError
            The server refuses it.
        """
        return await self._put(stream, ConsumerAction.CREATE, config, fields, timeout)

    async def update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: object,
    ) -> Consumer:
        """Give a consumer a new configuration, the whole of it (MGT-08).

        Raises
        ------
        ConsumerDoesNotExistError
            There is none of that name (10149).
        ConsumerCreateError
            A field cannot be changed (10012).
        """
        return await self._put(stream, ConsumerAction.UPDATE, config, fields, timeout)

    async def create_or_update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: object,
    ) -> Consumer:
        """Make a consumer, or change the one of that name (MGT-09). Parameters and errors as in the two calls."""
        return await self._put(stream, ConsumerAction.CREATE_OR_UPDATE, config, fields, timeout)

    async def consumer(self, stream: str, name: str, *, timeout: float | None = None) -> Consumer:  # noqa: ASYNC109
        """The handle of a pull consumer that exists (MGT-11).

        Raises
        ------
        ConsumerNotFoundError
            There is no such consumer (10014).
        StreamNotFoundError
            There is no such stream (10059).
        NotPullConsumerError
            It pushes; `JetStream.subscribe` reads such a one.
        """
        info = await self.request(ConsumerInfoRequest(stream, name), timeout)
        if info.config.deliver_subject:
            raise NotPullConsumerError(
                f"consumer {name!r} of stream {stream!r} pushes, to {info.config.deliver_subject!r}; subscribe to it",
                stream=stream,
                consumer=name,
            )
        return Consumer(self, info)

    def ordered_consumer(
        self,
        stream: str,
        *,
        name_prefix: str | None = None,
        max_reset_attempts: int | None = None,
        **fields: Unpack[OrderedFields],
    ) -> OrderedConsumer:
        """Read a stream once and in order. Nothing is sent before it is read from.

        Parameters
        ----------
        stream
            Name of the stream.
        name_prefix
            Start of the names of its consumers, which get a number each; made up by default.
        max_reset_attempts
            Tries in a row to make a consumer while the stream cannot be reached; without a limit by default (ORD-08).
        fields
            `filter_subject` or `filter_subjects`, `deliver_policy` with `opt_start_seq` or `opt_start_time`,
            `replay_policy`, `headers_only`, `inactive_threshold` (5 minutes by default) and `metadata`, as of a
            `ConsumerConfig`.

        Raises
        ------
        ConfigError, BadNameError
            A field is fixed for ordered consumers, or has no such value.
        """
        check_stream_name(stream)
        return OrderedConsumer(self, stream, OrderedCursor(ordered_config(fields), name_prefix), max_reset_attempts)

    async def delete_consumer(self, stream: str, name: str, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Delete a consumer of either kind.

        Raises
        ------
        ConsumerNotFoundError, StreamNotFoundError
            There is no such consumer (10014), or stream (10059).
        """
        await self.request(ConsumerDeleteRequest(stream, name), timeout)

    async def consumer_info(self, stream: str, name: str, *, timeout: float | None = None) -> ConsumerInfo:  # noqa: ASYNC109
        """Configuration and state of a consumer of either kind. Errors are those of `delete_consumer`."""
        return await self.request(ConsumerInfoRequest(stream, name), timeout)

    async def pause_consumer(
        self,
        stream: str,
        name: str,
        until: datetime,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> ConsumerPause:
        """Let a consumer deliver nothing until a time; its open pulls still get heartbeats.

        Parameters
        ----------
        until
            Aware time; one that is past lets it go on.
        """
        return await self.request(ConsumerPauseRequest(stream, name, until), timeout)

    async def resume_consumer(
        self,
        stream: str,
        name: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> ConsumerPause:
        """Let a paused consumer go on."""
        return await self.request(ConsumerPauseRequest(stream, name), timeout)

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
        await self.request(ConsumerUnpinRequest(stream, name, group), timeout)

    async def reset_consumer(
        self,
        stream: str,
        name: str,
        seq: int | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> ConsumerInfo:
        """Set a consumer back, or forward, to a sequence of the stream.

        Parameters
        ----------
        seq
            Sequence to go on at; None is the one behind the ack floor, so that what is not acknowledged comes again.
        timeout
            Seconds, for each of the two requests that this takes; None takes `timeout` of the context.
        """
        await self.consumer_info(stream, name, timeout=timeout)  # the server is silent where there is no consumer
        return await self.request(ConsumerResetRequest(stream, name, seq), timeout)

    def consumers(self, stream: str, *, timeout: float | None = None) -> Listing[ConsumerInfo]:
        """Configuration and state of a stream's consumers, in pages of 256; `timeout` is for each page."""
        return self.listing(ConsumerListRequest(stream), timeout)

    def consumer_names(self, stream: str, *, timeout: float | None = None) -> Listing[str]:
        """Names of a stream's consumers, in pages of 1,024; `timeout` is for each page."""
        return self.listing(ConsumerNamesRequest(stream), timeout)

    async def _put(
        self,
        stream: str,
        action: ConsumerAction,
        config: ConsumerConfig | None,
        fields: dict[str, object],
        timeout: float | None,  # noqa: ASYNC109
    ) -> Consumer:
        wanted = make_config(ConsumerConfig, config, fields)
        if wanted.ack_policy is None:
            wanted = wanted.replace(ack_policy=AckPolicy.EXPLICIT)
        if wanted.name is None:
            if action is ConsumerAction.UPDATE and wanted.durable_name is None:
                raise ConfigError("give the name of the consumer that is to be changed")
            wanted = wanted.replace(name=wanted.durable_name or new_name())
        return Consumer(self, await self.request(ConsumerCreateRequest(stream, wanted, action), timeout))
