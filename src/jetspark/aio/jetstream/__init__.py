"""JetStream on asyncio. `make sync` generates `jetspark.sync.jetstream` from this package."""

from jetspark.aio.jetstream.batch_publisher import BatchPublisher
from jetspark.aio.jetstream.consume_context import ConsumeContext
from jetspark.aio.jetstream.consumer import Consumer
from jetspark.aio.jetstream.context import JetStream
from jetspark.aio.jetstream.ordered import OrderedConsumer
from jetspark.aio.jetstream.publisher import PubAckFuture
from jetspark.aio.jetstream.pull_subscription import PullSubscription
from jetspark.aio.jetstream.push_subscription import PushSubscription
from jetspark.aio.jetstream.results import Listing, Results
from jetspark.aio.jetstream.stream import Stream
from jetspark.flow.ordered import OrderedFields
from jetspark.flow.publish_window import PublishSettings, PublishStats, RetryPlan
from jetspark.flow.pull import Batch, ConsumeFields, PriorityFields

__all__ = [
    "Batch",
    "BatchPublisher",
    "ConsumeContext",
    "ConsumeFields",
    "Consumer",
    "JetStream",
    "Listing",
    "OrderedConsumer",
    "OrderedFields",
    "PriorityFields",
    "PubAckFuture",
    "PublishSettings",
    "PublishStats",
    "PullSubscription",
    "PushSubscription",
    "Results",
    "RetryPlan",
    "Stream",
]
