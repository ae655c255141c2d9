"""Reconnect plan: which server to try next, and when (ADR-40, REC-01).

The pool tries its servers in rounds. The first round after a loss has no wait. The wait before each later round grows
up to a maximum and is shortened at random, so that not all clients of a failed server reconnect at the same time. A
session that is lost at once counts as a failed try: a server or proxy that accepts every client and drops it would
otherwise be asked without a wait.
Servers that the cluster reports are added to the pool, and removed when the cluster does not report them any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from random import Random
from typing import Final

from jetspark.wire.addresses import parse_address
from jetspark.wire.errors import AuthenticationError, ConfigError, Error
from jetspark.wire.options import ConnectOptions, ServerAddress

__all__ = ["LASTING_SESSION", "Server", "ServerPool"]

LASTING_SESSION: Final = 5.0
"""Seconds after which a session counts as a success, so that the next loss begins a new series of tries."""


@dataclass(slots=True)
class Server:
    """One server of the pool.

    Attributes
    ----------
    address
        Its address.
    discovered
        Whether the cluster reported it.
    failures, auth_failures
        Numbers of consecutive failures; a session that lasts resets them.
    """

    address: ServerAddress
    discovered: bool = False
    failures: int = 0
    auth_failures: int = 0


_BACKOFF_FACTOR: Final = 1.5
"""Factor of the wait for each round; small, so that a server that is available again is found soon."""
_MAX_REPORTED: Final = 1000
"""Most servers of one report that are used."""
_MAX_UNREPORTED: Final = 100
"""Most servers that are remembered although they are not reported any more."""


class ServerPool:
    """The servers, in the order in which they are tried."""

    def __init__(self, options: ConnectOptions, rng: Random) -> None:
        self._options = options
        self._rng = rng
        self.servers = [Server(address) for address in options.addresses()]
        if options.randomize:
            rng.shuffle(self.servers)
        self._round = 0
        self._left_in_round = len(self.servers)
        self._most_reported = 0
        self._unreported: list[Server] = []  # servers that are not reported any more
        self.in_minority = False
        """Whether the present server reports at most half of the servers that it has reported before."""

    def restart_rounds(self) -> None:
        """Begin a new series of tries: the first round has no wait."""
        self._restore_unreported()
        self._round = 0
        self._left_in_round = len(self.servers)

    def continue_rounds(self) -> None:
        """Continue the present series of tries: the last session was lost so soon that it counts as a failed try."""
        self._restore_unreported()

    def next(self) -> tuple[Server, float] | None:
        """Return the server to try and the seconds to wait before it; None if there is no server left."""
        if not self.servers:
            return None
        delay = 0.0
        if self._left_in_round <= 0:
            self._left_in_round = len(self.servers)
            self._round += 1
            delay = self._round_delay()
        self._left_in_round -= 1
        server = self.servers.pop(0)
        self.servers.append(server)
        return server, delay

    def _round_delay(self) -> float:
        # The exponent is limited, as the power for a thousand rounds would overflow a float.
        grown = self._options.reconnect_wait * _BACKOFF_FACTOR ** min(self._round - 1, 30)
        return min(grown, self._options.reconnect_wait_max) * (1 - self._rng.random() / 2)

    def note_tls(self, server: Server, *, encrypted: bool) -> None:
        """Use TLS in all later sessions with a server that requires it; with every server, once one was `encrypted`.

        So a change of a server's plaintext on its way cannot make the client send its credentials in plaintext.
        """
        for each in (server, *self.servers, *self._unreported) if encrypted else (server,):
            each.address = replace(each.address, tls=True)

    def begin_session(self) -> None:
        """Forget the servers that the server of the last session has reported."""
        self._most_reported = 0
        self.in_minority = False

    def reset_failures(self, server: Server) -> None:
        """Reset the failures of a server whose session has lasted."""
        server.failures = server.auth_failures = 0

    def count_failure(self, server: Server, error: Error) -> None:
        """Count a failure of a server; remove the server if it reached a maximum of the options."""
        server.failures += 1
        server.auth_failures = server.auth_failures + 1 if isinstance(error, AuthenticationError) else 0
        options = self._options
        if (options.max_reconnects is not None and server.failures >= options.max_reconnects) or (
            options.max_auth_failures is not None and server.auth_failures >= options.max_auth_failures
        ):
            self._remove(server)

    def update_discovered(self, urls: Sequence[str], current: Server) -> list[ServerAddress]:
        """Update the pool with the servers that the cluster reports; return the new ones.

        New servers get the credentials of the current server, and TLS if the current server uses it. A server that has
        lost at least half of its cluster is probably cut off itself. So servers that are not reported any more are
        tried once more after this session, and are forgotten when a later session reports more servers than those.
        """
        urls = urls[:_MAX_REPORTED]
        self._most_reported = max(self._most_reported, len(urls))
        self.in_minority = 2 * len(urls) <= self._most_reported
        if not self._options.discover_servers:
            return []
        reported: dict[tuple[str, int], ServerAddress] = {}
        for url in urls:
            try:
                address = parse_address(url)
            except ConfigError:  # skip a URL that cannot be read, use the others
                continue
            reported[address.host, address.port] = address
        kept: list[Server] = []
        for server in self.servers:
            place = (server.address.host, server.address.port)
            gone = server.discovered and server is not current and place not in reported
            (self._unreported if gone else kept).append(server)
        self.servers = kept
        self._unreported = [
            server for server in self._unreported if (server.address.host, server.address.port) not in reported
        ][-_MAX_UNREPORTED:]
        if len(urls) == self._most_reported and len(reported) > len(self._unreported):
            self._unreported.clear()
        known = {(server.address.host, server.address.port) for server in self.servers}
        fresh = [
            self._with_current_options(current.address, reported[place]) for place in reported if place not in known
        ]
        if self._options.randomize:
            self._rng.shuffle(fresh)
        for address in fresh:
            self.servers.insert(max(len(self.servers) - 1, 0), Server(address, discovered=True))
            self._left_in_round += 1
        return fresh

    @property
    def others_known(self) -> bool:
        """Whether there is another server than the present one."""
        return len(self.servers) + len(self._unreported) > 1

    def _restore_unreported(self) -> None:
        unreported, self._unreported = self._unreported, []
        known = {server.address for server in self.servers}
        at = 0 if self.in_minority else max(len(self.servers) - 1, 0)
        self.servers[at:at] = [server for server in unreported if server.address not in known]

    def _with_current_options(self, current: ServerAddress, reported: ServerAddress) -> ServerAddress:
        name = (current.tls_name or current.host) if _is_ip(reported.host) else None
        return replace(current, host=reported.host, port=reported.port, tls=current.tls or reported.tls, tls_name=name)

    def _remove(self, server: Server) -> None:
        if server in self.servers:
            self.servers.remove(server)


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
