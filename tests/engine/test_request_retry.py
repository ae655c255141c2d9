"""When a refused request of the JetStream API is sent again."""

from __future__ import annotations

import pytest

from jetspark.engine.request_retry import RequestRetry
from jetspark.errors import APIError, api_error
from jetspark.jetstream.api import StreamCreateRequest, StreamInfoRequest
from jetspark.jetstream.config import StreamConfig

UNAVAILABLE = 10008
READS = StreamInfoRequest("ORDERS")
CHANGES = StreamCreateRequest(StreamConfig("ORDERS"))


def refusal(err_code: int = UNAVAILABLE, text: str = "temporarily unavailable") -> APIError:
    return api_error(503, err_code, text, where="STREAM.INFO.ORDERS")


def test_the_tries_and_the_pauses_between_them_fit_into_the_timeout() -> None:
    retry = RequestRetry(READS, 1.0, 100.0)
    assert retry.left == 1.0
    assert retry.delay(refusal(), 100.3) == 0.1
    assert retry.left == pytest.approx(0.6)
    assert retry.delay(refusal(), 100.95) is None


def test_a_refusal_that_does_not_pass_by_itself_ends_the_tries() -> None:
    assert RequestRetry(READS, 1.0, 0.0).delay(refusal(10059, "stream not found"), 0.1) is None
    assert RequestRetry(CHANGES, 1.0, 0.0).delay(refusal(), 0.1) is None


def test_silence_after_a_refusal_raises_the_refusal_of_a_request_that_reads() -> None:
    retry = RequestRetry(READS, 1.0, 0.0)
    retry.on_silence()
    assert retry.delay(refusal(), 0.1) is not None
    with pytest.raises(APIError, match="temporarily unavailable"):
        retry.on_silence()
    retry.on_silence()  # the refusal is not kept: its traceback holds the caller's frame, which holds `retry`


def test_silence_after_a_refusal_leaves_the_outcome_of_a_change_open() -> None:
    retry = RequestRetry(CHANGES, 10.0, 0.0)
    assert retry.delay(refusal(10005, "no suitable peers for placement, peer offline"), 0.1) is not None
    retry.on_silence()
