"""Ordered consumers in the pull form (ADR-17, ADR-37): every message of a stream once and in order.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.ordered_consumer`: change that, then `make sync`.
"""

from __future__ import annotations

from typing import Unpack, cast

from jetspark.aio.jetstream import ordered_consumer as aio
from jetspark.engine.pull import ConsumeFields, MessageBatch
from jetspark.jetstream.info import ConsumerInfo
from jetspark.sync._handwritten.consume import OrderedConsumeMixin
from jetspark.sync.jetstream.consume_context import Callback, ConsumeContext, ErrorHandler
from jetspark.sync.loop_proxy import LoopProxy
from jetspark.sync.message import Msg
from jetspark.wire.argument_types import checks_arguments

__all__ = ["OrderedConsumer"]


@checks_arguments()
class OrderedConsumer(OrderedConsumeMixin, LoopProxy):
    """Reads a stream once and in order. Created by `ordered_consumer` of a stream or a context.

    It has a consumer on the server only while it reads; the next one starts where the last one stopped. Messages need
    no acknowledgement. Only one call at a time: fetch, next and consume exclude each other (ORD-12).
    """

    _inner: aio.OrderedConsumer

    @property
    def stream_name(self) -> str:
        """Name of its stream."""
        return self._inner.stream_name

    @property
    def last_sequence(self) -> int | None:
        """Stream sequence of the last message that arrived in order; None before the first."""
        return self._inner.last_sequence

    @property
    def cached_info(self) -> ConsumerInfo | None:
        """Info of the present consumer from its creation; None if there is no consumer."""
        return self._inner.cached_info

    def info(self, *, timeout: float | None = None) -> ConsumerInfo:
        """Return configuration and state of the present consumer.

        Raises
        ------
        ConsumerResettingError
            There is no consumer now: it is between two consumers, or nothing is read (ORD-09).
        """
        return self._call(self._inner.info(timeout=timeout))

    def fetch(
        self, max_messages: int | None = None, *, max_bytes: int | None = None, timeout: float | None = 30.0
    ) -> MessageBatch[Msg]:
        """Return the next messages, from a new consumer. A gap ends the fetch early; the next call continues there.

        Parameters
        ----------
        max_messages, max_bytes, timeout
            As for `Consumer.fetch`.

        Raises
        ------
        ConsumerBusyError
            Another call is in progress.
        StreamNotFoundError, APIError, RequestTimeoutError
            The consumer could not be created.
        Error
            As for `Consumer.fetch`.
        """
        return cast(
            "MessageBatch[Msg]", self._call(self._inner.fetch(max_messages, max_bytes=max_bytes, timeout=timeout))
        )

    def next(self, timeout: float | None = 30.0) -> Msg:
        """Return the next message. Errors are those of `fetch`, and NoMessageError if none came in time."""
        return cast("Msg", self._call(self._inner.next(timeout)))

    def consume(
        self,
        callback: Callback | None = None,
        *,
        on_error: ErrorHandler | None = None,
        until_caught_up: bool = False,
        concurrency: int = 1,
        **options: Unpack[ConsumeFields],
    ) -> ConsumeContext:
        """Read continuously, through lost connections, deleted consumers and leader changes.

            with ordered.consume(until_caught_up=True) as messages:
                for message in messages:
                    ...

        When `context = ordered.consume(...)` or `async with` returns, the server has the consumer: messages that
        are published from then on are read, also with the deliver policy `new`. If it cannot be created now, a
        warning goes to `on_error`, and the creation is repeated in the background.

        Parameters
        ----------
        callback, on_error
            As for `Consumer.consume`. When the connection is closed for good, the iteration and `wait_closed` raise
            ConnectionClosedError, too, also after one's own `close`.
        until_caught_up
            End when all messages of the stream were returned, instead of waiting for more.
        concurrency
            Must be 1, because the order is kept.
        options
            As for `Consumer.consume`, without priority groups. The default heartbeat is 5 s (ORD-11).

        Raises
        ------
        ConsumerBusyError
            Another call is in progress.
        ConfigError
            The value of an option is not valid.
        """
        return ConsumeContext(
            self._consume(
                callback, on_error=on_error, until_caught_up=until_caught_up, concurrency=concurrency, **options
            )
        )
