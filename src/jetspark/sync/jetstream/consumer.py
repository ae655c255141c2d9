"""The handle of a consumer: its calls, and fetch, fetch_bytes, fetch_no_wait, next and consume (ADR-37).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.consumer`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Unpack, cast

from jetspark.aio.jetstream import consumer as aio
from jetspark.engine.pull import (
    ConsumeFields,
    MessageBatch,
    PriorityFields,
)
from jetspark.jetstream.info import ConsumerInfo, ConsumerPause, ConsumerReset
from jetspark.payload import DecodeOptions, PayloadFormat
from jetspark.sync._handwritten.arrow import FetchReader
from jetspark.sync._handwritten.consume import ConsumeMixin
from jetspark.sync.jetstream.consume_context import Callback, ConsumeContext, ErrorHandler
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.sync.message import Msg
from jetspark.wire.argument_types import checks_arguments

__all__ = ["Consumer"]


@checks_arguments()
class Consumer(ConsumeMixin, LoopProxy):
    """The handle of a consumer. Created by `create_consumer`, `consumer` and similar calls of a context or a stream."""

    _inner: aio.Consumer

    @property
    def name(self) -> str:
        """Name of the consumer, given or generated."""
        return self._inner.name

    @property
    def stream_name(self) -> str:
        """Name of its stream."""
        return self._inner.stream_name

    @property
    def cached_info(self) -> ConsumerInfo:
        """Configuration and state from the last answer; `info` asks the server."""
        return self._inner.cached_info

    def info(self, *, timeout: float | None = None) -> ConsumerInfo:
        """Ask the server for configuration and state.

        Raises
        ------
        ConsumerNotFoundError, StreamNotFoundError
            The consumer is gone (10014), or its stream is (10059).
        """
        return self._call(self._inner.info(timeout=timeout))

    def delete(self, *, timeout: float | None = None) -> None:
        """Delete the consumer. Errors are those of `info`."""
        self._call(self._inner.delete(timeout=timeout))

    def pause(self, until: datetime, *, timeout: float | None = None) -> ConsumerPause:
        """Pause delivery until a time; open pulls still get heartbeats. A past time resumes it."""
        return self._call(self._inner.pause(until, timeout=timeout))

    def resume(self, *, timeout: float | None = None) -> ConsumerPause:
        """Resume delivery."""
        return self._call(self._inner.resume(timeout=timeout))

    def unpin(self, group: str, *, timeout: float | None = None) -> None:
        """Release the pinned client of a priority group (ADR-42)."""
        self._call(self._inner.unpin(group, timeout=timeout))

    def reset(self, sequence: int | None = None, *, timeout: float | None = None) -> ConsumerReset:
        """Move the consumer to a sequence of the stream; None is the first one after the ack floor.

        The answer has that `sequence`, and the consumer's info.
        """
        return self._call(self._inner.reset(sequence, timeout=timeout))

    def fetch(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        timeout: float | None = 30.0,
        idle_heartbeat: float | None = None,
        **priority: Unpack[PriorityFields],
    ) -> MessageBatch[Msg]:
        """Pull once, and wait until `max_messages` or `max_bytes` came or `timeout` has passed.

        Parameters
        ----------
        max_messages
            Most messages.
        max_bytes
            Most bytes in total, as the server counts them: subject, ack subject, headers and payload.
        timeout
            Seconds that the server keeps the pull open. None waits without a limit, with one pull after the other.
        idle_heartbeat
            Seconds of silence after which the server sends a heartbeat, at most half of `timeout`. The fetch ends if no
            heartbeat comes within twice that time. Default: 5 if `timeout` is above 30, otherwise none (FET-03).
        group, min_pending, min_ack_pending, priority
            Priority group, and the priority within it (ADR-42).

        Returns
        -------
        MessageBatch
            The messages; empty if none came. If the fetch ended early with messages, `error` is set, and the iteration
            raises it after the last message.

        Raises
        ------
        ConfigError
            Neither `max_messages` nor `max_bytes` is given, or the server would refuse a value.
        ConsumerDeletedError, ConsumerIsPushError
            The consumer is deleted, or is a push consumer.
        NoConsumerResponseError
            Nobody answers, and the consumer is gone. ConsumerUnavailableError if it exists or JetStream is unavailable.
        MissedHeartbeatError, DisconnectedError, LeadershipChangeError, PullLimitExceededError, StatusError
            The pull has failed.
        ConnectionClosedError
            The connection is closed.
        """
        return cast(
            "MessageBatch[Msg]",
            self._call(
                self._inner.fetch(
                    max_messages, max_bytes=max_bytes, timeout=timeout, idle_heartbeat=idle_heartbeat, **priority
                )
            ),
        )

    def fetch_bytes(
        self,
        max_bytes: int,
        *,
        timeout: float | None = 30.0,
        idle_heartbeat: float | None = None,
        **priority: Unpack[PriorityFields],
    ) -> MessageBatch[Msg]:
        """As `fetch`, limited by bytes only (FET-02). A next message that does not fit ends it, even if it is empty."""
        return cast(
            "MessageBatch[Msg]",
            self._call(self._inner.fetch_bytes(max_bytes, timeout=timeout, idle_heartbeat=idle_heartbeat, **priority)),
        )

    def fetch_no_wait(
        self, max_messages: int | None = None, *, max_bytes: int | None = None, **priority: Unpack[PriorityFields]
    ) -> MessageBatch[Msg]:
        """As `fetch`, for messages that are available now (FET-08)."""
        return cast(
            "MessageBatch[Msg]", self._call(self._inner.fetch_no_wait(max_messages, max_bytes=max_bytes, **priority))
        )

    def next(
        self, timeout: float | None = 30.0, *, idle_heartbeat: float | None = None, **priority: Unpack[PriorityFields]
    ) -> Msg:
        """Return the next message; its pull is sent now (FET-09).

        Parameters
        ----------
        timeout
            Seconds; None means no limit.

        Raises
        ------
        NoMessageError
            No message came in time.
        Error
            As for `fetch`.
        """
        return cast("Msg", self._call(self._inner.next(timeout, idle_heartbeat=idle_heartbeat, **priority)))

    def consume(
        self,
        callback: Callback | None = None,
        *,
        on_error: ErrorHandler | None = None,
        concurrency: int = 1,
        **options: Unpack[ConsumeFields],
    ) -> ConsumeContext:
        """Pull continuously, so that messages are available before they are requested.

            with consumer.consume() as messages:
                for message in messages:
                    ...
                    message.ack()

        It continues after lost connections, leader changes and silence. It ends when it is stopped, when the consumer
        is deleted or is a push consumer, or when the server rejects the pull as malformed.

        Parameters
        ----------
        callback
            Called with each message; without it, iterate the returned object. `on_error` gets its exceptions.
        on_error
            Called with each warning, and with ConnectionClosedError when the connection is closed for good. By default,
            the connection's event handler gets warnings as `ErrorOccurred`, and the close as `Closed`.
        concurrency
            Most calls of the callback at a time, in tasks (blocking front: threads), up to 1000. With 1, they come in
            order.
        options
            `max_messages` or `max_bytes`, `timeout`, `idle_heartbeat`, `threshold_messages`, `threshold_bytes`,
            `verify_on_reconnect`, `auto_in_progress`, `group`, `min_pending`, `min_ack_pending`, `priority`: see
            `jetspark.engine.pull.consume_options`.

        Raises
        ------
        ConfigError
            The value of an option is not valid.
        ConnectionClosedError
            The connection is closed.
        """
        return ConsumeContext(self._consume(callback, on_error=on_error, concurrency=concurrency, **options))

    def ack_all(self, messages: Iterable[Msg]) -> None:
        """Acknowledge many messages, as the consumer's ack policy allows.

        With policy `all` one acknowledgement is sent, for the message with the highest sequence; it covers the earlier
        ones. With `explicit` one is sent for each message; with `none` nothing. Errors are those of `Msg.ack`. If some
        messages have no valid ack subject, the others are acknowledged before the error is raised.
        """
        self._ack_all(messages)

    def fetch_arrow(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        timeout: float | None = 30.0,
        no_wait: bool = False,
        idle_heartbeat: float | None = None,
        columns: Sequence[str] | None = None,
        decode: PayloadFormat | DecodeOptions | None = None,
        **priority: Unpack[PriorityFields],
    ) -> FetchReader:
        """Pull once, into Arrow record batches, which pandas, polars and DuckDB accept.

        It pulls over a connection of its own. `ack` of the returned object acknowledges all returned messages. Needs
        the `arrow` extra.

        Parameters
        ----------
        max_messages, max_bytes, timeout, idle_heartbeat, group, min_pending, min_ack_pending, priority
            As for `fetch`.
        no_wait
            Take only messages that are available now.
        columns
            Any of `subject`, `data`, `headers`, `stream`, `sequence`, `timestamp` and `timestamp_ns`; None means all.
        decode
            Format of the payloads: its fields take the place of `data`; see `jetspark.bulk.fetch`.

        Raises
        ------
        ConfigError, StatusError, ConnectError, MissedHeartbeatError, DisconnectedError, PayloadError
            While reading; see `jetspark.bulk.fetch`.
        """
        return FetchReader(
            self._connection,
            self._run(
                lambda: self._inner.fetch_arrow(
                    max_messages,
                    max_bytes=max_bytes,
                    timeout=timeout,
                    no_wait=no_wait,
                    idle_heartbeat=idle_heartbeat,
                    columns=columns,
                    decode=decode,
                    **priority,
                )
            ),
        )
