"""A cluster from which a node can be cut off: its routes are closed, and its clients stay connected to it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

from tests.bulk.proxy import Proxy

from jetspark.server import NatsCluster, NatsServer

__all__ = ["CutOffCluster"]


class CutOffCluster(NatsCluster):
    """A cluster whose routes go through proxies."""

    def _reserve_route_ports(self) -> None:
        super()._reserve_route_ports()
        targets = [cast("NatsServer", SimpleNamespace(host=self._host, port=each.port)) for each in self._route_ports]
        self._proxies: dict[tuple[str, str], Proxy] = {}
        for node in self.nodes:
            others = {
                each.name: Proxy(target) for each, target in zip(self.nodes, targets, strict=True) if each is not node
            }
            self._proxies |= {(node.name, other): proxy for other, proxy in others.items()}
            routes = [f"nats-route://{self._host}:{proxy.port}" for proxy in others.values()]
            # The nodes tell each other where they listen, and would go around the proxies.
            hidden = f"{self._host}:1"
            node.cluster_section = {**node.cluster_section, "routes": routes, "advertise": hidden}

    def cut_off(self, node: NatsServer) -> None:
        """Close all routes of a node for good."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(Proxy.close, [proxy for ends, proxy in self._proxies.items() if node.name in ends]))

    def close(self, timeout: float = 10.0) -> None:
        super().close(timeout)
        for proxy in self._proxies.values():
            proxy.close()
