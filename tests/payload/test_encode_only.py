"""Types that a format encodes and does not decode."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from jetspark.errors import ConfigError
from jetspark.payload import make_format

COUNTS = pa.schema([("counts", pa.map_(pa.int32(), pa.int64()))])


def test_a_format_for_writes_takes_types_that_a_read_cannot_give() -> None:
    rows = pa.RecordBatch.from_pydict({"counts": [[(1, 2)]]}, COUNTS)
    with pytest.raises(ConfigError, match="json cannot give field counts"):
        make_format("json", COUNTS)
    json = pickle.loads(pickle.dumps(make_format("json", COUNTS, to_encode=True)))
    assert json.encode(rows).to_pylist() == [b'{"counts":{"1":2}}']
    with pytest.raises(ConfigError, match="json cannot give field counts"):
        json.decode(pa.array([b"{}"], pa.binary()))
    nothing = make_format("csv", pa.schema([("n", pa.null())]), to_encode=True)
    assert nothing.encode(pa.RecordBatch.from_pydict({"n": [None]}, nothing.schema)).to_pylist() == [b""]


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("json", {}, "column v: JSON has no text for the type duration"),
        ("csv", {}, "payload format csv has no text for column v of type duration"),
        ("json", {"dateFormat": "w"}, "a write does not support w"),
    ],
)
def test_a_type_or_pattern_that_cannot_be_written_is_refused_at_once(
    name: str, options: dict[str, str], reason: str
) -> None:
    kind = pa.date32() if options else pa.duration("us")
    with pytest.raises(ConfigError, match=reason):
        make_format(name, pa.schema([("v", kind)]), options, to_encode=True)
