"""Object stores as data: names, configurations, descriptions of objects, status. No I/O."""

from jetspark.jetstream.object_store.config import ObjectStoreConfig
from jetspark.jetstream.object_store.config_keywords import ObjectStoreConfigFields
from jetspark.jetstream.object_store.info import ObjectInfo, ObjectLink, ObjectOptions
from jetspark.jetstream.object_store.status import ObjectStoreStatus

__all__ = [
    "ObjectInfo",
    "ObjectLink",
    "ObjectOptions",
    "ObjectStoreConfig",
    "ObjectStoreConfigFields",
    "ObjectStoreStatus",
]
