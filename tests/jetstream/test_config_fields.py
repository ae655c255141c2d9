"""A configuration from an object, from keywords, or from both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jetspark.jetstream import ConsumerConfig, Duration, Placement, StorageType, StreamConfig, Timestamp
from jetspark.jetstream.config_fields import make_config
from jetspark.jetstream.errors import ConfigError


def test_fields_are_set_on_a_copy_of_the_configuration() -> None:
    given = StreamConfig(name="S", max_msgs=1, extra={"new": 1})
    made = make_config(StreamConfig, given, {"max_msgs": 2, "subjects": ["a"]})
    assert made == StreamConfig(name="S", max_msgs=2, subjects=["a"], extra={"new": 1})
    assert given.max_msgs == 1
    assert make_config(ConsumerConfig, None, {}) == ConsumerConfig()


@pytest.mark.parametrize(
    "fields",
    [
        {"max_age": timedelta(seconds=1)},
        {"max_age": Duration.from_ns(1)},
        {"subjects": ("a", "b")},
        {"storage": "memory"},
        {"storage": StorageType.MEMORY},
        {"placement": Placement(tags=["a"])},
        {"metadata": {"a": "b"}},
        {"max_msgs": None},
        {"allow_direct": False},
    ],
)
def test_values_of_the_fields_type_are_accepted(fields: dict[str, object]) -> None:
    made = make_config(StreamConfig, None, {"name": "S", **fields})
    assert all(getattr(made, name) == value for name, value in fields.items())


@pytest.mark.parametrize("time", [datetime(2031, 1, 1, tzinfo=UTC), Timestamp.from_ns(1)])
def test_times_of_both_types_are_accepted(time: datetime) -> None:
    assert make_config(ConsumerConfig, None, {"opt_start_time": time}).opt_start_time == time


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"max_age": 5}, r"StreamConfig: max_age takes a timedelta or None, not int: 5"),
        ({"max_age": 1.5}, "takes a timedelta or None, not float"),
        ({"subjects": "a"}, "takes a list of text or None, not str: 'a'"),
        ({"max_msgs": "1"}, "takes a whole number or None, not str"),
        ({"max_msgs": True}, "takes a whole number or None, not bool"),
        ({"allow_direct": 1}, "takes True or False or None, not int"),
        ({"storage": 1}, "takes a member of its enumeration or its text or None, not int"),
        ({"placement": {"tags": ["a"]}}, "takes a Placement or None, not dict"),
        ({"metadata": ["a"]}, "takes a mapping of text to text or None, not list"),
        ({"sources": [{"nmae": "S"}]}, "sources takes a list of a StreamSource or None, not list of dict"),
        ({"subjects": ["a", 1]}, "subjects takes a list of text or None, not list of int and str"),
        ({"metadata": {"a": 1}}, "metadata takes a mapping of text to text or None, not dict"),
        ({"description": b"a"}, "takes text or None, not bytes"),
        ({"max_mesages": 1}, "no field 'max_mesages'; did you mean 'max_msgs'[?]"),
        ({"zzzzzzzzzzz": 1}, "no field 'zzzzzzzzzzz'$"),
    ],
)
def test_invalid_fields_are_named(fields: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make_config(StreamConfig, None, {"name": "S", **fields})


def test_a_missing_field_and_another_configuration_are_named() -> None:
    with pytest.raises(ConfigError, match="'name'"):
        make_config(StreamConfig, None, {})
    with pytest.raises(ConfigError, match="must be of type StreamConfig, not ConsumerConfig"):
        make_config(StreamConfig, ConsumerConfig(), {})
