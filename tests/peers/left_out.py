"""The tests of the nats-py suite that do not run, each with its reason."""

from __future__ import annotations

from typing import Final

__all__ = ["LEFT_OUT"]

_PRIVATE: Final = "reads private attributes of nats-py"
_SILENT: Final = "expects an error for a second acknowledgement; ADR-15 has it left out silently (ACK-04)"
_LOCAL: Final = "expects the server's refusal of a heartbeat that is refused before it is sent (PUL-11)"
_FIRST: Final = "expects the server's refusal of sequence 0, which is refused before it is sent"
_LIMIT: Final = "expects a refused pull to pass for a time-out; it is raised, and names the limit (PUL-08, R22)"

LEFT_OUT: Final[dict[str, str]] = {
    "APIDataClassTest::test_key_value_config_limit_marker_ttl_not_in_as_dict": "serialises a class that is never sent",
    "BadStreamNamesTest::test_object_watch_updates_only": "expects no None with `updates_only` (KVS-35)",
    "KVTest::test_key_validation_bypass": "writes keys that are refused (KVS-17)",
    "KVTest::test_keys_with_filters": "filters keys by parts of words; filters match whole tokens (KVS-43)",
    "KVTest::test_kv_delete_msg_ttl_deprecation": "a deprecated argument of nats-py, which has no effect",
    "KVTest::test_kv_simple": "purges `hello.*`, which is no key (KVS-17): a message to that subject itself",
    "KVTest::test_kv_watch": f"{_PRIVATE}; it passes up to there",
    "KVTest::test_kv_watcher_stop_does_not_hang_when_queue_is_full": _PRIVATE,
    "ObjectStoreTest::test_object_aiofiles": "needs the package aiofiles",
    "ObjectStoreTest::test_object_watch": "expects an error for a new name that no object has; it passes up to there",
    "PullSubscribeTest::test_auto_create_consumer": "neither subject nor stream, which ADR-15 refuses (CFG-02)",
    "PullSubscribeTest::test_fetch_cancelled_errors_raised": "replaces `asyncio.wait_for`, an internal of nats-py",
    "PullSubscribeTest::test_fetch_collects_server_messages_alongside_pending_queue": _PRIVATE,
    "PullSubscribeTest::test_fetch_concurrent": _LIMIT,
    "PullSubscribeTest::test_fetch_heartbeats": _LOCAL,
    "PullSubscribeTest::test_fetch_headers": "header names that ADR-4 does not allow; they are refused (WIR-05)",
    "PullSubscribeTest::test_fetch_max_waiting_fetch_n": _LIMIT,
    "PullSubscribeTest::test_fetch_n": _PRIVATE,
    "PullSubscribeTest::test_fetch_returns_promptly_with_pending_queue_messages": _PRIVATE,
    "PullSubscribeTest::test_pull_subscribe_bind_custom_inbox_prefix": _PRIVATE,
    "PullSubscribeTest::test_pull_subscribe_limits": "expects messages to be dropped; they are kept (PUL-07, R43)",
    "JSMTest::test_jsm_get_delete_msg": _FIRST,
    "JSMTest::test_consumer_with_name": "expects binding to ask nothing; ADR-15 has the consumer looked up (BND-01)",
    "SubscribeTest::test_subscribe_custom_limits": _PRIVATE,
    "SubscribeTest::test_unsubscribe_coroutines": "an ordered consumer in a queue, which ADR-17 refuses (ORD-01)",
    "AckPolicyTest::test_double_acking_pull_subscribe": _SILENT,
    "AckPolicyTest::test_double_acking_subscribe": _SILENT,
    "OrderedConsumerTest::test_ordered_consumer_single_loss": _PRIVATE,
}
"""Tests by name, with the reason."""
