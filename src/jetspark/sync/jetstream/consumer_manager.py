"""The consumers of the account's streams (ADR-37). `Stream` offers the same with its name filled in.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.consumer_manager`: change that, then `make sync`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from jetspark.aio.jetstream import consumer_manager as aio
from jetspark.flow.ordered import OrderedFields
from jetspark.jetstream.config import ConsumerConfig
from jetspark.jetstream.info import ConsumerInfo, ConsumerPause
from jetspark.sync.jetstream.api import JetStreamAPI
from jetspark.sync.jetstream.consumer import Consumer
from jetspark.sync.jetstream.ordered import OrderedConsumer
from jetspark.sync.jetstream.results import Listing

__all__ = ["ConsumerManager"]


class ConsumerManager(JetStreamAPI):
    """What a context does with consumers.

    A configuration is given as a `ConsumerConfig`, as its fields, or as both; then the fields are set on top of it.
    Where they name no ack policy it is `explicit`; where they name no consumer a name is made up.
    """

    _inner: aio.ConsumerManager

    def create_consumer(
        self, stream: str, config: ConsumerConfig | None = None, *, timeout: float | None = None, **fields: object
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
        return Consumer(
            self._connection, self._call(self._inner.create_consumer(stream, config, timeout=timeout, **fields))
        )

    def update_consumer(
        self, stream: str, config: ConsumerConfig | None = None, *, timeout: float | None = None, **fields: object
    ) -> Consumer:
        """Give a consumer a new configuration, the whole of it (MGT-08).

        Raises
        ------
        ConsumerDoesNotExistError
            There is none of that name (10149).
        ConsumerCreateError
            A field cannot be changed (10012).
        """
        return Consumer(
            self._connection, self._call(self._inner.update_consumer(stream, config, timeout=timeout, **fields))
        )

    def create_or_update_consumer(
        self, stream: str, config: ConsumerConfig | None = None, *, timeout: float | None = None, **fields: object
    ) -> Consumer:
        """Make a consumer, or change the one of that name (MGT-09). Parameters and errors as in the two calls."""
        return Consumer(
            self._connection,
            self._call(self._inner.create_or_update_consumer(stream, config, timeout=timeout, **fields)),
        )

    def consumer(self, stream: str, name: str, *, timeout: float | None = None) -> Consumer:
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
        return Consumer(self._connection, self._call(self._inner.consumer(stream, name, timeout=timeout)))

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
        return OrderedConsumer(
            self._connection,
            self._run(
                lambda: self._inner.ordered_consumer(
                    stream, name_prefix=name_prefix, max_reset_attempts=max_reset_attempts, **fields
                )
            ),
        )

    def delete_consumer(self, stream: str, name: str, *, timeout: float | None = None) -> None:
        """Delete a consumer of either kind.

        Raises
        ------
        ConsumerNotFoundError, StreamNotFoundError
            There is no such consumer (10014), or stream (10059).
        """
        self._call(self._inner.delete_consumer(stream, name, timeout=timeout))

    def consumer_info(self, stream: str, name: str, *, timeout: float | None = None) -> ConsumerInfo:
        """Configuration and state of a consumer of either kind. Errors are those of `delete_consumer`."""
        return self._call(self._inner.consumer_info(stream, name, timeout=timeout))

    def pause_consumer(self, stream: str, name: str, until: datetime, *, timeout: float | None = None) -> ConsumerPause:
        """Let a consumer deliver nothing until a time; its open pulls still get heartbeats.

        Parameters
        ----------
        until
            Aware time; one that is past lets it go on.
        """
        return self._call(self._inner.pause_consumer(stream, name, until, timeout=timeout))

    def resume_consumer(self, stream: str, name: str, *, timeout: float | None = None) -> ConsumerPause:
        """Let a paused consumer go on."""
        return self._call(self._inner.resume_consumer(stream, name, timeout=timeout))

    def unpin_consumer(self, stream: str, name: str, group: str, *, timeout: float | None = None) -> None:
        """Release the pinned client of a priority group (ADR-42).

        Raises
        ------
        InvalidPriorityGroupError
            The consumer has no such group (10160).
        """
        self._call(self._inner.unpin_consumer(stream, name, group, timeout=timeout))

    def reset_consumer(
        self, stream: str, name: str, seq: int | None = None, *, timeout: float | None = None
    ) -> ConsumerInfo:
        """Set a consumer back, or forward, to a sequence of the stream.

        Parameters
        ----------
        seq
            Sequence to go on at; None is the one behind the ack floor, so that what is not acknowledged comes again.
        timeout
            Seconds, for each of the two requests that this takes; None takes `timeout` of the context.
        """
        return self._call(self._inner.reset_consumer(stream, name, seq, timeout=timeout))

    def consumers(self, stream: str, *, timeout: float | None = None) -> Listing[ConsumerInfo]:
        """Configuration and state of a stream's consumers, in pages of 256; `timeout` is for each page."""
        return Listing(self._connection, self._run(lambda: self._inner.consumers(stream, timeout=timeout)))

    def consumer_names(self, stream: str, *, timeout: float | None = None) -> Listing[str]:
        """Names of a stream's consumers, in pages of 1,024; `timeout` is for each page."""
        return Listing(self._connection, self._run(lambda: self._inner.consumer_names(stream, timeout=timeout)))
