"""Keywords of the calls that take the fields of ObjectStoreConfig.

Made by `tools/make_keywords.py` from `jetspark.jetstream.object_store.config`: change that, then `make sync`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

from jetspark.jetstream.config import Placement, StorageType, StreamSource
from jetspark.jetstream.object_store.config import ObjectStoreConfig as ObjectStoreConfig

__all__ = ["ObjectStoreConfigFields"]


class ObjectStoreConfigFields(TypedDict, total=False):
    """The fields of `ObjectStoreConfig`, as keywords of a call."""

    bucket: str
    description: str | None
    ttl: timedelta | None
    max_bytes: int | None
    storage: StorageType | str | None
    replicas: int | None
    placement: Placement | None
    compression: bool | None
    metadata: dict[str, str] | None
    mirror: StreamSource | None
    sources: list[StreamSource] | None
