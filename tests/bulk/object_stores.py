"""Object stores for tests, and their content."""

from __future__ import annotations

from tests.bulk.streams import Streams, read

from jetspark.bulk.object_put import ObjectTarget, find_object_store
from jetspark.jetstream.object_store.config import ObjectStoreConfig, stream_config
from jetspark.jetstream.object_store.info import read_info

__all__ = ["content", "make"]


def make(streams: Streams) -> ObjectTarget:
    name = streams.new_name()
    streams.make_as(stream_config(ObjectStoreConfig(bucket=name)))
    return find_object_store(streams.connection, name)


def content(streams: Streams, target: ObjectTarget) -> dict[str, bytes]:
    """Return the content of each object; every chunk belongs to one of them."""
    table, _ = read(streams.connection, target.stream, columns=["subject", "data", "sequence"])
    chunks: dict[str, bytes] = {}
    infos = []
    for row in table.to_pylist():
        kind, _, last = row["subject"].removeprefix(target.subjects).partition(".")
        if kind == "M":
            infos.append(read_info(target.bucket, row["subject"], row["data"], row["sequence"], 0))
        else:
            chunks[last] = chunks.get(last, b"") + row["data"]
    found = {info.name: chunks.pop(info.nuid, b"") for info in infos if not info.deleted}
    assert not chunks
    return found
