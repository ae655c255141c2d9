"""Object stores for tests."""

from __future__ import annotations

import json
from typing import Any

from tests.fronts import Ground

from jetspark.aio.jetstream import ObjectStore
from jetspark.jetstream.object_store.names import meta_subject

__all__ = ["make_store", "new_store", "write_meta"]


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
