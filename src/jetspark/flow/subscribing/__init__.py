"""The subscribe workflow (ADR-15) without I/O.

- `options`: the options, and their checks before anything is sent;
- `binding`: whether an existing consumer matches the options;
- `workflow`: from the options to a bound subscription, and its end: generators that yield requests and actions;
- `ordered`: the common configuration of the consumers of an ordered subscription (ADR-17).
"""

from jetspark.flow.subscribing.binding import check_existing
from jetspark.flow.subscribing.options import SubscribeOptions, Wanted, check_options, merged
from jetspark.flow.subscribing.workflow import (
    ACK_PATIENCE,
    Binding,
    Drain,
    Forget,
    Step,
    Subscribe,
    Unsubscribe,
    drain,
    renew,
    subscribe,
    unsubscribe,
)

__all__ = [
    "ACK_PATIENCE",
    "Binding",
    "Drain",
    "Forget",
    "Step",
    "Subscribe",
    "SubscribeOptions",
    "Unsubscribe",
    "Wanted",
    "check_existing",
    "check_options",
    "drain",
    "merged",
    "renew",
    "subscribe",
    "unsubscribe",
]
