"""The consumers of the account's streams (ADR-37). `Stream` has the same calls without the stream's name.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.consumer_manager`: change that, then `make sync`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from jetspark.aio.jetstream import consumer_manager as aio
from jetspark.engine.ordered_config import OrderedFields
from jetspark.engine.ordered_stream import OnStreamRecreated
from jetspark.jetstream.config import ConsumerConfig
from jetspark.jetstream.config_keywords import ConsumerConfigFields
from jetspark.jetstream.info import ConsumerInfo, ConsumerPause, ConsumerReset
from jetspark.sync._handwritten.pager import ListPager
from jetspark.sync.jetstream.api import JetStreamAPI
from jetspark.sync.jetstream.consumer import Consumer
from jetspark.sync.jetstream.ordered_consumer import OrderedConsumer
from jetspark.wire.argument_types import checks_arguments

__all__ = ["ConsumerManager"]


@checks_arguments()
class ConsumerManager(JetStreamAPI):
    """The calls of a context for consumers.

    A configuration is a `ConsumerConfig`, its fields, or both; then the fields replace those of the `ConsumerConfig`.
    The default ack policy is `explicit`. Without a name, a name is generated.
    """

    _inner: aio.ConsumerManager

    def create_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,
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
        return Consumer(
            self._connection, self._call(self._inner.create_consumer(stream, config, timeout=timeout, **fields))
        )

    def update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,
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
        return Consumer(
            self._connection, self._call(self._inner.update_consumer(stream, config, timeout=timeout, **fields))
        )

    def create_or_update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,
        **fields: Unpack[ConsumerConfigFields],
    ) -> Consumer:
        """Create a consumer, or update the one of that name (MGT-09). Parameters and errors as in the two calls."""
        return Consumer(
            self._connection,
            self._call(self._inner.create_or_update_consumer(stream, config, timeout=timeout, **fields)),
        )

    def consumer(self, stream: str, name: str, *, timeout: float | None = None) -> Consumer:
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
        return Consumer(self._connection, self._call(self._inner.consumer(stream, name, timeout=timeout)))

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
        return OrderedConsumer(
            self._connection,
            self._run(
                lambda: self._inner.ordered_consumer(
                    stream,
                    name_prefix=name_prefix,
                    max_reset_attempts=max_reset_attempts,
                    on_stream_recreated=on_stream_recreated,
                    **fields,
                )
            ),
        )

    def delete_consumer(self, stream: str, name: str, *, timeout: float | None = None) -> None:
        """Delete a pull or push consumer.

        Raises
        ------
        ConsumerNotFoundError, StreamNotFoundError
            There is no such consumer (10014) or no such stream (10059).
        """
        self._call(self._inner.delete_consumer(stream, name, timeout=timeout))

    def consumer_info(self, stream: str, name: str, *, timeout: float | None = None) -> ConsumerInfo:
        """Return configuration and state of a pull or push consumer. Errors are those of `delete_consumer`."""
        return self._call(self._inner.consumer_info(stream, name, timeout=timeout))

    def pause_consumer(self, stream: str, name: str, until: datetime, *, timeout: float | None = None) -> ConsumerPause:
        """Pause the delivery of a consumer until a time; its open pulls still get heartbeats.

        Parameters
        ----------
        until
            Aware time; a past time resumes delivery.
        """
        return self._call(self._inner.pause_consumer(stream, name, until, timeout=timeout))

    def resume_consumer(self, stream: str, name: str, *, timeout: float | None = None) -> ConsumerPause:
        """Resume the delivery of a paused consumer."""
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
        self, stream: str, name: str, sequence: int | None = None, *, timeout: float | None = None
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
        return self._call(self._inner.reset_consumer(stream, name, sequence, timeout=timeout))

    def consumers(self, stream: str, *, timeout: float | None = None) -> ListPager[ConsumerInfo]:
        """List configuration and state of a stream's consumers, in pages of 256; `timeout` is for each page."""
        return ListPager(self._connection, self._run(lambda: self._inner.consumers(stream, timeout=timeout)))

    def consumer_names(self, stream: str, *, timeout: float | None = None) -> ListPager[str]:
        """List the names of a stream's consumers, in pages of 1,024; `timeout` is for each page."""
        return ListPager(self._connection, self._run(lambda: self._inner.consumer_names(stream, timeout=timeout)))
