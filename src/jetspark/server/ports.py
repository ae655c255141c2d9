"""Free ports without a race.

A socket that is bound but does not listen, with SO_REUSEADDR set, keeps its port on Linux: nobody else is given it, and
a client that connects is refused, while a server that sets SO_REUSEADDR too (nats-server does) can listen on it. Such a
socket is held for as long as the managed server exists, so the port is known before the start, which a cluster's routes
need, and stays ours between a kill and the restart; nor can a client that reconnects meanwhile meet itself on it.
Elsewhere the kernel does not allow the second bind: the port is chosen and let go, and whoever starts the server tries
again with another when it was taken.
"""

import socket
import sys

__all__ = ["ReservedPort", "join_host_port"]


class ReservedPort:
    """A TCP port on `host` that the kernel chose; `close` gives it back."""

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
        """Give the port back; it may be called twice."""
        self._socket.close()


def join_host_port(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
