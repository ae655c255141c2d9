"""JetStream on asyncio. `jetspark.sync.jetstream` is made from this package by `make sync`."""

from jetspark.aio.jetstream.consumer import Consumer
from jetspark.aio.jetstream.context import JetStream
from jetspark.aio.jetstream.results import Listing, Results
from jetspark.aio.jetstream.stream import Stream

__all__ = ["Consumer", "JetStream", "Listing", "Results", "Stream"]
