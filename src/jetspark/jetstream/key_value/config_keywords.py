"""Keywords of the calls that take the fields of KeyValueConfig.

Made by `tools/make_keywords.py` from `jetspark.jetstream.key_value.config`: change that, then `make sync`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

from jetspark.jetstream.config import Placement, Republish, StorageType, StreamSource
from jetspark.jetstream.key_value.config import KeyValueConfig as KeyValueConfig

__all__ = ["KeyValueConfigFields"]


class KeyValueConfigFields(TypedDict, total=False):
    """The fields of `KeyValueConfig`, as keywords of a call."""

    bucket: str
    description: str | None
    history: int | None
    ttl: timedelta | None
    limit_marker_ttl: timedelta | None
    max_value_size: int | None
    max_bytes: int | None
    storage: StorageType | str | None
    replicas: int | None
    placement: Placement | None
    republish: Republish | None
    compression: bool | None
    metadata: dict[str, str] | None
    mirror: StreamSource | None
    sources: list[StreamSource] | None
    allow_atomic: bool | None
