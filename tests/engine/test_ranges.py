"""The pulls of a range, and its end, without a server."""

import pytest

from jetspark.engine.ranges import (
    MAX_BATCH,
    RangeEffect,
    RangeProgress,
    RangePull,
    RangePulls,
)
from jetspark.errors import (
    BadPullRequestError,
)


def pulls_of(start: int, end: int, in_flight: int = 1000, size: int = 100, max_bytes: int | None = None) -> RangePulls:
    return RangePulls(start, end, bytes_in_flight=in_flight, message_bytes=size, max_bytes=max_bytes)


def batches(pulls: list[RangePull]) -> list[int]:
    return [pull.batch for pull in pulls]


def test_two_pulls_are_open_and_share_the_bytes_in_flight() -> None:
    pulls = pulls_of(1, 1001)
    due = pulls.due()
    assert batches(due) == [5, 5]
    assert [pull.token for pull in due] == [1, 2]
    assert [pull.max_bytes for pull in due] == [None, None]
    assert pulls.due() == []


def test_a_pull_never_requests_more_than_the_remaining_sequences() -> None:
    assert batches(pulls_of(1, 4).due()) == [3]
    assert batches(pulls_of(1, 8).due()) == [5, 2]
    assert batches(pulls_of(7, 8).due()) == [1]


def test_a_pull_requests_a_message_even_if_it_is_larger_than_the_bytes_in_flight() -> None:
    assert batches(pulls_of(1, 100, in_flight=10, size=1_000_000).due()) == [1, 1]
    assert batches(pulls_of(1, 100, in_flight=1, size=0).due()) == [1, 1]


def test_a_pull_is_never_larger_than_the_maximum() -> None:
    assert batches(pulls_of(1, 10**9, in_flight=10**9, size=1).due()) == [MAX_BATCH, MAX_BATCH]


def test_a_served_pull_allows_the_next() -> None:
    pulls = pulls_of(1, 1001)
    pulls.due()
    pulls.delivered(4, 400, 4)
    assert pulls.due() == []
    pulls.delivered(1, 100, 5)
    assert batches(pulls.due()) == [5]
    pulls.delivered(10, 1000, 15)
    assert batches(pulls.due()) == [5, 5]


def test_the_next_pull_follows_the_size_of_the_messages() -> None:
    pulls = pulls_of(1, 100_001)
    pulls.due()
    pulls.delivered(5, 50, 5)
    assert batches(pulls.due()) == [50]
    pulls.delivered(5, 500_000, 10)
    assert batches(pulls.due()) == [1]


def test_more_messages_than_requested_do_no_harm() -> None:
    pulls = pulls_of(1, 101)
    pulls.due()
    pulls.delivered(50, 5000, 50)
    assert batches(pulls.due()) == [5, 5]


def test_one_message_is_requested_even_if_the_last_sequences_are_deleted() -> None:
    pulls = pulls_of(1, 4)
    pulls.due()
    pulls.delivered(3, 300, 9)
    assert batches(pulls.due()) == [1]
    assert pulls.due() == []


@pytest.mark.parametrize(
    ("code", "description"),
    [
        (404, "No Messages"),
        (408, "Request Timeout"),
        (408, "Requests Pending"),
        (409, "Message Size Exceeds MaxBytes"),
        (409, "Batch Completed"),
    ],
)
def test_the_normal_end_of_a_pull_is_followed_by_another(code: int, description: str) -> None:
    pulls = pulls_of(1, 1001)
    pulls.due()
    assert pulls.status(1, code, description) is RangeEffect.NONE
    assert [pull.token for pull in pulls.due()] == [3]


def test_a_heartbeat_and_flow_control_change_nothing() -> None:
    pulls = pulls_of(1, 1001)
    pulls.due()
    assert pulls.status(1, 100, "Idle Heartbeat") is RangeEffect.NONE
    assert pulls.status(1, 100, "FlowControl Request") is RangeEffect.NONE
    assert pulls.due() == []


def test_a_status_for_a_finished_pull_changes_nothing() -> None:
    pulls = pulls_of(1, 1001)
    pulls.due()
    assert pulls.status(77, 408, "Request Timeout") is RangeEffect.NONE
    assert pulls.due() == []


@pytest.mark.parametrize(
    ("code", "description"),
    [
        (409, "Consumer Deleted"),
        (409, "Leadership Change"),
        (409, "Server Shutdown"),
        (409, "Exceeded MaxWaiting"),
        (409, "Something New"),
        (503, ""),
        (555, "Unknown"),
    ],
)
def test_a_status_that_ends_the_consumer_requests_a_new_one(code: int, description: str) -> None:
    pulls = pulls_of(1, 1001)
    pulls.due()
    assert pulls.status(1, code, description) is RangeEffect.RECREATE_CONSUMER


def test_a_pull_that_the_server_cannot_read_is_an_error() -> None:
    pulls = pulls_of(1, 1001)
    pulls.due()
    with pytest.raises(BadPullRequestError, match=r"S: status 400 Bad Request"):
        pulls.status(1, 400, "Bad Request", where="S")


def test_the_byte_limit_grows_when_a_single_message_is_larger() -> None:
    pulls = pulls_of(1, 1001, max_bytes=500)
    assert [pull.max_bytes for pull in pulls.due()] == [500, 500]
    pulls.status(1, 409, "Message Size Exceeds MaxBytes")
    assert [pull.max_bytes for pull in pulls.due()] == [1000]


def test_the_byte_limit_stays_if_the_pull_returned_messages() -> None:
    pulls = pulls_of(1, 1001, max_bytes=500)
    pulls.due()
    pulls.delivered(2, 450, 2)
    pulls.status(1, 409, "Message Size Exceeds MaxBytes")
    assert [pull.max_bytes for pull in pulls.due()] == [500]


def test_an_empty_range_is_done_before_it_starts() -> None:
    assert RangeProgress(5, 5).done
    assert RangeProgress(6, 5).done
    assert not RangeProgress(5, 6).done


def test_a_range_is_done_when_its_last_sequence_was_delivered() -> None:
    progress = RangeProgress(5, 8)
    progress.consumer_created(100)
    progress.delivered(2, 2, 6, 98)
    assert (progress.done, progress.next_sequence, progress.consumer_sequence) == (False, 7, 2)
    progress.delivered(1, 3, 7, 97)
    assert progress.done


def test_a_range_is_done_when_a_later_sequence_was_delivered() -> None:
    progress = RangeProgress(5, 8)
    progress.consumer_created(100)
    progress.delivered(1, 1, 20, 99)
    assert progress.done


def test_a_range_is_done_when_nothing_is_pending_after_a_delivery() -> None:
    progress = RangeProgress(5, 100)
    progress.consumer_created(1)
    progress.delivered(1, 1, 6, 0)
    assert progress.done


def test_a_range_is_done_when_nothing_is_pending_for_a_new_consumer() -> None:
    progress = RangeProgress(5, 100)
    progress.consumer_created(0)
    assert progress.done


def test_silence_ends_a_range_only_if_all_deliveries_have_arrived() -> None:
    progress = RangeProgress(1, 100)
    progress.consumer_created(10)
    progress.delivered(3, 3, 3, 7)
    progress.info_received(3, 7)
    assert not progress.done
    progress.info_received(4, 0)
    assert not progress.done
    progress.info_received(3, 0)
    assert progress.done


def test_a_new_consumer_continues_after_the_last_sequence_and_counts_from_the_start() -> None:
    progress = RangeProgress(1, 100)
    progress.consumer_created(10)
    progress.delivered(3, 3, 30, 7)
    progress.consumer_created(7)
    assert (progress.next_sequence, progress.consumer_sequence) == (31, 0)
    progress.delivered(1, 1, 31, 6)
    assert progress.next_sequence == 32


def test_deliveries_with_a_gap_are_refused() -> None:
    progress = RangeProgress(1, 100)
    progress.consumer_created(10)
    with pytest.raises(AssertionError):
        progress.delivered(1, 2, 2, 8)


def test_a_range_without_a_consumer_ends_with_the_last_sequence_or_when_the_server_says_so() -> None:
    progress = RangeProgress(1, 10)
    progress.advance_to(4)
    assert (progress.next_sequence, progress.done) == (5, False)
    progress.advance_to(3)
    assert progress.next_sequence == 5
    progress.advance_to(9)
    assert progress.done
    other = RangeProgress(1, 10)
    other.finish()
    assert other.done


def test_a_reopened_range_continues_unless_its_end_was_seen() -> None:
    progress = RangeProgress(1, 10)
    progress.consumer_created(5)
    progress.delivered(5, 5, 6, 0)
    assert progress.reopen()
    assert not progress.done
    progress.consumer_created(1)
    progress.delivered(1, 1, 9, 0)
    assert not progress.reopen()
    assert progress.done
