"""A server process after its start: its log, signals, and the wait for a result."""

import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from jetspark.server.argument_types import checks_arguments
from jetspark.server.errors import PortInUseError, ServerError, ServerStartError, ServerTimeoutError
from jetspark.server.log import ServerLog
from jetspark.server.process import ServerProcess
from jetspark.server.resources import ServerResources
from jetspark.server.user_settings import redact

__all__ = ["RunningServer", "require_started"]

T = TypeVar("T")


@checks_arguments
class RunningServer:
    """The base of `NatsServer`: what can be done to a server process, and what can be seen of it.

    Args:
        config: settings of the configuration file; secrets in them are not shown in errors.
    """

    def __init__(self, config: Mapping[str, object]) -> None:
        self._config = config
        self._lock = threading.RLock()
        self._closed_log = ""
        self._log_start = 0
        self._paused = False
        self._in_lame_duck = False
        self._resources = ServerResources()

    @property
    def log_path(self) -> Path:
        """The log file; `close` removes it."""
        return require_started(self._resources.work_dir) / "server.log"

    @property
    def config_path(self) -> Path:
        """The configuration file; `close` removes it."""
        return require_started(self._resources.work_dir) / "server.conf"

    @property
    def pid(self) -> int:
        """The process id. Raises ServerError if no process runs."""
        return self._require_process().pid

    @property
    def running(self) -> bool:
        """Whether the process is alive (also while it is paused)."""
        process = self._resources.process
        return process is not None and process.exit_code is None

    @property
    def paused(self) -> bool:
        """Whether the process is stopped by `pause`."""
        return self._paused and self.running

    @property
    def crashed(self) -> bool:
        """Whether the process ended unexpectedly."""
        process = self._resources.process
        return process is not None and process.exit_code is not None and not self._in_lame_duck

    def log_text(self) -> str:
        """Return the whole log since the first start; after `close`, the log at that time."""
        return self._closed_log if self._resources.work_dir is None else ServerLog(self.log_path).text()

    def kill(self) -> None:
        """Kill the server (SIGKILL) and wait until it has ended, as in a crash of the machine."""
        with self._lock:
            self._end_process()

    def pause(self) -> None:
        """Stop the process temporarily (SIGSTOP): its connections stay open, but it does not answer."""
        with self._lock:
            self._require_process().pause()
            self._paused = True

    def resume(self) -> None:
        """Continue a paused process (SIGCONT)."""
        with self._lock:
            self._require_process().send_signal(signal.SIGCONT)
            self._paused = False

    def lame_duck(self, timeout: float = 10.0) -> None:
        """Put the server into lame duck mode (SIGUSR2), and wait until it has begun.

        The server informs its clients, closes their connections during `lame_duck_duration`, and then ends by itself
        (`wait_exit`).
        """
        with self._lock:
            process = self._require_process()
            start = ServerLog(self.log_path).size()
            self._in_lame_duck = True
            process.send_signal(signal.SIGUSR2)
            self.wait_log("Entering lame duck mode", timeout, start)

    def wait_exit(self, timeout: float) -> int:
        """Wait until the process ends by itself and return its exit code.

        Raises:
            ServerTimeoutError: it still runs after `timeout` seconds.
        """
        exit_code = self._require_process(or_ended=True).wait(timeout)
        if exit_code is None:
            raise ServerTimeoutError(f"{self!r}: the process still runs after {timeout:g} s")
        return exit_code

    def wait_log(self, pattern: str, timeout: float = 10.0, start: int = 0) -> str:
        """Wait until the log, from byte `start` on, matches a regular expression, and return the match.

        Raises:
            ServerStartError: the server ended without a match.
            ServerTimeoutError: there is no match after `timeout` seconds.
        """
        log = ServerLog(self.log_path)
        return self._wait_until(
            lambda: log.find(pattern, start), timeout, f"nothing in the log matches {pattern!r} after {timeout:g} s"
        )

    def process_error(self, what: str = "failed") -> ServerStartError:
        """Return an error with `what`, the exit code, the config path and the end of the last run's log."""
        process = self._resources.process
        exit_code = None if process is None else process.exit_code
        if exit_code is not None:
            what = f"ended with exit code {exit_code}"
        tail = ServerLog(self.log_path).tail(self._log_start)
        kind = PortInUseError if "address already in use" in tail else ServerStartError
        tail = redact(tail, self._config) or "(nothing)"
        return kind(f"nats-server {what}. Its configuration: {self.config_path}. Its log ends with:\n{tail}")

    def _wait_until(self, found: Callable[[], T | None], timeout: float, complaint: str) -> T:
        """Call `found` until it returns a result, and return that; raise if the process ends or the time is over."""
        process = self._require_process(or_ended=True)
        result = process.wait_until(found, timeout)
        if result is not None:
            return result
        if process.exit_code is not None:
            raise self.process_error()
        raise ServerTimeoutError(f"{self!r}: {complaint}")

    def _end_process(self, grace: float = 0.0) -> None:
        process = self._resources.process
        if process is not None:
            # A lame duck ignores SIGTERM.
            process.terminate(grace, signal.SIGINT if self._in_lame_duck else signal.SIGTERM)
            self._resources.process = None
        self._paused = self._in_lame_duck = False

    def _require_process(self, or_ended: bool = False) -> ServerProcess:
        process = self._resources.process
        if process is None or (process.exit_code is not None and not or_ended):
            raise ServerError(f"{self!r}: there is no process; call start() or restart()")
        return process


def require_started(value: T | None) -> T:
    if value is None:
        raise ServerError("the server was not started, or is closed: use it within `with`, or call start() first")
    return value
