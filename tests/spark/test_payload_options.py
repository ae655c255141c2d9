"""The options of typed rows: what needs what, and what contradicts what."""

from __future__ import annotations

import re

import pytest
from tests.pages import DOCS

from jetspark.errors import ConfigError
from jetspark.payload import ParseMode
from jetspark.payload.options import FORMAT_OPTIONS
from jetspark.spark.options.batch import read_options, write_options
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.options.stream_write import stream_write_options
from jetspark.spark.options.table import OPTIONS

BASE = {"stream": "ORDERS", "payloadFormat": "text"}


def test_payloads_stay_bytes_without_the_option() -> None:
    assert read_options({"stream": "ORDERS"}).payload is None
    assert write_options({}).payload is None


def test_defaults_are_those_of_spark() -> None:
    payload = read_options({**BASE, "payloadFormat": "TEXT"}).payload
    assert payload is not None
    assert (payload.format, payload.prefix, payload.mode) == ("text", "", ParseMode.PERMISSIVE)
    assert (payload.corrupt_column, payload.sampling_size, payload.format_options) == ("_corrupt_record", 1000, {})


def test_options_have_the_same_meaning_for_every_read_and_write() -> None:
    given = {**BASE, "metadataPrefix": "_", "MODE": "failfast", "columnNameOfCorruptRecord": "bad", "samplingSize": "5"}
    found = [
        read_options(given).payload,
        stream_read_options(given).read.payload,
        write_options(given).payload,
        stream_write_options(given).write.payload,
    ]
    assert found[0] is not None
    assert found.count(found[0]) == 4
    assert (found[0].prefix, found[0].mode, found[0].corrupt_column) == ("_", ParseMode.FAILFAST, "bad")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"payloadFormat": "txt"}, r"option payloadFormat is 'txt': it must be .*text"),
        ({"payloadFormat": "text", "mode": "IGNORE"}, "mode is 'IGNORE': it must be PERMISSIVE or DROPMALFORMED or"),
        ({"payloadFormat": "text", "samplingSize": "0"}, "samplingSize is '0'"),
        ({"payloadformats": "text"}, r"did you mean payloadFormat\?"),
        ({"metadataPrefix": "_"}, "option metadataPrefix needs option payloadFormat"),
        ({"mode": "FAILFAST"}, "option mode needs option payloadFormat"),
        ({"columnNameOfCorruptRecord": "bad"}, "option columnNameOfCorruptRecord needs option payloadFormat"),
        ({"samplingSize": "5"}, "option samplingSize needs option payloadFormat"),
    ],
)
def test_an_option_that_cannot_take_effect_is_an_error(given: dict[str, str], message: str) -> None:
    for check in (lambda: read_options({"stream": "ORDERS", **given}), lambda: write_options(given)):
        with pytest.raises(ConfigError, match=message):
            check()


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"no option 'samplingRatio'; did you mean samplingSize\?"):
        read_options({**BASE, "samplingRatio": "0.5"})


def test_options_named_on_the_page_exist() -> None:
    page = (DOCS / "typed-rows.md").read_text()
    named = {*re.findall(r'\.option\("(\w+)"', page), *re.findall(r"`(\w+)` = `", page)} - {"operation"}
    assert {"payloadFormat", "metadataPrefix"} <= named
    assert named <= {option.name for option in OPTIONS}


def test_objects_are_no_payloads() -> None:
    with pytest.raises(ConfigError, match="objects and payloadFormat contradict each other"):
        read_options({"objects": "files", "payloadFormat": "text"})
    with pytest.raises(ConfigError, match="objects and payloadFormat contradict each other"):
        write_options({"objects": "files", "payloadFormat": "text"})


def test_every_option_of_a_format_is_an_option_of_spark() -> None:
    names = [option.name for option in OPTIONS]
    assert len({name.lower() for name in names}) == len(names)
    for row in FORMAT_OPTIONS:
        assert row.name in names


@pytest.mark.parametrize("name", sorted({row.name for row in FORMAT_OPTIONS}))
def test_an_option_of_a_format_names_the_formats_that_it_is_for(name: str) -> None:
    formats = {each for row in FORMAT_OPTIONS if row.name == name for each in row.formats}
    with pytest.raises(ConfigError, match=f"option {name} needs option payloadFormat = {re.escape(min(formats))}|or"):
        read_options({"stream": "ORDERS", name: "true"})
    if "text" not in formats:
        with pytest.raises(ConfigError, match=f"options {name} and payloadFormat = text contradict each other"):
            read_options({**BASE, name: "true"})
