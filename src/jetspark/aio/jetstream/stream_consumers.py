"""The consumers of one stream: `ConsumerManager` with the stream's name filled in (STM-01)."""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from jetspark.aio.jetstream.consumer import Consumer
from jetspark.aio.jetstream.consumer_manager import ConsumerManager
from jetspark.aio.jetstream.core import JetStreamCore
from jetspark.aio.jetstream.ordered_consumer import OrderedConsumer
from jetspark.aio.jetstream.pager import ListPager
from jetspark.aio.jetstream.stream_base import StreamBase
from jetspark.engine.ordered_config import OrderedFields
from jetspark.engine.ordered_stream import OnStreamRecreated
from jetspark.jetstream.config import ConsumerConfig
from jetspark.jetstream.config_keywords import ConsumerConfigFields
from jetspark.jetstream.info import ConsumerInfo, ConsumerPause, ConsumerReset, StreamInfo
from jetspark.wire.argument_types import checks_arguments

__all__ = ["StreamConsumers"]


@checks_arguments()
class StreamConsumers(StreamBase):
    """The calls of a stream for its consumers. Parameters and errors are those of the same calls of the context."""

    def __init__(self, core: JetStreamCore, info: StreamInfo) -> None:
        super().__init__(core, info)
        self._consumers = ConsumerManager(core)

    async def create_consumer(
        self,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[ConsumerConfigFields],
    ) -> Consumer:
        """Create a consumer; see `JetStream.create_consumer`."""
        return await self._consumers.create_consumer(self.name, config, timeout=timeout, **fields)

    async def update_consumer(
        self,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[ConsumerConfigFields],
    ) -> Consumer:
        """Replace the configuration of a consumer; see `JetStream.update_consumer`."""
        return await self._consumers.update_consumer(self.name, config, timeout=timeout, **fields)

    async def create_or_update_consumer(
        self,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
        **fields: Unpack[ConsumerConfigFields],
    ) -> Consumer:
        """Create a consumer, or update the one of that name; see `JetStream.create_or_update_consumer`."""
        return await self._consumers.create_or_update_consumer(self.name, config, timeout=timeout, **fields)

    async def consumer(self, name: str, *, timeout: float | None = None) -> Consumer:  # noqa: ASYNC109
        """Return the handle of a pull consumer that exists; see `JetStream.consumer`."""
        return await self._consumers.consumer(self.name, name, timeout=timeout)

    def ordered_consumer(
        self,
        *,
        name_prefix: str | None = None,
        max_reset_attempts: int | None = None,
        on_stream_recreated: OnStreamRecreated = "error",
        **fields: Unpack[OrderedFields],
    ) -> OrderedConsumer:
        """Return an ordered consumer of the stream; see `JetStream.ordered_consumer`."""
        return self._consumers.ordered_consumer(
            self.name,
            name_prefix=name_prefix,
            max_reset_attempts=max_reset_attempts,
            on_stream_recreated=on_stream_recreated,
            **fields,
        )

    async def consumer_info(self, name: str, *, timeout: float | None = None) -> ConsumerInfo:  # noqa: ASYNC109
        """Return configuration and state of a pull or push consumer."""
        return await self._consumers.consumer_info(self.name, name, timeout=timeout)

    async def delete_consumer(self, name: str, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Delete a consumer; see `JetStream.delete_consumer`."""
        await self._consumers.delete_consumer(self.name, name, timeout=timeout)

    async def pause_consumer(
        self,
        name: str,
        until: datetime,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> ConsumerPause:
        """Pause the delivery of a consumer until a time; see `JetStream.pause_consumer`."""
        return await self._consumers.pause_consumer(self.name, name, until, timeout=timeout)

    async def resume_consumer(self, name: str, *, timeout: float | None = None) -> ConsumerPause:  # noqa: ASYNC109
        """Resume the delivery of a paused consumer."""
        return await self._consumers.resume_consumer(self.name, name, timeout=timeout)

    async def unpin_consumer(self, name: str, group: str, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Release the pinned client of a priority group; see `JetStream.unpin_consumer`."""
        await self._consumers.unpin_consumer(self.name, name, group, timeout=timeout)

    async def reset_consumer(
        self,
        name: str,
        sequence: int | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (the deadline is part of the call)
    ) -> ConsumerReset:
        """Move a consumer to a sequence of the stream; see `JetStream.reset_consumer`."""
        return await self._consumers.reset_consumer(self.name, name, sequence, timeout=timeout)

    def consumers(self, *, timeout: float | None = None) -> ListPager[ConsumerInfo]:
        """List configuration and state of its consumers, in pages of 256; `timeout` is for each page."""
        return self._consumers.consumers(self.name, timeout=timeout)

    def consumer_names(self, *, timeout: float | None = None) -> ListPager[str]:
        """List the names of its consumers, in pages of 1,024; `timeout` is for each page."""
        return self._consumers.consumer_names(self.name, timeout=timeout)
