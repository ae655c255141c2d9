"""Pulling messages from a consumer: the engine of fetch, fetch_bytes, fetch_no_wait, next and consume.

- `options`: the options of a fetch or consume;
- `engine`: the state machine, with its `actions`;
- `message_batch`: the result of a fetch;
- `pins`: ids of pinned clients;
- `in_progress`: which messages to report as in progress.
"""

from jetspark.engine.pull.actions import Action, CheckConsumer, End, SendPull, Warn
from jetspark.engine.pull.engine import PullEngine
from jetspark.engine.pull.in_progress import HANDLE, InProgressTracker
from jetspark.engine.pull.message_batch import MessageBatch
from jetspark.engine.pull.options import (
    BYTES_PULL_BATCH,
    ConsumeFields,
    Priority,
    PriorityFields,
    PullOptions,
    check_group,
    consume_options,
    fetch_options,
)
from jetspark.engine.pull.pins import PinIds

__all__ = [
    "BYTES_PULL_BATCH",
    "HANDLE",
    "Action",
    "CheckConsumer",
    "ConsumeFields",
    "End",
    "InProgressTracker",
    "MessageBatch",
    "PinIds",
    "Priority",
    "PriorityFields",
    "PullEngine",
    "PullOptions",
    "SendPull",
    "Warn",
    "check_group",
    "consume_options",
    "fetch_options",
]
