"""A transport whose writing is paused because the server reads nothing, and a session that is lost meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from jetspark import aio
from jetspark.aio.core import FLUSH_THRESHOLD
from jetspark.server import NatsServer
from jetspark.wire.errors import StaleConnectionError


@pytest.mark.usefixtures("no_leaks")
async def test_wait_writable_yields_to_the_supervisor_when_the_session_is_lost_at_that_moment(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await aio.connect(server.url, ping_interval=600)
    link = connection._core._supervisor.session
    assert link is not None
    tries = 0

    def flush() -> None:
        nonlocal tries
        tries += 1
        assert tries < 1000, "it goes round without letting anybody else run"

    server.pause()
    try:
        async with asyncio.timeout(20):
            while not (link.write_paused and connection._core.write_buffer_full):
                connection._core.send_frame(connection._core.outbound.encode("a", bytes(FLUSH_THRESHOLD), "", None))
                await asyncio.sleep(0)
        monkeypatch.setattr(link, "flush", flush)
        link.fail(StaleConnectionError("no answer"))  # like after a ping interval
        await connection._core.wait_writable()
        assert not connection.connected
    finally:
        server.resume()
    await connection.close()
