"""The keywords of calls are those of the configurations."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest
from tools.make_formats import keyword
from tools.make_keywords import make, stale

from jetspark import payload
from jetspark.jetstream import ConsumerConfig, ConsumerConfigFields, StreamConfig, StreamConfigFields
from jetspark.payload.formats import FORMATS
from jetspark.payload.options import FORMAT_OPTIONS, FormatOption, given_options
from jetspark.wire.connect_keywords import ConnectFields
from jetspark.wire.options import ConnectOptions


def test_every_format_of_payloads_has_a_function_with_its_options_as_keywords() -> None:
    for name in FORMATS:
        parameters = inspect.signature(getattr(payload, f"{name}_format")).parameters
        options = [option for option in FORMAT_OPTIONS if name in option.formats]
        assert len(parameters) == 1 + len(options)


def test_names_of_options_become_names_of_keywords() -> None:
    option = FormatOption("timestampNTZFormat", ("csv",), "text", str, "", "", "")
    assert keyword(option) == "timestamp_ntz_format"
    assert keyword(replace(option, name="ignoreNullFields")) == "ignore_null_fields"
    assert given_options(ignoreNullFields=False, sep=None, samplingRatio=0.5) == {
        "ignoreNullFields": "false",
        "samplingRatio": "0.5",
    }


def test_the_modules_match_their_sources() -> None:
    assert [path.name for path in stale(make())] == [], "run `make sync`"


@pytest.mark.parametrize(
    ("keywords", "fields"),
    [
        (StreamConfigFields, set(StreamConfig.__struct_fields__) - {"extra"}),
        (ConsumerConfigFields, set(ConsumerConfig.__struct_fields__) - {"extra"}),
        (ConnectFields, set(ConnectOptions.__dataclass_fields__)),
    ],
)
def test_every_field_is_a_keyword(keywords: type, fields: set[str]) -> None:
    assert keywords.__annotations__.keys() == fields
