"""The ledger stream: its required configuration, its permissions, and the error of an older checkpoint."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from tests.spark.sink import QUERY, batches, data, recorded, task, writer
from tests.spark.support import Nats, running

from jetspark.errors import ConfigError, PermissionsViolationError
from jetspark.jetstream import RetentionPolicy
from jetspark.jetstream.api import StreamPurgeRequest
from jetspark.jetstream.config import DiscardPolicy, PersistMode, StorageType
from jetspark.spark.write.ledger import SupersededBatchError, TaskName


@pytest.mark.parametrize(
    ("name", "config", "lacks"),
    [
        ("AGES", {"max_age": timedelta(hours=1)}, "no max_age"),
        ("MEMORY", {"storage": StorageType.MEMORY}, "storage file"),
        ("FULL", {"max_msgs": 10}, "no max_msgs and no max_bytes, or discard new"),
        ("LARGE", {"max_bytes": 1 << 20}, "no max_msgs and no max_bytes, or discard new"),
        ("QUEUE", {"retention": RetentionPolicy.WORK_QUEUE}, "retention limits"),
        ("SILENT", {"no_ack": True}, r"acknowledgements \(no_ack false\)"),
        ("HASTY", {"persist_mode": PersistMode.ASYNC}, "persist_mode default"),
        ("MANY", {"max_msgs_per_subject": 2}, "max_msgs_per_subject 1"),
        ("OTHER", {"subjects": ["$JETSPARK.P.>"]}, r"subject \$JETSPARK.OTHER_RECORDS.>"),
    ],
)
def test_a_ledger_stream_that_may_lose_a_record_is_refused(
    nats: Nats, name: str, config: dict[str, object], lacks: str
) -> None:
    made = nats.stream(
        f"{name}_RECORDS",
        **{
            "subjects": [f"$JETSPARK.{name}_RECORDS.>"],
            "max_msgs_per_subject": 1,
            **config,
        },
    )
    with pytest.raises(ConfigError, match=rf"stream {made} exists, but must have {lacks} to keep"):
        writer(nats, ledgerStream=made)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("KEEPS", {}),
        ("BOUNDED", {"max_bytes": 1 << 20, "discard": DiscardPolicy.NEW}),
        ("DIRECT", {"allow_direct": True}),
    ],
)
def test_a_user_stream_that_keeps_each_record_is_accepted(nats: Nats, name: str, config: dict[str, object]) -> None:
    made = nats.stream(name, subjects=[f"$JETSPARK.{name}.>"], max_msgs_per_subject=1, **config)
    target = nats.stream()
    for _ in range(2):
        writer(nats, ledgerStream=made).publish(task(), iter(batches(target, range(10))))
    assert data(nats, target) == list(range(10))
    assert nats.info(made).state.messages == 1


def test_the_error_of_an_older_checkpoint_says_how_to_purge_its_records(nats: Nats) -> None:
    target = nats.stream()
    recorded(nats).publish(task(7, partition=20), iter(batches(target, range(10))))
    message = (
        r"if an older checkpoint of the query was restored, purge its records: stream SPARK_PROGRESS, subject "
        rf"\$JETSPARK\.SPARK_PROGRESS\.{QUERY}\.>"
    )
    with pytest.raises(SupersededBatchError, match=message):
        recorded(nats).publish(task(5, partition=20), iter(batches(target, range(10))))
    subject = f"$JETSPARK.SPARK_PROGRESS.{QUERY}.>"
    nats.connection.request(StreamPurgeRequest("SPARK_PROGRESS", filter=subject))
    recorded(nats).publish(task(5, partition=20), iter(batches(target, range(10, 20))))
    assert data(nats, target) == list(range(20))


RECORDS = "$JETSPARK.RECORDS.>"
INFO, CREATE, GET = (f"$JS.API.STREAM.{each}.RECORDS" for each in ("INFO", "CREATE", "MSG.GET"))
NAMES = "$JS.API.STREAM.NAMES"
TARGET = ("$JS.API.STREAM.INFO.TARGET", "$JS.API.CONSUMER.*.TARGET.>", "$JS.API.CONSUMER.MSG.NEXT.TARGET.>")


def test_the_documented_permissions_for_the_ledger_are_needed(caplog: pytest.LogCaptureFixture) -> None:
    """Each permission of the table in `docs/clusters.md`: without it, the error names it."""
    admin = {"user": "admin", "password": "admin"}
    needed = ["TARGET.>", RECORDS, INFO, CREATE, GET, NAMES, *TARGET]
    lacking = {"all": needed, **{each: [right for right in needed if right != each] for each in needed[1:6]}}
    users = [
        {"user": name, "password": "p", "permissions": {"publish": rights, "subscribe": ["_INBOX.>"]}}
        for name, rights in lacking.items()
    ]
    with running(admin, config={"authorization": {"users": [admin, *users]}}) as nats:
        nats.stream("TARGET")

        def write(user: str, batch: int) -> None:
            made = writer(nats, user=user, password="p", ledgerStream="RECORDS")
            made.publish(task(batch), iter(batches("TARGET", range(10))))

        with pytest.raises(PermissionsViolationError, match=rf"publish to '\{CREATE}'"):
            write(CREATE, 0)
        write("all", 0)
        write(CREATE, 0)  # it exists now
        for number, (right, subject) in enumerate(
            ((INFO, INFO), (GET, GET), (RECORDS, f"$JETSPARK.RECORDS.{QUERY}.0"))
        ):
            with pytest.raises(PermissionsViolationError, match=rf"permission to publish to '\{subject}'"):
                write(right, 1 + number)
        assert data(nats, "TARGET") == list(range(10))
        assert not caplog.records
        blind = writer(nats, user=NAMES, password="p", ledgerStream="RECORDS")
        blind.publish(task(), iter(batches("TARGET", range(10), size=7)))
        assert "subject TARGET.0: cannot look up the rows that an earlier run has stored" in caplog.text
        assert f"permission to publish to '{NAMES}'" in caplog.text


def test_records_of_a_finished_query_expire_and_those_of_a_running_one_are_renewed(nats: Nats) -> None:
    target = nats.stream()
    options = {"ledgerStream": "AGEING", "ledgerRetention": "3s", "maxReplayDelay": "1s"}
    over, runs = TaskName("over", 0, 0), [TaskName("runs", number, 0) for number in range(1000)]
    writer(nats, **options).publish(over, iter(batches(target, range(10))))
    deadline = time.monotonic() + 60.0
    for name in runs:
        writer(nats, **options).publish(name, iter(batches(target, range(1))))
        left = set(nats.subjects("AGEING"))
        assert "$JETSPARK.AGEING.runs.0" in left
        if len(left) == 1:
            break
        assert time.monotonic() < deadline
        time.sleep(0.2)  # the server deletes by its clock
    assert left == {"$JETSPARK.AGEING.runs.0"}
    # Without its record the query starts again, like a query that was never seen: nothing of it remains.
    done = writer(nats, **options).publish(over, iter(batches(target, range(10))))
    assert (done.skipped, done.streams[target].duplicates) == (0, 10)


def test_a_ledger_stream_without_message_ttl_keeps_its_records(nats: Nats) -> None:
    made = nats.stream("LASTING", subjects=["$JETSPARK.LASTING.>"], max_msgs_per_subject=1)
    target = nats.stream()
    writer(nats, ledgerStream=made, ledgerRetention="1h").publish(task(), iter(batches(target, range(3))))
    (record,) = nats.rows(made, "headers")
    assert "Nats-TTL" not in dict(record["headers"])  # type: ignore[call-overload]  # a list of pairs
