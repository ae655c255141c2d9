"""The subscribe workflow (ADR-15) without I/O.

- `options`: the options, and their checks before anything is sent;
- `existing_consumer`: whether an existing consumer matches the options;
- `workflow`: from the options to a bound subscription, and its end: generators that yield requests and actions.
"""

from jetspark.engine.subscribe.existing_consumer import check_existing_consumer
from jetspark.engine.subscribe.options import ResolvedSubscribeOptions, SubscribeOptions, merge_config, resolve_options
from jetspark.engine.subscribe.workflow import (
    LAST_ACK_TIMEOUT,
    Binding,
    Drain,
    Step,
    Subscribe,
    Unsubscribe,
    drain,
    subscribe,
    unsubscribe,
)

__all__ = [
    "LAST_ACK_TIMEOUT",
    "Binding",
    "Drain",
    "ResolvedSubscribeOptions",
    "Step",
    "Subscribe",
    "SubscribeOptions",
    "Unsubscribe",
    "check_existing_consumer",
    "drain",
    "merge_config",
    "resolve_options",
    "subscribe",
    "unsubscribe",
]
