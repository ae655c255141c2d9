"""Objects as any client may have stored them: chunks of any size, and descriptions that fit or do not."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

from tests.api.object_store.stores import write_meta
from tests.fronts import Ground

from jetspark.jetstream.object_store.info import digest_text
from jetspark.jetstream.object_store.names import new_nuid

__all__ = ["FOREIGN", "pieces", "store_chunks", "store_object"]

FOREIGN = (100, 70, 100, 5)
"""Sizes of chunks of a client that stores what its source happens to return."""


def pieces(*sizes: int, seed: int = 1) -> list[bytes]:
    """Return random chunks of these sizes."""
    numbers = random.Random(seed)
    return [numbers.randbytes(size) for size in sizes]


async def store_chunks(ground: Ground, bucket: str, nuid: str, chunks: Sequence[bytes]) -> None:
    """Store the chunks of a content."""
    for chunk in chunks:
        await ground.admin_js.publish_async(f"$O.{bucket}.C.{nuid}", chunk)
    await ground.admin_js.publish_async_completed()


async def store_object(ground: Ground, bucket: str, name: str, content: Sequence[bytes], **fields: object) -> str:
    """Store an object; `fields` of its description replace those that fit. Returns the id of its content."""
    nuid, whole = new_nuid(), b"".join(content)
    await store_chunks(ground, bucket, nuid, content)
    description = {
        "nuid": nuid,
        "size": len(whole),
        "chunks": len(content),
        "digest": digest_text(hashlib.sha256(whole).digest()),
    }
    await write_meta(ground, bucket, name, **{**description, **fields})
    return nuid
