"""How many lines of one kind are logged."""

from __future__ import annotations

from jetspark.wire.log_limit import BURST, PERIOD, LogLimit


def test_lines_of_one_kind_are_left_out_and_counted_by_the_next_one() -> None:
    limit = LogLimit()
    assert [limit.allow("a", 0.1 * number) for number in range(BURST + 5)] == [0] * BURST + [None] * 5
    assert limit.allow("b", 1.0) == 0
    assert limit.allow("a", PERIOD - 0.1) is None
    assert limit.allow("a", PERIOD) == 6
    assert limit.allow("a", PERIOD) == 0


def test_a_line_now_and_then_is_always_logged() -> None:
    limit = LogLimit()
    assert [limit.allow("a", 2.0 * number) for number in range(50)] == [0] * 50
