"""JetStream for Python, and JetStream as a first-class Spark source and sink.

    connection = await jetspark.connect("nats://localhost:4222")     # asyncio
    connection = jetspark.sync.connect("nats://localhost:4222")      # blocking

Names are imported when they are first used, so that `import jetspark` costs nothing and needs no extra.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from jetspark.version import __version__ as __version__

if TYPE_CHECKING:
    from jetspark import aio as aio
    from jetspark import errors as errors
    from jetspark import events as events
    from jetspark import jetstream as jetstream
    from jetspark import sync as sync
    from jetspark.aio import Connection as Connection
    from jetspark.aio import Msg as Msg
    from jetspark.aio import Subscription as Subscription
    from jetspark.aio import connect as connect
    from jetspark.aio.jetstream import Consumer as Consumer
    from jetspark.aio.jetstream import JetStream as JetStream
    from jetspark.aio.jetstream import Stream as Stream
    from jetspark.jetstream.config import ConsumerConfig as ConsumerConfig
    from jetspark.jetstream.config import StreamConfig as StreamConfig
    from jetspark.wire.cli_context import CLIContext as CLIContext
    from jetspark.wire.cli_context import load_context as load_context
    from jetspark.wire.cli_context import options_from_environment as options_from_environment
    from jetspark.wire.connect_keywords import ConnectFields as ConnectFields
    from jetspark.wire.connection_status import ConnectionStatus as ConnectionStatus
    from jetspark.wire.headers import Headers as Headers
    from jetspark.wire.headers import HeadersLike as HeadersLike
    from jetspark.wire.headers import Status as Status
    from jetspark.wire.options import ConnectOptions as ConnectOptions
    from jetspark.wire.options import Secret as Secret
    from jetspark.wire.options import ServerAddress as ServerAddress
    from jetspark.wire.options import TLSOptions as TLSOptions
    from jetspark.wire.outbound import Payload as Payload
    from jetspark.wire.session import ServerInfo as ServerInfo
    from jetspark.wire.subscriptions import Overflow as Overflow

_NAMES = {
    "CLIContext": "jetspark.wire.cli_context",
    "ConnectFields": "jetspark.wire.connect_keywords",
    "ConnectOptions": "jetspark.wire.options",
    "Connection": "jetspark.aio",
    "ConnectionStatus": "jetspark.wire.connection_status",
    "Consumer": "jetspark.aio.jetstream",
    "ConsumerConfig": "jetspark.jetstream.config",
    "Headers": "jetspark.wire.headers",
    "HeadersLike": "jetspark.wire.headers",
    "JetStream": "jetspark.aio.jetstream",
    "Msg": "jetspark.aio",
    "Overflow": "jetspark.wire.subscriptions",
    "Payload": "jetspark.wire.outbound",
    "Secret": "jetspark.wire.options",
    "ServerAddress": "jetspark.wire.options",
    "ServerInfo": "jetspark.wire.session",
    "Status": "jetspark.wire.headers",
    "Stream": "jetspark.aio.jetstream",
    "StreamConfig": "jetspark.jetstream.config",
    "Subscription": "jetspark.aio",
    "TLSOptions": "jetspark.wire.options",
    "connect": "jetspark.aio",
    "load_context": "jetspark.wire.cli_context",
    "options_from_environment": "jetspark.wire.cli_context",
}
_MODULES = {
    "aio": "jetspark.aio",
    "errors": "jetspark.errors",
    "events": "jetspark.events",
    "jetstream": "jetspark.jetstream",
    "sync": "jetspark.sync",
}


def __getattr__(name: str) -> object:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'jetspark' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({"__version__", *_NAMES, *_MODULES})
