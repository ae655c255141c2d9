"""Payloads of messages <-> typed columns: JSON, CSV, text, Avro, Protobuf. No I/O; needs the `arrow` extra.

The import needs neither numpy nor pyarrow. `jetspark.bulk` and `jetspark.spark` use it.
"""

from jetspark.payload.constructors import avro_format, csv_format, json_format, protobuf_format, text_format
from jetspark.payload.formats import BadRecord, Decoded, PayloadFormat, make_format
from jetspark.payload.modes import ParseMode
from jetspark.payload.rows import DecodedRows, DecodeOptions, RowDecoder

__all__ = [
    "BadRecord",
    "DecodeOptions",
    "Decoded",
    "DecodedRows",
    "ParseMode",
    "PayloadFormat",
    "RowDecoder",
    "avro_format",
    "csv_format",
    "json_format",
    "make_format",
    "protobuf_format",
    "text_format",
]
