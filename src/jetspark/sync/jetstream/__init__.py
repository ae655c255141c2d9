"""JetStream, blocking.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream`: change that, then `make sync`.
"""

from __future__ import annotations

from jetspark.flow.publish_window import PublishSettings, PublishStats, RetryPlan
from jetspark.sync.jetstream.batch_publisher import BatchPublisher
from jetspark.sync.jetstream.consumer import Consumer
from jetspark.sync.jetstream.context import JetStream
from jetspark.sync.jetstream.publisher import PubAckFuture
from jetspark.sync.jetstream.pull_subscription import PullSubscription
from jetspark.sync.jetstream.push_subscription import PushSubscription
from jetspark.sync.jetstream.results import Listing, Results
from jetspark.sync.jetstream.stream import Stream

__all__ = [
    "BatchPublisher",
    "Consumer",
    "JetStream",
    "Listing",
    "PubAckFuture",
    "PublishSettings",
    "PublishStats",
    "PullSubscription",
    "PushSubscription",
    "Results",
    "RetryPlan",
    "Stream",
]
