"""Buckets for tests."""

from __future__ import annotations

from typing import Any

from tests.fronts import Ground

from jetspark.aio.jetstream import KeyValue

__all__ = ["make_bucket", "new_bucket"]


def new_bucket(ground: Ground) -> str:
    """Return the name of a bucket that no other test uses. A bucket of that name is deleted after the test."""
    return ground.name("KV_B").removeprefix("KV_")


async def make_bucket(ground: Ground, **fields: Any) -> KeyValue:
    """Create a bucket in memory, which is deleted after the test."""
    fields.setdefault("bucket", new_bucket(ground))
    fields.setdefault("storage", "memory")
    return await ground.js.create_key_value(**fields)
