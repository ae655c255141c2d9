"""A blocking call ends at its deadline while the server sends without an end, or reads nothing.

The layer with virtual time tries all calls; here are those of the thread that the blocking front adds.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from tests.flood_server import DRIPS, FLOODS, LIMIT, ends_in_time, serving

from jetspark import sync
from jetspark.errors import Error, RequestTimeoutError


@pytest.mark.parametrize("deaf", [False, True], ids=["that reads", "that reads nothing"])
def test_a_request_ends_at_its_deadline_while_a_server_sends(*, deaf: bool) -> None:
    with serving(FLOODS["PING"], deaf=deaf) as server:
        connection = sync.connect(server.url, reconnect=False)
        server.flooding.set()
        with ends_in_time(), pytest.raises(RequestTimeoutError):
            connection.request("a", b"", timeout=LIMIT)
        connection.close()


@pytest.mark.parametrize(
    "sent", [FLOODS["INFO"], FLOODS["PING"], *DRIPS.values()], ids=["INFO", "PING", *(f"drip of {x}" for x in DRIPS)]
)
def test_connecting_ends_at_its_deadline_while_the_server_sends(sent: bytes) -> None:
    with serving(sent, drip=sent in DRIPS.values()) as server:
        server.flooding.set()
        with ends_in_time(), suppress(Error):
            sync.connect(server.url, connect_timeout=LIMIT).close()
