"""One managed nats-server: its configuration file, its process, its ports, its store.

Ports are reserved before the first start (`ports`), so a restart uses the same ones. The server is ready when
`/healthz` reports it: the client listener is open, and JetStream has recovered its streams. During the wait, the
process is watched: if the server dies, an error is raised at once, with its exit code and the end of its log.
"""

import os
import signal
import time
import warnings
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Self, TypeVar

from jetspark.server.argument_types import checks_arguments
from jetspark.server.binary import find_binary
from jetspark.server.config_format import dumps, merge
from jetspark.server.errors import PortInUseError, ServerError
from jetspark.server.log import ServerLog
from jetspark.server.monitor import MonitorEndpoint
from jetspark.server.ports import join_host_port
from jetspark.server.process import ServerProcess
from jetspark.server.running import RunningServer, require_started
from jetspark.server.user_settings import check_name, check_user_settings, redact

__all__ = ["START_ATTEMPTS", "NatsServer"]

START_ATTEMPTS = 5
"""Number of tries of a first start with chosen ports, because another process may take a port meanwhile."""

T = TypeVar("T")

_STOP_TIMEOUT = 10.0
_PROBE_TIMEOUT = 2.0
_CLIENT_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - a client's address for a wildcard


@checks_arguments
class NatsServer(RunningServer):
    """A nats-server. `start` (or ``with``) starts it, `close` ends it and removes its files.

    Args:
        jetstream: whether JetStream is on.
        store_dir: directory of JetStream's files; it is not removed. None creates a temporary directory, which `close`
            removes.
        port: client port; None chooses a free one. It stays the same after restarts.
        host: address to listen on.
        config: settings of the server's configuration file, which override the defaults of this class (see
            `config.dumps` for the types of values). Only this class sets ports, name, store, monitoring and logging.
        name: server name: letters, digits, `_`, `.` and `-`; None creates one from the port.
        startup_timeout: seconds until the server must be ready.
        binary: the executable; None finds it (see `find_binary`).

    Methods may be called from any thread; methods that change the server's state wait for each other. A server that is
    not closed is killed when the object is garbage-collected (with a `ResourceWarning`), when the interpreter ends, or
    when it is killed.
    """

    def __init__(
        self,
        jetstream: bool = True,
        store_dir: str | os.PathLike[str] | None = None,
        port: int | None = None,
        host: str = "127.0.0.1",
        config: Mapping[str, object] | None = None,
        name: str | None = None,
        startup_timeout: float = 30.0,
        binary: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(check_user_settings(config or {}, jetstream))
        self.host = host
        """The address to listen on."""
        self._jetstream = jetstream
        self._given_store = None if store_dir is None else Path(store_dir).absolute()
        self._given_port = port
        self._given_name = None if name is None else check_name(name)
        self._startup_timeout = startup_timeout
        self._binary = binary
        self._port: int | None = None
        self._monitor_port: int | None = None
        weakref.finalize(self, self._resources.release)

    def __del__(self) -> None:
        resources = self.__dict__.get("_resources")
        if resources is not None and resources.unreleased:
            warnings.warn(f"unclosed {self!r}: close it, or use it in a `with` block", ResourceWarning, stacklevel=2)

    def __repr__(self) -> str:
        if "_port" not in self.__dict__:  # a traceback may show a server that was not made
            return f"<{type(self).__name__}, not made>"
        state = "paused" if self.paused else "running" if self.running else "not running"
        where = self.host if self._port is None else f"{self.name} {self.url}"
        return f"<{type(self).__name__} {where} {state}>"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def port(self) -> int:
        """The client port. Like all properties that need a started server, it raises ServerError before the start."""
        return require_started(self._port)

    @property
    def name(self) -> str:
        """The server's name."""
        return self._given_name or f"jetspark-{self.port}"

    @property
    def url(self) -> str:
        """The URL for clients, without credentials: ``tls://`` if the configuration has tls, else ``nats://``."""
        return f"{'tls' if self._config.get('tls') else 'nats'}://{join_host_port(self._client_host, self.port)}"

    @property
    def monitor_url(self) -> str:
        """The URL of the monitoring endpoint, without a path."""
        return self._endpoint.url

    @property
    def store_dir(self) -> Path:
        """The directory of JetStream's files: the given one, or a temporary one."""
        return self._given_store or require_started(self._resources.work_dir) / "store"

    def monitor(self, path: str, timeout: float = 5.0, **query: str) -> dict[str, object]:
        """Return the answer to a monitoring path such as ``/jsz``.

        Raises:
            ServerError: no answer within `timeout` seconds, or the answer is not a JSON object.
        """
        return self._endpoint.get(path, query, timeout)[1]

    def healthy(self, timeout: float = _PROBE_TIMEOUT, **query: str) -> bool:
        """Return whether ``/healthz`` reports ok: listeners are open, all streams and consumers are recovered."""
        return not self.health_error(timeout, **query)

    def health_error(self, timeout: float = _PROBE_TIMEOUT, **query: str) -> str:
        """Return the error that ``/healthz`` reports, or why it does not answer; empty if the server is healthy."""
        return self._endpoint.health_error(query, timeout)

    def start(self) -> Self:
        """Start the server and wait until it is ready; does nothing if it runs.

        Raises:
            ServerBinaryNotFoundError: there is no executable.
            ServerStartError: it ended, or was not ready within the startup timeout.
        """
        with self._lock:
            if self.running:
                return self
            attempts = START_ATTEMPTS if self._port is None and self._given_port is None else 1
            while True:
                attempts -= 1
                try:
                    self.start_process()
                    self.wait_ready()
                except PortInUseError:
                    if attempts == 0:
                        raise
                    self.close()
                else:
                    return self

    def start_process(self) -> None:
        """Start the process without waiting until it is ready; used to start several servers at once."""
        with self._lock:
            if self.running:
                return
            self._end_process()
            binary = str(find_binary(self._binary))
            work_dir = self._create_dirs_and_ports()
            self._write_config(self._config)
            self._log_start = ServerLog(self.log_path).size()
            command = [binary, "-c", str(self.config_path)]
            self._resources.process = ServerProcess(command, self.log_path, work_dir)

    def wait_ready(self) -> None:
        """Wait until a launched server is ready, at most for the startup timeout.

        Raises:
            ServerStartError: it ended, or was not ready in time; then it is killed.
        """
        with self._lock:
            process = self._require_process(or_ended=True)
            query = self._ready_query()
            try:
                ready = process.wait_until(lambda: self.healthy(_PROBE_TIMEOUT, **query) or None, self._startup_timeout)
                if ready:
                    return
                complaint = self.health_error(_PROBE_TIMEOUT, **query)
                failure = self.process_error(f"was not ready within {self._startup_timeout:g} s ({complaint})")
            except BaseException:
                self._end_process()
                raise
            self._end_process()
            raise failure

    def stop(self, timeout: float = _STOP_TIMEOUT) -> None:
        """Shut down the server (SIGTERM), or kill it if it has not ended after `timeout` seconds."""
        with self._lock:
            self._end_process(timeout)

    def restart(self) -> Self:
        """Start again on the same port and store; if the server runs, stop it first."""
        with self._lock:
            self.stop()
            return self.start()

    def close(self, timeout: float = _STOP_TIMEOUT) -> None:
        """Stop the server and remove its temporary directory. A second call does nothing."""
        with self._lock:
            self.stop(timeout)
            self._closed_log = self.log_text()
            self._resources.release()
            self._port = self._monitor_port = None

    def reload(self, config: Mapping[str, object] | None = None, timeout: float = 10.0) -> None:
        """Let the server read its configuration again (SIGHUP), and wait until its monitoring reports the reload.

        Args:
            config: replaces the `config` of the constructor; None keeps it (certificate files are read again).
            timeout: timeout in seconds.

        Raises:
            ServerError: the server refused the configuration; it still uses the old one, which is restored in the file.
            ServerTimeoutError: the server did not report the result in time.
        """
        deadline = time.monotonic() + timeout
        with self._lock:
            process = self._require_process()
            loaded = self._wait_config_loaded("", deadline)
            new = self._config if config is None else check_user_settings(config, self._jetstream)
            accepted = False
            self._write_config(new)
            try:
                start = ServerLog(self.log_path).size()
                process.send_signal(signal.SIGHUP)
                outcome = self.wait_log(
                    r"Reloaded server configuration|Failed to reload.*", _remaining(deadline), start
                )
                accepted = not outcome.startswith("Failed")
            finally:
                if not accepted:
                    self._write_config(self._config)
            if not accepted:
                raise ServerError(f"{self!r}: {redact(outcome, new)}")
            self._config = new
            # The log reports the reload before the monitoring has the new settings.
            self._wait_config_loaded(loaded, deadline)

    def _defaults(self) -> dict[str, object]:
        """Return the default settings, which the user's settings override."""
        settings: dict[str, object] = {
            "listen": join_host_port(self.host, self.port),
            "http": join_host_port(self.host, require_started(self._monitor_port)),
            "server_name": self.name,
        }
        if self._jetstream:
            settings["jetstream"] = {"store_dir": self.store_dir}
        return settings

    def _ready_query(self) -> dict[str, str]:
        """Return the ``/healthz`` query for readiness. It omits JetStream in a cluster, where it waits for peers."""
        return {"js-server-only": "true"} if "cluster" in self._config else {}

    @property
    def _client_host(self) -> str:
        return _CLIENT_HOSTS.get(self.host, self.host)

    @property
    def _endpoint(self) -> MonitorEndpoint:
        host, port = self._client_host, require_started(self._monitor_port)
        return MonitorEndpoint(host, port, f"http://{join_host_port(host, port)}")

    def _wait_config_loaded(self, before: str, deadline: float) -> str:
        """Wait until ``/varz`` reports a load time of the configuration other than `before`, and return it."""

        def later() -> str | None:
            loaded = self._endpoint.config_load_time(max(min(_PROBE_TIMEOUT, _remaining(deadline)), 0.001))
            return loaded if loaded != before else None

        return self._wait_until(later, _remaining(deadline), f"{self.monitor_url}/varz did not report a new load time")

    def _create_dirs_and_ports(self) -> Path:
        """Create the directories and choose the ports, if not done before; return the temporary directory."""
        work_dir = self._resources.require_work_dir()
        self.store_dir.mkdir(parents=True, exist_ok=True)
        if self._monitor_port is None:
            self._port = self._given_port or self._resources.reserve_port(self.host)
            self._monitor_port = self._resources.reserve_port(self.host)
        return work_dir

    def _write_config(self, config: Mapping[str, object]) -> None:
        # Only this user can read the directory (mode 0700), so passwords in the file are safe.
        self.config_path.write_text(dumps(merge(self._defaults(), config)), encoding="utf-8")


def _remaining(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
