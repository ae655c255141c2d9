"""One connection for a worker: kept, checked, replaced, never used twice at a time."""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
from pathlib import Path

import pytest
from tests.connection.certificates import Certificates
from tests.flood_server import FLOODS, LIMIT, ends_in_time, serving
from tests.spark.support import Nats, running

from jetspark.bulk import Connection
from jetspark.errors import ConnectError, Error
from jetspark.jetstream.api import AccountInfoRequest
from jetspark.server import NatsServer
from jetspark.spark import connections
from jetspark.spark.connections import borrow_connection, call_with_connection, close_idle
from jetspark.wire.options import ConnectOptions


def options(nats: Nats) -> ConnectOptions:
    return ConnectOptions(servers=(nats.url,), connect_timeout=15.0)


def test_a_connection_is_reused_by_the_next_user(nats: Nats) -> None:
    with borrow_connection(options(nats)) as first:
        pass
    with borrow_connection(pickle.loads(pickle.dumps(options(nats)))) as second:
        assert second is first
        second.request(AccountInfoRequest())
    close_idle()
    assert first.closed


def test_an_idle_connection_that_is_flooded_delays_no_task() -> None:
    with serving(FLOODS["messages for nobody"]) as server:
        wanted = ConnectOptions(servers=(server.url,), connect_timeout=LIMIT)
        with borrow_connection(wanted) as first:
            pass
        server.flooding.set()
        with ends_in_time(), contextlib.suppress(ConnectError), borrow_connection(wanted) as second:
            second.close()
        assert first.closed


def test_planning_ends_at_the_retry_timeout_while_the_server_sends() -> None:
    with serving(FLOODS["PING"]) as server:
        wanted = ConnectOptions(servers=(server.url,), connect_timeout=LIMIT)

        def ask(connection: Connection) -> object:
            server.flooding.set()
            return connection.request(AccountInfoRequest(), timeout=LIMIT)

        with ends_in_time(), pytest.raises(Error):
            call_with_connection(wanted, ask, retry_timeout=LIMIT)


def test_a_missing_certificate_of_the_authority_names_the_option_of_spark(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    with NatsServer(jetstream=False, config=certificates.config()) as server:
        one, two = f"tls://localhost:{server.port}", f"tls://localhost:{server.port}/"
        for servers in ((one,), (one, two)):
            wanted = ConnectOptions(servers=servers, connect_timeout=15.0)
            text = "give the authority's PEM file, option tlsCa"
            with pytest.raises(ConnectError, match=text) as caught, borrow_connection(wanted):
                pass
            assert "TLSOptions" not in str(caught.value)


def test_two_concurrent_users_have_two_connections(nats: Nats) -> None:
    with borrow_connection(options(nats)) as first, borrow_connection(options(nats)) as second:
        assert first is not second
    assert [first.closed, second.closed].count(True) == 1


def test_one_of_two_connections_returned_at_once_is_kept(nats: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the driver, a listener has its own thread."""
    both = threading.Barrier(2)

    class Met(dict[ConnectOptions, tuple[Connection, float]]):
        """Lets each thread wait for the other one after the check whether a connection is kept already."""

        def __contains__(self, key: object) -> bool:
            found = super().__contains__(key)
            with contextlib.suppress(threading.BrokenBarrierError):
                both.wait(0.5)
            return found

    lent: list[Connection] = []
    using = threading.Barrier(2)

    def use() -> None:
        with borrow_connection(options(nats)) as connection:
            lent.append(connection)
            using.wait(30)

    monkeypatch.setattr(connections, "_idle", Met())
    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [connection.closed for connection in lent].count(True) == 1
    close_idle()
    assert all(connection.closed for connection in lent)


def test_closing_one_connection_leaves_the_others_open(nats: Nats) -> None:
    with (
        borrow_connection(options(nats)) as one,
        borrow_connection(ConnectOptions(servers=(nats.url,), name="other")) as other,
    ):
        pass
    close_idle(options(nats))
    assert (one.closed, other.closed) == (True, False)


def test_other_options_open_another_connection(nats: Nats) -> None:
    with borrow_connection(options(nats)) as first:
        pass
    with borrow_connection(ConnectOptions(servers=(nats.url,), name="other")) as second:
        assert second is not first


def test_a_connection_is_not_kept_after_an_error(nats: Nats) -> None:
    with pytest.raises(ZeroDivisionError), borrow_connection(options(nats)) as first:
        raise ZeroDivisionError
    assert first.closed


def test_a_connection_that_the_server_closed_is_replaced() -> None:
    with running() as nats:
        with borrow_connection(options(nats)) as first:
            pass
        nats.server.restart()
        with borrow_connection(options(nats)) as second:
            assert second is not first
            second.request(AccountInfoRequest())
        nats.server.stop()
        with pytest.raises(ConnectError, match=str(nats.server.port)), borrow_connection(options(nats)):
            pass


def test_a_missing_server_is_waited_for_until_the_timeout() -> None:
    with running() as nats:
        nats.server.stop()
        with pytest.raises(ConnectError), borrow_connection(options(nats)):
            pass
        back = threading.Timer(0.3, nats.server.start)
        back.start()
        with borrow_connection(options(nats), retry_timeout=30.0) as connection:
            connection.request(AccountInfoRequest())
        back.join()


def test_a_connection_that_was_idle_for_long_is_replaced(nats: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    with borrow_connection(options(nats)) as first:
        pass
    monkeypatch.setattr(connections, "MAX_IDLE", 0.0)
    with borrow_connection(options(nats)) as second:
        assert second is not first
    assert first.closed


def test_messages_of_the_last_user_do_not_reach_the_next(nats: Nats) -> None:
    with borrow_connection(options(nats)) as first:
        inbox = first.new_inbox()
        first.subscribe(inbox)
        first.publish(inbox, b"late")
        first.request(AccountInfoRequest())  # after the message, which is held back
    with borrow_connection(options(nats)) as second:
        assert second is first
        assert second.read(0.0) is None


def test_a_child_process_opens_its_own_connection(nats: Nats) -> None:
    with borrow_connection(options(nats)) as first:
        pass
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with borrow_connection(options(nats)) as second:
                second.request(AccountInfoRequest())
                status = 0 if second is not first else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with borrow_connection(options(nats)) as again:
        assert again is first
        again.request(AccountInfoRequest())


def test_no_connection_is_opened_before_it_is_needed(nats: Nats) -> None:
    from jetspark.spark.options.batch import read_options, write_options
    from jetspark.spark.read.batch_reader import JetStreamReader
    from jetspark.spark.schema import read_schema, write_columns
    from jetspark.spark.source import JetStreamDataSource
    from jetspark.spark.write.batch_writer import JetStreamWriter

    given = {"servers": "nats://127.0.0.1:1", "stream": "S"}
    source = JetStreamDataSource(given)
    assert source.schema() == read_schema(include_headers=False)
    source.reader(source.schema())
    JetStreamReader(source.schema(), read_options(given))
    JetStreamWriter(write_options({}), write_columns(source.schema(), None))


def test_lost_connections_are_opened_again_with_a_growing_wait(nats: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("jetspark.bulk.connection.time.sleep", waits.append)
    wanted = options(nats)
    for _ in range(5):
        with pytest.raises(ConnectionError), borrow_connection(wanted) as connection:  # noqa: PT012 (a task that fails)
            connection.request(AccountInfoRequest())
            connection.close()
            raise ConnectionError("lost")
    assert waits == [0.0, 0.05, 0.1, 0.2]
    close_idle()
