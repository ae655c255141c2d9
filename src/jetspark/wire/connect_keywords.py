"""Keywords of the calls that take the fields of ConnectOptions.

Made by `tools/make_keywords.py` from `jetspark.wire.options`: change that, then `make sync`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from jetspark.wire.options import ConnectOptions as ConnectOptions
from jetspark.wire.options import Secret, TLSOptions

__all__ = ["ConnectFields"]


class ConnectFields(TypedDict, total=False):
    """The fields of `ConnectOptions`, as keywords of a call."""

    servers: Sequence[str]
    user: str | None
    password: Secret | None
    token: Secret | None
    credentials_file: str | None
    credentials: Secret | None
    nkey_seed: Secret | None
    tls: TLSOptions | None
    name: str
    inbox_prefix: str
    connect_timeout: float
    echo: bool
    randomize: bool
    discover_servers: bool
    retry_connect: bool
    reconnect: bool
    leave_unavailable_server: bool
    max_reconnects: int | None
    max_auth_failures: int | None
    reconnect_wait: float
    reconnect_wait_max: float
    max_control_line: int
    reconnect_buffer_size: int
    ping_interval: float
    max_outstanding_pings: int
    pending_msgs_limit: int
    pending_bytes_limit: int
    drain_timeout: float
