"""JetStream on asyncio. `make sync` generates `jetspark.sync.jetstream` from this package."""

from jetspark.aio.jetstream.async_publisher import PubAckFuture
from jetspark.aio.jetstream.batch_publisher import BatchPublisher
from jetspark.aio.jetstream.bucket_watch import KeyWatch, ObjectWatch
from jetspark.aio.jetstream.consume_context import ConsumeContext
from jetspark.aio.jetstream.consumer import Consumer
from jetspark.aio.jetstream.context import JetStream
from jetspark.aio.jetstream.counter import Counter
from jetspark.aio.jetstream.key_value import KeyValue
from jetspark.aio.jetstream.object_reader import ObjectReader
from jetspark.aio.jetstream.object_store import ObjectStore
from jetspark.aio.jetstream.ordered_consumer import OrderedConsumer
from jetspark.aio.jetstream.pager import ListPager, Pager
from jetspark.aio.jetstream.pull_subscription import PullSubscription
from jetspark.aio.jetstream.push_subscription import PushCallback, PushSubscription
from jetspark.aio.jetstream.schedules import Schedules
from jetspark.aio.jetstream.stream import Stream
from jetspark.engine.ordered_config import OrderedFields
from jetspark.engine.publish_window import AsyncPublishOptions, PublishStats
from jetspark.engine.pull import ConsumeFields, MessageBatch, PriorityFields
from jetspark.engine.retry import RetryPolicy

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
