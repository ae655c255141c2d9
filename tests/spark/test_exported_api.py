"""Queries in an account that imports a part of the JetStream API of another account, and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.spark.micro_batches import Offset, latest, reader, rows
from tests.spark.support import Nats, Requests, running

from jetspark import bulk
from jetspark.errors import DataLossError, RequestTimeoutError
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.jetstream.names import api_prefix
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.streams.offsets import decode_offsets
from jetspark.spark.streams.state import StreamStates

PREFIX = "JS.API"
READING = ("STREAM.INFO.*", "CONSUMER.CREATE.>", "CONSUMER.INFO.>", "CONSUMER.MSG.NEXT.>", "CONSUMER.DELETE.>")
GETTING = "STREAM.MSG.GET.*"
APP = {"user": "app", "password": "p", "apiPrefix": PREFIX, "retryTimeout": "1ms"}
SILENT = {**APP, "requestTimeout": "4s"}
"""For requests without an answer. The others must be answered in that time, or the query fails."""
TRIES = 3
"""How often a message is requested with this `retryTimeout`: twice, and once more between two requests."""


@contextmanager
def exported(*subjects: str) -> Iterator[Nats]:
    """A server with an account `APP` that may use these subjects of the API of an account `JS`."""
    services = {subject: f"$JS.API.{subject}" for subject in subjects}
    accounts = {
        "JS": {
            "jetstream": "enabled",
            "users": [{"user": "js", "password": "p"}],
            "exports": [{"service": service, "response_type": "stream"} for service in services.values()],
        },
        "APP": {
            "users": [{"user": "app", "password": "p"}],
            "imports": [
                {"service": {"account": "JS", "subject": service}, "to": f"{PREFIX}.{subject}"}
                for subject, service in services.items()
            ],
        },
    }
    with running({"user": "js", "password": "p"}, config={"accounts": accounts}) as nats:
        yield nats


@contextmanager
def listening(nats: Nats) -> Iterator[bulk.Connection]:
    """Take the requests for a message and do not answer them, so that there are responders."""
    with bulk.connect(nats.url, user="app", password="p") as ear:
        ear.subscribe(f"{PREFIX}.{GETTING}")
        # After its answer the server has the subscription.
        ear.request(StreamInfoRequest(nats.stream()), prefix=api_prefix(prefix=PREFIX))
        yield ear


def cannot_be_checked(stream: str) -> str:
    return f"stream {stream}: cannot read the times of messages, so a restored older state may go unnoticed: "


def reads_everything(nats: Nats, stream: str, options: dict[str, str]) -> bool:
    made = reader(nats, stream, maxOffsetsPerTrigger="4", **options)
    start, read = made.initialOffset(), []
    while (end := latest(made, start)) != start:
        read += rows(made, start, end)
        start = end
    return read == list(range(1, 11))


def test_a_query_without_permission_to_get_messages_and_without_responders_warns_once_and_reads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with exported(*READING) as nats:
        stream = nats.filled(10)
        assert reads_everything(nats, stream, APP)
    assert caplog.text.count(cannot_be_checked(stream)) == 1
    assert f"STREAM.MSG.GET.{stream}: no server answers" in caplog.text


@pytest.mark.matrix
def test_a_query_without_permission_to_get_messages_and_without_an_answer_warns_once_and_reads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with exported(*READING) as nats, listening(nats) as ear:
        stream = nats.filled(10)
        assert reads_everything(nats, stream, SILENT)
        assert Requests(ear, nats.connection).count() == TRIES  # for the first micro-batch, and none for later ones
    assert caplog.text.count(cannot_be_checked(stream)) == 1
    assert f"no reply to {PREFIX}.STREAM.MSG.GET.{stream}" in caplog.text


def test_a_query_with_permission_to_get_messages_notices_a_restored_stream(caplog: pytest.LogCaptureFixture) -> None:
    with exported(*READING, GETTING) as nats:
        stream = nats.filled(10)
        with pytest.raises(
            DataLossError, match="an older state of the stream was restored and filled again: the message 4"
        ):
            latest(reader(nats, stream, **APP), of_another_time(nats, stream))
    assert "cannot read the times" not in caplog.text


def of_another_time(nats: Nats, stream: str) -> Offset:
    """Return an offset in the middle of a stream whose last message has another time."""
    made = reader(nats, stream, maxOffsetsPerTrigger="4", **{**APP, "apiPrefix": "$JS.API", "user": "js"})
    end = latest(made, made.initialOffset())
    streams = end["streams"]
    assert isinstance(streams, dict)
    streams[stream]["time"] = "2026-01-01T00:00:00Z"
    return end


@pytest.mark.slow
@pytest.mark.matrix
def test_a_server_that_falls_silent_during_the_last_request_is_not_taken_for_a_refusal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with exported(*READING) as nats, listening(nats) as ear:
        stream = nats.filled(10)
        reached = decode_offsets(of_another_time(nats, stream), [stream])[stream]
        states = StreamStates(stream_read_options({"servers": nats.url, "stream": stream, **SILENT}))
        extent = states.refresh()[stream]

        def fall_silent() -> None:
            left = TRIES
            while left:
                table = ear.read(time.monotonic() + 30.0)
                assert table is not None
                left -= len(table)
            nats.server.pause()

        falling = threading.Thread(target=fall_silent)
        falling.start()
        try:
            with pytest.raises(RequestTimeoutError):
                states.truncation(extent, reached)
        finally:
            falling.join(30.0)
            nats.server.resume()
        assert "cannot read the times" not in caplog.text
        assert states.truncation(extent, reached) is None
        assert caplog.text.count(cannot_be_checked(stream)) == 1
