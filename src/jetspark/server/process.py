"""One nats-server process and its guard.

The server runs in a session of its own, so that Ctrl-C in a terminal does not take it away under a test that is
about to clean up. It must not outlive us all the same, even when we are killed and can do nothing: beside it runs a
shell that waits on a pipe whose other end only we hold, and that kills the server and removes its directory when the
pipe breaks. (The kernel's parent-death signal would need code between fork and exec, which is unsafe with threads, and
it fires when the thread that started the server ends.)
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

# A server that is being killed may still write, so the removal is tried again.
_GUARD = 'read -r _ || { kill -KILL "$1"; rm -rf -- "$2" || { sleep 1; rm -rf -- "$2"; }; }'
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05


class ServerProcess:
    """A running child; every method may be called after it has ended.

    Args:
        command: the executable and its arguments.
        log_path: the file to which standard output and standard error are appended.
        work_dir: the directory that goes when our own process is killed.
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
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._ended(self._server.poll())

    def wait(self, timeout: float) -> int | None:
        """Wait up to `timeout` seconds for the end and return the exit code, or None."""
        try:
            return self._ended(self._server.wait(timeout))
        except subprocess.TimeoutExpired:
            return None

    def watch(self, condition: Callable[[], T | None], timeout: float) -> T | None:
        """Ask `condition` until it answers with something, and return that.

        None means that the process ended, or that `timeout` seconds went by; `exit_code` tells which. The end of the
        process is seen at once, and the condition is asked once more after it.
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

    def send(self, signal_number: signal.Signals) -> None:
        """Send a signal; nothing happens when the process has ended."""
        self._server.send_signal(signal_number)

    def pause(self) -> None:
        """Halt the process and return when the kernel says that it has halted (or ended)."""
        self.send(signal.SIGSTOP)
        if self.exit_code is None:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def end(self, grace: float = 0.0, ask: signal.Signals = signal.SIGTERM) -> None:
        """End and collect the process: with the signal `ask` and `grace` seconds, where there are any, then SIGKILL."""
        if grace > 0 and self.exit_code is None:
            self.send(signal.SIGCONT)
            self.send(ask)
            self.wait(grace)
        self.send(signal.SIGKILL)
        self._ended(self._server.wait())

    def _ended(self, exit_code: int | None) -> int | None:
        """Dismiss the guard when the process has ended: it must not act on a process id that is no longer ours."""
        if exit_code is not None and self._guard.returncode is None:
            self._guard.kill()  # before its pipe closes
            self._guard.wait()
            if self._guard.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    self._guard.stdin.close()
        return exit_code
