"""The consumers of one stream: `ConsumerManager` with the stream's name filled in (STM-01).

Made by `tools/make_sync.py` from `jetspark.aio.jetstream.stream_consumers`: change that, then `make sync`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from jetspark.aio.jetstream import stream_consumers as aio
from jetspark.engine.ordered_config import OrderedFields
from jetspark.engine.ordered_stream import OnStreamRecreated
from jetspark.jetstream.config import ConsumerConfig
from jetspark.jetstream.config_keywords import ConsumerConfigFields
from jetspark.jetstream.info import ConsumerInfo, ConsumerPause, ConsumerReset
from jetspark.sync._handwritten.pager import ListPager
from jetspark.sync.jetstream.consumer import Consumer
from jetspark.sync.jetstream.ordered_consumer import OrderedConsumer
from jetspark.sync.jetstream.stream_base import StreamBase
from jetspark.wire.argument_types import checks_arguments

__all__ = ["StreamConsumers"]


@checks_arguments()
class StreamConsumers(StreamBase):
    """The calls of a stream for its consumers. Parameters and errors are those of the same calls of the context."""

    _inner: aio.StreamConsumers

    def create_consumer(
        self,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,
        **fields: Unpack[ConsumerConfigFields],
    ) -> Consumer:
        """Create a consumer; see `JetStream.create_consumer`."""
        return Consumer(self._connection, self._call(self._inner.create_consumer(config, timeout=timeout, **fields)))

    def update_consumer(
        self,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,
        **fields: Unpack[ConsumerConfigFields],
    ) -> Consumer:
        """Replace the configuration of a consumer; see `JetStream.update_consumer`."""
        return Consumer(self._connection, self._call(self._inner.update_consumer(config, timeout=timeout, **fields)))

    def create_or_update_consumer(
        self,
        config: ConsumerConfig | None = None,
        *,
        timeout: float | None = None,
        **fields: Unpack[ConsumerConfigFields],
    ) -> Consumer:
        """Create a consumer, or update the one of that name; see `JetStream.create_or_update_consumer`."""
        return Consumer(
            self._connection, self._call(self._inner.create_or_update_consumer(config, timeout=timeout, **fields))
        )

    def consumer(self, name: str, *, timeout: float | None = None) -> Consumer:
        """Return the handle of a pull consumer that exists; see `JetStream.consumer`."""
        return Consumer(self._connection, self._call(self._inner.consumer(name, timeout=timeout)))

    def ordered_consumer(
        self,
        *,
        name_prefix: str | None = None,
        max_reset_attempts: int | None = None,
        on_stream_recreated: OnStreamRecreated = "error",
        **fields: Unpack[OrderedFields],
    ) -> OrderedConsumer:
        """Return an ordered consumer of the stream; see `JetStream.ordered_consumer`."""
        return OrderedConsumer(
            self._connection,
            self._run(
                lambda: self._inner.ordered_consumer(
                    name_prefix=name_prefix,
                    max_reset_attempts=max_reset_attempts,
                    on_stream_recreated=on_stream_recreated,
                    **fields,
                )
            ),
        )

    def consumer_info(self, name: str, *, timeout: float | None = None) -> ConsumerInfo:
        """Return configuration and state of a pull or push consumer."""
        return self._call(self._inner.consumer_info(name, timeout=timeout))

    def delete_consumer(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a consumer; see `JetStream.delete_consumer`."""
        self._call(self._inner.delete_consumer(name, timeout=timeout))

    def pause_consumer(self, name: str, until: datetime, *, timeout: float | None = None) -> ConsumerPause:
        """Pause the delivery of a consumer until a time; see `JetStream.pause_consumer`."""
        return self._call(self._inner.pause_consumer(name, until, timeout=timeout))

    def resume_consumer(self, name: str, *, timeout: float | None = None) -> ConsumerPause:
        """Resume the delivery of a paused consumer."""
        return self._call(self._inner.resume_consumer(name, timeout=timeout))

    def unpin_consumer(self, name: str, group: str, *, timeout: float | None = None) -> None:
        """Release the pinned client of a priority group; see `JetStream.unpin_consumer`."""
        self._call(self._inner.unpin_consumer(name, group, timeout=timeout))

    def reset_consumer(self, name: str, sequence: int | None = None, *, timeout: float | None = None) -> ConsumerReset:
        """Move a consumer to a sequence of the stream; see `JetStream.reset_consumer`."""
        return self._call(self._inner.reset_consumer(name, sequence, timeout=timeout))

    def consumers(self, *, timeout: float | None = None) -> ListPager[ConsumerInfo]:
        """List configuration and state of its consumers, in pages of 256; `timeout` is for each page."""
        return ListPager(self._connection, self._run(lambda: self._inner.consumers(timeout=timeout)))

    def consumer_names(self, *, timeout: float | None = None) -> ListPager[str]:
        """List the names of its consumers, in pages of 1,024; `timeout` is for each page."""
        return ListPager(self._connection, self._run(lambda: self._inner.consumer_names(timeout=timeout)))
