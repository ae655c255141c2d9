"""Buckets with the names of nats-py: seconds instead of `timedelta`, `last` for a revision, an error for no keys."""

import datetime
from contextlib import contextmanager
from types import SimpleNamespace

from jetspark import errors as js
from nats.js.api import KeyValueConfig, shown
from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError, NoKeysError

__all__ = ["KeyValue", "bucket_fields", "stream_fields"]


def bucket_fields(config, fields):
    """Return the fields of a bucket for jetspark."""
    given = {**(config or KeyValueConfig()).given(), **KeyValueConfig(**fields).given()}
    given.pop("direct", None)
    return given


def stream_fields(config, fields):
    """Return what nats-py configures by a bucket that jetspark does not: direct get, time to live without markers."""
    direct = fields.get("direct", getattr(config, "direct", None))
    return {"allow_direct": direct is not False, "allow_msg_ttl": True}


@contextmanager
def _renamed():
    try:
        yield
    except js.KeyDeletedError as error:
        raise KeyNotFoundError(str(error), entry=_entry(error.entry, None), op=error.entry.operation.value) from error
    except js.WrongLastRevisionError as error:
        raise KeyWrongLastSequenceError(error, f"nats: wrong last sequence: {error.actual}") from error


def _entry(entry, value):
    return SimpleNamespace(
        bucket=entry.bucket,
        key=entry.key,
        value=value,
        revision=entry.revision,
        delta=entry.delta,
        created=entry.created,
        operation=entry.operation.value if entry.is_marker else None,
    )


def _ttl(seconds):
    return None if seconds is None else datetime.timedelta(seconds=seconds)


class KeyValue:
    """A bucket."""

    def __init__(self, inner, context):
        self._inner = inner
        self._context = context

    async def status(self):
        """Its state."""
        status = await self._inner.status()
        return SimpleNamespace(
            bucket=status.bucket,
            values=status.values,
            history=status.history,
            ttl=status.ttl.total_seconds(),
            marker_ttl=status.limit_marker_ttl.total_seconds() or None,
            stream_info=shown(status.stream_info),
        )

    async def get(self, key, revision=None):
        """An entry."""
        with _renamed():
            try:
                entry = await self._inner.get(key, revision=revision)
            except js.KeyDeletedError:
                raise
            except js.KeyNotFoundError as error:
                raise KeyNotFoundError(await self._why(key, revision)) from error
            return _entry(entry, entry.value)

    async def _why(self, key, revision):
        """The text of nats-py for a revision that another key has."""
        stream = f"KV_{self._inner.bucket}"
        subject = (await self._context.get_msg(stream, seq=revision)).subject if revision else ""
        detail = f": expected '$KV.{self._inner.bucket}.{key}', but got '{subject}'" if subject else ""
        return f"nats: key not found{detail}"

    async def put(self, key, value):
        """Set."""
        return await self._inner.put(key, value)

    async def create(self, key, value, msg_ttl=None):
        """Create."""
        with _renamed():
            return await self._inner.create(key, value, ttl=_ttl(msg_ttl))

    async def update(self, key, value, last=None):
        """Update; without a revision, create."""
        with _renamed():
            return await (self._inner.update(key, value, last) if last else self._inner.create(key, value))

    async def delete(self, key, last=None):
        """Delete."""
        with _renamed():
            await self._inner.delete(key, revision=last)
        return True

    async def purge(self, key, msg_ttl=None):
        """Purge."""
        await self._inner.purge(key, ttl=_ttl(msg_ttl))
        return True

    async def purge_deletes(self, olderthan=1800):
        """Remove markers."""
        await self._inner.purge_deletes(datetime.timedelta(seconds=olderthan))
        return True

    async def keys(self, filters=None):
        """The keys; none is an error."""
        return _some(await self._inner.keys(*(filters or ())).all())

    async def history(self, key):
        """The revisions of a key; none is an error."""
        try:
            return [_entry(each, each.value) for each in await self._inner.history(key)]
        except js.KeyNotFoundError as error:
            raise NoKeysError from error

    async def watch(self, keys, **options):
        """Watch."""
        return KeyWatcher(await self._inner.watch(*([keys] if isinstance(keys, str) else keys), **options))

    async def watchall(self, **options):
        """Watch all keys."""
        return await self.watch([], **options)


class KeyWatcher:
    """A watch."""

    def __init__(self, inner):
        self._inner = inner

    async def updates(self, timeout=5.0):
        """The next entry."""
        entry = await self._inner.next(timeout)
        return None if entry is None else _entry(entry, entry.value)

    async def stop(self):
        """End."""
        await self._inner.stop()


def _some(keys):
    if not keys:
        raise NoKeysError
    return keys
