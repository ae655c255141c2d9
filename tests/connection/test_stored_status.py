"""Stored messages and statuses are distinguished on a real stream."""

from __future__ import annotations

import json

import pytest
from tests.connection.support import Front

from jetspark import aio
from jetspark.server import NatsServer


async def _api(connection: aio.Connection, subject: str, **body: object) -> None:
    answer = json.loads((await connection.request(f"$JS.API.{subject}", json.dumps(body).encode())).payload)
    assert "error" not in answer, answer


@pytest.mark.conformance("WIR-06")
async def test_stored_messages_that_look_like_a_status_are_data(front: Front) -> None:
    with NatsServer() as server:
        connection = await front.connect(server.url)
        await _api(connection, "STREAM.CREATE.S", name="S", subjects=["a"], storage="memory")
        for name, headers_only in (("ALL", False), ("HEADERS", True)):
            config = {"durable_name": name, "ack_policy": "none", "headers_only": headers_only}
            await _api(connection, f"CONSUMER.DURABLE.CREATE.S.{name}", stream_name="S", config=config)
        await connection.request("a", b"", headers={"Status": "404", "Description": "hi"})
        await connection.request("a", b"body")

        # Data has the subject of the stream, so only its own subscription connects it with the request (WIR-07).
        subject = "$JS.API.CONSUMER.MSG.NEXT.S."
        # The consumers may see the messages later than we do, so they get time.
        pull = b'{"batch":1,"expires":4000000000}'
        stored_message = await connection.request(subject + "ALL", pull, own_inbox=True)
        assert stored_message.status is None
        assert stored_message.payload == b""
        assert (stored_message.headers["Status"], stored_message.headers["Description"]) == ("404", "hi")
        assert stored_message.subject == "a"
        assert stored_message.reply.startswith("$JS.ACK.S.ALL.")

        first, second = [await connection.request(subject + "HEADERS", pull, own_inbox=True) for _ in range(2)]
        assert (first.status, second.status) == (None, None)
        assert (second.payload, second.headers["Nats-Msg-Size"]) == (b"", "4")

        empty = await connection.request(subject + "HEADERS", b'{"batch":1,"no_wait":true}', own_inbox=True)
        assert empty.status is not None
        assert (empty.status.code, empty.status.description) == (404, "No Messages")
        await front.close()
