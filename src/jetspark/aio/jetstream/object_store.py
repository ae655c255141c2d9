"""The handle of an object store (ADR-20)."""

from __future__ import annotations

from jetspark.aio.jetstream.object_store_reads import ObjectStoreReads
from jetspark.wire.argument_types import checks_arguments

__all__ = ["ObjectStore"]


@checks_arguments()
class ObjectStore(ObjectStoreReads):
    """A bucket of objects of any size. Created by `create_object_store`, `object_store` and similar calls of a context.

    The content of an object is stored in chunks. A description has its name, size and digest.

    In all calls, `timeout` is in seconds, and None takes `timeout` of the context.
    """

    def __repr__(self) -> str:
        return f"<ObjectStore {self.bucket!r}>"
