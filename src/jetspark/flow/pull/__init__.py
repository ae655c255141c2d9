"""Pulling messages from a consumer: the engine of fetch, fetch_bytes, fetch_no_wait, next and consume.

- `options`: the options of a fetch or consume;
- `engine`: the state machine, with its `actions`;
- `batch`: the result of a fetch;
- `pins`, `pacing`: ids of pinned clients, and the delay before a pull that would end at once;
- `progress`: which messages to report as in progress.
"""

from jetspark.flow.pull.actions import Action, End, LookUp, SendPull, Warn
from jetspark.flow.pull.batch import Batch
from jetspark.flow.pull.engine import PullEngine
from jetspark.flow.pull.options import (
    MAX_BATCH,
    ConsumeFields,
    Priority,
    PriorityFields,
    PullOptions,
    check_group,
    consume_options,
    fetch_options,
)
from jetspark.flow.pull.pins import PinIds
from jetspark.flow.pull.progress import HANDLE, Progress

__all__ = [
    "HANDLE",
    "MAX_BATCH",
    "Action",
    "Batch",
    "ConsumeFields",
    "End",
    "LookUp",
    "PinIds",
    "Priority",
    "PriorityFields",
    "Progress",
    "PullEngine",
    "PullOptions",
    "SendPull",
    "Warn",
    "check_group",
    "consume_options",
    "fetch_options",
]
