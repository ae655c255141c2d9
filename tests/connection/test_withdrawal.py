"""A request that has timed out is not sent after the reconnect."""

from __future__ import annotations

import pytest
from tests.connection.support import Front, Recorder

from jetspark.errors import RequestTimeoutError
from jetspark.server import NatsServer
from jetspark.wire.events import Disconnected, Reconnected


@pytest.mark.parametrize("own_inbox", [False, True], ids=["shared inbox", "own inbox"])
async def test_a_request_that_timed_out_is_not_sent_after_the_reconnect(
    front: Front, server: NatsServer, own_inbox: bool
) -> None:
    recorder = Recorder()
    connection = await front.connect(server.url, on_event=recorder)
    listener = await connection.subscribe("service")
    server.kill()
    await recorder.wait(Disconnected)
    with pytest.raises(RequestTimeoutError):
        await connection.request("service", b"late", timeout=0.05, own_inbox=own_inbox)
    await connection.publish("service", b"kept")
    server.start()
    await recorder.wait(Reconnected)
    assert (await listener.next_msg(5)).payload == b"kept"
    await connection.flush()
    assert listener.pending == (0, 0)
