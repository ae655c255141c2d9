"""One connection for each worker process, kept between tasks.

Spark uses a Python worker for many tasks, one after the other, and connecting costs more than a small task. A
connection is borrowed by one user at a time. A second user at the same time gets another connection. A connection that
was in use when an error occurred is not kept. Before an idle connection is borrowed again, the server's PINGs are
answered. It is replaced if the server has closed it, or if it was idle so long that a PING may be unanswered.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from jetspark.engine.retry import can_resume
from jetspark.jetstream.errors import ConnectError, Error

if TYPE_CHECKING:
    from jetspark.bulk import Connection
    from jetspark.wire.options import ConnectOptions

__all__ = ["borrow_connection", "call_with_connection", "close_idle"]

T = TypeVar("T")

_MAX_READS: Final = 100  # of what is left on an idle connection: a server that sends more is not waited for
MAX_IDLE: Final = 60.0
"""Longest time in seconds for which a connection may be idle."""

_TLS_OPTION_NAMES: Final = (
    ("TLSOptions(ca_file=...)", "option tlsCa"),
    ("TLSOptions(server_hostname=...)", "option tlsHostname"),
    ("cert_file and key_file in TLSOptions", "options tlsCert and tlsKey"),
    ("cert_file of TLSOptions", "option tlsCert"),
    ("handshake_first of TLSOptions to False", "option tlsFirst to false"),
    ("ca_file ", "tlsCa "),
)

# By options, with the time at which the connection was returned. Most workers have only one set of options.
_idle: dict[ConnectOptions, tuple[Connection, float]] = {}
# The next user opens a lost one again: it waits if its sessions are lost soon after they begin.
_lost: dict[ConnectOptions, Connection] = {}
_lock: Final = threading.Lock()  # in the driver, a listener's thread runs beside the program's


@contextmanager
def borrow_connection(
    options: ConnectOptions, retry_timeout: float = 0.0, *, first_contact: bool = False
) -> Iterator[Connection]:
    """Borrow a connection for a `with` block. It is closed when the block ends with an exception.

    Parameters
    ----------
    options
        How to connect.
    retry_timeout
        Seconds to keep trying while no server can be reached; 0 tries once.
    first_contact
        Whether it is not known yet that a server has this address. Then only a silent server is waited for: the
        address of a connection that is refused is probably wrong.

    Raises
    ------
    ConnectError, AuthenticationError, TLSError
        There was no idle connection, and the server cannot be reached or rejects the login.
    """
    connection = _take_idle(options) or _open(options, retry_timeout, first_contact)
    try:
        yield connection
    except BaseException:
        lost = connection.closed and not connection.interrupted
        connection.close()
        if lost:
            with _lock:
                _lost[options] = connection
        raise
    with _lock:
        keep = options not in _idle and not connection.closed
        if keep:
            _idle[options] = (connection, time.monotonic())
    if not keep:
        connection.close()


def call_with_connection(
    options: ConnectOptions, call: Callable[[Connection], T], retry_timeout: float, *, first_contact: bool = False
) -> T:
    """Return the result of a request that may be repeated. It is repeated on new connections until `retry_timeout`.

    For `first_contact`, see `borrow_connection`.
    """
    from jetspark.bulk.retry import request_with_retry

    with borrow_connection(options, retry_timeout, first_contact=first_contact) as connection:
        return request_with_retry(connection, lambda: call(connection), retry_timeout)


def _open(options: ConnectOptions, retry_timeout: float, first_contact: bool) -> Connection:
    from jetspark.bulk import connect
    from jetspark.bulk.retry import call_with_retry

    with _lock:
        lost = _lost.pop(options, None)

    def open_connection() -> Connection:
        if lost is None:
            return connect(options)
        lost.reconnect()
        return lost

    try:
        return call_with_retry(open_connection, _is_silent if first_contact else can_resume, retry_timeout)
    except ConnectError as error:
        error.args = (_with_option_names(str(error)),)
        raise


def _with_option_names(text: str) -> str:
    """Replace the names of `TLSOptions` by those of Spark's options."""
    for name, option in _TLS_OPTION_NAMES:
        text = text.replace(name, option)
    return text


def _is_silent(error: Error) -> bool:
    return isinstance(error, ConnectError) and error.timed_out


def _take_idle(options: ConnectOptions) -> Connection | None:
    with _lock:
        connection, since = _idle.pop(options, (None, 0.0))
    if connection is None:
        return None
    if not connection.closed and time.monotonic() - since < MAX_IDLE:
        try:
            for _ in range(_MAX_READS):
                if connection.read(time.monotonic()) is None:  # else messages that the last task did not wait for
                    return connection
        except Error:
            pass
    connection.close()
    return None


@atexit.register
def close_idle(options: ConnectOptions | None = None) -> None:
    """Close the idle connection with these options; without options, close all idle connections."""
    with _lock:
        found = [_idle.pop(each) for each in list(_idle) if options in {None, each}]
        for each in list(_lost):
            if options in {None, each}:
                del _lost[each]
    for connection, _ in found:
        connection.close()
