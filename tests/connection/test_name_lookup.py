"""The look-up of a server's name: its thread delays nothing, and every address is tried."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jetspark import aio, sync
from jetspark.errors import ConnectError
from jetspark.server import NatsServer

NAME = "nats.example.invalid"


class Names:
    """The name server: it answers with `addresses`, or not at all while there are none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: list[tuple[str, int]] = []
        self.asked = threading.Event()
        self.ended = threading.Event()
        self._look_up = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._answer)

    def _answer(self, host: str, *where: Any, **options: Any) -> Any:
        if host != NAME:
            return self._look_up(host, *where, **options)
        self.asked.set()
        if not self.addresses:
            self.ended.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        kind = socket.SOCK_STREAM
        return [(socket.AF_INET, kind, socket.IPPROTO_TCP, "", address) for address in self.addresses]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    names = Names(monkeypatch)
    yield names
    names.ended.set()


def test_a_connect_that_times_out_at_the_name_server_does_not_delay_the_end_of_the_program(names: Names) -> None:
    async def main() -> None:
        with pytest.raises(ConnectError):
            await aio.connect(f"nats://{NAME}:4222", connect_timeout=0.2)

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 20
    assert names.asked.is_set()


def test_a_connect_that_is_cancelled_at_the_name_server_does_not_delay_the_end_of_the_program(names: Names) -> None:
    async def main() -> None:
        connecting = asyncio.create_task(aio.connect(f"nats://{NAME}:4222", connect_timeout=60))
        await asyncio.to_thread(names.asked.wait, 20)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 20


def test_a_blocking_connect_that_times_out_at_the_name_server_ends(names: Names) -> None:
    began = time.monotonic()
    with pytest.raises(ConnectError):
        sync.connect(f"nats://{NAME}:4222", connect_timeout=0.2)
    assert time.monotonic() - began < 20
    assert names.asked.is_set()


async def test_each_address_of_a_name_is_tried(names: Names, server: NatsServer) -> None:
    names.addresses = [("127.0.0.2", server.port), ("127.0.0.1", server.port)]
    async with await aio.connect(f"nats://{NAME}:{server.port}") as connection:
        await connection.flush()


async def test_an_error_names_all_addresses_that_were_tried(names: Names) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    names.addresses = [("127.0.0.2", port), ("127.0.0.1", port)]
    with pytest.raises(ConnectError) as caught:
        await aio.connect(f"nats://{NAME}:{port}")
    assert "127.0.0.2" in str(caught.value)
    assert "127.0.0.1" in str(caught.value)
