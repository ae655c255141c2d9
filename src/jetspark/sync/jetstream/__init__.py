"""JetStream, blocking.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream`: change that, then `make sync`.
"""

from __future__ import annotations

from jetspark.engine.ordered_config import OrderedFields
from jetspark.engine.publish_window import AsyncPublishOptions, PublishStats
from jetspark.engine.pull import ConsumeFields, MessageBatch, PriorityFields
from jetspark.engine.retry import RetryPolicy
from jetspark.sync._handwritten.async_publisher import PubAckFuture
from jetspark.sync._handwritten.bucket_watch import KeyWatch, ObjectWatch
from jetspark.sync._handwritten.object_reader import ObjectReader
from jetspark.sync._handwritten.pager import ListPager, Pager
from jetspark.sync.jetstream.batch_publisher import BatchPublisher
from jetspark.sync.jetstream.consume_context import ConsumeContext
from jetspark.sync.jetstream.consumer import Consumer
from jetspark.sync.jetstream.context import JetStream
from jetspark.sync.jetstream.counter import Counter
from jetspark.sync.jetstream.key_value import KeyValue
from jetspark.sync.jetstream.object_store import ObjectStore
from jetspark.sync.jetstream.ordered_consumer import OrderedConsumer
from jetspark.sync.jetstream.pull_subscription import PullSubscription
from jetspark.sync.jetstream.push_subscription import PushCallback, PushSubscription
from jetspark.sync.jetstream.schedules import Schedules
from jetspark.sync.jetstream.stream import Stream

__all__ = [
    "AsyncPublishOptions",
    "BatchPublisher",
    "ConsumeContext",
    "ConsumeFields",
    "Consumer",
    "Counter",
    "JetStream",
    "KeyValue",
    "KeyWatch",
    "ListPager",
    "MessageBatch",
    "ObjectReader",
    "ObjectStore",
    "ObjectWatch",
    "OrderedConsumer",
    "OrderedFields",
    "Pager",
    "PriorityFields",
    "PubAckFuture",
    "PublishStats",
    "PullSubscription",
    "PushCallback",
    "PushSubscription",
    "RetryPolicy",
    "Schedules",
    "Stream",
]
