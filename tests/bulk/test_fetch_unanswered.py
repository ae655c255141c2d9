"""A fetch whose pull nobody answers (503): is the consumer missing, or JetStream? A scripted server decides."""

import time
from collections.abc import Iterable, Sequence

import pytest
from tests.answering_server import Answer, AnsweringServer, Published, Reply
from tests.bulk.test_scan_without_progress import consumer_info, delivery

from jetspark import bulk
from jetspark.errors import ConsumerUnavailableError, NoConsumerResponseError, NoRespondersError

NOBODY = b"NATS/1.0 503\r\n\r\n"
GONE = b'{"error":{"code":404,"err_code":10014,"description":"consumer not found"}}'
UNAVAILABLE = b'{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}'
EXISTS = consumer_info("C").replace(b'"config": {', b'"config": {"ack_policy": "explicit", ')


class _Script:
    """Answers the pulls, the look-ups and the acknowledgements in turn; the last answer of each is repeated."""

    def __init__(self, pulls: Sequence[str], infos: Sequence[bytes], acks: Sequence[bytes] = (b"",)) -> None:
        self.pulls, self.infos, self.acks = list(pulls), list(infos), list(acks)

    def __call__(self, m: Published) -> Iterable[Answer]:
        if m.subject.startswith("$JS.API.CONSUMER.MSG.NEXT."):
            pull = self.pulls.pop(0) if len(self.pulls) > 1 else self.pulls[0]
            yield delivery(m, 1, 1) if pull == "message" else Reply(m.reply, b"", NOBODY)
        elif m.subject.startswith("$JS.API.CONSUMER.INFO."):
            info = self.infos.pop(0) if len(self.infos) > 1 else self.infos[0]
            if info:
                yield Reply(m.reply, b"", NOBODY) if info == NOBODY else (m.reply, info)
        elif m.subject.startswith("$JS.ACK."):
            yield Reply(m.reply, b"", self.acks.pop(0) if len(self.acks) > 1 else self.acks[0])


def test_a_fetch_of_a_missing_consumer_fails_at_once() -> None:
    script = _Script(["503"], [GONE])
    with AnsweringServer(script) as server, bulk.connect(server.url) as connection:
        began = time.monotonic()
        with pytest.raises(NoConsumerResponseError, match="no such consumer") as caught:
            bulk.fetch(connection, "S", "C", max_messages=1, timeout=20).read_all()
        assert type(caught.value) is NoConsumerResponseError
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("infos", [[EXISTS], [NOBODY, EXISTS], [UNAVAILABLE, EXISTS]])
def test_a_fetch_goes_on_when_jetstream_serves_the_consumer_again(infos: list[bytes]) -> None:
    script = _Script(["503", "503", "message"], infos)
    with AnsweringServer(script) as server, bulk.connect(server.url) as connection:
        table = bulk.fetch(connection, "S", "C", max_messages=1, timeout=20).read_all()
    assert table["sequence"].to_pylist() == [1]


@pytest.mark.parametrize("info", [EXISTS, NOBODY, UNAVAILABLE, b""])
def test_a_fetch_that_nobody_serves_in_time_does_not_call_the_consumer_missing(info: bytes) -> None:
    script = _Script(["503"], [info])
    with AnsweringServer(script) as server, bulk.connect(server.url) as connection:
        began = time.monotonic()
        with pytest.raises(ConsumerUnavailableError) as caught:
            bulk.fetch(connection, "S", "C", max_messages=1, timeout=0.5).read_all()
        assert "no such consumer" not in str(caught.value)
        assert time.monotonic() - began < 10


def test_an_acknowledgement_is_repeated_while_nobody_takes_it_and_the_consumer_exists() -> None:
    script = _Script(["message"], [EXISTS], [NOBODY, NOBODY, b""])
    with AnsweringServer(script) as server, bulk.connect(server.url) as connection:
        fetched = bulk.fetch(connection, "S", "C", max_messages=1)
        fetched.read_all()
        fetched.ack()
        assert sum(each.subject.startswith("$JS.ACK.") for each in server.published) == 3


@pytest.mark.parametrize(
    ("infos", "kind", "text"),
    [
        ([EXISTS, GONE], NoRespondersError, "no such consumer"),
        ([EXISTS, UNAVAILABLE], ConsumerUnavailableError, "JetStream is unavailable on this server"),
    ],
)
def test_an_acknowledgement_that_nobody_takes_says_whether_the_consumer_is_missing(
    infos: list[bytes], kind: type[Exception], text: str
) -> None:
    script = _Script(["message"], infos, [NOBODY])
    with AnsweringServer(script) as server, bulk.connect(server.url) as connection:
        fetched = bulk.fetch(connection, "S", "C", max_messages=1, request_timeout=0.5)
        fetched.read_all()
        with pytest.raises(kind, match=text):
            fetched.ack()
