"""Which server a blocking connection uses, and when it leaves a server whose JetStream does not serve.

A blocking connection has no task that could check its server. So errors count here: silence, and answers that say that
JetStream is unavailable. A connection that leaves a server loses nothing, as an operation has just failed.
"""

from __future__ import annotations

import logging
import math
import time
from random import SystemRandom
from typing import Final

from jetspark.engine.retry import ExponentialBackoff
from jetspark.engine.server_health import LONGEST_WAIT, SHORTEST_WAIT, is_sign_of_trouble
from jetspark.wire.options import ConnectOptions
from jetspark.wire.server_pool import LASTING_SESSION, Server, ServerPool
from jetspark.wire.session import ServerInfo

__all__ = ["LEAVE_AFTER", "ServerChoice"]

_log: Final = logging.getLogger("jetspark")

LEAVE_AFTER: Final = 5.0
"""Seconds of trouble after which the server is left: the default timeout of a request and of an acknowledgement."""
_FORGET_AFTER: Final = 30.0
"""Seconds after which an error says nothing about the next one."""
_LONGEST_WAIT: Final = 2.0
"""Most seconds before a session is opened again after short ones: a call waits for it."""
_REPORTED_TRIES: Final = 2
"""Servers that the cluster reports, and for which there is time in one series of tries even if none answers."""
_TOLERANCE: Final = 0.1
"""Seconds by which an operation may end before its timeout."""


class ServerChoice:
    """The servers of one connection.

    Attributes
    ----------
    pool
        The servers.
    leaving
        Whether the next session should be opened with another server.
    """

    def __init__(self, options: ConnectOptions) -> None:
        self.leaving = False
        self._options = options
        self._enabled = options.leave_unavailable_server
        self.pool = ServerPool(options, SystemRandom())
        self._current: Server | None = None
        self._since = self._latest = -math.inf  # the trouble's first and latest sign
        self._not_before = -math.inf
        self._backoff = ExponentialBackoff(SHORTEST_WAIT, LONGEST_WAIT)
        self._opened_at: float | None = None  # when the session opened for which there was no wait yet
        longest = min(options.reconnect_wait_max, _LONGEST_WAIT)
        self._reopening = ExponentialBackoff(options.reconnect_wait, longest, immediate=True)

    def reopen_delay(self) -> float:
        """Return the seconds to wait before the next session. The wait grows while sessions are lost soon."""
        if self._opened_at is None:  # it was not opened again yet; the caller waits between its tries
            return 0.0
        opened_at, self._opened_at = self._opened_at, None
        if time.monotonic() - opened_at >= LASTING_SESSION:
            self._reopening.reset()
        return self._reopening.next_delay() or 0.0

    def to_try(self) -> list[Server]:
        """Return all servers, in the order in which to try them.

        After a plain loss, the servers of the options come first: others may not be reachable from here. A connection
        that leaves its server takes this one last.
        """
        self.pool.restart_rounds()
        servers = list(self.pool.servers)
        return servers if self.leaving else sorted(servers, key=lambda server: server.discovered)

    @property
    def timeout(self) -> float:
        """Seconds for all servers together. The cluster may report many, and they do not make a call longer."""
        return self._options.connect_timeout * (len(self._options.servers) + _REPORTED_TRIES)

    def on_failure(self, server: Server) -> None:
        """Note a server that did not accept a session: it is tried last in the next series."""
        if server in self.pool.servers:
            self.pool.servers.remove(server)
            self.pool.servers.append(server)

    def on_session_opened(self, server: Server, info: ServerInfo) -> None:
        """Note the server of the new session: it comes last in the next series of tries."""
        if self.leaving and self._current is not None and server is not self._current:
            _log.warning(
                "left %s for %s: JetStream is silent or unavailable there", self._current.address, server.address
            )
        self.leaving = False
        self._opened_at = time.monotonic()
        self._current = server
        self._since = self._latest = -math.inf
        self.pool.begin_session()
        self.pool.servers.remove(server)
        self.pool.servers.append(server)
        self.on_info(info)

    def on_info(self, info: ServerInfo) -> None:
        """Note the servers that the cluster reports, and that the server requires TLS."""
        if self._current is not None and info.tls_required:
            self.pool.note_tls(self._current, encrypted=False)
        if self._current is not None and info.connect_urls:
            self.pool.update_discovered(info.connect_urls, self._current)
            if self.pool.in_minority:
                self._note_trouble()

    def on_answer(self) -> None:
        """Note that JetStream has served this connection.

        A server that has lost its cluster says nothing by that: as a former leader, it answers for some seconds more.
        """
        if self.pool.in_minority:
            return
        self._since = self._latest = self._not_before = -math.inf
        self._backoff.reset()

    def on_error(self, error: BaseException, waited: float = 0.0) -> None:
        """Note the error of an operation that has waited for `waited` seconds."""
        if is_sign_of_trouble(error):
            self._note_trouble(waited)

    def _note_trouble(self, waited: float = 0.0) -> None:
        now = time.monotonic()
        if now > self._latest + _FORGET_AFTER:
            self._since = now - waited
        self._latest = now

    def should_leave(self) -> bool:
        """Return whether JetStream has not served for some seconds, and there is another server."""
        now = time.monotonic()
        recent = self.pool.in_minority or now <= self._latest + _FORGET_AFTER
        trouble = recent and now >= self._since + LEAVE_AFTER - _TOLERANCE
        return self._enabled and trouble and now >= self._not_before and self.pool.others_known

    def leave(self) -> None:
        """Note that the server is left."""
        delay = self._backoff.next_delay()
        assert delay is not None  # it has no limit
        self._not_before = time.monotonic() + delay
        self.leaving = True
