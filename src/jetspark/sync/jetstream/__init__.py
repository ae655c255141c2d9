"""JetStream, blocking.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream`: change that, then `make sync`.
"""

from __future__ import annotations

from jetspark.flow.ordered import OrderedFields
from jetspark.flow.publish_window import PublishSettings, PublishStats, RetryPlan
from jetspark.flow.pull import Batch, ConsumeFields, PriorityFields
from jetspark.sync.jetstream.batch_publisher import BatchPublisher
from jetspark.sync.jetstream.consume_context import ConsumeContext
from jetspark.sync.jetstream.consumer import Consumer
from jetspark.sync.jetstream.context import JetStream
from jetspark.sync.jetstream.ordered import OrderedConsumer
from jetspark.sync.jetstream.publisher import PubAckFuture
from jetspark.sync.jetstream.pull_subscription import PullSubscription
from jetspark.sync.jetstream.push_subscription import PushSubscription
from jetspark.sync.jetstream.results import Listing, Results
from jetspark.sync.jetstream.stream import Stream

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
