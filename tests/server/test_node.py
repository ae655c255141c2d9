"""One managed server: start, stop, restart, and faults on request."""

import json
import os
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from tests.server.raw import RawConnection

from jetspark.server import (
    NatsServer,
    PortInUseError,
    ServerBinaryNotFoundError,
    ServerError,
    ServerStartError,
    ServerTimeoutError,
    resources,
)
from jetspark.server.ports import ReservedPort


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


def stored_messages(server: NatsServer) -> object:
    return server.monitor("/jsz")["messages"]


def test_a_started_server_answers_clients_and_monitoring(server: NatsServer) -> None:
    assert server.running
    assert not server.crashed
    assert server.url == f"nats://127.0.0.1:{server.port}"
    assert server.healthy()
    with RawConnection(server.host, server.port) as client:
        assert client.answer == "PONG"
        assert client.info["server_name"] == server.name
        assert client.info["jetstream"] is True
    assert server.monitor("/varz")["port"] == server.port
    assert "Listening for client connections" in server.log_text()
    os.kill(server.pid, 0)


@pytest.mark.parametrize("how", ["stop", "kill", "restart only"])
def test_a_restart_keeps_port_and_store(server: NatsServer, how: str) -> None:
    url, pid, store = server.url, server.pid, server.store_dir
    with RawConnection(server.host, server.port) as client:
        client.create_stream("S")
        assert [client.publish("S.a") for _ in range(3)] == [1, 2, 3]
    if how != "restart only":
        server.stop() if how == "stop" else server.kill()
        assert not server.running
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((server.host, server.port), timeout=1)
    server.restart()
    assert (server.url, server.store_dir) == (url, store)
    assert server.pid != pid
    assert stored_messages(server) == 3
    with RawConnection(server.host, server.port) as client:
        assert client.publish("S.a") == 4


def test_a_given_store_and_port_are_used_and_the_store_stays(tmp_path: Path) -> None:
    store = tmp_path / "deep" / "store"
    with NatsServer(store_dir=store) as server:
        port, work_dir = server.port, server.log_path.parent
        with RawConnection(server.host, port) as client:
            client.create_stream("KEPT")
            client.publish("KEPT.a")
    assert not work_dir.exists()
    with NatsServer(store_dir=str(store), port=port, name="second") as server:
        assert (server.port, server.name, server.store_dir) == (port, "second", store)
        assert stored_messages(server) == 1
    assert (store / "jetstream").is_dir()


def test_two_servers_run_side_by_side(server: NatsServer) -> None:
    with NatsServer() as other:
        assert other.port != server.port
        assert other.name != server.name
        assert other.store_dir != server.store_dir
        with RawConnection(other.host, other.port) as client:
            client.create_stream("ONLY_HERE")
        assert (other.monitor("/jsz")["streams"], server.monitor("/jsz")["streams"]) == (1, 0)
    assert server.healthy()


def test_jetstream_can_be_off() -> None:
    with NatsServer(jetstream=False) as server, RawConnection(server.host, server.port) as client:
        assert "jetstream" not in client.info
        assert server.monitor("/jsz")["disabled"] is True


def test_the_wildcard_address_is_contacted_on_loopback() -> None:
    with NatsServer(host="0.0.0.0") as server:
        assert server.url == f"nats://127.0.0.1:{server.port}"
        assert server.healthy()


def test_settings_reach_the_server() -> None:
    config = {
        "max_payload": 64 * 1024,
        "ping_interval": "30s",
        "feature_flags": {"js_ack_fc_v2": True},
        "jetstream": {"domain": "hub", "max_mem": 2**26},
        "accounts": {
            "A": {
                "jetstream": True,
                "users": [
                    {"user": "ann", "password": "$ecret", "permissions": {"subscribe": ["_INBOX_ann.>", "$JS.>"]}}
                ],
            },
            "$SYS": {"users": [{"user": "sys", "password": 's"y\\s'}]},
        },
    }
    with NatsServer(config=config) as server:
        with RawConnection(server.host, server.port, user="ann", **{"pass": "$ecret"}) as client:
            assert client.answer == "PONG"
            assert (client.info["max_payload"], client.info["domain"]) == (64 * 1024, "hub")
        with RawConnection(server.host, server.port, user="ann", **{"pass": "wrong"}) as client:
            assert "Authorization Violation" in client.answer
        with RawConnection(server.host, server.port, user="sys", **{"pass": 's"y\\s'}) as client:
            assert client.answer == "PONG"
        assert "$ecret" not in repr(server) + server.url


def test_tls_in_the_configuration_gives_a_tls_url(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    files = {"cert_file": tmp_path / "cert.pem", "key_file": tmp_path / "key.pem"}
    config = {"tls": {**files, "handshake_first": True, "timeout": 30}}
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with NatsServer(config=config) as server:
        assert server.url == f"tls://127.0.0.1:{server.port}"
        with (
            socket.create_connection((server.host, server.port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=server.host) as encrypted,
        ):
            info = json.loads(encrypted.recv(65536).removeprefix(b"INFO "))
        assert info["tls_required"] is True


def test_an_invalid_configuration_is_reported_with_exit_code_path_and_log() -> None:
    server = NatsServer(config={"bogus_setting": 1})
    with pytest.raises(ServerStartError, match="exit code 1") as caught:
        server.start()
    assert str(server.config_path) in str(caught.value)
    assert 'unknown field "bogus_setting"' in str(caught.value)
    assert server.config_path.exists()
    assert not server.running
    server.close()


def test_errors_contain_no_secrets() -> None:
    config = {"authorization": {"user": "ann", "password": "hush"}, "ping_interval": "hush"}
    server = NatsServer(config=config)
    with pytest.raises(ServerStartError, match=r"\*\*\*") as caught:
        server.start()
    assert "hush" not in str(caught.value)
    server.close()


@pytest.mark.parametrize(
    "config",
    [
        {"port": 4222},
        {"Listen": "0.0.0.0:4222"},
        {"http": 8222},
        {"log_file": "/dev/null"},
        {"server_name": "a"},
        {"jetstream": {"Store_Dir": "here"}},
    ],
)
def test_settings_of_the_manager_cannot_be_overridden(config: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="config must not set"):
        NatsServer(config=config)


def test_a_jetstream_section_without_jetstream_is_refused() -> None:
    with pytest.raises(ValueError, match="jetstream=False"):
        NatsServer(jetstream=False, config={"jetstream": {"domain": "hub"}})


def test_an_occupied_port_is_an_error_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = NatsServer(port=taken.getsockname()[1])
        with pytest.raises(PortInUseError, match="address already in use"):
            server.start()
        server.close()


def test_a_chosen_port_that_is_occupied_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        unlucky = [taken.getsockname()[1]]

        class UnluckyPort(ReservedPort):
            def __init__(self, host: str) -> None:
                super().__init__(host)
                self.port = unlucky.pop() if unlucky else self.port

        monkeypatch.setattr(resources, "ReservedPort", UnluckyPort)
        with NatsServer() as server:
            assert server.healthy()
            assert not unlucky


def test_a_reserved_port_is_unavailable_to_others_and_refuses_clients() -> None:
    port = ReservedPort("127.0.0.1")
    try:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port.port), timeout=1)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port.port))
    finally:
        port.close()


def test_an_ipv6_address_has_brackets() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with NatsServer(host="::1") as server:
        assert server.url == f"nats://[::1]:{server.port}"
        assert server.healthy()


def test_a_server_that_does_not_become_ready_is_stopped(tmp_path: Path) -> None:
    sleeper = tmp_path / "nats-server"
    sleeper.write_text("#!/bin/sh\necho just a moment\nexec sleep 60\n")
    sleeper.chmod(0o755)
    server = NatsServer(binary=sleeper, startup_timeout=1)
    with pytest.raises(ServerStartError, match=r"not ready within 1 s(.|\n)*just a moment"):
        server.start()
    assert not server.running
    server.close()


def test_a_file_that_is_not_a_server_executable_is_an_error(tmp_path: Path) -> None:
    text = tmp_path / "nats-server"
    text.write_text("not a program")
    text.chmod(0o755)
    server = NatsServer(binary=text)
    with pytest.raises(ServerStartError, match="cannot be run"):
        server.start()
    server.close()


def test_a_missing_executable_is_an_error_before_anything_is_created(tmp_path: Path) -> None:
    server = NatsServer(binary=tmp_path / "nowhere")
    with pytest.raises(ServerBinaryNotFoundError, match="nowhere"):
        server.start()
    with pytest.raises(ServerError, match="was not started"):
        _ = server.log_path


def test_a_paused_server_answers_after_resume(server: NatsServer) -> None:
    with RawConnection(server.host, server.port) as client:
        server.pause()
        assert server.paused
        assert server.running
        assert not server.healthy(timeout=0.05)
        client.skip_notices()  # sent before the pause
        client.send("PING\r\n")
        assert not client.readable(timeout=0.1)
        server.resume()
        assert client.line() == "PONG"
    assert not server.paused


@pytest.mark.parametrize("how", ["stop", "kill", "restart", "close"])
def test_a_paused_server_can_be_stopped(server: NatsServer, how: str) -> None:
    server.pause()
    getattr(server, how)()
    assert server.running is (how == "restart")
    assert not server.paused


def test_stop_kills_a_server_that_does_not_exit(server: NatsServer) -> None:
    pid = server.pid
    # A pause by somebody else right after the SIGCONT of a stop is hard to time; a timeout of zero has the same effect.
    server.stop(timeout=0)
    assert not server.running
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_reload_applies_new_settings(server: NatsServer) -> None:
    pid = server.pid
    server.reload({"max_payload": 4096})
    assert server.monitor("/varz")["max_payload"] == 4096
    server.reload()
    assert server.monitor("/varz")["max_payload"] == 4096
    server.reload({})
    assert server.monitor("/varz")["max_payload"] == 1024 * 1024
    assert server.pid == pid


def test_a_refused_reload_keeps_the_old_settings(server: NatsServer) -> None:
    server.reload({"max_payload": 4096})
    with pytest.raises(ServerError, match="Failed to reload"):
        server.reload({"max_payload": 8192, "bogus_setting": True})
    with pytest.raises(TypeError, match="max_payload"):
        server.reload({"max_payload": object()})
    assert server.monitor("/varz")["max_payload"] == 4096
    server.restart()
    assert server.monitor("/varz")["max_payload"] == 4096


def test_a_lame_duck_without_clients_exits_by_itself(server: NatsServer) -> None:
    server.lame_duck()
    assert server.wait_exit(timeout=10) == 0
    assert not server.crashed
    assert server.restart().healthy()


def test_a_lame_duck_informs_its_clients_and_can_be_stopped(server: NatsServer) -> None:
    with RawConnection(server.host, server.port) as client:
        server.lame_duck()
        assert client.info_with("ldm")["ldm"] is True
        with pytest.raises(ServerTimeoutError):
            server.wait_exit(timeout=0)
        server.stop()
        assert not server.running


def test_a_crash_is_noticed(server: NatsServer) -> None:
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait_exit(timeout=10) == -signal.SIGKILL
    assert server.crashed
    assert "exit code -9" in str(server.process_error())
    with pytest.raises(ServerError, match="no process"):
        server.pause()
    with pytest.raises(ServerStartError, match="exit code -9"):
        server.wait_log("never said")
    assert server.start().healthy()


def test_waiting_for_a_log_line_times_out(server: NatsServer) -> None:
    assert server.wait_log(r"Listening for client connections on \S+").endswith(str(server.port))
    with pytest.raises(ServerTimeoutError, match="never said"):
        server.wait_log("never said", timeout=0.05)


def test_before_the_start_and_after_the_end_there_are_no_addresses() -> None:
    server = NatsServer(name="known")
    with pytest.raises(ServerError, match="was not started"):
        _ = server.url
    server.stop()
    server.close()
    with server:
        assert "known" in repr(server)
    server.close()
    assert "Listening for client connections" in server.log_text()
    with pytest.raises(ServerError, match="closed"):
        _ = server.port
    with server:
        assert server.healthy()


def test_a_monitoring_path_that_does_not_exist_is_an_error(server: NatsServer) -> None:
    with pytest.raises(ServerError, match="/nothing"):
        server.monitor("/nothing")


def test_threads_that_restart_at_once_wait_for_one_another(server: NatsServer) -> None:
    threads = [threading.Thread(target=server.restart) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.healthy()
    assert server.log_text().count("Listening for client connections") == 5
    assert server.log_text().count("Initiating Shutdown") == 4
