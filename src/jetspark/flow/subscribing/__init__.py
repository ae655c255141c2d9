"""The subscribe workflow (ADR-15) without I/O.

- `options`: what a caller may ask for, and what is refused before anything is sent;
- `binding`: whether a consumer that exists is the one that was asked for;
- `workflow`: from the options to a bound subscription, and its end: generators that yield requests and actions;
- `ordered`: what the consumers of an ordered subscription have in common (ADR-17).
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
