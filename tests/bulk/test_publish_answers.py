"""To which row an answer belongs: a scripted server answers twice, for another row, for another stream or falsely."""

import time
from collections.abc import Callable, Iterable

import pytest
from tests.answering_server import Answer, AnsweringServer, Published, ack
from tests.bulk.streams import Streams, is_wanted, rows, until

from jetspark import bulk
from jetspark.errors import InvalidAckError, PublishTimeoutError, StreamStoreFailedError, WrongStreamError
from jetspark.jetstream import DiscardPolicy, StreamConfig
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.server import NatsServer

FULL = b'{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"LEAF","seq":0}'
WRONG = b'{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"},"stream":"%b","seq":0}'
COUNT = 6000


def publish(
    answer: Callable[[Published], Iterable[Answer]], count: int = COUNT, *, expected_stream: str | None = None
) -> bulk.PublishReport:
    with AnsweringServer(answer) as server, bulk.connect(server.url) as connection:
        batch = rows("orders", [b"%d" % row for row in range(count)])
        return bulk.publish(connection, batch, ack_timeout=0.5, expected_stream=expected_stream, max_pending=500)


def test_two_streams_that_store_each_row_do_not_count_it_twice() -> None:
    report = publish(lambda m: [(m.reply, ack("HUB", m.number + 1)), (m.reply, ack("LEAF", m.number + 7))])
    assert (report.count, report.further_answers, report.unmatched_answers) == (COUNT, COUNT, 0)
    assert {name: acks.count for name, acks in report.streams.items()} == {"HUB": COUNT}


def test_half_of_the_rows_acknowledged_twice_do_not_pass_for_all() -> None:
    with pytest.raises(PublishTimeoutError, match="no acknowledgement"):
        publish(lambda m: [(m.reply, ack("S", m.number + 1))] * 2 if m.number % 2 else [], 100)


@pytest.mark.parametrize("first", [True, False])
def test_a_refusal_of_one_of_two_streams_is_not_lost(first: bool) -> None:
    def answer(m: Published) -> Iterable[Answer]:
        answers = [ack("HUB", m.number + 1), FULL if m.number >= COUNT - 5 else ack("LEAF", m.number + 1)]
        return [(m.reply, payload) for payload in (answers[::-1] if first else answers)]

    with pytest.raises(bulk.PublishRefusedError, match=f"row {COUNT - 5}, subject 'orders'") as caught:
        publish(answer)
    assert isinstance(caught.value.error, StreamStoreFailedError)
    assert caught.value.report.count <= COUNT


def test_a_refusal_that_comes_long_after_the_acknowledgement_of_another_stream_is_not_lost() -> None:
    late: list[str] = []

    def answer(m: Published) -> Iterable[Answer]:
        late.append(m.reply)
        yield m.reply, ack("HUB", m.number + 1)
        if m.number == COUNT - 1:
            yield from ((reply, ack("LEAF", at + 1) if at != 17 else FULL) for at, reply in enumerate(late))

    with pytest.raises(bulk.PublishRefusedError, match="row 17,") as caught:
        publish(answer)
    assert (caught.value.row, caught.value.report.count) == (17, COUNT)


@pytest.mark.parametrize("sequence", [0, -1, -(2**63), 2**64])
def test_an_acknowledgement_with_an_impossible_sequence_is_an_error(sequence: int) -> None:
    with pytest.raises(bulk.PublishRefusedError, match=r"row 50, .*(sequence|64 bits)") as caught:
        publish(lambda m: [(m.reply, ack("S", sequence if m.number == 50 else m.number + 1))], 100)
    assert isinstance(caught.value.error, InvalidAckError)
    acks = caught.value.report.streams["S"]
    assert (acks.count, acks.first_sequence, acks.last_sequence) == (99, 1, 100)


def test_an_acknowledgement_of_another_stream_than_expected_is_an_error() -> None:
    with pytest.raises(
        bulk.PublishRefusedError, match=r"row 3, .*'OTHER' has answered, not the expected 'S'"
    ) as caught:
        publish(lambda m: [(m.reply, ack("OTHER" if m.number == 3 else "S", m.number + 1))], 10, expected_stream="S")
    assert isinstance(caught.value.error, InvalidAckError)
    assert list(caught.value.report.streams) == ["S"]


def test_only_the_answers_of_the_expected_stream_count() -> None:
    def answer(m: Published) -> Iterable[Answer]:
        answers = [ack("S", m.number + 1), WRONG % b"LEAF"]
        return [(m.reply, payload) for payload in (answers if m.number % 2 else answers[::-1])]

    report = publish(answer, expected_stream="S")
    assert (report.count, report.streams["S"].last_sequence) == (COUNT, COUNT)


def test_a_refusal_of_another_stream_counts_if_the_expected_one_does_not_answer() -> None:
    begin = time.monotonic()
    with pytest.raises(bulk.PublishRefusedError, match=r"row 0, .*expected in stream S") as caught:
        publish(lambda m: [(m.reply, WRONG % b"LEAF")], 10, expected_stream="S")
    assert isinstance(caught.value.error, WrongStreamError)
    assert time.monotonic() - begin < 5


def test_a_refusal_of_the_expected_stream_counts_at_once() -> None:
    with pytest.raises(bulk.PublishRefusedError, match="row 5,"):
        publish(lambda m: [(m.reply, WRONG % b"S" if m.number == 5 else ack("S", 1))], 10, expected_stream="S")


def test_a_reply_subject_that_was_seen_forges_no_acknowledgement_of_another_row() -> None:
    def answer(m: Published) -> Iterable[Answer]:
        inbox, _, token = m.reply.rpartition(".")
        others = [f"{(int(token[:5]) + more) % 100_000:05d}{token[5:]}" for more in (1, 2, 99_999)]
        forged = [f"{inbox}.{other}" for other in (*others, f"{m.number + 1}", "x", token + "x", token[1:], "0" * 16)]
        yield from ((subject, ack("S", 9)) for subject in forged)
        if m.number % 2:
            yield m.reply, ack("S", m.number + 1)

    server = AnsweringServer(answer)
    with server, bulk.connect(server.url) as connection, pytest.raises(PublishTimeoutError):
        bulk.publish(connection, rows("orders", [b"x"] * 20), ack_timeout=0.2)
    report = publish(lambda m: [*list(answer(m))[:8], (m.reply, ack("S", m.number + 1))], 100)
    assert (report.count, report.unmatched_answers, report.streams["S"].first_sequence) == (100, 800, 1)


@pytest.mark.matrix
def test_a_hub_and_a_leaf_that_both_store_the_subject() -> None:
    with NatsServer(config={"leafnodes": {"port": -1}, "jetstream": {"domain": "hub"}}) as hub:
        listening = hub.monitor("/varz")["leaf"]
        assert isinstance(listening, dict)
        remote = {"url": f"nats-leaf://{hub.host}:{listening['port']}"}
        near = NatsServer(config={"leafnodes": {"remotes": [remote]}, "jetstream": {"domain": "leaf"}})
        with near, bulk.connect(hub.url) as connection, bulk.connect(near.url) as other:
            Streams(connection).make_as(StreamConfig(name="HUB", subjects=["both.>"]))
            leaf = StreamConfig(name="LEAF", subjects=["both.>"], max_msgs=COUNT - 500, discard=DiscardPolicy.NEW)
            Streams(other).make_as(leaf)
            assert until(lambda: is_wanted(hub, "both.>"))
            batch = rows("both.x", [b"%d" % row for row in range(COUNT)])
            with pytest.raises(bulk.PublishRefusedError) as caught:
                bulk.publish(connection, batch)
            assert isinstance(caught.value.error, StreamStoreFailedError)
            assert (caught.value.row, caught.value.report.further_answers > 0) == (COUNT - 500, True)
            assert caught.value.report.count <= COUNT
            report = bulk.publish(connection, batch, expected_stream="HUB")
            assert (report.count, list(report.streams)) == (COUNT, ["HUB"])
            assert connection.request(StreamInfoRequest("HUB")).state.messages == 2 * COUNT
