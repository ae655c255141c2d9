"""Account information from the server, all fields of nats-server 2.15."""

from __future__ import annotations

import msgspec

from jetspark.jetstream.codec import JsonStruct

__all__ = ["APIStats", "AccountInfo", "AccountLimits", "AccountTier"]


class AccountLimits(JsonStruct):
    """Limits of an account; -1 means no limit."""

    max_memory: int = 0
    """Bytes in memory."""
    max_storage: int = 0
    """Bytes in files."""
    max_streams: int = 0
    """Number of streams."""
    max_consumers: int = 0
    """Number of consumers."""
    max_ack_pending: int = 0
    """Largest `max_ack_pending` of a consumer."""
    memory_max_stream_bytes: int = 0
    """Largest `max_bytes` of a stream in memory."""
    storage_max_stream_bytes: int = 0
    """Largest `max_bytes` of a stream in files."""
    max_bytes_required: bool = False
    """Whether streams must set `max_bytes`."""


class AccountTier(JsonStruct):
    """Resources that an account uses, in total or in one tier."""

    memory: int = 0
    """Bytes in memory."""
    storage: int = 0
    """Bytes in files."""
    reserved_memory: int = 0
    """Bytes in memory that streams have reserved."""
    reserved_storage: int = 0
    """Bytes in files that streams have reserved."""
    streams: int = 0
    """Number of streams."""
    consumers: int = 0
    """Number of consumers."""
    limits: AccountLimits = msgspec.field(default_factory=AccountLimits)
    """Limits."""


class APIStats(JsonStruct):
    """Use of the JetStream API."""

    level: int = 0
    """API level of the server."""
    total: int = 0
    """Number of requests so far."""
    errors: int = 0
    """Number of failed requests."""
    inflight: int = 0
    """Number of requests that the server is processing."""


class AccountInfo(AccountTier):
    """Resources that an account uses, and its limits."""

    domain: str = ""
    """JetStream domain."""
    api: APIStats = msgspec.field(default_factory=APIStats)
    """Use of the API."""
    tiers: dict[str, AccountTier] | None = None
    """Use by tier (`R1`, `R3`), if the account has tiers."""
