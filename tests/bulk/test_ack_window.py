"""The ack window: which rows are in flight, for any groups of rows that share a reply subject and any first row."""

import numpy as np
import pytest

from jetspark.bulk.ack_window import AckWindow


def window(size: int, *, shared: bool, origin: int = 0) -> AckWindow:
    return AckWindow("i", size, shared_replies=shared, origin=origin)


def unanswered(window: AckWindow) -> list[tuple[list[int], int]]:
    return [(list(sharing), answers) for sharing, answers in window.unanswered_groups()]


def answer(window: AckWindow, *slots: int) -> None:
    window.count_answers(np.array(slots, np.int64))


@pytest.mark.parametrize("origin", [0, 3, 1001])
def test_rows_share_reply_subjects_in_runs_counted_from_the_first_row(origin: int) -> None:
    made = window(2000, shared=True, origin=origin)
    assert (made.rows_per_reply, made.slots, made.size, made.sent, made.first_unanswered) == (
        4,
        500,
        2000,
        origin,
        origin,
    )
    assert made.replies(origin, 9).to_pylist() == [b"i.000"] * 4 + [b"i.001"] * 4 + [b"i.002"]
    made.count_sent(6)
    assert list(made.rows_in_slot(0)) == list(range(origin, origin + 4))
    assert list(made.rows_in_slot(1)) == [origin + 4, origin + 5]
    assert list(made.rows_in_slot(2)) == []


def test_a_window_with_an_offset_frees_rows_as_they_are_answered() -> None:
    made = window(8, shared=False, origin=10)
    made.count_sent(8)
    assert made.free_rows == 0
    answer(made, 0, 1, 3)
    assert (made.first_unanswered, made.free_rows, made.answered) == (12, 2, 13)
    made.count_sent(2)
    assert made.replies(18, 2).to_pylist() == [b"i.0", b"i.1"]
    assert list(made.rows_in_slot(0)) == [18]
    answer(made, 2, 4, 5, 6, 7, 0, 1)
    assert (made.first_unanswered, made.answered, unanswered(made)) == (20, 20, [])


@pytest.mark.parametrize("origin", [0, 7])
def test_rows_that_share_a_reply_subject_stay_unanswered_until_all_are_answered(origin: int) -> None:
    made = window(2000, shared=True, origin=origin)
    made.count_sent(10)
    answer(made, 0, 0, 0, 0, 1)
    assert unanswered(made) == [([origin + row for row in range(4, 8)], 1), ([origin + 8, origin + 9], 0)]
    assert list(made.rows_sharing_reply(origin + 4)) == [origin + row for row in range(4, 8)]
    assert list(made.rows_sharing_reply(origin + 8)) == [origin + 8, origin + 9]
    answer(made, 1, 1, 1, 2, 2)
    assert unanswered(made) == []


def test_rows_with_their_own_reply_subject_are_unanswered_one_by_one() -> None:
    made = window(8, shared=False, origin=5)
    made.count_sent(6)
    answer(made, 1, 4)
    assert unanswered(made) == [([row], 0) for row in (5, 7, 8, 10)]


def test_rows_get_their_own_reply_subject_after_the_switch_to_one_reply_per_row() -> None:
    made = window(2000, shared=True, origin=5)
    made.count_sent(4)
    answer(made, 0, 0, 0, 0)
    made.one_reply_per_row()
    assert (made.rows_per_reply, made.first_unanswered, made.size) == (1, 9, 768)
    made.count_sent(3)
    assert made.replies(9, 3).to_pylist() == [b"i.004", b"i.005", b"i.006"]
    answer(made, 5)
    assert unanswered(made) == [([9], 0), ([11], 0)]
    assert list(made.rows_in_slot(4)) == [9]


@pytest.mark.parametrize(("size", "narrower"), [(4000, 384), (768, 384), (300, 150), (100, 64), (64, 64), (10, 10)])
def test_a_reduced_limit_is_half_the_window_and_stays_large_enough_to_send(size: int, narrower: int) -> None:
    assert window(size, shared=True).reduced_limit == narrower
