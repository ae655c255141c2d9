"""Connecting: accepted logins, and errors without secrets."""

import os
import pickle
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import nkeys
import pytest
from tests.bulk.proxy import Proxy
from tests.bulk.streams import Streams, read, rows
from tests.stores import before, unmakeable_store

from jetspark import bulk, sync
from jetspark.bulk import Connection
from jetspark.errors import (
    AuthenticationError,
    ConfigError,
    ConnectError,
    ConnectionClosedError,
    Error,
    JetStreamNotEnabledError,
    JetStreamNotEnabledForAccountError,
    JetStreamUnavailableError,
    NoServersError,
    ProtocolError,
    RequestTimeoutError,
    StreamConfigError,
    StreamNotFoundError,
)
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import AccountInfoRequest, StreamCreateRequest, StreamDeleteRequest, StreamInfoRequest
from jetspark.server import NatsServer

SECRET = "s3cr3t-w0rd"


def assert_secret_free(error: BaseException) -> None:
    text = "".join(traceback.format_exception(error)) + repr(error) + str(error) + repr(pickle.dumps(error))
    assert SECRET not in text.replace(f'SECRET = "{SECRET}"', "")


@pytest.fixture(scope="module")
def password_server() -> Iterator[NatsServer]:
    with NatsServer(config={"authorization": {"user": "u", "password": SECRET, "timeout": 30}}) as running:
        yield running  # by default it waits 2 s at most for the login, and then reports another error


@contextmanager
def listener(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Run a server that is not a NATS server: `serve` gets each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    held.append(listening.accept()[0])
                    serve(held[-1])
                except OSError:
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"nats://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for one in held:
                one.close()


@pytest.fixture
def unused_ports() -> Iterator[list[int]]:
    """Return unused ports. They are reserved, so that nobody else gets them."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in sockets]


def test_an_unreachable_server_is_named_without_its_credentials(unused_ports: list[int]) -> None:
    port = unused_ports[0]
    with pytest.raises(ConnectError, match=rf"nats://127\.0\.0\.1:{port}: cannot connect: .*refused") as caught:
        bulk.connect(f"nats://u:{SECRET}@127.0.0.1:{port}")
    assert isinstance(caught.value, ConnectionError)
    assert_secret_free(caught.value)


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(ConnectError, match=r"nats://no-such-host\.invalid:4222"):
        bulk.connect("no-such-host.invalid")


@pytest.mark.parametrize("host", ["a..b", "x" * 70 + ".example", "a\x00b", "."])
def test_an_invalid_host_is_a_library_error(host: str) -> None:
    with pytest.raises((ConnectError, ConfigError)):
        bulk.connect(f"nats://{host}:4222")


@pytest.mark.parametrize(
    "url", ["http://h", "nats://", "nats://h:99999", "nats://h:x", f"nats://u:{SECRET}@", "", "nats://[::1"]
)
def test_an_unusual_url_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bulk.connect(url)
    assert_secret_free(caught.value)


def test_connecting_to_a_silent_server_times_out() -> None:
    with listener(lambda _: None) as url:
        began = time.monotonic()
        with pytest.raises(ConnectError, match=f"{url}: no answer in time"):
            bulk.connect(url, connect_timeout=0.3)
        assert 0.2 < time.monotonic() - began < 4  # 5 without the option


@pytest.mark.parametrize(
    "garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n", b"INFO {\r\n", b"\x00\xff\r\n"]
)
def test_a_server_that_is_not_a_nats_server_is_reported_with_its_address(garbage: bytes) -> None:
    with listener(lambda opened: opened.sendall(garbage)) as url, pytest.raises(ProtocolError, match=url):
        bulk.connect(url, connect_timeout=15)


def test_a_server_that_hangs_up_is_reported_with_its_address() -> None:
    with listener(lambda opened: opened.close()) as url, pytest.raises(ConnectError, match=url):
        bulk.connect(url)


def test_a_message_before_the_connection_is_accepted_is_refused() -> None:
    with listener(lambda opened: opened.sendall(b"MSG a 1 0\r\n\r\n")) as url, pytest.raises(ProtocolError, match=url):
        bulk.connect(url)


def test_unreachable_servers_in_a_list_are_skipped(server: NatsServer, unused_ports: list[int]) -> None:
    urls = [f"nats://127.0.0.1:{port}" for port in unused_ports]
    for _ in range(4):
        with bulk.connect([*urls, server.url]) as connected:
            assert str(connected.address) == server.url
    with bulk.connect(",".join([urls[0], " ", server.url])) as connected:
        assert connected.server_info.jetstream


def test_a_list_of_unreachable_servers_is_reported_one_by_one(unused_ports: list[int]) -> None:
    with pytest.raises(NoServersError) as caught:
        bulk.connect([f"nats://u:{SECRET}@127.0.0.1:{port}" for port in unused_ports])
    assert all(f"127.0.0.1:{port}" in str(caught.value) for port in unused_ports)
    assert_secret_free(caught.value)


def test_user_and_password_are_accepted(password_server: NatsServer) -> None:
    with bulk.connect(password_server.url, user="u", password=SECRET) as connected:
        assert not connected.closed
        assert SECRET not in repr(connected) + repr(connected.options) + str(connected.address)
    with bulk.connect(password_server.url.replace("://", f"://u:{SECRET}@")) as connected:
        assert SECRET not in repr(connected) + repr(connected.options) + repr(connected.address)


@pytest.mark.parametrize(
    "credentials", [{"user": "u", "password": f"{SECRET}x"}, {"user": "x", "password": SECRET}, {}, {"token": SECRET}]
)
def test_wrong_credentials_are_refused(password_server: NatsServer, credentials: dict[str, str]) -> None:
    with pytest.raises(AuthenticationError, match=f"{password_server.url}: .*Authorization Violation") as caught:
        bulk.connect(password_server.url, **credentials)  # type: ignore[arg-type]  # by name
    assert isinstance(caught.value, PermissionError)
    assert_secret_free(caught.value)


def test_a_token_is_accepted() -> None:
    with NatsServer(config={"authorization": {"token": SECRET}}) as server:
        with bulk.connect(server.url, token=SECRET) as connected:
            assert SECRET not in repr(connected.options)
        with bulk.connect(server.url.replace("://", f"://{SECRET}@")) as connected:
            assert SECRET not in repr(connected.options)
        with pytest.raises(AuthenticationError):
            bulk.connect(server.url, token="x")


def new_nkey() -> tuple[str, str]:
    """Return seed and public key of a new user."""
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    pair = nkeys.from_seed(bytearray(seed))
    return bytes(seed).decode(), pair.public_key.decode()


def test_an_nkey_is_accepted() -> None:
    (seed, public), (other, _) = new_nkey(), new_nkey()
    with NatsServer(config={"authorization": {"users": [{"nkey": public}]}}) as server:
        with bulk.connect(server.url, nkey_seed=seed) as connected:
            assert seed not in repr(connected.options)
            assert connected.request(AccountInfoRequest()).streams == 0
        with pytest.raises(AuthenticationError) as caught:
            bulk.connect(server.url, nkey_seed=other)
        assert other not in "".join(traceback.format_exception(caught.value))
        with pytest.raises(ConfigError, match="seed is not valid") as unreadable:
            bulk.connect(server.url, nkey_seed=seed[:-3])
        assert seed[:-3] not in str(unreadable.value)


def test_an_nkey_for_a_server_that_expects_none_is_reported(server: NatsServer) -> None:
    with pytest.raises(AuthenticationError, match="sent no nonce"):
        bulk.connect(server.url, nkey_seed=new_nkey()[0])


def test_a_credentials_file_that_is_missing_or_wrong_is_named(server: NatsServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.creds"):
        bulk.connect(server.url, credentials_file=str(tmp_path / "absent.creds"))
    wrong = tmp_path / "wrong.creds"
    wrong.write_text(SECRET)
    with pytest.raises(ConfigError, match=r"wrong\.creds lack a user JWT") as caught:
        bulk.connect(server.url, credentials_file=str(wrong))
    assert_secret_free(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"user": "u", "token": "t"},
        {"password": "p"},
        {"connect_timeout": 0},
        {"servers": ()},
        {"no_such_option": 1},
    ],
)
def test_invalid_options_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises((ConfigError, TypeError)):
        bulk.connect("nats://127.0.0.1", **changes)  # type: ignore[arg-type]  # by name


def test_a_server_without_jetstream_is_reported() -> None:
    with NatsServer(jetstream=False) as server, bulk.connect(server.url) as connected:
        began = time.monotonic()
        with pytest.raises(JetStreamNotEnabledError) as caught:
            connected.request(StreamInfoRequest("S"))
        assert caught.value.code == 503
        with pytest.raises(JetStreamNotEnabledError):
            read(connected, "S")
        assert time.monotonic() - began < 5


@pytest.mark.conformance("WIR-11")
def test_a_management_call_without_jetstream_fails_at_once_or_times_out_without_an_answer() -> None:
    with NatsServer(jetstream=False) as without, bulk.connect(without.url) as connected:
        began = time.monotonic()
        with pytest.raises(JetStreamNotEnabledError):
            connected.request(StreamInfoRequest("S"))
        assert time.monotonic() - began < 5
    with NatsServer() as halted, bulk.connect(halted.url) as connected:
        halted.pause()
        with pytest.raises(RequestTimeoutError, match=r"no reply to \$JS\.API\.STREAM\.INFO\.S within 0\.2 s"):
            connected.request(StreamInfoRequest("S"), timeout=0.2)
        halted.resume()


def test_an_account_without_jetstream_is_reported() -> None:
    accounts = {
        "A": {"users": [{"user": "a", "password": "a"}]},
        "B": {"jetstream": True, "users": [{"user": "b", "password": "b"}]},
    }
    with NatsServer(config={"accounts": accounts}) as server, bulk.connect(server.url, user="a", password="a") as own:
        with pytest.raises(JetStreamNotEnabledForAccountError) as caught:
            own.request(StreamInfoRequest("S"))
        assert caught.value.err_code == 10039
        with pytest.raises(JetStreamNotEnabledForAccountError):
            read(own, "S")


def test_a_missing_stream_is_reported_by_its_code(connection: Connection) -> None:
    with pytest.raises(StreamNotFoundError, match="NOPE") as caught:
        connection.request(StreamInfoRequest("NOPE"))
    assert caught.value.err_code == 10059


def test_a_closed_connection_reports_it(server: NatsServer) -> None:
    connected = bulk.connect(server.url)
    assert (connected.closed, "closed" in repr(connected)) == (False, False)
    connected.close()
    connected.close()
    assert (connected.closed, "closed" in repr(connected)) == (True, True)
    with pytest.raises(ConnectionClosedError):
        connected.request(StreamInfoRequest("S"))
    with pytest.raises(ConnectionClosedError):
        read(connected, "S")
    with pytest.raises(ConnectionClosedError):
        bulk.publish(connected, rows("s", [b""]))
    connected.reconnect()
    with connected, pytest.raises(StreamNotFoundError):
        connected.request(StreamInfoRequest("S"))


def test_a_forked_child_sees_the_connection_closed_and_the_parent_keeps_it_open(
    connection: Connection, streams: Streams
) -> None:
    name = streams.filled(10)
    child = os.fork()
    if not child:
        result = 1
        try:
            if connection.closed:
                try:
                    connection.request(StreamInfoRequest(name))
                except ConnectionClosedError:
                    connection.reconnect()
                    result = 0 if read(connection, name)[0].num_rows == 10 else 2
        finally:
            os._exit(result)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not connection.closed
    assert read(connection, name)[0].num_rows == 10


def test_pings_are_answered_while_the_client_waits() -> None:
    # The server would give up 1.1 seconds after the last PONG. The process may be slow for that long.
    with NatsServer(config={"ping_interval": "100ms", "ping_max": 10}) as server, bulk.connect(server.url) as own:
        assert own.read(time.monotonic() + 2.5) is None
        with pytest.raises(StreamNotFoundError):
            own.request(StreamInfoRequest("S"))


def test_a_lost_connection_is_reported_by_the_next_request_and_can_be_opened_again(server: NatsServer) -> None:
    with Proxy(server) as proxy, bulk.connect(proxy.url) as own:
        proxy.cut()
        with pytest.raises(ConnectionError, match=proxy.url):
            own.request(StreamInfoRequest("S"))
        assert own.closed
        own.reconnect()
        with pytest.raises(StreamNotFoundError):
            own.request(StreamInfoRequest("S"))


def test_invalid_protocol_data_ends_the_connection(server: NatsServer) -> None:
    asked = False

    def spoil(data: bytes) -> bytes:
        return data.replace(b"\r\nMSG", b"\r\nXSG") if asked else data

    def answer(data: bytes) -> bytes:
        return b"WHAT IS THIS\r\n" if asked else spoil(data)

    with Proxy(server, answer) as proxy, bulk.connect(proxy.url) as own:
        asked = True
        with pytest.raises(ProtocolError, match=proxy.url):
            own.request(StreamInfoRequest("S"))
        assert own.closed


def test_a_request_to_a_paused_server_times_out() -> None:
    with NatsServer() as server, bulk.connect(server.url) as own:
        server.pause()
        with pytest.raises(RequestTimeoutError, match=r"no reply to \$JS\.API\.STREAM\.INFO\.S within 0\.1 s"):
            own.request(StreamInfoRequest("S"), timeout=0.1)
        server.resume()
        with pytest.raises(StreamNotFoundError):
            own.request(StreamInfoRequest("S"))


def test_a_refusal_is_raised_although_the_retry_gets_no_answer(server: NatsServer) -> None:
    left = iter([b'{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}'])

    def answer(message: sync.Msg) -> None:
        for each in left:
            message.respond(each)

    with sync.connect(server.url) as other, bulk.connect(server.url) as own:
        other.subscribe("REFUSED.API.>", callback=answer)
        other.flush()
        with pytest.raises(JetStreamUnavailableError):
            own.request(AccountInfoRequest(), timeout=0.5, prefix="REFUSED.API.")


def test_a_request_over_the_limit_is_not_sent(connection: Connection) -> None:
    with pytest.raises(Error, match="max_payload"):
        connection.check_size(connection.server_info.max_payload + 1)
    connection.check_size(connection.server_info.max_payload)


def test_a_store_that_could_not_be_created_is_requested_again_for_a_limited_time(
    server: NatsServer, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams.make()
    request = StreamCreateRequest(StreamConfig(name=streams.new_name()))
    obstacle = unmakeable_store(server, request.config.name)
    with bulk.connect(server.url) as connection:
        with monkeypatch.context() as patch:
            again = before(StreamCreateRequest.retry_delay, obstacle.touch)
            patch.setattr(StreamCreateRequest, "retry_delay", again)
            with pytest.raises(StreamConfigError, match="error creating store for stream"):
                connection.request(request, timeout=30)
        log = server.log_path.read_text()
        assert log.count(f"Stream create failed for '$G > {request.config.name}'") == 6
        assert connection.request(request).config.name == request.config.name
        connection.request(StreamDeleteRequest(request.config.name))
