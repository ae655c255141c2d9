"""Object stores with the names of nats-py: `meta` for the parts of a description, text as content, `data` in a get."""

from types import SimpleNamespace

from jetspark import errors as js
from nats.js.api import ObjectMeta, ObjectMetaOptions, ObjectStoreConfig, shown

__all__ = ["ObjectStore", "store_fields"]


def store_fields(bucket, config, fields):
    """Return the fields of a store for jetspark."""
    given = {**(config or ObjectStoreConfig()).given(), **ObjectStoreConfig(**fields).given()}
    return given if bucket is None else {**given, "bucket": bucket}


def _binary(file):
    """Return the binary file below a text file."""
    return getattr(file, "buffer", file)


def _info(info):
    headers = {key: values[0] for key, values in info.headers.items()} or None
    options = ObjectMetaOptions(max_chunk_size=info.options.max_chunk_size)
    return SimpleNamespace(
        name=info.name,
        bucket=info.bucket,
        nuid=info.nuid,
        size=info.size,
        chunks=info.chunks,
        digest=info.digest,
        deleted=info.deleted,
        description=info.description or None,
        headers=headers,
        options=options,
        meta=ObjectMeta(name=info.name, description=info.description, headers=headers, options=options),
    )


class ObjectStore:
    """A store."""

    def __init__(self, inner):
        self._inner = inner
        self._name = inner.bucket
        self._stream = f"OBJ_{inner.bucket}"

    async def status(self):
        """Its state."""
        status = await self._inner.status()
        return SimpleNamespace(sealed=status.sealed, stream_info=shown(status.stream_info))

    async def put(self, name, data, meta=None):
        """Store an object."""
        meta = meta or ObjectMeta()
        source = data.encode() if isinstance(data, str) else _binary(data)
        size = {} if meta.options is None else {"chunk_size": meta.options.max_chunk_size}
        description = meta.description or ""
        return _info(await self._inner.put(name, source, description=description, headers=meta.headers, **size))

    async def get(self, name, writeinto=None, show_deleted=False):
        """Read an object."""
        if not name:
            raise js.ObjectNotFoundError("an object without a name")  # nats-py has no error of its own for it
        info = await self._inner.get_info(name, show_deleted=show_deleted)
        if info.deleted:
            return SimpleNamespace(info=_info(info), data=b"")
        async with await self._inner.get(name) as reader:
            if writeinto is None:
                return SimpleNamespace(info=_info(reader.info), data=await reader.read(-1))
            async for chunk in reader:
                _binary(writeinto).write(chunk)
            return SimpleNamespace(info=_info(reader.info), data=b"")

    async def get_info(self, name, show_deleted=False):
        """A description."""
        return _info(await self._inner.get_info(name, show_deleted=show_deleted))

    async def delete(self, name):
        """Delete an object."""
        await self._inner.delete(name)

    async def update_meta(self, name, meta):
        """Change a description."""
        new_name = None if meta.name == name else meta.name
        await self._inner.update_meta(name, new_name=new_name, description=meta.description, headers=meta.headers)

    async def list(self):
        """All descriptions."""
        return [_info(each) for each in await self._inner.list()]

    async def watch(self, **options):
        """Watch."""
        return ObjectWatcher(await self._inner.watch(**options))

    async def seal(self):
        """Seal."""
        await self._inner.seal()


class ObjectWatcher:
    """A watch."""

    def __init__(self, inner):
        self._inner = inner

    async def updates(self, timeout=5.0):
        """The next description."""
        info = await self._inner.next(timeout)
        return None if info is None else _info(info)
