"""The lag of a query in messages, in bytes and in seconds."""

from __future__ import annotations

import pytest

from jetspark.spark.streams.lag import Lag, encode_ends
from jetspark.spark.streams.offsets import StreamExtent, StreamOffset

SECOND = 10**9
FULL = StreamExtent("A", 7, 11, 21, 100, first_ns=100 * SECOND, last_ns=190 * SECOND, stored_bytes=1005)
EMPTY = StreamExtent("A", 7, 21, 21, 1)


@pytest.mark.parametrize(
    ("extent", "offset", "expected"),
    [
        pytest.param(FULL, StreamOffset(7, 21, time_ns=190 * SECOND), Lag(0, 0, 0.0), id="all is read"),
        pytest.param(FULL, StreamOffset(7, 21), Lag(0, 0, 0.0), id="all is read, and the last message was deleted"),
        pytest.param(FULL, StreamOffset(7, 30, ahead=True), Lag(0, 0, 0.0), id="it waits past the end"),
        pytest.param(EMPTY, StreamOffset(7, 21, time_ns=SECOND), Lag(0, 0, 0.0), id="all messages were removed"),
        pytest.param(EMPTY, StreamOffset(6, 3), Lag(0, 0, 0.0), id="an empty stream was made in its place"),
        pytest.param(FULL, StreamOffset(7, 19, time_ns=170 * SECOND), Lag(2, 201, 20.0), id="two messages are left"),
        pytest.param(FULL, StreamOffset(7, 19), Lag(2, 201, None), id="the last message that was read was deleted"),
        pytest.param(FULL, StreamOffset(7, 11), Lag(10, 1005, 90.0), id="nothing is read"),
        pytest.param(FULL, StreamOffset(7, 5, time_ns=SECOND), Lag(10, 1005, 90.0), id="messages were lost"),
        pytest.param(
            FULL, StreamOffset(6, 15, time_ns=SECOND), Lag(10, 1005, 90.0), id="another stream took its place"
        ),
        pytest.param(FULL, StreamOffset(7, 20, time_ns=191 * SECOND), Lag(1, 100, 0.0), id="the clock was set back"),
    ],
)
def test_the_lag_counts_from_the_last_message_that_was_read(
    extent: StreamExtent, offset: StreamOffset, expected: Lag
) -> None:
    assert Lag.of(extent, offset) == expected


def test_the_progress_has_the_names_of_the_kafka_source() -> None:
    other = StreamExtent("B", 7, 1, 7, 10, first_ns=SECOND, last_ns=2 * SECOND, stored_bytes=60)
    ends = encode_ends({"B": other, "A": FULL}, {"A": StreamOffset(7, 18), "B": StreamOffset(7, 7)}, ())
    assert ends == {
        "streams": {
            "A": {
                "created": "1970-01-01T00:00:00.000000007Z",
                "next": 21,
                "time": "1970-01-01T00:03:10Z",
                "lag": 3,
                "bytesBehind": 301,
            },
            "B": {
                "created": "1970-01-01T00:00:00.000000007Z",
                "next": 7,
                "time": "1970-01-01T00:00:02Z",
                "lag": 0,
                "bytesBehind": 0,
                "secondsBehind": 0.0,
            },
        },
        "version": 1,
        "avgOffsetsBehindLatest": 1.5,
        "maxOffsetsBehindLatest": 3,
        "minOffsetsBehindLatest": 0,
        "estimatedTotalBytesBehindLatest": 301,
    }


def test_before_the_first_micro_batch_the_progress_has_the_ends_only() -> None:
    assert encode_ends({"A": EMPTY}, {}, ()) == {
        "streams": {"A": {"created": "1970-01-01T00:00:00.000000007Z", "next": 21}},
        "version": 1,
    }
