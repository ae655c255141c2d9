"""One nats-server process and its guard.

The server runs in its own session, so that Ctrl-C in a terminal does not end it before a test has cleaned up. But it
must not outlive its parent process, even if the parent is killed. So a shell, the guard, waits on a pipe whose other
end only the parent has open. When the pipe closes, the guard kills the server and removes its directory. (The kernel's
parent-death signal would need code between fork and exec, which is unsafe with threads; it is also sent when the thread
that started the server ends.)
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from jetspark.server.errors import ServerStartError

__all__ = ["ServerProcess"]

T = TypeVar("T")

# A killed server may write for a moment, so the removal is tried a second time.
_GUARD = 'read -r _ || { kill -KILL "$1"; rm -rf -- "$2" || { sleep 1; rm -rf -- "$2"; }; }'
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05


class ServerProcess:
    """A running child; every method may be called after it has ended.

    Args:
        command: the executable and its arguments.
        log_path: the file to which standard output and standard error are appended.
        work_dir: the directory that the guard removes if the parent process is killed.
    """

    def __init__(self, command: Sequence[str], log_path: Path, work_dir: Path) -> None:
        with log_path.open("ab") as log:
            try:
                self._server = subprocess.Popen(  # noqa: S603 - the executable is the caller's choice
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            except OSError as error:
                raise ServerStartError(f"{command[0]} cannot be run: {error.strerror}") from error
        try:
            self._guard = subprocess.Popen(  # noqa: S603 - a constant script, a number and a path
                ["/bin/sh", "-c", _GUARD, "jetspark-server-guard", str(self._server.pid), str(work_dir)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            self._server.kill()
            self._server.wait()
            raise

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._server.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code; None while the process runs, minus the signal's number if a signal ended it."""
        return self._end_guard_if_ended(self._server.poll())

    def wait(self, timeout: float) -> int | None:
        """Wait up to `timeout` seconds for the end; return the exit code, None if the process still runs."""
        try:
            return self._end_guard_if_ended(self._server.wait(timeout))
        except subprocess.TimeoutExpired:
            return None

    def wait_until(self, condition: Callable[[], T | None], timeout: float) -> T | None:
        """Call `condition` until it returns a result other than None, and return that.

        None means that the process ended or that `timeout` seconds have passed; `exit_code` shows which. The end of the
        process is detected at once, and the condition is called once more after it.
        """
        deadline = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while True:
            ended = self.exit_code is not None
            answer = condition()
            left = deadline - time.monotonic()
            if answer is not None or ended or left <= 0:
                return answer
            self.wait(min(pause, left))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def send_signal(self, signal_number: signal.Signals) -> None:
        """Send a signal; does nothing if the process has ended."""
        self._server.send_signal(signal_number)

    def pause(self) -> None:
        """Stop the process (SIGSTOP), and wait until the kernel reports that it has stopped or ended."""
        self.send_signal(signal.SIGSTOP)
        if self.exit_code is None:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def terminate(self, grace: float = 0.0, stop_signal: signal.Signals = signal.SIGTERM) -> None:
        """End and reap the process. If `grace` is positive, send `stop_signal` and wait that many seconds first."""
        if grace > 0 and self.exit_code is None:
            self.send_signal(signal.SIGCONT)
            self.send_signal(stop_signal)
            self.wait(grace)
        self.send_signal(signal.SIGKILL)
        self._end_guard_if_ended(self._server.wait())

    def _end_guard_if_ended(self, exit_code: int | None) -> int | None:
        """End the guard if the process has ended, because the kernel may use the process id again."""
        if exit_code is not None and self._guard.returncode is None:
            self._guard.kill()  # before its pipe closes
            self._guard.wait()
            if self._guard.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    self._guard.stdin.close()
        return exit_code
