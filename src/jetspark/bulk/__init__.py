"""Blocking, single-threaded reading and publishing in columns, for Spark tasks. Needs the `arrow` extra.

- `connect`: a connection that returns whole buffers of frames;
- `scan`: a range of a stream as Arrow record batches;
- `fetch`: messages of a consumer as record batches, and their acknowledgements;
- `last_per_subject`: the last message of every subject, as one table;
- `publish`: record batches into streams, pipelined, every acknowledgement checked;
- `publish_atomic`: the same in atomic batches.
"""

try:
    from jetspark.bulk.atomic import publish_atomic
    from jetspark.bulk.connection import Connection, connect
    from jetspark.bulk.fetch import ConsumerFetch, fetch
    from jetspark.bulk.key_value_reads import EntryTable
    from jetspark.bulk.last_per_subject import Snapshot, last_per_subject
    from jetspark.bulk.publish import publish
    from jetspark.bulk.publish_acks import StreamAcks
    from jetspark.bulk.publish_report import PublishRefusedError, PublishReport, RecordBatchInput
    from jetspark.bulk.range_source import ReadMethod
    from jetspark.bulk.readers import FetchReader, ScanReader
    from jetspark.bulk.scan import Scan, scan
    from jetspark.bulk.scan_range import first_sequence_at
    from jetspark.bulk.scan_report import ScanReport
except ModuleNotFoundError as error:
    if error.name not in {"numpy", "pyarrow"}:
        raise
    problem = f"jetspark.bulk and all reads into columns need {error.name}: pip install 'jetspark[arrow]'"
    raise ModuleNotFoundError(problem, name=error.name) from None

__all__ = [
    "Connection",
    "ConsumerFetch",
    "EntryTable",
    "FetchReader",
    "PublishRefusedError",
    "PublishReport",
    "ReadMethod",
    "RecordBatchInput",
    "Scan",
    "ScanReader",
    "ScanReport",
    "Snapshot",
    "StreamAcks",
    "connect",
    "fetch",
    "first_sequence_at",
    "last_per_subject",
    "publish",
    "publish_atomic",
    "scan",
]
