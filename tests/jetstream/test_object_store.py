"""Names, configurations and descriptions of objects, without a server."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest

from jetspark import errors
from jetspark.jetstream.bucket_requests import BucketListRequest, BucketNamesRequest
from jetspark.jetstream.buckets import OBJECTS
from jetspark.jetstream.config import DiscardPolicy, StorageType, StoreCompression, StreamConfig, StreamSource
from jetspark.jetstream.info import StreamInfo, StreamState
from jetspark.jetstream.object_store.config import ObjectStoreConfig, changed_stream_config, check_stream, stream_config
from jetspark.jetstream.object_store.info import (
    ObjectInfo,
    ObjectLink,
    ObjectOptions,
    digest_text,
    encode_info,
    read_info,
    same_digest,
)
from jetspark.jetstream.object_store.names import chunk_subject, meta_subject, new_nuid
from jetspark.jetstream.object_store.status import object_store_status
from jetspark.jetstream.times import Timestamp

PREFIX = "$O.B."
HOUR = timedelta(hours=1)
EMPTY_DIGEST = "SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="
NUID = "N" * 22


def read(**fields: object) -> ObjectInfo:
    return read_info("B", "$O.B.M.YQ==", json.dumps({"name": "a", "nuid": NUID, **fields}).encode(), 7, 2_000)


@pytest.mark.conformance("OBJ-01")
@pytest.mark.parametrize("name", ["", "a.b", "a b", "OBJ/x", "a*", ">", "ü", "a\n", "x" * 252])
def test_a_bad_name_of_a_bucket_is_refused(name: str) -> None:
    with pytest.raises(errors.InvalidBucketNameError):
        stream_config(ObjectStoreConfig(name))
    assert OBJECTS.bucket_of(f"OBJ_{name}") is None or len(name) > 251


@pytest.mark.conformance("OBJ-01")
def test_the_name_of_an_object_is_encoded_in_its_subject() -> None:
    assert meta_subject(PREFIX, "dir/ä?~~~>>.bin") == "$O.B.M.ZGlyL8OkP35-fj4-LmJpbg=="
    assert meta_subject(PREFIX, " ") == "$O.B.M.IA=="
    assert chunk_subject(PREFIX, NUID) == f"$O.B.C.{NUID}"
    longest = "x" * ((3800 - len(f"{PREFIX}M.")) // 4 * 3)
    assert len(meta_subject(PREFIX, longest)) <= 3800


@pytest.mark.conformance("OBJ-01")
@pytest.mark.parametrize("name", ["", 7, None, b"x", "x" * 2900, "\udc80"])
def test_a_bad_name_of_an_object_is_refused(name: str) -> None:
    with pytest.raises(errors.InvalidObjectNameError):
        meta_subject(PREFIX, name)


def test_ids_of_content_are_22_letters_and_digits() -> None:
    made = {new_nuid() for _ in range(100)}
    assert len(made) == 100
    assert all(len(nuid) == 22 and nuid.isalnum() and nuid.isascii() for nuid in made)


@pytest.mark.conformance("OBJ-02")
def test_the_stream_of_a_new_bucket() -> None:
    assert stream_config(ObjectStoreConfig("B")) == StreamConfig(
        name="OBJ_B",
        subjects=["$O.B.C.>", "$O.B.M.>"],
        max_msgs_per_subject=-1,
        max_msgs=-1,
        max_bytes=-1,
        max_msg_size=-1,
        discard=DiscardPolicy.NEW,
        storage=StorageType.FILE,
        num_replicas=1,
        duplicate_window=timedelta(minutes=2),
        compression=StoreCompression.NONE,
        allow_rollup_hdrs=True,
        allow_direct=True,
    )


@pytest.mark.conformance("OBJ-02")
def test_the_fields_of_a_configuration() -> None:
    made = stream_config(ObjectStoreConfig("B", ttl=HOUR, max_bytes=5, replicas=3, compression=True, description="d"))
    assert (made.max_age, made.max_bytes, made.num_replicas, made.description) == (HOUR, 5, 3, "d")
    assert made.compression is StoreCompression.S2
    changed = changed_stream_config(made, ObjectStoreConfig("B", ttl=timedelta(seconds=9)))
    assert changed == made.replace(max_age=timedelta(seconds=9), duplicate_window=timedelta(seconds=9))
    mirror = stream_config(ObjectStoreConfig("B", mirror=StreamSource("A")))
    assert (mirror.subjects, mirror.mirror, mirror.mirror_direct) == (None, StreamSource("OBJ_A"), True)
    (source,) = stream_config(ObjectStoreConfig("B", sources=[StreamSource("OBJ_A")])).sources or []
    assert source.name == "OBJ_A"
    assert [(each.src, each.dest) for each in source.subject_transforms or ()] == [("$O.A.>", "$O.B.>")]


@pytest.mark.conformance("OBJ-02")
def test_a_configuration_that_cannot_be_is_refused() -> None:
    for bad in (
        ObjectStoreConfig("B", ttl=timedelta(seconds=-1)),
        ObjectStoreConfig("B", mirror=StreamSource("A"), sources=[StreamSource("C")]),
    ):
        with pytest.raises(errors.ConfigError):
            stream_config(bad)


@pytest.mark.conformance("OBJ-02")
def test_a_stream_without_the_subjects_is_no_bucket() -> None:
    good = stream_config(ObjectStoreConfig("B"))
    assert check_stream(good) == "B"
    assert check_stream(good.replace(subjects=None, mirror=StreamSource("OBJ_A"))) == "B"
    for bad in (
        good.replace(name="KV_B"),
        good.replace(name="OBJ_"),
        good.replace(subjects=["$O.B.C.>"]),
        good.replace(subjects=["$O.B.M.>"]),
        good.replace(subjects=None),
    ):
        with pytest.raises(errors.BadBucketError):
            check_stream(bad)


@pytest.mark.conformance("OBJ-02")
def test_the_status_shows_the_stream() -> None:
    config = stream_config(ObjectStoreConfig("B", description="d", ttl=HOUR, metadata={"a": "b"})).replace(sealed=True)
    info = StreamInfo(config=config, created=Timestamp(2026, 1, 1, tzinfo=UTC), state=StreamState(bytes=9))
    status = object_store_status(info)
    assert (status.bucket, status.size, status.sealed, status.replicas) == ("B", 9, True, 1)
    assert (status.description, status.ttl, status.metadata) == ("d", HOUR, {"a": "b"})
    assert (status.backing_store, status.is_compressed) == (StorageType.FILE, False)
    assert not object_store_status(StreamInfo(config=config.replace(sealed=None), created=info.created)).sealed


def test_the_lists_of_buckets_check_their_fields() -> None:
    """They inherit fields from classes of other modules."""
    assert BucketNamesRequest(OBJECTS).endpoint == "STREAM.NAMES"
    assert BucketListRequest(object_store_status, offset=5).payload() == b'{"offset":5}'
    with pytest.raises(errors.ArgumentError, match="kind takes a BucketKind, not str"):
        BucketNamesRequest("OBJ_")  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match="offset takes a whole number, not str"):
        BucketNamesRequest(OBJECTS, offset="5")  # type: ignore[arg-type]


@pytest.mark.conformance("OBJ-03")
def test_a_description_is_written_without_empty_fields() -> None:
    bare = ObjectInfo(name="a", bucket="B", nuid=NUID, revision=9, mtime_ns=5)
    assert json.loads(encode_info(bare)) == {"name": "a", "bucket": "B", "nuid": NUID, "size": 0, "chunks": 0}
    full = ObjectInfo(
        name="a",
        description="d",
        headers={"k": ["v", "w"]},
        metadata={"m": "n"},
        options=ObjectOptions(max_chunk_size=4, link=ObjectLink(bucket="C", name="c")),
        bucket="B",
        nuid=NUID,
        size=5,
        chunks=2,
        digest=EMPTY_DIGEST,
        deleted=True,
    )
    written = json.loads(encode_info(full))
    assert written == {
        "name": "a",
        "description": "d",
        "headers": {"k": ["v", "w"]},
        "metadata": {"m": "n"},
        "options": {"max_chunk_size": 4, "link": {"bucket": "C", "name": "c"}},
        "bucket": "B",
        "nuid": NUID,
        "size": 5,
        "chunks": 2,
        "digest": EMPTY_DIGEST,
        "deleted": True,
    }
    assert read(**written) == full.replace(revision=7, mtime_ns=2_000)


@pytest.mark.conformance("OBJ-03")
@pytest.mark.parametrize("mtime", ["0001-01-01T00:00:00Z", "", None, 5, "2026-01-01T00:00:00Z"])
def test_the_time_of_an_object_is_that_of_the_message(mtime: object) -> None:
    info = read(mtime=mtime)
    assert info.mtime == datetime(1970, 1, 1, 0, 0, 0, 2, tzinfo=UTC)
    assert (info.revision, info.mtime_ns) == (7, 2_000)
    assert b"mtime" not in encode_info(info)


@pytest.mark.conformance("OBJ-03")
def test_unknown_fields_are_kept_and_forged_ones_are_not() -> None:
    info = read(new=[1, {"a": None}], options={"max_chunk_size": 3, "other": "x"}, **{"$revision": 9, "$mtime_ns": 9})
    assert (info.revision, info.mtime_ns) == (7, 2_000)
    written = json.loads(encode_info(info))
    assert written["new"] == [1, {"a": None}]
    assert written["options"] == {"max_chunk_size": 3, "other": "x"}
    assert not {"$revision", "$mtime_ns"} & written.keys()


@pytest.mark.conformance("OBJ-03")
@pytest.mark.parametrize("metadata", [None, [], "x", 5, {"a": 5}, {"a": None}])
def test_metadata_that_is_no_map_of_texts_is_dropped(metadata: object) -> None:
    info = read(metadata=metadata, description=None, headers={"k": "v", "l": ["w"]})
    assert (info.metadata, info.description, info.headers) == ({}, "", {"k": ["v"], "l": ["w"]})


@pytest.mark.conformance("OBJ-03")
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"no json",
        b"[]",
        b"5",
        b"\xff",
        b'{"name":"a"}',
        b'{"name":"a","nuid":""}',
        b'{"name":"a","nuid":">"}',
        b'{"name":"a","nuid":"a.b"}',
        b'{"name":"a","nuid":7}',
        b'{"name":7,"nuid":"N"}',
        b'{"name":"a","nuid":"N","size":-1}',
        b'{"name":"a","nuid":"N","chunks":1.5}',
        b'{"name":"a","nuid":"N","headers":{"k":5}}',
        b'{"name":"a","nuid":"N","options":{"link":"x"}}',
        b"[" * 100_000,
    ],
)
def test_other_payloads_are_refused(payload: bytes) -> None:
    with pytest.raises(errors.BadObjectError, match=r"B: the description on '\$O.B.M.YQ==' \(sequence 7\)"):
        read_info("B", "$O.B.M.YQ==", payload, 7, 0)


def test_digests_are_compared_by_their_bytes() -> None:
    digest = hashlib.sha256(b"").digest()
    assert digest_text(digest) == EMPTY_DIGEST
    unpadded = EMPTY_DIGEST.rstrip("=")
    for same in (EMPTY_DIGEST, unpadded, "sha-256" + EMPTY_DIGEST[7:], EMPTY_DIGEST.replace("-_", "+/")):
        assert same_digest(same, digest)
    for other in ("", "SHA-256=", EMPTY_DIGEST[8:], "SHA-512" + EMPTY_DIGEST[7:], "SHA-256=ü", "SHA-256=AAAA"):
        assert not same_digest(other, digest)
    assert not same_digest(EMPTY_DIGEST, hashlib.sha256(b"x").digest())


@pytest.mark.conformance("OBJ-28")
def test_the_errors_of_objects() -> None:
    assert issubclass(errors.ObjectNotFoundError, LookupError)
    for name in ("ObjectIncompleteError", "DigestMismatchError", "ObjectChangedError"):
        assert issubclass(getattr(errors, name), errors.DataLossError)
    for name in ("ObjectExistsError", "BadObjectError", "LinkError", "InvalidObjectNameError", "WrongDomainError"):
        assert issubclass(getattr(errors, name), ValueError)
        assert issubclass(getattr(errors, name), errors.Error)
