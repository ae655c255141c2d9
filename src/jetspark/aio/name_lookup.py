"""Looks up the addresses of a server's name, in a thread of its own.

asyncio asks in the event loop's default executor. A name server that does not answer would then delay the end of
`asyncio.run`, which waits for that executor, although nobody waits for the answer any more.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

__all__ = ["look_up"]

_LOCAL: Final = "localhost"
"""The name for which asyncio needs no name server."""


async def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a host, in the order in which to try them. Raises OSError if it has none."""
    if host == _LOCAL or _is_address(host):
        return [host]
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def settle(result: list[str] | Exception) -> None:
        if answer.done():
            return
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)

    def ask() -> None:
        result: list[str] | Exception
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            result = list(dict.fromkeys(_text(address) for *_, address in found))
        except Exception as error:  # noqa: BLE001 - raised by the task that waits
            result = error
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=ask, name="jetspark name look-up", daemon=True).start()
    return await answer


def _text(address: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]) -> str:
    """Return an address as text. One that is valid on a single link only has the number of its interface."""
    host, scope = str(address[0]), address[3] if len(address) == 4 else 0
    return f"{host}%{scope}" if scope and "%" not in host else host


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
