"""The ack window: to which row an answer belongs, and which rows are in flight, for any first row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from jetspark.bulk.ack_window import AckWindow
from jetspark.bulk.row_tokens import TOKENS
from jetspark.wire.vector.byte_spans import PADDING


def window(size: int, *, origin: int = 0) -> AckWindow:
    return AckWindow("i", size, in_cluster=False, origin=origin)


def settle(window: AckWindow, *rows: int) -> list[bool]:
    return [bool(first) for first in window.settle(np.array(rows, np.int64))]


def rows_of(window: AckWindow, *subjects: bytes) -> list[int]:
    data = np.frombuffer(bytes(PADDING) + b"".join(subjects) + bytes(8), np.uint8)
    words: NDArray[np.uint64] = np.ndarray((len(data) - 7,), "<u8", data.data, strides=(1,))
    ends = PADDING + np.cumsum([len(subject) for subject in subjects])
    return [int(row) for row in window.rows_of(words, ends)]


@pytest.mark.parametrize("origin", [0, 3, TOKENS - 5, 3 * TOKENS + 17])
def test_each_row_has_a_reply_subject_of_its_own_that_finds_it(origin: int) -> None:
    made = window(2000, origin=origin)
    replies = made.replies(origin, 50).to_pylist()
    assert len(set(replies)) == 50
    assert {len(reply) for reply in replies} == {made.reply_length}
    made.count_sent(50)
    assert rows_of(made, *replies) == list(range(origin, origin + 50))


def test_the_reply_subject_of_the_next_row_cannot_be_predicted() -> None:
    made = window(2000)
    first, second, third = made.replies(0, 3).to_pylist()
    made.count_sent(3)
    guesses = [second[:-11] + first[-11:], second[:-1], second[:-1] + b"=", third[:-11] + second[-11:], b"i.00001"]
    assert rows_of(made, *guesses) == [-1] * len(guesses)
    assert rows_of(made, second) == [1]


def test_the_random_part_of_reply_subjects_uses_its_whole_alphabet() -> None:
    secrets = b"".join(reply[-11:] for reply in window(2000).replies(0, 2000).to_pylist())
    assert len(set(secrets)) == 64
    counts = np.bincount(np.frombuffer(secrets, np.uint8), minlength=128)
    assert counts.max() < 2 * counts[counts > 0].min()


def test_rows_that_are_not_sent_and_tokens_of_long_ago_are_unknown() -> None:
    made = window(10_000)
    replies = made.replies(0, 10).to_pylist()
    made.count_sent(4)
    assert rows_of(made, *replies) == [0, 1, 2, 3, -1, -1, -1, -1, -1, -1]
    for at in range(10, TOKENS, 10_000):
        made.replies(at, 10_000)
    assert rows_of(made, *replies[:4]) == [-1] * 4


def test_a_second_answer_to_a_row_settles_no_other_row() -> None:
    made = window(4, origin=10)
    made.count_sent(4)
    assert settle(made, 10, 10, 11, 10) == [True, False, True, False]
    assert settle(made, 11, 10) == [False, False]
    assert (made.answered, made.first_unanswered, made.free_rows) == (12, 12, 2)
    made.count_sent(2)  # rows 14 and 15 take the places of rows 10 and 11
    assert settle(made, 10, 14, 11, 15, 14) == [False, True, False, True, False]
    assert (made.answered, made.unanswered_rows()) == (14, [12, 13])
    assert settle(made, 13, 12) == [True, True]
    assert (made.answered, made.first_unanswered, made.unanswered_rows(), made.free_rows) == (16, 16, [], 4)


def test_a_window_frees_rows_in_order_as_they_are_answered() -> None:
    made = window(8, origin=10)
    made.count_sent(8)
    assert made.free_rows == 0
    settle(made, 10, 11, 13)
    assert (made.first_unanswered, made.free_rows, made.answered) == (12, 2, 13)
    assert made.unanswered_rows() == [12, 14, 15, 16, 17]
    assert (made.is_open(12), made.is_open(13), made.is_open(11)) == (True, False, False)


@pytest.mark.parametrize(("most", "in_cluster", "size"), [(None, False, 4000), (None, True, 768), (7, True, 7)])
def test_the_size_of_the_window(most: int | None, in_cluster: bool, size: int) -> None:
    assert AckWindow("i", most, in_cluster=in_cluster).size == size


@given(st.data())
def test_answers_in_any_order_settle_what_a_set_of_rows_says(data: st.DataObject) -> None:
    size, origin = data.draw(st.integers(1, 9)), data.draw(st.sampled_from([0, 7, TOKENS - 3]))
    made = window(size, origin=origin)
    replies: list[bytes] = made.replies(origin, 60).to_pylist()
    answered: set[int] = set()
    for _ in range(data.draw(st.integers(1, 8))):
        made.count_sent(min(data.draw(st.integers(0, size)), made.free_rows, origin + 60 - made.sent))
        places = data.draw(st.lists(st.integers(0, 59), max_size=12))
        if data.draw(st.booleans()):  # in order, as usual
            places = list(range(made.first_unanswered - origin, made.sent - origin))
        rows = rows_of(made, *(replies[place] for place in places)) if places else []
        assert rows == [origin + place if origin + place < made.sent else -1 for place in places]
        known = [row for row in rows if row >= 0]
        wanted = [row not in answered and row not in known[:at] for at, row in enumerate(known)]
        assert settle(made, *known) == wanted
        answered.update(known)
        assert made.answered == origin + len(answered)
        assert made.unanswered_rows() == [row for row in range(origin, made.sent) if row not in answered]
        assert made.first_unanswered == min(made.unanswered_rows(), default=made.sent)
