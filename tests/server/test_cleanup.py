"""No process, no zombie and no directory is left, whatever ends first."""

import gc
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from jetspark.server import NatsCluster, NatsServer


def alive(pid: int) -> bool:
    """Return whether there is such a process, even as a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_gone(pid: int, timeout: float = 10) -> bool:
    """Wait for the end of a process that is not our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(timeout * 1000))
    finally:
        os.close(descriptor)


def run(script: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_no_process_and_no_directory_is_left_after_the_context() -> None:
    with NatsServer() as server:
        pid, directory = server.pid, server.log_path.parent
    assert not alive(pid)
    assert not directory.exists()


def test_no_process_is_left_after_an_exception_in_the_context() -> None:
    pids, directory = [], Path()

    def use_and_fail() -> None:
        nonlocal directory
        with NatsServer() as server:
            pids.append(server.pid)
            directory = server.log_path.parent
            raise KeyError("oops")

    with pytest.raises(KeyError, match="oops"):
        use_and_fail()
    assert not alive(pids[0])
    assert not directory.exists()


def test_no_process_is_left_after_a_cluster_that_could_not_start() -> None:
    cluster = NatsCluster(2, config={"bogus_setting": 1})
    with pytest.raises(RuntimeError, match="bogus_setting"):
        cluster.start()
    assert not any(node.running for node in cluster)
    cluster.close()


def drop(last_references: list[NatsServer] | list[NatsCluster]) -> None:
    last_references.clear()
    gc.collect()


def test_a_server_without_references_is_killed() -> None:
    servers = [NatsServer().start()]
    pid, directory = servers[0].pid, servers[0].log_path.parent
    with pytest.warns(ResourceWarning, match=r"unclosed <NatsServer jetspark-\d+ nats://127.* running>: close it"):
        drop(servers)
    assert not alive(pid)
    assert not directory.exists()


def test_a_stopped_server_without_references_gives_its_directory_back() -> None:
    servers = [NatsServer().start()]
    directory = servers[0].log_path.parent
    servers[0].stop()
    with pytest.warns(ResourceWarning, match="unclosed <NatsServer .* not running>"):
        drop(servers)
    assert not directory.exists()


def test_a_cluster_without_references_is_killed() -> None:
    clusters = [NatsCluster(2, jetstream=False).start()]
    pids = [node.pid for node in clusters[0]]
    with pytest.warns(ResourceWarning, match="unclosed <ClusterNode jetspark-. ") as caught:
        drop(clusters)
    assert sum("unclosed <ClusterNode" in str(each.message) for each in caught) == len(pids)
    assert not any(map(alive, pids))


def test_contexts_leave_no_child_processes() -> None:
    done = run("""
import os
from jetspark.server import NatsServer
with NatsServer() as server:
    server.kill()
    server.restart()
    os.kill(server.pid, 9)
    server.wait_exit(10)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no children")
""")
    assert (done.stdout, done.stderr) == ("no children\n", "")


def test_a_server_does_not_outlive_an_interpreter_that_ends() -> None:
    done = run("""
from jetspark.server import NatsServer
server = NatsServer().start()
print(server.pid, server.log_path.parent)
""")
    pid, directory = done.stdout.split()
    assert done.stderr == ""
    assert wait_gone(int(pid))
    assert not Path(directory).exists()


def test_a_server_does_not_outlive_an_interpreter_that_is_killed() -> None:
    done = run("""
import os
from jetspark.server import NatsServer
server = NatsServer().start()
server.pause()
guard = server._resources.process._guard.pid
print(server.pid, guard, server.log_path.parent, flush=True)
os.kill(os.getpid(), 9)
""")
    assert done.returncode == -9
    pid, guard, directory = done.stdout.split()
    assert wait_gone(int(pid))
    assert wait_gone(int(guard))
    assert not Path(directory).exists()


def test_a_forked_child_does_not_stop_its_parents_server() -> None:
    done = run("""
import os, sys
from jetspark.server import NatsServer
with NatsServer() as server:
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    print(server.healthy(), server.log_path.exists())
""")
    assert (done.stdout, done.stderr) == ("True True\n", "")
