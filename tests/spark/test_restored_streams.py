"""Streams that lost their end and were filled again keep their name, creation time and sequences."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.committing import CONSUMER, INTEREST, PURGE, WORK_QUEUE, kept
from tests.spark.micro_batches import Offset, latest, nexts, reader, rows
from tests.spark.support import Nats, running

from jetspark import bulk
from jetspark.errors import ConnectError, DataLossError, RequestTimeoutError
from jetspark.jetstream import RetentionPolicy
from jetspark.jetstream.api import MessageDeleteRequest
from jetspark.jetstream.config import StorageType
from jetspark.server import NatsCluster
from jetspark.spark.commit.releaser import Releaser
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.streams.offsets import decode_offsets
from jetspark.spark.streams.state import StreamStates

GONE = "sequences 6 to {} are gone: an older state of the stream was restored and filled again: the message {} that"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Nats]:
    """A server whose store can be restored."""
    with running(store_dir=tmp_path / "store") as nats:
        yield nats


def saved(nats: Nats, name: str = "saved") -> Path:
    """Return a copy of the store, made while the server is down."""
    copy = nats.server.store_dir.with_name(name)
    nats.server.stop()
    shutil.copytree(nats.server.store_dir, copy)
    nats.server.start()
    nats.connection.reconnect()
    return copy


def put_back(nats: Nats, copy: Path) -> None:
    """Restore the store of the copy."""
    nats.server.stop()
    shutil.rmtree(nats.server.store_dir)
    shutil.copytree(copy, nats.server.store_dir)
    nats.server.start()
    nats.connection.reconnect()


def read_to(nats: Nats, stream: str, **options: str) -> Offset:
    """Return the end of a query that has read everything."""
    made = reader(nats, stream, **options)
    start = made.initialOffset()
    while (end := latest(made, start)) != start:
        start = end
    return end


def restored(nats: Nats, again: int, **config: object) -> tuple[str, Offset]:
    """Read ten messages of a new stream, restore five and fill it again; return the stream and the offset."""
    stream = nats.filled(5, ("a",), **config)
    copy = saved(nats)
    nats.publish([f"{stream}.a"] * 5)
    end = read_to(nats, stream)
    put_back(nats, copy)
    nats.publish([f"{stream}.new"] * again)
    return stream, end


@pytest.mark.parametrize("again", [5, 8])
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_stream_that_was_restored_and_filled_again_is_noticed_and_new_messages_are_read(
    own: Nats, again: int, fail: str, caplog: pytest.LogCaptureFixture
) -> None:
    stream, end = restored(own, again)
    made = reader(own, stream, failOnDataLoss=fail)
    if fail == "true":
        with pytest.raises(DataLossError, match=GONE.format(10, 10)) as caught:
            latest(made, end)
        assert (caught.value.stream, caught.value.first, caught.value.last) == (stream, 6, 10)
        streams = end["streams"]
        assert isinstance(streams, dict)
        assert f"was stored at {streams[stream]['time']}, the present one at 20" in str(caught.value)
        return
    back = latest(made, end)
    assert rows(made, end, back) == list(range(6, 6 + again))
    assert latest(made, back) == back
    assert caplog.text.count(GONE.format(10, 10)) == 1
    assert latest(reader(own, stream), back) == back  # the next run finds the offset that this one has read


def test_a_stream_that_is_restored_while_the_query_runs_is_noticed(own: Nats) -> None:
    stream = own.filled(5)
    copy = saved(own)
    own.publish([f"{stream}.a"] * 5)
    made = reader(own, stream)
    end = latest(made, made.initialOffset())
    assert latest(made, end) == end
    put_back(own, copy)
    own.publish([f"{stream}.new"] * 6)
    with pytest.raises(DataLossError, match=GONE.format(10, 10)):
        latest(made, end)


def test_an_end_in_the_middle_of_the_stream_is_recognised(own: Nats) -> None:
    stream = own.filled(5)
    copy = saved(own)
    own.publish([f"{stream}.a"] * 5)
    made = reader(own, stream, maxOffsetsPerTrigger="4")
    one = latest(made, made.initialOffset())
    two = latest(made, one)
    assert (nexts(one), nexts(two)) == ([5], [9])
    put_back(own, copy)
    own.publish([f"{stream}.new"] * 8)
    made = reader(own, stream)
    assert rows(made, one, latest(made, one)) == list(range(5, 14))  # up to there it is unchanged
    with pytest.raises(DataLossError, match=GONE.format(8, 8)):
        latest(reader(own, stream), two)


def test_a_repeated_micro_batch_has_its_remaining_messages_and_the_next_one_has_the_replacements(
    own: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    stream = own.filled(5)
    copy = saved(own)
    own.publish([f"{stream}.a"] * 5)
    made = reader(own, stream, maxOffsetsPerTrigger="3")
    one = latest(made, made.initialOffset())
    two = latest(made, one)
    put_back(own, copy)
    own.publish([f"{stream}.new"] * 8)
    with pytest.raises(DataLossError, match="sequence 6 is gone: an older state"):
        reader(own, stream).partitions(one, two)
    made = reader(own, stream, failOnDataLoss="false")
    assert rows(made, one, two) == [4, 5]
    assert rows(made, two, latest(made, two)) == list(range(6, 14))
    assert caplog.text.count("an older state of the stream was restored and filled again") == 1


def test_a_shorter_stream_is_read_from_its_end(own: Nats, caplog: pytest.LogCaptureFixture) -> None:
    stream, end = restored(own, 3)
    with pytest.raises(DataLossError, match=r"sequences 6 to 10 are gone: .* is ahead of the stream, which ends at 8"):
        latest(reader(own, stream), end)
    made = reader(own, stream, failOnDataLoss="false")
    assert rows(made, end, latest(made, end)) == [6, 7, 8]
    assert "sequences 6 to 10 are gone" in caplog.text


def test_restored_work_queues_are_recognised_too(own: Nats) -> None:
    stream, end = restored(own, 8, retention=RetentionPolicy.WORK_QUEUE, allow_direct=True)
    with pytest.raises(DataLossError, match=GONE.format(10, 10)):
        latest(reader(own, stream), end)


@pytest.mark.parametrize("again", [3, 8])
@pytest.mark.parametrize("mode", ["purge", "consumer"])
def test_replacements_of_lost_messages_are_released_only_after_they_were_read(
    own: Nats, mode: str, again: int, caplog: pytest.LogCaptureFixture
) -> None:
    config, options = (WORK_QUEUE, PURGE) if mode == "purge" else (INTEREST, CONSUMER)
    options = {**options, "failOnDataLoss": "false"}
    stream = own.stream(**config)
    made = reader(own, stream, **options)
    start = latest(made, made.initialOffset())  # from here on there is interest
    own.publish([f"{stream}.a"] * 5)
    copy = saved(own)
    own.publish([f"{stream}.a"] * 5)
    end = latest(made, start)
    put_back(own, copy)
    own.publish([f"{stream}.new"] * again)
    new = list(range(6, 6 + again))

    made = reader(own, stream, **options)
    back = latest(made, end)
    made.commit(end)  # Spark reports the last commit when the next micro-batch is written down, before it is planned
    text = f"stream {stream} lacks messages that were read up to 10"
    assert caplog.text.count(text) == 1
    assert kept(own, stream) == [1, 2, 3, 4, 5, *new]
    assert rows(made, end, back) == new

    read = stream_read_options({"servers": own.url, "stream": stream, **options})
    committed = decode_offsets(end, [stream])
    assert Releaser(read, StreamStates(read)).release(committed, strict=True) == {stream}  # of a query that has ended
    assert kept(own, stream) == [1, 2, 3, 4, 5, *new]
    made.commit(back)
    assert kept(own, stream) == []
    assert caplog.text.count(text) == 2


def test_a_stream_without_the_committed_messages_is_reported_once_and_released_when_it_has_them(
    own: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    """Like a stream whose leader was just elected: the next commit checks again."""
    stream = own.stream(**WORK_QUEUE)
    own.publish([f"{stream}.a"] * 5)
    before = saved(own, "before")
    own.publish([f"{stream}.a"] * 5)
    made = reader(own, stream, **PURGE)
    end = latest(made, made.initialOffset())
    after = saved(own, "after")
    put_back(own, before)
    for _ in range(3):
        made.commit(end)
    assert kept(own, stream) == [1, 2, 3, 4, 5]
    assert caplog.text.count(f"stream {stream} lacks messages that were read up to 10") == 1
    put_back(own, after)
    made.commit(end)
    assert kept(own, stream) == []


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("trigger", ["available now", "usual"])
def test_a_repeated_micro_batch_is_not_compared_with_an_earlier_state_of_the_stream(
    own: Nats, trigger: str, fail: str, caplog: pytest.LogCaptureFixture
) -> None:
    """That check does not wait, and a new leader may not know the last messages yet."""
    stream = own.filled(5)
    before = saved(own, "before")
    made = reader(own, stream)
    one = latest(made, made.initialOffset())
    own.publish([f"{stream}.a"] * 5)
    two = latest(made, one)
    after = saved(own, "after")
    put_back(own, before)
    made = reader(own, stream, failOnDataLoss=fail)
    if trigger == "available now":
        made.prepareForTriggerAvailableNow()
    else:
        made.initialOffset()
    put_back(own, after)
    assert rows(made, one, two) == list(range(6, 11))
    assert "older state" not in caplog.text


def test_an_unanswered_check_for_a_restored_stream_is_repeated(own: Nats, caplog: pytest.LogCaptureFixture) -> None:
    stream, end = restored(own, 8)
    short = {"requestTimeout": "1s", "connectTimeout": "500ms", "retryTimeout": "1ms"}  # enough for a running server
    options = stream_read_options({"servers": own.url, "stream": stream, **short})
    states, reached = StreamStates(options), decode_offsets(end, [stream])[stream]
    extent = states.refresh()[stream]
    own.server.pause()
    try:
        with pytest.raises((RequestTimeoutError, ConnectError)):
            states.truncation(extent, reached)
    finally:
        own.server.resume()
    own.info(stream)  # it has begun to answer again
    truncation = states.truncation(extent, reached)
    assert truncation is not None
    assert truncation.first_lost == 6
    assert "cannot read the times" not in caplog.text


@pytest.mark.slow
@pytest.mark.matrix
def test_a_memory_stream_whose_server_was_restarted_starts_again_and_is_noticed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with NatsCluster(3) as cluster:
        nats = Nats(cluster.nodes[0], bulk.connect(cluster.nodes[0].url))
        with nats.connection:
            stream = nats.filled(10, ("a",), storage=StorageType.MEMORY)
            info = nats.info(stream)
            assert info.cluster is not None
            end = read_to(nats, stream)
            next(node for node in cluster.nodes if node.name == info.cluster.leader).restart()
            cluster.wait_stream_leader(stream)
            nats.connection.reconnect()
            nats.publish([f"{stream}.new"] * 12)
            assert nats.info(stream).created == info.created
            with pytest.raises(DataLossError, match="sequences 1 to 10 are gone: an older state of the stream"):
                latest(reader(nats, stream), end)
            made = reader(nats, stream, failOnDataLoss="false")
            assert rows(made, end, latest(made, end)) == list(range(1, 13))
            assert "sequences 1 to 10 are gone" in caplog.text


@pytest.mark.parametrize("how", ["deleted", "purged", "never asked for"])
def test_a_stream_whose_last_read_message_cannot_be_compared_counts_as_unchanged(nats: Nats, how: str) -> None:
    stream = nats.filled(10)
    end = read_to(nats, stream)
    if how == "deleted":
        nats.connection.request(MessageDeleteRequest(stream, 10))
    elif how == "purged":
        nats.purge(stream)
    else:
        streams = end["streams"]
        assert isinstance(streams, dict)
        del streams[stream]["time"]
    nats.publish([f"{stream}.a"] * 2)
    made = reader(nats, stream)
    assert rows(made, end, latest(made, end)) == [11, 12]


def test_a_user_without_permission_to_get_messages_is_warned_once_and_reads(caplog: pytest.LogCaptureFixture) -> None:
    deny = {"publish": {"deny": ["$JS.API.STREAM.MSG.GET.>", "$JS.API.DIRECT.GET.>"]}}
    users = [
        {"user": "admin", "password": "a"},
        {"user": "spark", "password": "s", "permissions": deny},
    ]
    login = {"user": "admin", "password": "a"}
    with running(login, config={"authorization": {"users": users}}) as nats:
        stream = nats.filled(10)
        made = reader(nats, stream, user="spark", password="s", maxOffsetsPerTrigger="4")
        start = made.initialOffset()
        read = []
        while (end := latest(made, start)) != start:
            read += rows(made, start, end)
            start = end
        assert read == list(range(1, 11))
    text = f"stream {stream}: cannot read the times of messages, so a restored older state may go unnoticed"
    assert caplog.text.count(text) == 1
    assert "$JS.API.STREAM.MSG.GET" in caplog.text
