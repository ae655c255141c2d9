"""Object stores for tests."""

from __future__ import annotations

import json
from typing import Any

from tests.fronts import Ground

from jetspark.aio.jetstream import ObjectStore, Stream
from jetspark.errors import MessageNotFoundError
from jetspark.jetstream import StoredMessage
from jetspark.jetstream.object_store.names import meta_subject

__all__ = ["chunks_of", "make_store", "new_store", "nuids_of", "write_meta"]


def new_store(ground: Ground) -> str:
    """Return the name of a bucket that no other test uses. A bucket of that name is deleted after the test."""
    return ground.name("OBJ_B").removeprefix("OBJ_")


async def make_store(ground: Ground, **fields: Any) -> ObjectStore:
    """Create a bucket in memory, which is deleted after the test."""
    fields.setdefault("bucket", new_store(ground))
    fields.setdefault("storage", "memory")
    return await ground.js.create_object_store(**fields)


async def write_meta(ground: Ground, bucket: str, name: str, **fields: object) -> None:
    """Store the description of an object as another client would."""
    payload = json.dumps({"name": name, "bucket": bucket, "nuid": "N" * 22, **fields}).encode()
    await ground.js.publish(meta_subject(f"$O.{bucket}.", name), payload, headers={"Nats-Rollup": "sub"})


async def nuids_of(ground: Ground, store: ObjectStore) -> set[str]:
    """Return the ids of the content that the bucket has chunks of."""
    prefix = f"$O.{store.bucket}.C."
    stream = await ground.js.stream(f"OBJ_{store.bucket}")
    subjects = (await stream.info(subjects_filter=f"{prefix}>")).state.subjects or {}
    return {subject.removeprefix(prefix) for subject in subjects}


async def chunks_of(ground: Ground, store: ObjectStore, nuid: str) -> list[StoredMessage]:
    """Return the chunks of content, in their order."""
    stream = await ground.js.stream(f"OBJ_{store.bucket}")
    last = (await store.status()).stream_info.state.last_sequence
    found = [await _get(stream, sequence) for sequence in range(1, last + 1)]
    return [message for message in found if message and message.subject == f"$O.{store.bucket}.C.{nuid}"]


async def _get(stream: Stream, sequence: int) -> StoredMessage | None:
    try:
        return await stream.get_msg(sequence)
    except MessageNotFoundError:
        return None
