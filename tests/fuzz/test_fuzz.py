"""Short runs of the fuzzer, and the fuzzer itself."""

from __future__ import annotations

import gc
import logging
import random
import time
from collections.abc import Iterator

import pytest
from tests.fuzz.campaign import mutate_parsers, read_frames
from tests.fuzz.connection import play
from tests.fuzz.mutations import shrink
from tests.fuzz.parsers import PARSERS, Disagreement, TextParser
from tests.fuzz.report import HangError, Report, deadline_for_each_case
from tests.wire.test_untrusted import BAD_JSON

from jetspark.wire.connection_state import ConnectionState


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Log nothing: the connection reports what is wrong with each frame."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def _reads(parser: TextParser, text: bytes) -> bool:
    try:
        parser.read(text)
    except parser.errors:
        return False
    return True


@pytest.mark.parametrize("name", PARSERS)
def test_each_parser_reads_good_texts_and_raises_its_own_errors_for_broken_ones(name: str) -> None:
    parser = PARSERS[name]
    assert any(_reads(parser, text) for text in parser.seeds)
    for text in BAD_JSON.values():
        _reads(parser, text)


def test_a_second_of_hostile_input_finds_nothing() -> None:
    report = Report(seed=1)
    with deadline_for_each_case():
        mutate_parsers(report, 3_000, random.Random(report.seed))
        read_frames(report, 4_000, random.Random(report.seed))
    assert not report.found, report


@pytest.mark.matrix
def test_twenty_seconds_of_hostile_input_find_nothing() -> None:
    report = Report(seed=time.time_ns() % 2**32)
    with deadline_for_each_case():
        mutate_parsers(report, 200_000, random.Random(report.seed))
        read_frames(report, 200_000, random.Random(report.seed))
    assert not report.found, report


@pytest.mark.parametrize("data", [b"", b"MSG @2.1 2 r 1\r\nx\r\nHELLO\r\n", b"MSG @2.1 2 r 1\r\nx\r\nINFO []\r\n"])
def test_a_connection_that_is_closed_in_the_middle_of_its_calls_is_freed(data: bytes) -> None:
    before = _open_states()
    play(data)
    assert _open_states() <= before


def _open_states() -> int:
    for _ in range(3):  # a finalizer keeps some objects until the next pass
        gc.collect()
    return sum(isinstance(each, ConnectionState) for each in gc.get_objects())


# -- the fuzzer itself ---------------------------------------------------------------------------------------------


def test_a_foreign_error_a_disagreement_and_a_hang_are_counted_and_shown_in_short() -> None:
    report = Report(seed=7)

    def bad(data: bytes) -> None:
        if b"!" in data:
            raise KeyError("here")
        if b"?" in data:
            raise Disagreement("one and two")

    with deadline_for_each_case():
        for data in (b"good", b"some! text", b"more! text", b"a question?"):
            report.run("a parser", bad, data)
    assert (report.count("foreign error"), report.count("disagreement"), report.count("hang")) == (2, 1, 0)
    assert "input: b'!'" in str(report)
    assert "input: b'?'" in str(report)
    assert "seed 7" in str(report)


def test_a_case_that_does_not_end_is_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.report.CASE_SECONDS", 0.05)
    report = Report(seed=7)

    def endless(_: bytes) -> None:
        while True:
            pass

    with deadline_for_each_case():
        report.run("a parser", endless, b"x")
    assert report.count("hang") == 1
    with pytest.raises(HangError), deadline_for_each_case():
        raise HangError


def test_the_shortest_failing_input_is_found() -> None:
    assert shrink(b"x!" * 500 + b"AB" * 9 + b"y?", lambda data: b"B" in data and b"?" in data, 5) == b"B?"
