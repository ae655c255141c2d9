"""Reading by direct get, reply by reply, without a socket."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from jetspark.engine.direct_read import DIRECT_BATCH, DirectRead, DirectReadRequest
from jetspark.jetstream import StoredMessage
from jetspark.jetstream.direct_get import DirectBatchEnd, DirectBatchRequest, DirectMultiLastRequest
from jetspark.jetstream.errors import InvalidReplyError, RequestTimeoutError
from jetspark.wire.headers import Headers

LOST = RequestTimeoutError("silence")
NOON = datetime(2031, 1, 1, 12, tzinfo=UTC)


def batch(size: int = 10, sequence: int | None = None, start_time: datetime | None = None) -> DirectBatchRequest:
    return DirectBatchRequest("S", size, sequence=sequence, start_time=start_time)


def message(sequence: int, before: int | None) -> StoredMessage:
    pending = None if before is None else 1
    return StoredMessage("S", "a", sequence, 0, Headers(), b"", pending, before)


def present(read: DirectRead) -> DirectReadRequest:
    assert read.request is not None
    return read.request


def test_pages_follow_one_another_until_nothing_is_pending() -> None:
    read = DirectRead(batch(2))
    assert present(read) == batch(2)
    assert read.handle_reply(message(3, 0)) is not None
    assert read.handle_reply(message(5, 3)) is not None
    assert read.handle_reply(DirectBatchEnd(1, 5)) is None
    assert present(read) == batch(2, sequence=6)
    assert read.handle_reply(message(8, 0)) is not None
    read.handle_reply(DirectBatchEnd(0, 8))
    assert read.request is None


def test_a_limit_ends_the_read_and_shortens_the_last_page() -> None:
    read = DirectRead(batch(2), limit=3)
    read.handle_reply(message(1, 0))
    read.handle_reply(message(2, 1))
    read.handle_reply(DirectBatchEnd(5, 2))
    assert present(read) == batch(1, sequence=3)
    read.handle_reply(message(3, 0))
    assert read.request is None


def test_a_read_without_matches_is_empty() -> None:
    read = DirectRead(batch())
    read.handle_reply(DirectBatchEnd(found=False))
    assert read.request is None


def test_messages_deleted_between_two_pages_cause_no_error() -> None:
    read = DirectRead(batch(1))
    read.handle_reply(message(1, 0))
    read.handle_reply(DirectBatchEnd(1, 1))
    read.handle_reply(DirectBatchEnd(found=False))
    assert read.request is None


def test_a_gap_is_requested_again_once() -> None:
    read = DirectRead(batch(start_time=NOON))
    read.handle_reply(message(1, 0))
    asked = read.request
    assert read.handle_reply(message(3, 2)) is None
    assert read.request is not asked
    assert present(read) == batch(sequence=2)
    with pytest.raises(InvalidReplyError, match="missing"):
        read.handle_reply(message(3, 2))


@pytest.mark.parametrize(
    ("end", "text"),
    [(DirectBatchEnd(0, 4), "the last message is 1"), (DirectBatchEnd(found=False), "cut off after sequence 1")],
)
def test_an_end_that_does_not_match_is_requested_again(end: DirectBatchEnd, text: str) -> None:
    read = DirectRead(batch())
    read.handle_reply(message(1, 0))
    read.handle_reply(end)
    assert present(read) == batch(sequence=2)
    read.handle_reply(message(2, 0))
    read.handle_reply(DirectBatchEnd(7, 9))
    assert present(read) == batch(sequence=3)
    with pytest.raises(InvalidReplyError, match="the last message is 0"):
        read.handle_reply(DirectBatchEnd(7, 9))


def test_silence_before_the_first_message_repeats_the_request_once() -> None:
    read = DirectRead(batch(start_time=NOON))
    asked = read.request
    read.interrupted(LOST)
    assert read.request == asked
    assert read.request is not asked
    with pytest.raises(RequestTimeoutError):
        read.interrupted(LOST)


def test_progress_allows_another_repetition() -> None:
    read = DirectRead(batch())
    for sequence in range(1, 5):
        read.handle_reply(message(sequence, 0))
        read.interrupted(LOST)
        assert present(read) == batch(sequence=sequence + 1)


def test_a_missing_leader_is_waited_for_only_after_the_first_message() -> None:
    read = DirectRead(batch())
    with pytest.raises(RequestTimeoutError):
        read.retry(LOST)
    read.handle_reply(message(1, 0))
    for _ in range(3):
        read.retry(LOST)
        assert present(read) == batch(sequence=2)


def test_an_old_server_is_asked_for_each_message() -> None:
    read = DirectRead(batch())
    read.handle_reply(message(4, None))
    assert present(read) == batch(sequence=5)
    read.handle_reply(message(7, None))
    read.handle_reply(DirectBatchEnd(found=False))
    assert read.request is None


def test_pages_of_last_messages_show_the_moment_of_the_first_page() -> None:
    read = DirectRead(DirectMultiLastRequest("S", (">",), up_to_time=NOON))
    assert present(read) == DirectMultiLastRequest("S", (">",), DIRECT_BATCH, up_to_time=NOON)
    read.handle_reply(message(3, 0))
    read.handle_reply(DirectBatchEnd(4, 3, up_to_sequence=9))
    second = DirectMultiLastRequest("S", (">",), DIRECT_BATCH, sequence=4, up_to_sequence=9)
    assert present(read) == second
    read.handle_reply(message(6, 0))
    read.interrupted(LOST)
    assert present(read) == DirectMultiLastRequest("S", (">",), DIRECT_BATCH, sequence=7, up_to_sequence=9)
    read.handle_reply(message(9, 0))
    read.handle_reply(DirectBatchEnd(0, 9, up_to_sequence=9))
    assert read.request is None


def test_last_messages_of_an_unknown_moment_cannot_be_continued() -> None:
    read = DirectRead(DirectMultiLastRequest("S", (">",)))
    read.interrupted(LOST)
    assert present(read) == DirectMultiLastRequest("S", (">",), DIRECT_BATCH)
    read.handle_reply(message(3, 0))
    with pytest.raises(RequestTimeoutError):
        read.interrupted(LOST)


@pytest.mark.parametrize("sequence", [1, 4, 5])
def test_a_sequence_that_goes_back_is_an_error(sequence: int) -> None:
    read = DirectRead(batch(10, sequence=4))
    read.handle_reply(message(5, 0))
    with pytest.raises(InvalidReplyError, match=f"sequence {sequence} came after 5"):
        read.handle_reply(message(sequence, 5))


def test_a_page_before_the_one_asked_for_is_an_error() -> None:
    with pytest.raises(InvalidReplyError, match="sequence 3 came after 0, in a read from 4 on"):
        DirectRead(batch(10, sequence=4)).handle_reply(message(3, 0))


def test_a_subject_that_was_not_asked_for_is_an_error() -> None:
    with pytest.raises(InvalidReplyError, match="subject 'a' was not asked for"):
        DirectRead(DirectBatchRequest("S", 5, next_by_subject="b.>")).handle_reply(message(3, 0))
    with pytest.raises(InvalidReplyError, match="subject 'a' was not asked for"):
        DirectRead(DirectMultiLastRequest("S", ("b", "c.*"))).handle_reply(message(3, 0))
    assert DirectRead(DirectMultiLastRequest("S", ("b", "*"))).handle_reply(message(3, 0)) is not None


def test_an_empty_batch_that_promises_more_is_an_error() -> None:
    read = DirectRead(batch(10, sequence=4))
    with pytest.raises(InvalidReplyError, match="has ended at sequence 0, and 7 messages"):
        read.handle_reply(DirectBatchEnd(7, 0))
