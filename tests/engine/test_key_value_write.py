"""Conditional writes of a key without a server: the next step after each answer."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from jetspark.engine.key_value_write import (
    ReadNewest,
    Step,
    Write,
    after_refusal,
    create_key,
    original_id,
    round_id,
    update_key,
    write_marker,
)
from jetspark.errors import (
    ConfigError,
    DisconnectedError,
    KeyExistsError,
    PublishTimeoutError,
    RequestTimeoutError,
    StreamStoreFailedError,
    WrongLastRevisionError,
    WrongLastSequenceError,
)
from jetspark.jetstream.key_value.entry import KeyValueEntry, KeyValueOperation
from jetspark.wire.headers import Headers

WRONG = WrongLastSequenceError(400, 10071, "wrong last sequence: 7")
WITHOUT_SEQUENCE = WrongLastSequenceError(400, 10164, "wrong last sequence")

Answer = int | None | KeyValueEntry | Exception


def entry(revision: int, operation: KeyValueOperation = KeyValueOperation.PUT, msg_id: str = "") -> KeyValueEntry:
    headers = Headers([("Nats-Msg-Id", msg_id)] if msg_id else [])
    return KeyValueEntry("B", "k", b"secret", revision, 0, operation, headers)


class Play:
    """Runs a workflow against a list of answers; `steps` are those that it requested."""

    def __init__(self, workflow: Generator[Step, object, int]) -> None:
        self._workflow = workflow
        self.steps: list[Step] = [next(workflow)]
        self.result: int | None = None

    @property
    def msg_id(self) -> str:
        step = [each for each in self.steps if isinstance(each, Write)][-1]
        assert step.msg_id
        return step.msg_id

    def answer(self, *answers: Answer) -> Play:
        for each in answers:
            try:
                step = self._workflow.throw(each) if isinstance(each, Exception) else self._workflow.send(each)
                self.steps.append(step)
            except StopIteration as end:
                self.result = end.value
        return self

    @property
    def expected(self) -> list[int | None]:
        """The expected revisions of the writes, None for a read."""
        return [step.expected if isinstance(step, Write) else None for step in self.steps]


@pytest.mark.conformance("KVS-26")
def test_a_new_key_is_stored_by_one_write() -> None:
    play = Play(create_key("B", "k")).answer(4)
    assert (play.expected, play.result) == ([0], 4)


@pytest.mark.conformance("KVS-26")
@pytest.mark.parametrize("refusal", [WRONG, WITHOUT_SEQUENCE])
@pytest.mark.parametrize("operation", [KeyValueOperation.DELETE, KeyValueOperation.PURGE])
def test_a_deleted_key_is_created_after_its_marker(
    refusal: WrongLastSequenceError, operation: KeyValueOperation
) -> None:
    play = Play(create_key("B", "k")).answer(refusal, entry(7, operation), 8)
    assert (play.expected, play.result) == ([0, None, 7], 8)


@pytest.mark.conformance("KVS-26")
def test_a_key_that_vanished_meanwhile_is_created_as_a_new_one() -> None:
    play = Play(create_key("B", "k")).answer(WRONG, None, 9)
    assert (play.expected, play.result) == ([0, None, 0], 9)


@pytest.mark.conformance("KVS-26", "KVS-47")
def test_a_key_with_a_value_is_not_overwritten_by_create() -> None:
    with pytest.raises(KeyExistsError) as caught:
        Play(create_key("B", "k")).answer(WRONG, entry(7))
    assert (caught.value.actual, caught.value.last_sequence, caught.value.expected) == (7, 7, 0)
    assert "secret" not in str(caught.value)


@pytest.mark.conformance("KVS-26")
def test_create_gives_up_after_five_rounds() -> None:
    play = Play(create_key("B", "k"))
    play.answer(WRONG, entry(1, KeyValueOperation.DELETE), WRONG, None, WRONG, entry(5, KeyValueOperation.PURGE))
    play.answer(WRONG, None, WRONG)
    with pytest.raises(WrongLastRevisionError) as caught:
        play.answer(entry(9, KeyValueOperation.DELETE))
    assert play.expected == [0, None, 1, None, 0, None, 5, None, 0, None]
    assert (caught.value.expected, caught.value.actual) == (0, 9)
    assert not isinstance(caught.value, KeyExistsError)


@pytest.mark.conformance("KVS-31")
@pytest.mark.parametrize("lost", [PublishTimeoutError("x"), DisconnectedError("x")])
def test_create_and_update_repeat_a_lost_answer_once_with_the_same_id(lost: Exception) -> None:
    for workflow, expected in ((create_key("B", "k"), 0), (update_key("B", "k", 3), 3)):
        play = Play(workflow).answer(lost, 4)
        first, second = play.steps
        assert isinstance(first, Write)
        assert first.repeatable
        assert second == Write(first.expected, first.msg_id)
        assert (play.expected, play.result) == ([expected, expected], 4)
        assert play.msg_id
    with pytest.raises(type(lost)):
        Play(create_key("B", "k")).answer(lost, lost)


@pytest.mark.conformance("KVS-31")
def test_a_refused_repeat_is_a_success_if_the_newest_entry_has_our_id() -> None:
    lost = PublishTimeoutError("x")
    for workflow in (create_key("B", "k"), update_key("B", "k", 3)):
        play = Play(workflow).answer(lost, WRONG)
        assert play.steps[-1] == ReadNewest()
        play.answer(entry(7, msg_id=play.msg_id))
        assert play.result == 7


@pytest.mark.conformance("KVS-31")
def test_a_refused_repeat_is_an_error_if_the_newest_entry_is_of_somebody_else() -> None:
    lost = PublishTimeoutError("x")
    with pytest.raises(WrongLastRevisionError) as caught:
        Play(update_key("B", "k", 3)).answer(lost, WRONG, entry(7, msg_id="other"))
    assert (caught.value.expected, caught.value.actual) == (3, 7)
    with pytest.raises(KeyExistsError):
        Play(create_key("B", "k")).answer(lost, WRONG, entry(7, msg_id="other"), entry(7, msg_id="other"))


@pytest.mark.conformance("KVS-31")
def test_each_round_of_create_has_its_own_id() -> None:
    play = Play(create_key("B", "k"))
    first = play.msg_id
    play.answer(WRONG, entry(7, KeyValueOperation.DELETE))
    assert play.msg_id != first


@pytest.mark.conformance("KVS-28")
def test_an_update_with_an_old_revision_names_the_newest_one() -> None:
    with pytest.raises(WrongLastRevisionError) as caught:
        Play(update_key("B", "k", 3)).answer(WRONG)
    assert (caught.value.expected, caught.value.actual, caught.value.err_code) == (3, 7, 10071)
    assert "revision 3 was expected, and the newest is 7" in str(caught.value)


@pytest.mark.conformance("KVS-28")
@pytest.mark.parametrize(("newest", "actual"), [(entry(9), 9), (None, 0), (RequestTimeoutError("x"), None)])
def test_the_leader_is_asked_for_a_revision_that_the_answer_does_not_have(
    newest: KeyValueEntry | Exception | None, actual: int | None
) -> None:
    play = Play(update_key("B", "k", 3)).answer(WITHOUT_SEQUENCE)
    assert play.steps[-1] == ReadNewest()
    with pytest.raises(WrongLastRevisionError) as caught:
        play.answer(newest)
    assert (caught.value.expected, caught.value.actual, caught.value.err_code) == (3, actual, 10164)


@pytest.mark.conformance("KVS-29", "KVS-30", "KVS-31")
def test_a_marker_with_a_revision_is_never_repeated() -> None:
    assert Play(write_marker("B", "k", 3)).answer(4).result == 4
    with pytest.raises(WrongLastRevisionError):
        Play(write_marker("B", "k", 3)).answer(WRONG)
    with pytest.raises(PublishTimeoutError):
        Play(write_marker("B", "k", 3)).answer(PublishTimeoutError("x"))
    assert Play(write_marker("B", "k", 3)).steps == [Write(3)]


def test_other_errors_pass() -> None:
    for workflow in (create_key("B", "k"), update_key("B", "k", 1), write_marker("B", "k", 1)):
        with pytest.raises(StreamStoreFailedError):
            Play(workflow).answer(StreamStoreFailedError(400, 10077, "full"))


@pytest.mark.parametrize("revision", [0, -1])
def test_a_revision_must_be_positive(revision: int) -> None:
    with pytest.raises(ConfigError, match="positive"):
        next(update_key("B", "k", revision))
    with pytest.raises(ConfigError, match="positive"):
        next(write_marker("B", "k", revision))


def after(expected: int, newest: KeyValueEntry | None, tried: int, msg_id: str | None = "i") -> object:
    return after_refusal("B", "k", expected, newest, tried=tried, is_own=lambda found: found == msg_id)


def test_a_refused_write_of_many_is_stored_already_if_the_newest_entry_has_its_id() -> None:
    assert after(5, entry(9, msg_id="i"), 5) == 9
    assert after(0, entry(9, msg_id=round_id("i", 2)), 0) == 9
    assert isinstance(after(5, entry(9, msg_id="other"), 5), WrongLastRevisionError)
    assert isinstance(after(5, entry(9, msg_id="i"), 5, msg_id=None), WrongLastRevisionError)
    assert isinstance(after(5, entry(9), 5), WrongLastRevisionError)


def test_a_refused_create_of_many_is_written_again_over_a_marker_or_nothing() -> None:
    assert after(0, entry(9, KeyValueOperation.DELETE), 0) == Write(9)
    assert after(0, entry(9, KeyValueOperation.PURGE), 7) == Write(9)
    assert after(0, None, 7) == Write(0)
    exists = after(0, entry(9), 0)
    assert isinstance(exists, KeyExistsError)
    assert (exists.key, exists.actual) == ("k", 9)


def test_a_refused_write_of_many_is_written_again_if_the_revision_is_the_expected_one_after_all() -> None:
    assert after(5, entry(5), 5) == Write(5)
    assert after(0, None, 0) == Write(0)


def test_a_refused_update_of_many_says_what_the_newest_revision_is() -> None:
    for newest, actual in ((entry(9), 9), (entry(9, KeyValueOperation.DELETE), 9), (None, 0)):
        wrong = after(5, newest, 5)
        assert isinstance(wrong, WrongLastRevisionError)
        assert (wrong.expected, wrong.actual) == (5, actual)
        assert "secret" not in str(wrong)


def test_the_id_of_a_later_round_is_another_one_of_the_same_write() -> None:
    assert round_id("i", 0) == "i"
    assert len({round_id("i", number) for number in range(5)}) == 5
    assert {original_id(round_id("i", number)) for number in range(5)} == {"i"}
    assert [original_id(each) for each in ("i-1", "")] == ["i-1", ""]
