"""A batch of the blocking front that several threads use."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from jetspark import sync
from jetspark.errors import BatchClosedError
from jetspark.server import NatsServer


def test_added_messages_are_committed_whatever_the_order_of_threads() -> None:
    with NatsServer() as server, sync.connect(server.url) as connection:
        js = connection.jetstream()
        stream = js.create_stream(name="S", subjects=["s"], allow_atomic=True)
        for _ in range(20):
            stream.purge()
            batch = js.atomic_batch()
            batch.add("s", b"first")
            begin = threading.Barrier(4)

            def add() -> int:
                begin.wait(10)  # noqa: B023 - the threads are joined below
                for added in range(200):
                    try:
                        batch.add("s", b"more")  # noqa: B023
                    except BatchClosedError:
                        return added
                return 200

            with ThreadPoolExecutor(3) as pool:
                adding = [pool.submit(add) for _ in range(3)]
                begin.wait(10)
                ack = batch.commit()
            added = sum(each.result() for each in adding)
            assert ack.count == added + 1
            assert stream.info().state.messages == added + 1
