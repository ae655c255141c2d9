"""Free ports without a race.

On Linux, a socket that is bound with SO_REUSEADDR but does not listen reserves its port. The kernel gives the port to
no other process and refuses clients that connect. A server that also sets SO_REUSEADDR, as nats-server does, can listen
on it. The socket is kept while the managed server exists. So the port is known before the start, which a cluster's
routes need, and it stays reserved between a kill and the restart. A client that reconnects meanwhile cannot connect to
itself on this port.

On other systems, the kernel does not allow the second bind. There the port is chosen and released. If another process
takes it, the start is tried again with another port.
"""

import socket
import sys

__all__ = ["ReservedPort", "join_host_port"]


class ReservedPort:
    """A TCP port on `host`, chosen by the kernel; `close` releases it."""

    def __init__(self, host: str) -> None:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self._socket = socket.socket(family, kind, protocol)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(address)
            self.port: int = self._socket.getsockname()[1]
        except OSError:
            self._socket.close()
            raise
        if sys.platform != "linux":
            self._socket.close()

    def close(self) -> None:
        """Release the port. A second call does nothing."""
        self._socket.close()


def join_host_port(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
