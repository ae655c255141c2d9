"""JetStream, blocking.

Made by `tools/make_sync.py` from `jetspark.aio.jetstream`: change that, then `make sync`.
"""

from __future__ import annotations

from jetspark.sync.jetstream.consumer import Consumer
from jetspark.sync.jetstream.context import JetStream
from jetspark.sync.jetstream.results import Listing, Results
from jetspark.sync.jetstream.stream import Stream

__all__ = ["Consumer", "JetStream", "Listing", "Results", "Stream"]
