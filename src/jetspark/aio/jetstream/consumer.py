"""The handle of a consumer: its calls, and fetch, fetch_bytes, fetch_no_wait, next and consume (ADR-37).

The logic is in `jetspark.engine.pull`; here are the calls. Each call has a subscription of its own, so the messages of
calls do not mix (WIR-07). The messages of a cancelled call go to a fetch that waits on the same handle, or else to the
next call. The same happens to messages that come after a fetch has timed out without an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Unpack

from jetspark.aio.jetstream._drivers.carry_over import CarryOver
from jetspark.aio.jetstream._drivers.consume import start_consume
from jetspark.aio.jetstream._drivers.fetch import fetch_messages
from jetspark.aio.jetstream._drivers.pull import PullDriver
from jetspark.aio.jetstream.arrow import FetchReader, fetch_consumer
from jetspark.aio.jetstream.consume_context import Callback, ConsumeContext, ErrorHandler
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.aio.message import Msg
from jetspark.engine.pull import (
    ConsumeFields,
    InProgressTracker,
    MessageBatch,
    PinIds,
    PriorityFields,
    PullOptions,
    check_group,
    consume_options,
    fetch_options,
)
from jetspark.jetstream.api import (
    ConsumerDeleteRequest,
    ConsumerInfoRequest,
    ConsumerPauseRequest,
    ConsumerResetRequest,
    ConsumerUnpinRequest,
)
from jetspark.jetstream.config import AckPolicy
from jetspark.jetstream.errors import Error, NoMessageError
from jetspark.jetstream.info import ConsumerInfo, ConsumerPause, ConsumerReset
from jetspark.jetstream.message import UNSENDABLE, ack_all_error, settle, split_by_ack_policy
from jetspark.payload import DecodeOptions, PayloadFormat
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.events import ErrorOccurred

__all__ = ["Consumer"]


@checks_arguments()
class Consumer:
    """The handle of a consumer. Created by `create_consumer`, `consumer` and similar calls of a context or a stream."""

    def __init__(self, core: JetStreamCore, info: ConsumerInfo) -> None:
        self._core = core
        self._info = info
        self._pins = PinIds()
        self._carry_over = CarryOver()

    def __repr__(self) -> str:
        return f"<Consumer {self.name!r} of stream {self.stream_name!r}>"

    @property
    def name(self) -> str:
        """Name of the consumer, given or generated."""
        return self._info.name

    @property
    def stream_name(self) -> str:
        """Name of its stream."""
        return self._info.stream_name

    @property
    def cached_info(self) -> ConsumerInfo:
        """Configuration and state from the last answer; `info` asks the server."""
        return self._info

    # -- the consumer on the server ---------------------------------------------------------------------------------

    async def info(self, *, timeout: float | None = None) -> ConsumerInfo:  # noqa: ASYNC109
        """Ask the server for configuration and state.

        Raises
        ------
        ConsumerNotFoundError, StreamNotFoundError
            The consumer is gone (10014), or its stream is (10059).
        """
        self._info = await self._core.request(ConsumerInfoRequest(self.stream_name, self.name), timeout)
        return self._info

    async def delete(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Delete the consumer. Errors are those of `info`."""
        await self._core.request(ConsumerDeleteRequest(self.stream_name, self.name), timeout)

    async def pause(self, until: datetime, *, timeout: float | None = None) -> ConsumerPause:  # noqa: ASYNC109
        """Pause delivery until a time; open pulls still get heartbeats. A past time resumes it."""
        return await self._core.request(ConsumerPauseRequest(self.stream_name, self.name, until), timeout)

    async def resume(self, *, timeout: float | None = None) -> ConsumerPause:  # noqa: ASYNC109
        """Resume delivery."""
        return await self._core.request(ConsumerPauseRequest(self.stream_name, self.name), timeout)

    async def unpin(self, group: str, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Release the pinned client of a priority group (ADR-42)."""
        await self._core.request(ConsumerUnpinRequest(self.stream_name, self.name, group), timeout)

    async def reset(self, sequence: int | None = None, *, timeout: float | None = None) -> ConsumerReset:  # noqa: ASYNC109
        """Move the consumer to a sequence of the stream; None is the first one after the ack floor.

        The answer has that `sequence`, and the consumer's info.
        """
        await self.info(timeout=timeout)  # the server does not answer if there is no consumer
        request = ConsumerResetRequest(self.stream_name, self.name, sequence)
        self._info = reset = await self._core.request(request, timeout)
        return reset

    # -- one pull ------------------------------------------------------------------------------------------------

    async def fetch(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        timeout: float | None = 30.0,  # noqa: ASYNC109
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
        return await self._fetch(
            fetch_options(max_messages, max_bytes=max_bytes, timeout=timeout, idle_heartbeat=idle_heartbeat, **priority)
        )

    async def fetch_bytes(
        self,
        max_bytes: int,
        *,
        timeout: float | None = 30.0,  # noqa: ASYNC109
        idle_heartbeat: float | None = None,
        **priority: Unpack[PriorityFields],
    ) -> MessageBatch[Msg]:
        """As `fetch`, limited by bytes only (FET-02). A next message that does not fit ends it, even if it is empty."""
        return await self._fetch(
            fetch_options(max_bytes=max_bytes, timeout=timeout, idle_heartbeat=idle_heartbeat, **priority)
        )

    async def fetch_no_wait(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        **priority: Unpack[PriorityFields],
    ) -> MessageBatch[Msg]:
        """As `fetch`, for messages that are available now (FET-08)."""
        return await self._fetch(fetch_options(max_messages, max_bytes=max_bytes, no_wait=True, **priority))

    async def next(
        self,
        timeout: float | None = 30.0,  # noqa: ASYNC109 (the deadline is part of the call)
        *,
        idle_heartbeat: float | None = None,
        **priority: Unpack[PriorityFields],
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
        batch = await self._fetch(fetch_options(1, timeout=timeout, idle_heartbeat=idle_heartbeat, **priority))
        if not batch:
            raise NoMessageError(f"{self._info.stream_name}/{self._info.name}: no message within {timeout or 0:g} s")
        return batch[0]

    # -- continuous ----------------------------------------------------------------------------------------------

    def consume(
        self,
        callback: Callback | None = None,
        *,
        on_error: ErrorHandler | None = None,
        concurrency: int = 1,
        **options: Unpack[ConsumeFields],
    ) -> ConsumeContext:
        """Pull continuously, so that messages are available before they are requested.

            async with consumer.consume() as messages:
                async for message in messages:
                    ...
                    await message.ack()

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
        wanted = consume_options(**options)
        check_group(self._info.config, wanted.priority)
        where = f"{self._info.stream_name}/{self._info.name}"
        driver: PullDriver | None = None

        def make(on_ready: Callable[[], None], on_warning: Callable[[Error], None]) -> PullDriver:
            nonlocal driver
            driver = self._make_driver(wanted, on_ready, on_warning)
            self._carry_over.move_all(driver.prefill)
            return driver

        try:
            progress = InProgressTracker.for_consumer(lambda: self._info.config) if wanted.auto_in_progress else None
            core = start_consume(self._core.connection, where, make, callback, on_error, progress, concurrency)
            return ConsumeContext(core)
        except BaseException:
            if driver is not None:
                driver.detach()
            raise

    async def ack_all(self, messages: Iterable[Msg]) -> None:
        """Acknowledge many messages, as the consumer's ack policy allows.

        With policy `all` one acknowledgement is sent, for the message with the highest sequence; it covers the earlier
        ones. With `explicit` one is sent for each message; with `none` nothing. Errors are those of `Msg.ack`. If some
        messages have no valid ack subject, the others are acknowledged before the error is raised.
        """
        to_ack, covered = split_by_ack_policy(messages, self._info.config.ack_policy)
        errors: list[Error] = []
        for message in to_ack:
            try:
                await message.ack()
            except UNSENDABLE as error:
                errors.append(error)
        if covered and to_ack[0].settled:
            for message in covered:
                settle(message)
        if errors:
            raise ack_all_error(errors, len(to_ack))

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
        return fetch_consumer(
            self._core,
            self._info,
            self._carry_over,
            columns=columns,
            decode=decode,
            max_messages=max_messages,
            max_bytes=max_bytes,
            timeout=timeout,
            no_wait=no_wait,
            idle_heartbeat=idle_heartbeat,
            **priority,
        )

    # -- inner ---------------------------------------------------------------------------------------------------

    def _make_driver(
        self,
        options: PullOptions,
        on_ready: Callable[[], None],
        on_warning: Callable[[Error], None],
        ready: deque[Msg] | None = None,
    ) -> PullDriver:
        return PullDriver(
            self._core,
            self._info.stream_name,
            self._info.name,
            options,
            pins=self._pins,
            acks=self._info.config.ack_policy is not AckPolicy.NONE,
            on_ready=on_ready,
            on_warning=on_warning,
            ready=ready,
            carry_over=self._carry_over,
        )

    async def _fetch(self, options: PullOptions) -> MessageBatch[Msg]:
        check_group(self._info.config, options.priority)
        if self._carry_over:
            options.template(self._info.stream_name, self._info.name)  # raises before any message is taken
        return await fetch_messages(
            self._core.connection,
            self._carry_over,
            options,
            lambda wanted, on_ready, ready: self._make_driver(wanted, on_ready, self._warn, ready),
        )

    def _warn(self, error: Error) -> None:
        self._core.connection.emit(ErrorOccurred(error))
