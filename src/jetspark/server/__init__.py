"""A managed nats-server for demos and tests: one node, or a cluster on loopback.

    with NatsServer(config={"max_payload": 4096}) as server:
        connect(server.url)

It runs the real server and can cause the faults that a client must survive: kill, restart on the same port and store,
pause, reload, lame duck mode. No process and no temporary directory remains, even if the caller is killed.
"""

from jetspark.server.binary import BINARY_VARIABLE, find_binary
from jetspark.server.cluster import NatsCluster
from jetspark.server.errors import (
    PortInUseError,
    ServerArgumentError,
    ServerBinaryNotFoundError,
    ServerError,
    ServerStartError,
    ServerTimeoutError,
)
from jetspark.server.node import NatsServer

__all__ = [
    "BINARY_VARIABLE",
    "NatsCluster",
    "NatsServer",
    "PortInUseError",
    "ServerArgumentError",
    "ServerBinaryNotFoundError",
    "ServerError",
    "ServerStartError",
    "ServerTimeoutError",
    "find_binary",
]
