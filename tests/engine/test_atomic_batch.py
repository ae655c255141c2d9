"""An atomic batch without a socket: the next frame, and the meaning of each answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jetspark.engine.atomic_batch import AtomicBatch, BatchState
from jetspark.errors import (
    AtomicPublishDisabledError,
    BatchClosedError,
    ConfigError,
    DisconnectedError,
    InvalidAckError,
    StatusError,
)
from jetspark.wire.headers import Headers
from jetspark.wire.messages import Message


def _message(payload: bytes = b"", header: bytes = b"") -> Message:
    return Message(b"_IN.1", b"", header, payload, None)


def _added(count: int = 1, batch_id: str = "b") -> AtomicBatch:
    batch = AtomicBatch(batch_id)
    for _ in range(count):
        batch.next_headers(None, {})
        batch.sent("a.b")
    return batch


def test_messages_are_numbered_when_they_are_sent() -> None:
    batch = AtomicBatch("b")
    for _ in range(2):  # requested twice, because the first one could not be sent
        assert Headers(batch.next_headers(None, {})) == {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"}
    assert (batch.count, batch.next_needs_reply) == (0, True)
    batch.sent("a")
    assert (batch.count, batch.next_needs_reply) == (1, False)
    assert Headers(batch.next_headers(None, {})) == {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "2"}
    assert Headers(batch.next_headers(None, {}, "1")) == {
        "Nats-Batch-Id": "b",
        "Nats-Batch-Sequence": "2",
        "Nats-Batch-Commit": "1",
    }


def test_headers_of_the_caller_are_sent_and_not_changed() -> None:
    mine = Headers([("Color", "red"), ("Nats-Batch-Id", "mine")])
    headers = AtomicBatch("b").next_headers(mine, {"msg_id": "m", "expected_last_sequence": 0})
    assert headers == {
        "Color": "red",
        "Nats-Batch-Id": "b",
        "Nats-Batch-Sequence": "1",
        "Nats-Msg-Id": "m",
        "Nats-Expected-Last-Sequence": "0",
    }
    assert mine == {"Color": "red", "Nats-Batch-Id": "mine"}


def test_an_id_is_generated_if_none_is_given() -> None:
    ids = {AtomicBatch().id for _ in range(10)}
    assert len(ids) == 10
    assert all(0 < len(each) <= 64 for each in ids)
    with pytest.raises(ConfigError):
        AtomicBatch("x" * 65)


def test_the_end_is_sent_to_the_last_subject_and_is_not_counted() -> None:
    batch = _added(1000)
    subject, headers = batch.eob_message()
    assert subject == "a.b"
    assert Headers(headers) == {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1001", "Nats-Batch-Commit": "eob"}
    assert batch.count == 1000
    with pytest.raises(ConfigError, match="would be number 1001"):
        batch.next_headers(None, {})


def test_an_empty_batch_has_no_end() -> None:
    with pytest.raises(ConfigError, match="without messages"):
        AtomicBatch().eob_message()


def test_unsupported_expectations_are_refused() -> None:
    batch = _added()
    with pytest.raises(ConfigError, match="first message"):
        batch.next_headers(None, {"expected_last_sequence": 1})
    with pytest.raises(ConfigError, match="expected_last_msg_id"):
        batch.next_headers(None, {"expected_last_msg_id": "m"})
    assert batch.is_open


def test_an_empty_answer_accepts_a_message() -> None:
    batch = _added()
    batch.check_reply(_message())
    assert batch.is_open


def test_an_error_as_an_answer_ends_the_batch() -> None:
    batch = _added()
    refused = _message(b'{"error":{"code":400,"err_code":10174,"description":"off"},"stream":"S","seq":0}')
    with pytest.raises(AtomicPublishDisabledError, match=r"a\.b"):
        batch.check_reply(refused)
    assert batch.state is BatchState.FAILED
    with pytest.raises(BatchClosedError, match=r"is failed: a\.b: off \(10174/400\)"):
        batch.next_headers(None, {})


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (_message(header=b"NATS/1.0 503\r\n\r\n"), StatusError),
        (_message(b'{"stream":"S","seq":4}'), InvalidAckError),
        (_message(b"hello"), InvalidAckError),
    ],
)
def test_other_answers_to_a_message_end_the_batch(answer: Message, error: type[Exception]) -> None:
    batch = _added()
    with pytest.raises(error):
        batch.check_reply(answer)
    assert batch.state is BatchState.FAILED


def test_the_acknowledgement_of_the_batch_commits_it() -> None:
    batch = _added(2)
    ack = batch.read_commit_ack(_message(b'{"stream":"S","seq":9,"batch":"b","count":2}'))
    assert (ack.sequence, ack.count) == (9, 2)
    assert batch.state is BatchState.COMMITTED


@pytest.mark.parametrize(
    "payload",
    [
        b'{"stream":"S","seq":9,"batch":"c","count":2}',
        b'{"stream":"S","seq":9,"batch":"b","count":1}',
        b'{"stream":"S","seq":1,"batch":"b","count":2}',
        b'{"stream":"S","seq":9}',
        b"",
    ],
)
def test_an_acknowledgement_of_another_batch_is_refused(payload: bytes) -> None:
    batch = _added(2)
    with pytest.raises(InvalidAckError, match=r"a\.b"):
        batch.read_commit_ack(_message(payload))
    assert batch.state is BatchState.FAILED


def test_a_discarded_batch_is_forgotten_by_the_server_too() -> None:
    batch = _added(3)
    last = batch.discard()
    assert last is not None
    assert last[0] == "a.b"
    assert Headers(last[1]) == {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "eob"}
    assert batch.discard() is None
    assert batch.state is BatchState.DISCARDED


def test_an_empty_batch_is_discarded_without_a_message() -> None:
    batch = AtomicBatch()
    assert batch.discard() is None
    assert batch.state is BatchState.DISCARDED


@pytest.mark.parametrize(
    ("end", "word"),
    [
        (lambda batch: batch.discard(), "discarded"),
        (lambda batch: batch.fail(DisconnectedError("gone")), "failed: gone"),
        (lambda batch: batch.read_commit_ack(_message(b'{"stream":"S","seq":1,"batch":"b","count":1}')), "committed"),
    ],
)
def test_a_finished_batch_takes_no_more_messages(end: Callable[[AtomicBatch], object], word: str) -> None:
    batch = _added()
    end(batch)
    for use in (lambda: batch.next_headers(None, {}), batch.eob_message, batch.check_open):
        with pytest.raises(BatchClosedError, match=word) as caught:
            use()
        assert isinstance(caught.value, RuntimeError)
