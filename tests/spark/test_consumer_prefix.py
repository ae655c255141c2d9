"""The option `consumerPrefix`: the names of all consumers of reads begin with it; and what permissions can do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.bulk.object_stores import make
from tests.bulk.streams import Streams
from tests.spark.bucket_sink import ROWS as BUCKET_ROWS
from tests.spark.bucket_sink import batch_writer, forgetful, schema, table
from tests.spark.buckets import Bucket
from tests.spark.micro_batches import latest, reader, rows
from tests.spark.sink import SHORT, batches, forget, recorded, task
from tests.spark.support import Nats, running

from jetspark.bulk.object_put import ObjectWriter, new_object
from jetspark.engine.object_chunks import CHUNK_SIZE
from jetspark.errors import ConfigError, PermissionsViolationError
from jetspark.spark.options.batch import read_options
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.read.object_reader import ObjectReader
from jetspark.spark.read.object_stream_reader import ObjectStreamReader
from jetspark.spark.read.objects import object_schema
from jetspark.spark.source import JetStreamDataSource

PREFIX = "team-a_"
PAST = "2020-01-01T00:00:00Z"


def read_all(made: DataSourceReader) -> int:
    return sum(len(batch) for part in made.partitions() for batch in made.read(part))


def source(nats: Nats, **options: str) -> DataSourceReader:
    made = JetStreamDataSource({"servers": nats.url, "consumerPrefix": PREFIX, **options})
    return made.reader(made.schema())


def a_batch_between_times(nats: Nats) -> None:
    stream = nats.filled(20, ("a", "b"))
    between = {"startingTimestamp": PAST, "endingTimestamp": "2100-01-01T00:00:00Z"}
    assert read_all(source(nats, stream=stream, subject="*.a", **between)) == 10


def the_last_message_of_each_subject(nats: Nats) -> None:
    assert read_all(source(nats, stream=nats.filled(20, ("a", "b")), readMode="lastPerSubject")) == 2


def micro_batches(nats: Nats) -> None:
    made = reader(nats, nats.filled(20), consumerPrefix=PREFIX, startingTimestamp=PAST)
    start = made.initialOffset()
    assert len(rows(made, start, latest(made, start))) == 20


def a_bucket_and_its_changes(nats: Nats) -> None:
    bucket = Bucket(nats, history=3)
    bucket.put("a", "b", "a")
    assert len(bucket.batch(consumerPrefix=PREFIX)) == 2
    assert len(bucket.batch(consumerPrefix=PREFIX, history="true")) == 3
    made = bucket.reader(consumerPrefix=PREFIX, initialSnapshot="true")
    start = made.initialOffset()
    assert len(bucket.micro_batch(made, start, latest(made, start))) == 2


def objects(nats: Nats) -> None:
    target = make(Streams(nats.connection))
    ObjectWriter(nats.connection, target).put(new_object(target.bucket, "large"), bytes(40 * CHUNK_SIZE))
    options = {"servers": nats.url, "objects": target.bucket, "consumerPrefix": PREFIX}
    assert read_all(ObjectReader(object_schema(), read_options(options))) == 1
    made = ObjectStreamReader(object_schema(), stream_read_options({**options, "startingOffsets": "earliest"}))
    start = made.initialOffset()
    parts = made.partitions(start, made.latestOffset(start, ReadAllAvailable()))
    assert sum(len(batch) for part in parts for batch in made.read(part)) == 1


def a_write_that_looks_up_stored_rows(nats: Nats) -> None:
    stream = nats.stream(duplicate_window=SHORT)
    query = task(11, partition=3)
    for size in (100, 70):
        done = recorded(nats, consumerPrefix=PREFIX).publish(query, iter(batches(stream, range(200), size=size)))
        forget(nats, stream)
    assert done.skipped == 200


def a_write_into_a_bucket_that_looks_up_revisions(nats: Nats) -> None:
    bucket = forgetful(nats)
    parts = [table(BUCKET_ROWS, *((f"k{at}", b"v") for at in range(20)))]
    query, options = task(12, partition=3), {"bucket": bucket.name, "consumerPrefix": PREFIX}
    for cut in (20, 7):
        some = [parts[0].slice(at, cut) for at in range(0, 20, cut)]
        recorded(nats, schema(BUCKET_ROWS), **options).publish(query, iter(some))
        forget(nats, bucket.stream, f"$KV.{bucket.name}.probe")
    assert len(bucket.batch(consumerPrefix=PREFIX)) == 20
    assert batch_writer(nats, bucket, consumerPrefix=PREFIX).write(iter(parts)).streams[bucket.stream].count == 20


@pytest.mark.parametrize(
    "use",
    [
        a_batch_between_times,
        the_last_message_of_each_subject,
        micro_batches,
        a_bucket_and_its_changes,
        objects,
        a_write_that_looks_up_stored_rows,
        a_write_into_a_bucket_that_looks_up_revisions,
    ],
)
def test_the_name_of_every_consumer_begins_with_the_prefix(nats: Nats, use: Callable[[Nats], None]) -> None:
    with nats.watched() as requests:
        use(nats)
        names = [config["name"] for config in requests.configs()]
    assert names
    assert {str(name)[: len(PREFIX)] for name in names} == {PREFIX}


@pytest.mark.parametrize("prefix", ["", " ", "a.b", "a*", "a>", "a/b", "a b", "x" * 240])
def test_a_prefix_that_makes_bad_names_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="option consumerPrefix"):
        read_options({"stream": "ORDERS", "consumerPrefix": prefix})


def test_a_commit_consumer_without_the_prefix_contradicts_it() -> None:
    options = {"stream": "ORDERS", "commitMode": "consumer", "commitConsumer": "reports", "consumerPrefix": PREFIX}
    with pytest.raises(ConfigError, match=r"commitConsumer.*consumerPrefix"):
        stream_read_options(options)
    named = stream_read_options({**options, "commitConsumer": f"{PREFIX}reports"})
    assert named.release.consumer == f"{PREFIX}reports"
    assert stream_read_options({**options, "consumerPrefix": "rep"}).release.consumer == "reports"


ADMIN = {"user": "admin", "password": "a"}
RECIPE = [
    "$JS.API.STREAM.INFO.ORDERS",
    "$JS.API.STREAM.MSG.GET.ORDERS",
    "$JS.API.CONSUMER.CREATE.ORDERS.*.orders.eu.>",
    "$JS.API.CONSUMER.INFO.ORDERS.*",
    "$JS.API.CONSUMER.MSG.NEXT.ORDERS.*",
    "$JS.API.CONSUMER.DELETE.ORDERS.*",
]
"""The permissions in `docs/security.md`."""


def users(publish: list[str]) -> dict[str, object]:
    limited = {"publish": publish, "subscribe": ["_INBOX_spark.>"]}
    return {"authorization": {"users": [ADMIN, {"user": "spark", "password": "s", "permissions": limited}]}}


def test_a_user_of_the_recipe_reads_the_allowed_subjects_of_one_stream_only() -> None:
    with running(ADMIN, config=users(RECIPE)) as nats:
        nats.stream("ORDERS", subjects=["orders.>"])
        nats.stream("OTHER", subjects=["other.>"])
        nats.publish([f"orders.{region}.x" for region in ("eu", "us") * 50])
        login = {"user": "spark", "password": "s", "inboxPrefix": "_INBOX_spark", "consumerPrefix": PREFIX}
        allowed = {**login, "subject": "orders.eu.>"}
        assert read_all(source(nats, stream="ORDERS", **allowed)) == 50
        made = reader(nats, "ORDERS", **allowed)
        start = made.initialOffset()
        assert len(rows(made, start, latest(made, start))) == 50
        assert nats.consumers_left("ORDERS") == 0
        for stream, subject in (("ORDERS", "orders.us.>"), ("ORDERS", "orders.>"), ("OTHER", "other.>")):
            with pytest.raises(PermissionsViolationError, match=f"STREAM.INFO.OTHER|CREATE.{stream}.{PREFIX}"):
                read_all(source(nats, stream=stream, **{**login, "subject": subject}))


def test_the_server_knows_no_permission_for_the_beginning_of_a_name() -> None:
    """The reason why the recipe limits the stream and the filter: a wildcard stands for a whole token."""
    publish = ["$JS.API.STREAM.INFO.ORDERS", *(f"$JS.API.CONSUMER.CREATE.ORDERS.{PREFIX}{end}" for end in ("*", ">"))]
    with running(ADMIN, config=users(publish)) as nats:
        nats.stream("ORDERS", subjects=["orders.>"])
        nats.publish(["orders.eu.x"])
        options = {"user": "spark", "password": "s", "inboxPrefix": "_INBOX_spark", "consumerPrefix": PREFIX}
        with pytest.raises(PermissionsViolationError, match=f"CREATE.ORDERS.{PREFIX}"):
            read_all(source(nats, stream="ORDERS", **options))
