"""Headers by which a published message commands the server: conditions, ids, rollups, schedules, counters, batches.

A message that was read may have such headers. Published again, they would act once more. The server compares names
with their case, so a name in another case is plain data. `traceparent` and `KV-Operation` belong to the content of a
message, so they are not in the table.
"""

from __future__ import annotations

from typing import Final

from jetspark.jetstream import header_names as names

__all__ = ["CONTROL_HEADER_PATTERN"]

_PREFIXES: Final = ("Nats-Expected-", "Nats-Batch-", "Nats-Schedule", "Nats-Trace-")
"""Names that begin so; also for headers of later servers. The server itself removes the first three by their prefix."""

_NAMES: Final = (
    names.MSG_ID,
    names.ROLLUP,
    names.TTL,
    names.INCREMENT,
    names.MARKER_REASON,  # the server takes the message for a delete marker
    names.STREAM_SOURCE,  # refused from clients
    names.REQUIRED_API_LEVEL,
)

CONTROL_HEADER_PATTERN: Final = f"^(?:{'|'.join([*_PREFIXES, *(f'{name}$' for name in _NAMES)])})"
"""Regular expression (RE2 and Python) for the names."""
