"""Pulling messages from a consumer: the engine behind fetch, fetch_bytes, fetch_no_wait, next and consume.

- `options`: what may be asked for;
- `engine`: the state machine, with its `actions`;
- `batch`: what a fetch brings;
- `pins`, `pacing`: ids of pinned clients, and how long to wait where a pull would be answered at once;
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
