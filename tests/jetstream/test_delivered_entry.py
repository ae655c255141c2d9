"""Entries of a watch are decoded when an attribute is first used, whichever that is."""

from __future__ import annotations

import pickle

import pytest

from jetspark.jetstream.key_value import KeyValueEntry, KeyValueOperation
from jetspark.jetstream.key_value.entry import DeliveredEntry
from jetspark.jetstream.message import JetStreamMessage
from jetspark.wire.headers import Headers

REPLY = b"$JS.ACK.KV_B.c.1.7.2.1767323045000000001.3"
FIRST_USED = ("key", "value", "revision", "created_ns", "operation", "headers", "expired", "delta", "size", "created")
BLOCKS = {
    b"": (b"x", KeyValueOperation.PUT, False, 1),
    b"NATS/1.0\r\nA: 1\r\n\r\n": (b"x", KeyValueOperation.PUT, False, 1),
    b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n": (b"", KeyValueOperation.DELETE, False, 0),
    b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\n\r\n": (b"", KeyValueOperation.PURGE, True, 0),
    b"NATS/1.0\r\nNats-Msg-Size: 12\r\n\r\n": (None, KeyValueOperation.PUT, False, 12),
}


def delivered(block: bytes) -> tuple[DeliveredEntry, KeyValueEntry]:
    """An entry of a message with these headers, and what it must be."""
    value, operation, expired, size = BLOCKS[block]
    message = JetStreamMessage(b"$KV.B.a.b", REPLY, block, value or b"", None)
    pairs = [tuple(line.split(": ")) for line in block.decode().splitlines()[1:] if line]
    headers = Headers([(key, text) for key, text in pairs])
    expected = KeyValueEntry("B", "a.b", value, 7, 1767323045000000001, operation, headers, expired, 3, size)
    return DeliveredEntry("B", "$KV.B.", message), expected


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("first", FIRST_USED)
def test_an_entry_is_the_same_whichever_attribute_is_used_first(block: bytes, first: str) -> None:
    entry, expected = delivered(block)
    assert getattr(entry, first) == getattr(expected, first)
    assert entry == expected
    assert entry.headers is entry.headers
    assert repr(entry) == repr(expected)
    assert pickle.loads(pickle.dumps(delivered(block)[0])) == expected


def test_an_entry_does_not_keep_its_message() -> None:
    entry, _ = delivered(b"")
    assert (entry.key, entry.revision) == ("a.b", 7)
    kept = [getattr(entry, name) for name in DeliveredEntry.__slots__]
    assert not any(isinstance(each, JetStreamMessage) for each in kept)


def test_an_entry_has_no_other_attributes() -> None:
    entry, _ = delivered(b"")
    for name in ("vaule", "_message"):
        with pytest.raises(AttributeError, match=name):
            getattr(entry, name)
