"""Payloads of messages <-> typed columns: JSON, CSV, text, Avro, Protobuf. No I/O; needs the `arrow` extra.

The import needs neither numpy nor pyarrow. `jetspark.bulk` and `jetspark.spark` use it.
"""

from jetspark.payload.formats import BadRecord, Decoded, PayloadFormat, make_format
from jetspark.payload.modes import ParseMode

__all__ = ["BadRecord", "Decoded", "ParseMode", "PayloadFormat", "make_format"]
