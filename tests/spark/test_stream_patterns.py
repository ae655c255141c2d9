"""Reads of all streams that match a pattern, and queries whose streams change: without Spark, on a real server."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.datasource import EqualTo
from tests.spark.changing_streams import Clock, Row, fill, numbered, places, ranges, rows
from tests.spark.micro_batches import latest, reader
from tests.spark.support import Nats

from jetspark.errors import ConfigError
from jetspark.jetstream.api import Page, StreamNamesRequest
from jetspark.spark.options.batch import read_options
from jetspark.spark.options.stream_pattern import parse_stream_pattern
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.read.batch_reader import FilteringReader, JetStreamReader
from jetspark.spark.read.partitions import StreamPartition
from jetspark.spark.read.snapshot_reader import SnapshotReader
from jetspark.spark.schema import read_schema
from jetspark.spark.streams import listing


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(listing, "time", clock)
    return clock


@pytest.fixture
def prefix(nats: Nats) -> str:
    """Begins the names of the streams of a test."""
    return f"{nats.stream()}_"


# -- streams that match a pattern ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("ORDERS_*", ["ORDERS_", "ORDERS_EU", "ORDERS_US"]),
        ("ORDERS_?S", ["ORDERS_US"]),
        ("*_{EU,US}", ["ORDERS_EU", "ORDERS_US", "OTHER_EU"]),
        ("O[^R]*", ["OTHER_EU"]),
        (" ORDERS_EU ", ["ORDERS_EU"]),
        ("orders*", []),
    ],
)
def test_a_pattern_is_a_glob_for_whole_names(pattern: str, names: list[str]) -> None:
    known = ["OTHER_EU", "ORDERS_US", "ORDERS_EU", "ORDERS_", "MY_ORDERS_"]
    assert list(parse_stream_pattern(pattern).select(known)) == names


@pytest.mark.parametrize("pattern", ["", " ", "ORDERS.*", "ORDERS.>", "A B", "a/b", "[", "{A", "A\\"])
def test_a_pattern_that_no_stream_can_match_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="option streamPattern"):
        read_options({"streamPattern": pattern})


@pytest.mark.parametrize("other", [{"stream": "A"}, {"bucket": "a"}, {"objects": "a"}])
def test_a_pattern_contradicts_other_content(other: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=rf"{next(iter(other))} and streamPattern|streamPattern and"):
        read_options({"streamPattern": "A*", **other})


def test_positions_of_streams_that_do_not_match_are_refused() -> None:
    with pytest.raises(ConfigError, match="startingOffsets names stream B, which option streamPattern = A"):
        read_options({"streamPattern": "A*", "startingOffsets": '{"AX": 3, "B": 4}'})
    with pytest.raises(ConfigError, match=r"startingOffsets \(7\) is after option endingOffsets \(5\) for AX"):
        read_options({"streamPattern": "A*", "startingOffsets": '{"AX": 7}', "endingOffsets": '{"AX": 5}'})
    with pytest.raises(ConfigError, match=r"startingTimestamp .* is after option endingTimestamp .* for every stream"):
        read_options({"streamPattern": "A*", "startingTimestamp": "5", "endingTimestamp": "4"})


def test_a_bucket_cannot_be_exchanged(nats: Nats) -> None:
    with pytest.raises(ConfigError, match="bucket and allowRemovedStreams"):
        stream_read_options({"bucket": "a", "allowRemovedStreams": "true"})


class Account:
    """An account with many streams, in pages as the server sends them."""

    def __init__(self, names: list[str], size: int = 1024) -> None:
        self.names = names
        self.size = size
        self.requests = 0

    def request(self, connection: object, request: StreamNamesRequest) -> Page[str]:
        self.requests += 1
        items = self.names[request.offset : request.offset + self.size]
        return Page(items, len(self.names), request.offset, self.size)


def listed(account: Account, pattern: str) -> tuple[str, ...]:
    return listing.list_streams(None, account, parse_stream_pattern(pattern))  # type: ignore[arg-type]  # stand-ins


def test_a_list_of_streams_has_pages_and_limits() -> None:
    account = Account([f"S{number:06}" for number in range(3000)])
    assert listed(account, "S00299?") == tuple(f"S00299{digit}" for digit in range(10))
    assert account.requests == 3
    with pytest.raises(ConfigError, match=r"streamPattern = \* matches 3000 streams; at most 1000"):
        listed(account, "*")
    with pytest.raises(ConfigError, match="more than 100000 streams"):
        listed(Account([f"S{number:06}" for number in range(200_000)]), "X")


def batch(nats: Nats, pattern: str, **options: str) -> list[Row]:
    given = read_options({"servers": nats.url, "streamPattern": pattern, **options})
    made = (SnapshotReader if given.last_per_subject else JetStreamReader)(read_schema(False), given)
    return sorted(
        (row["stream"], row["sequence"]) for part in made.partitions() for each in made.read(part)
        for row in each.to_pylist()
    )  # fmt: skip


def test_a_batch_reads_all_streams_that_match(nats: Nats, prefix: str) -> None:
    a, b = fill(nats, f"{prefix}A", 2), fill(nats, f"{prefix}B", 3)
    fill(nats, f"X{prefix}A", 1)
    assert batch(nats, f"{prefix}*") == [*numbered(a, 1, 2), *numbered(b, 1, 2, 3)]
    assert batch(nats, f"{prefix}*", readMode="lastPerSubject") == [*numbered(a, 2), *numbered(b, 3)]
    positions = {"startingOffsets": json.dumps({a: 2, b: -2}), "endingOffsets": json.dumps({a: -1, b: 3})}
    assert batch(nats, f"{prefix}*", **positions) == [*numbered(a, 2), *numbered(b, 1, 2)]
    with pytest.raises(ConfigError, match=f"startingOffsets has no position for stream {b}"):
        batch(nats, f"{prefix}*", startingOffsets=json.dumps({a: 2}))
    with pytest.raises(ConfigError, match=f"position for stream {prefix}C, and there is no such stream"):
        batch(nats, f"{prefix}*", startingOffsets=json.dumps({a: 1, b: 1, f"{prefix}C": 1}))
    options = read_options({"servers": nats.url, "streamPattern": f"{prefix}*"})
    filtered = FilteringReader(read_schema(False), options)
    assert list(filtered.pushFilters([EqualTo(("stream",), b)])) == []
    assert {part.stream for part in filtered.partitions() if isinstance(part, StreamPartition)} == {b}


def test_a_batch_of_a_pattern_that_matches_nothing_is_empty(
    nats: Nats, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert batch(nats, f"{prefix}*") == batch(nats, f"{prefix}*", readMode="lastPerSubject") == []
    assert f"no stream matches option streamPattern = {prefix}*; the read has no rows" in caplog.text


# -- a query on a pattern --------------------------------------------------------------------------------------------


def test_streams_that_appear_while_a_query_runs_start_at_their_first_message(nats: Nats, prefix: str) -> None:
    a = fill(nats, f"{prefix}A", 3)
    made = reader(nats, streamPattern=f"{prefix}*", startingOffsets="latest")
    start = made.initialOffset()
    assert places(start, prefix) == {"A": 4}
    assert latest(made, start) == start
    b, c = fill(nats, f"{prefix}B", 2), fill(nats, f"{prefix}C", 0)
    first = latest(made, start)
    assert places(first, prefix) == {"A": 4, "B": 3, "C": 1}
    assert rows(made, start, first) == numbered(b, 1, 2)
    assert latest(made, first) == first
    fill(nats, a, 1)
    fill(nats, c, 1)
    second = latest(made, first)
    assert rows(made, first, second) == [*numbered(a, 4), *numbered(c, 1)]


def test_a_stream_that_appears_with_nothing_to_read_is_in_the_checkpoint(nats: Nats, prefix: str) -> None:
    """So its position counts, and a deletion is noticed. The micro-batch is empty."""
    made = reader(nats, streamPattern=f"{prefix}*", minOffsetsPerTrigger="5")
    start = made.initialOffset()
    fill(nats, f"{prefix}A", 0)
    end = latest(made, start)
    assert places(end, prefix) == {"A": 1}
    assert made.partitions(start, end) == []
    made.commit(end)
    assert latest(made, end) == end


def test_a_pattern_that_matches_nothing_waits_and_says_so_once(
    nats: Nats, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = reader(nats, streamPattern=f"{prefix}*", startingOffsets="latest")
    start = made.initialOffset()
    assert places(start, prefix) == {}
    for _ in range(3):
        assert latest(made, start) == start
    assert made.reportLatestOffset() == {"streams": {}, "version": 1}
    assert caplog.text.count("no stream matches option streamPattern") == 1
    a = fill(nats, f"{prefix}A", 2)
    end = latest(made, start)
    assert rows(made, start, end) == numbered(a, 1, 2)


def test_the_list_of_streams_is_requested_seldom_and_not_for_named_streams(
    nats: Nats, prefix: str, clock: Clock
) -> None:
    fill(nats, f"{prefix}A", 1)
    clock.step = 0.0
    with nats.watched("STREAM.NAMES") as requests:
        for interval, wanted in (("10ms", 1.0), ("3s", 3.0)):
            made = reader(nats, streamPattern=f"{prefix}*", pollInterval=interval)
            end = latest(made, made.initialOffset())
            assert requests.count() == 1
            for _ in range(4):
                clock.now += wanted / 4 - 0.001
                latest(made, end)
            assert requests.count() == 0
            clock.now += 0.1
            latest(made, end)
            assert requests.count() == 1
        named = reader(nats, f"{prefix}A")
        clock.now += 100
        latest(named, named.initialOffset())
        assert requests.count() == 0


def test_an_available_now_run_ends_with_the_streams_that_it_found_at_its_start(nats: Nats, prefix: str) -> None:
    a = fill(nats, f"{prefix}A", 4)
    made = reader(nats, streamPattern=f"{prefix}*", maxOffsetsPerTrigger="3")
    made.prepareForTriggerAvailableNow()
    b = fill(nats, f"{prefix}B", 2)
    offset, found = made.initialOffset(), []
    for _ in range(10):
        start, offset = offset, latest(made, offset)
        if start == offset:
            break
        found += rows(made, start, offset)
    assert found == numbered(a, 1, 2, 3, 4)
    again = reader(nats, streamPattern=f"{prefix}*")
    again.prepareForTriggerAvailableNow()
    end = latest(again, offset)
    assert rows(again, offset, end) == numbered(b, 1, 2)
    assert latest(again, end) == end


def test_an_available_now_run_without_any_stream_ends(nats: Nats, prefix: str) -> None:
    made = reader(nats, streamPattern=f"{prefix}*")
    made.prepareForTriggerAvailableNow()
    start = made.initialOffset()
    fill(nats, f"{prefix}A", 1)
    assert latest(made, start) == start


@pytest.mark.parametrize("first", [True, False])
def test_a_batch_that_is_repeated_after_a_crash_has_the_same_ranges_although_a_stream_appeared(
    nats: Nats, prefix: str, first: bool
) -> None:
    a, b = fill(nats, f"{prefix}A", 3), fill(nats, f"{prefix}B", 2)
    made = reader(nats, streamPattern=f"{prefix}*")
    start = made.initialOffset()
    if not first:
        start = latest(made, start)
        fill(nats, a, 2)
        b = fill(nats, f"{prefix}C", 2)  # it joins with the batch that is repeated
    end = latest(made, start)
    planned, read = ranges(made, start, end), rows(made, start, end)
    d = fill(nats, f"{prefix}AA", 2)
    fill(nats, a, 5)
    again = reader(nats, streamPattern=f"{prefix}*")
    begin = again.initialOffset() if first else start  # Spark does not store the initial offset
    assert (ranges(again, begin, end), rows(again, begin, end)) == (planned, read)
    assert {stream for stream, _ in read} == {a, b}
    following = latest(again, end)
    assert [row for row in rows(again, end, following) if row[0] == d] == numbered(d, 1, 2)


def test_a_limit_is_shared_with_streams_that_appear(nats: Nats, prefix: str) -> None:
    fill(nats, f"{prefix}B", 50)
    made = reader(nats, streamPattern=f"{prefix}*", maxOffsetsPerTrigger="10")
    end = latest(made, made.initialOffset())
    fill(nats, f"{prefix}A", 50)
    fill(nats, f"{prefix}C", 2)
    assert places(latest(made, end), prefix) == {"A": 5, "B": 15, "C": 3}
    made = reader(nats, streamPattern=f"{prefix}*", maxOffsetsPerTrigger="1")
    found = [places(end := latest(made, end), prefix) for _ in range(3)]
    assert found == [{"A": 2, "B": 11, "C": 1}, {"A": 2, "B": 12, "C": 1}, {"A": 2, "B": 12, "C": 2}]
