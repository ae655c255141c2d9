"""Names, configurations and entries of buckets, without a server."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest

from jetspark import errors
from jetspark.jetstream.buckets import KEY_VALUE
from jetspark.jetstream.config import (
    DiscardPolicy,
    ExternalStream,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamSource,
    SubjectTransform,
)
from jetspark.jetstream.config_fields import make_config
from jetspark.jetstream.info import StreamInfo, StreamState
from jetspark.jetstream.key_value.config import KeyValueConfig, changed_stream_config, check_stream, stream_config
from jetspark.jetstream.key_value.entry import KeyValueEntry, KeyValueOperation, read_operation
from jetspark.jetstream.key_value.names import check_filters, check_key
from jetspark.jetstream.key_value.status import KeyValueStatus
from jetspark.jetstream.times import Timestamp
from jetspark.wire.headers import Headers

PREFIX = "$KV.B."
HOUR = timedelta(hours=1)


@pytest.mark.conformance("KVS-01")
@pytest.mark.parametrize("name", ["", "a.b", "a b", "KV/x", "a*", ">", "ü", "a\n", "x" * 253])
def test_a_bad_name_of_a_bucket_is_refused(name: str) -> None:
    with pytest.raises(errors.InvalidBucketNameError):
        KEY_VALUE.stream_of(name)
    with pytest.raises(errors.BadNameError):
        stream_config(KeyValueConfig(name))


@pytest.mark.conformance("KVS-01")
def test_names_of_buckets_and_of_their_streams() -> None:
    assert KEY_VALUE.stream_of("a_B-9") == "KV_a_B-9"
    assert KEY_VALUE.bucket_of("KV_a_B-9") == "a_B-9"
    assert [KEY_VALUE.bucket_of(name) for name in ("ORDERS", "KV_", "KV_a b", "kv_a")] == [None] * 4
    with pytest.raises(errors.ArgumentError):
        KEY_VALUE.stream_of(7)  # type: ignore[arg-type]


@pytest.mark.conformance("KVS-17")
@pytest.mark.parametrize("key", ["a", "a.b", "-/_=.x", "Zz09", "a/b=c", "k" * (3800 - len(PREFIX))])
def test_valid_keys_are_returned(key: str) -> None:
    assert check_key(key, PREFIX, writing=True) == key


@pytest.mark.conformance("KVS-17")
@pytest.mark.parametrize("key", ["", ".a", "a.", "a..b", "a+b", "ü", "a*", "*", "a b", "a\n", "k" * 3795])
def test_bad_keys_are_refused(key: str) -> None:
    with pytest.raises(errors.InvalidKeyError):
        check_key(key, PREFIX)


@pytest.mark.conformance("KVS-17")
def test_reserved_keys_can_be_read_but_not_written() -> None:
    assert check_key("_kv.x", PREFIX) == "_kv.x"
    with pytest.raises(errors.InvalidKeyError, match="reserved"):
        check_key("_kv.x", PREFIX, writing=True)


@pytest.mark.conformance("KVS-18", "KVS-38")
def test_filters_are_reduced_to_those_that_no_other_covers() -> None:
    assert check_filters((), PREFIX) == (">",)
    assert check_filters("a.*", PREFIX) == ("a.*",)
    assert check_filters(["a.b", "a.*", "a.b", "*.b", "x.>", "x.y.z"], PREFIX) == ("a.*", "*.b", "x.>")


@pytest.mark.conformance("KVS-18")
@pytest.mark.parametrize("text", ["", "a..b", "a.>.b", "a*", "*a", "a>", ".a", "a.", "a b", "ü.*"])
def test_bad_filters_are_refused(text: str) -> None:
    with pytest.raises(errors.InvalidKeyError):
        check_filters([text], PREFIX)


@pytest.mark.conformance("KVS-38")
def test_at_most_256_filters_are_allowed() -> None:
    many = [f"k{number}" for number in range(257)]
    assert len(check_filters(many[:256], PREFIX)) == 256
    with pytest.raises(errors.ConfigError, match="257"):
        check_filters(many, PREFIX)


@pytest.mark.conformance("KVS-02")
def test_the_stream_of_a_new_bucket() -> None:
    made = stream_config(KeyValueConfig("B"))
    assert made == StreamConfig(
        name="KV_B",
        subjects=["$KV.B.>"],
        max_msgs_per_subject=1,
        max_msgs=-1,
        max_bytes=-1,
        max_msg_size=-1,
        discard=DiscardPolicy.NEW,
        storage=StorageType.FILE,
        num_replicas=1,
        duplicate_window=timedelta(minutes=2),
        compression=StoreCompression.NONE,
        allow_rollup_hdrs=True,
        deny_delete=True,
        allow_direct=True,
    )


@pytest.mark.conformance("KVS-03")
def test_the_history_is_1_to_64() -> None:
    assert stream_config(KeyValueConfig("B", history=64)).max_msgs_per_subject == 64
    for history in (0, 65, -1):
        with pytest.raises(errors.HistoryTooLargeError):
            stream_config(KeyValueConfig("B", history=history))


@pytest.mark.conformance("KVS-04")
def test_ttl_is_the_age_limit_and_bounds_the_duplicate_window() -> None:
    for ttl, window in ((HOUR, timedelta(minutes=2)), (timedelta(seconds=9), timedelta(seconds=9))):
        made = stream_config(KeyValueConfig("B", ttl=ttl))
        assert (made.max_age, made.duplicate_window) == (ttl, window)
    shorter = changed_stream_config(
        stream_config(KeyValueConfig("B", ttl=HOUR)), KeyValueConfig("B", ttl=timedelta(seconds=9))
    )
    assert (shorter.max_age, shorter.duplicate_window) == (timedelta(seconds=9), timedelta(seconds=9))
    never = changed_stream_config(shorter, KeyValueConfig("B", ttl=timedelta(0)))
    assert (never.max_age, never.duplicate_window) == (timedelta(0), timedelta(minutes=2))
    with pytest.raises(errors.ConfigError):
        stream_config(KeyValueConfig("B", ttl=timedelta(seconds=-1)))
    with pytest.raises(errors.ConfigError, match="timedelta"):
        make_config(KeyValueConfig, None, {"bucket": "B", "ttl": 5})


@pytest.mark.conformance("KVS-05")
def test_limit_marker_ttl_is_at_least_a_second_and_not_for_mirrors() -> None:
    made = stream_config(KeyValueConfig("B", limit_marker_ttl=timedelta(seconds=1)))
    assert (made.subject_delete_marker_ttl, made.allow_msg_ttl) == (timedelta(seconds=1), True)
    with pytest.raises(errors.ConfigError):
        stream_config(KeyValueConfig("B", limit_marker_ttl=timedelta(milliseconds=999)))
    with pytest.raises(errors.ConfigError, match="mirror"):
        stream_config(KeyValueConfig("B", limit_marker_ttl=HOUR, mirror=StreamSource("A")))
    with pytest.raises(errors.ConfigError, match="mirror"):
        changed_stream_config(
            stream_config(KeyValueConfig("B", mirror=StreamSource("A"))), KeyValueConfig("B", limit_marker_ttl=HOUR)
        )


@pytest.mark.conformance("KVS-08")
def test_other_fields_of_a_bucket() -> None:
    made = stream_config(
        KeyValueConfig(
            "B",
            description="d",
            max_bytes=1000,
            max_value_size=500,
            storage=StorageType.MEMORY,
            replicas=3,
            compression=True,
            metadata={"a": "b"},
            allow_atomic=True,
        )
    )
    assert (made.description, made.max_bytes, made.max_msg_size, made.storage) == ("d", 1000, 500, StorageType.MEMORY)
    assert (made.num_replicas, made.compression, made.metadata, made.allow_atomic) == (
        3,
        StoreCompression.S2,
        {"a": "b"},
        True,
    )
    with pytest.raises(errors.ConfigError, match="did you mean 'history'"):
        make_config(KeyValueConfig, None, {"bucket": "B", "histroy": 5})


@pytest.mark.conformance("KVS-10")
def test_an_update_keeps_what_is_not_given() -> None:
    before = StreamConfig(
        name="KV_B", subjects=["$KV.B.>"], max_msgs_per_subject=5, allow_direct=True, extra={"newer": 1}
    )
    after = changed_stream_config(before, KeyValueConfig("B", description="d", compression=False))
    assert after == before.replace(description="d", compression=StoreCompression.NONE)


@pytest.mark.conformance("KVS-11")
def test_a_stream_that_is_no_bucket_is_refused() -> None:
    good = stream_config(KeyValueConfig("B"))
    assert check_stream(good) == "B"
    assert check_stream(good.replace(subjects=["$KV.B.>", "more"])) == "B"
    assert check_stream(good.replace(subjects=None, mirror=StreamSource("KV_A"))) == "B"
    for bad in (
        good.replace(name="B"),
        good.replace(max_msgs_per_subject=-1),
        good.replace(max_msgs_per_subject=None),
        good.replace(subjects=["$KV.C.>"]),
        good.replace(subjects=None),
    ):
        with pytest.raises(errors.BadBucketError):
            check_stream(bad)


@pytest.mark.conformance("KVS-13")
def test_a_mirror_has_no_subjects_and_answers_for_its_origin() -> None:
    for name in ("A", "KV_A"):
        made = stream_config(KeyValueConfig("B", mirror=StreamSource(name, external=ExternalStream("$JS.hub.API"))))
        assert (made.subjects, made.mirror_direct) == (None, True)
        assert made.mirror == StreamSource("KV_A", external=ExternalStream("$JS.hub.API"))


@pytest.mark.conformance("KVS-13")
def test_the_keys_of_sources_become_keys_of_the_bucket() -> None:
    own = StreamSource("X", subject_transforms=[SubjectTransform("$KV.X.a", "$KV.B.b")])
    made = stream_config(KeyValueConfig("B", sources=[StreamSource("A"), StreamSource("KV_C"), own]))
    assert made.subjects == ["$KV.B.>"]
    assert made.sources == [
        StreamSource("KV_A", subject_transforms=[SubjectTransform("$KV.A.>", "$KV.B.>")]),
        StreamSource("KV_C", subject_transforms=[SubjectTransform("$KV.C.>", "$KV.B.>")]),
        own,
    ]
    with pytest.raises(errors.ConfigError, match="not both"):
        stream_config(KeyValueConfig("B", mirror=StreamSource("A"), sources=[own]))


@pytest.mark.conformance("KVS-16")
def test_the_status_of_a_bucket() -> None:
    config = stream_config(KeyValueConfig("B", history=3, ttl=HOUR, limit_marker_ttl=HOUR, compression=True))
    info = StreamInfo(config=config, created=datetime.now(UTC), state=StreamState(messages=7, bytes=99))
    status = KeyValueStatus("B", info)
    assert (status.bucket, status.values, status.history, status.bytes) == ("B", 7, 3, 99)
    assert (status.ttl, status.limit_marker_ttl, status.is_compressed) == (HOUR, HOUR, True)
    assert (status.backing_store, status.metadata, status.config, status.stream_info) == ("file", {}, config, info)
    plain = KeyValueStatus("B", StreamInfo(config=StreamConfig("KV_B"), created=datetime.now(UTC)))
    assert (plain.ttl, plain.limit_marker_ttl, plain.is_compressed) == (timedelta(0), timedelta(0), False)


@pytest.mark.conformance("KVS-24")
@pytest.mark.parametrize(
    ("pairs", "operation", "expired"),
    [
        ([], "PUT", False),
        ([("KV-Operation", "DEL")], "DEL", False),
        ([("KV-Operation", "PURGE")], "PURGE", False),
        ([("KV-Operation", "SOMETHING")], "DEL", False),
        ([("KV-Operation", "")], "DEL", False),
        ([("Nats-Marker-Reason", "MaxAge")], "PURGE", True),
        ([("Nats-Marker-Reason", "Purge")], "PURGE", False),
        ([("Nats-Marker-Reason", "Remove")], "DEL", False),
        ([("Nats-Marker-Reason", "Newer")], "PURGE", False),
        ([("KV-Operation", "DEL"), ("Nats-Marker-Reason", "MaxAge")], "DEL", False),
        ([("kv-operation", "DEL")], "PUT", False),
    ],
)
def test_the_operation_of_an_entry(pairs: list[tuple[str, str]], operation: str, expired: bool) -> None:
    assert read_operation(Headers(pairs)) == (operation, expired)


@pytest.mark.conformance("KVS-25", "KVS-47")
def test_an_entry_shows_no_value_and_errors_neither() -> None:
    entry = KeyValueEntry("B", "k", b"secret", 5, 1_000_000_001, KeyValueOperation.PUT, Headers(), size=6)
    assert "secret" not in repr(entry)
    assert (entry.created, entry.created_ns) == (Timestamp.from_ns(1_000_000_001), 1_000_000_001)
    gone = KeyValueEntry("B", "k", b"", 6, 0, KeyValueOperation.PURGE, Headers(), expired=True)
    error = errors.KeyDeletedError(gone)
    assert str(error) == "B: key 'k' has expired (revision 6)"
    assert pickle.loads(pickle.dumps(error)).entry.revision == 6


@pytest.mark.conformance("KVS-47")
@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (errors.BucketNotFoundError("B"), (errors.StreamNotFoundError, LookupError)),
        (errors.BucketExistsError("B"), (errors.StreamNameInUseError, ValueError)),
        (errors.BadBucketError("x"), (errors.ConfigError,)),
        (errors.InvalidBucketNameError("x"), (errors.BadNameError,)),
        (errors.InvalidKeyError("x"), (errors.BadSubjectError,)),
        (errors.KeyNotFoundError("x"), (errors.Error, LookupError)),
        (errors.WrongLastRevisionError("B", "k", 1), (errors.WrongLastSequenceError,)),
        (errors.KeyExistsError("B", "k", 3), (errors.WrongLastRevisionError,)),
        (errors.HistoryTooLargeError("x"), (errors.ConfigError,)),
        (errors.ValueTooLargeError("B", size=9, limit=5), (errors.MessageSizeExceedsMaximumError,)),
        (errors.RevisionError("x"), (errors.Error, ValueError)),
        (errors.BucketReplacedError("x"), (errors.DataLossError,)),
    ],
)
def test_errors_of_buckets(error: errors.Error, bases: tuple[type[Exception], ...]) -> None:
    assert all(isinstance(error, base) for base in bases)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), vars(copy)) == (str(error), vars(error))
    assert "\n" not in str(error)


def test_prefixes() -> None:
    assert KEY_VALUE.subjects_of("B") == PREFIX
