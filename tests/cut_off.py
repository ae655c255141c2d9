"""A cluster from which a node can be cut off: its routes are closed, and its clients stay connected to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from tests.bulk.proxy import Proxy

from jetspark.server import NatsCluster, NatsServer

__all__ = ["CutOffCluster"]


class CutOffCluster(NatsCluster):
    """A cluster of three nodes whose routes go through proxies."""

    def _reserve_route_ports(self) -> None:
        super()._reserve_route_ports()
        targets = [cast("NatsServer", SimpleNamespace(host=self._host, port=each.port)) for each in self._route_ports]
        self._proxies: dict[tuple[str, str], Proxy] = {}
        # Each node connects to one other. Between two nodes that connect to each other, one route is closed again, and
        # what is under way on it is lost.
        for node, after, target in zip(
            self.nodes, self.nodes[1:] + self.nodes[:1], targets[1:] + targets[:1], strict=True
        ):
            proxy = self._proxies[node.name, after.name] = Proxy(target)
            # The nodes tell each other where they listen, and would go around the proxies.
            node.cluster_section = {
                **node.cluster_section,
                "routes": [f"nats-route://{self._host}:{proxy.port}"],
                "advertise": f"{self._host}:1",
            }

    def cut_off(self, node: NatsServer) -> None:
        """Close all routes of a node, until `rejoin`."""
        for proxy in self._routes_of(node):
            proxy.block()

    def rejoin(self, node: NatsServer) -> None:
        """Let a node that was cut off open its routes again."""
        for proxy in self._routes_of(node):
            proxy.unblock()

    def _routes_of(self, node: NatsServer) -> list[Proxy]:
        return [proxy for ends, proxy in self._proxies.items() if node.name in ends]

    def close(self, timeout: float = 10.0) -> None:
        super().close(timeout)
        for proxy in self._proxies.values():
            proxy.close()
