"""Values of counters, without a server."""

from __future__ import annotations

import pytest

from jetspark.errors import BadCounterError, ConfigError
from jetspark.jetstream import StoredMessage, StreamConfig
from jetspark.jetstream.counter import check_counter_stream, counter_value
from jetspark.jetstream.publish import publish_headers
from jetspark.wire.headers import Headers


def stored(payload: bytes, *pairs: tuple[str, str]) -> StoredMessage:
    return StoredMessage("C", "c.a", 7, 1_000, Headers(pairs), payload)


@pytest.mark.conformance("CNT-05", "CNT-08")
def test_a_value_with_its_increment_and_sources() -> None:
    sources = '{"CNT":{"count.b":"1"},"D":{"x":"-2","y":"3"}}'
    value = counter_value(stored(b'{"val":"-12"}', ("Nats-Incr", "+5"), ("Nats-Counter-Sources", sources)))
    assert (value.subject, value.value, value.increment, value.sequence) == ("c.a", -12, 5, 7)
    assert value.sources == {"CNT": {"count.b": 1}, "D": {"x": -2, "y": 3}}
    assert value.timestamp.microsecond == 1
    assert counter_value(stored(b'{"val":"0"}')).increment is None


@pytest.mark.conformance("CNT-02")
def test_a_value_may_be_of_any_size() -> None:
    assert counter_value(stored(b'{"val":"1%s"}' % (b"0" * 40))).value == 10**40


@pytest.mark.conformance("CNT-05")
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"7",
        b'{"val":7}',
        b'{"val":""}',
        b'{"val":"x"}',
        b'{"val":"1_0"}',
        b'{"val":" 1"}',
        b'{"other":"1"}',
        b"\xff",
        '{"val":"٣"}'.encode(),
        b'{"val":"%s"}' % (b"1" * 5000),
        b"[" * 100_000,
    ],
    ids=range(12),
)
def test_other_bodies_are_no_values(payload: bytes) -> None:
    with pytest.raises(BadCounterError):
        counter_value(stored(payload))


@pytest.mark.conformance("CNT-05")
@pytest.mark.parametrize(
    "pair",
    [("Nats-Incr", "five"), ("Nats-Counter-Sources", "{"), ("Nats-Counter-Sources", '{"C":{"a":"x"}}')],
)
def test_other_headers_are_no_values(pair: tuple[str, str]) -> None:
    with pytest.raises(BadCounterError):
        counter_value(stored(b'{"val":"1"}', pair))


@pytest.mark.conformance("CNT-01")
def test_a_stream_needs_counters_and_direct_gets() -> None:
    good = StreamConfig("C", allow_msg_counter=True, allow_direct=True)
    check_counter_stream(good)
    for bad in (good.replace(allow_msg_counter=None), good.replace(allow_direct=False)):
        with pytest.raises(ConfigError, match="no counters"):
            check_counter_stream(bad)


@pytest.mark.conformance("CNT-04")
@pytest.mark.parametrize(
    "field",
    [
        {"rollup": "sub"},
        {"expected_stream": "C"},
        {"expected_last_sequence": 1},
        {"expected_last_subject_sequence": 0},
        {"expected_last_msg_id": "x"},
    ],
)
def test_an_addition_takes_no_conditions(field: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="a counter takes no"):
        publish_headers(None, {"increment": 1, **field})  # type: ignore[typeddict-item]
