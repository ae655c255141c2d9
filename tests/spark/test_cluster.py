"""Spark's standalone cluster: the ways to install of `docs/clusters.md`, a lost worker, and Spark Connect."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession
from tests.bulk.streams import until
from tests.spark.cluster_job import job
from tests.spark.home import spark_home
from tests.spark.jvm import LIGHT, light_conf
from tests.spark.shipping import Shipment, program_environment
from tests.spark.standalone import StandaloneCluster, standalone_cluster
from tests.spark.support import Nats, running

HERE = Path(__file__).parent
SECRET = "geheim-4711"
TIMEOUT = 300.0
ALL_THERE = {
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}
"""Start no task before both executors have registered: on a busy machine one of them might run all tasks alone."""

pytestmark = [pytest.mark.spark, pytest.mark.slow]


LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n%ex
"""


@pytest.fixture(scope="module")
def shipment(java: None, tmp_path_factory: pytest.TempPathFactory) -> Shipment:
    return Shipment.made(tmp_path_factory.mktemp("shipment"))


@dataclass(frozen=True)
class Program:
    """How a driver is submitted: a command without the job and its arguments, its folder, its environment variables."""

    command: list[str]
    folder: Path
    environment: Mapping[str, str]

    def start(self, job: str, *arguments: str) -> RunningJob:
        """Start a job of this folder of tests."""
        printed, logged = self.folder / "printed", self.folder / "logged"
        line = [*self.command, str(HERE / job), *arguments]
        with printed.open("wb") as output, logged.open("wb") as errors:
            process = subprocess.Popen(line, stdout=output, stderr=errors, cwd=self.folder, env=self.environment)
        return RunningJob(process, printed, logged)


@dataclass(frozen=True)
class RunningJob:
    """A driver, with the files that have what it prints and logs."""

    process: subprocess.Popen[bytes]
    printed: Path
    logged: Path

    def result(self) -> object:
        """Wait for the end, which must be good; return the JSON of the last line that the job has printed."""
        try:
            code = self.process.wait(TIMEOUT)
        finally:
            self.process.kill()
            self.process.wait()
        assert code == 0, self.logged.read_text()[-5000:]
        return json.loads(self.printed.read_text().strip().splitlines()[-1])


def program(way: str, shipment: Shipment, folder: Path, master: str) -> Program:
    """Return how to submit a job, in the two ways of the page: an installed environment, or a shipped one and a zip."""
    home = spark_home(folder, LOGGING)
    conf = [part for name, value in {**light_conf(), **ALL_THERE}.items() for part in ("--conf", f"{name}={value}")]
    command = [str(home / "bin" / "spark-submit"), "--master", master, *conf]
    if way == "installed":
        return Program(command, folder, program_environment(home, PYSPARK_PYTHON=str(shipment.installed)))
    (folder / "environment").symlink_to(shipment.environment)  # that of the driver, beside it, as if unpacked there
    command += ["--archives", f"{shipment.archive}#environment", "--py-files", str(shipment.package)]
    variables = {"PYSPARK_PYTHON": "./environment/bin/python", "PYTHONPATH": str(shipment.package)}
    return Program(command, folder, program_environment(home, **variables))


@pytest.fixture
def cluster(shipment: Shipment, tmp_path: Path) -> Iterator[StandaloneCluster]:
    home = spark_home(tmp_path, LOGGING)
    with standalone_cluster(home, tmp_path, program_environment(home)) as found:
        yield found


@pytest.mark.matrix
@pytest.mark.parametrize("way", ["installed", "shipped"])
def test_executors_of_a_cluster_work_like_local_threads(
    session: SparkSession, shipment: Shipment, cluster: StandaloneCluster, tmp_path: Path, way: str
) -> None:
    """The rows are the same as here, and no log has a secret."""
    login = {"user": "me", "password": SECRET}
    with running(login, config={"authorization": login}) as nats:
        source, one, two = nats.filled(1000, ("a", "b", "c")), nats.stream(), nats.stream()
        options = {**login, "servers": nats.url}
        local = job(session, options, source, one, str(tmp_path / "one"))
        arguments = (json.dumps(options), source, two, str(tmp_path / "two"))
        submitted = program(way, shipment, tmp_path, cluster.url).start("cluster_job.py", *arguments)
        found, processes, places = cast("tuple[list[object], int, list[list[str]]]", submitted.result())
        assert local == found == [900, 495450, 2700, 3]
        assert processes == 3
        for interpreter, package in places:
            if way == "installed":
                assert (interpreter, package) == (str(shipment.installed), str(shipment.installed_package))
            else:
                assert interpreter.startswith(tuple(f"{worker.folder}/" for worker in cluster.workers))
                assert package == "./jetspark.zip/jetspark/__init__.py"
        for target in (one, two):
            written = nats.rows(target, "subject", "data")
            assert sorted((str(row["subject"]), row["data"]) for row in written) == sorted(
                (subject, b"%d" % number)
                for number in range(1000)
                for subject in (f"{target}.{number + 1}", f"{target}.copy")
            )
    logs = cluster.logs()
    assert len(logs) == 4  # two executors, two files each
    everything = "".join((submitted.printed.read_text(), submitted.logged.read_text(), *logs))
    assert "INFO org.apache.spark" in everything
    assert SECRET not in everything


@pytest.mark.matrix
def test_each_row_is_stored_once_when_the_cluster_loses_a_worker(
    shipment: Shipment, cluster: StandaloneCluster, nats: Nats, tmp_path: Path
) -> None:
    count = 10_000
    source, target = nats.filled(count), nats.stream()
    arguments = (json.dumps({"servers": nats.url}), source, target, str(tmp_path / "checkpoint"))
    submitted = program("shipped", shipment, tmp_path, cluster.url).start("lossy_job.py", *arguments)
    until(lambda: nats.info(target).state.messages >= count // 4 or submitted.process.poll() is not None, TIMEOUT)
    assert nats.info(target).state.messages < count
    cluster.workers[0].kill()
    assert submitted.result() == [count, count]
    assert nats.info(target).state.messages == count


@contextlib.contextmanager
def connect_server(shipment: Shipment, folder: Path, master: str) -> Iterator[str]:
    """The address of a Spark Connect server on a cluster; its Python has jetspark, and that of the executors, too."""
    home = spark_home(folder, LOGGING)
    environment = program_environment(home, PYSPARK_PYTHON=str(shipment.installed))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(home / "bin" / "spark-submit"), "--master", master, "--driver-java-options", LIGHT]
    for setting in ("spark.ui.enabled=false", f"spark.connect.grpc.binding.port={port}"):
        command += ["--conf", setting]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
    try:
        deadline = time.monotonic() + TIMEOUT
        while not reachable(port):
            assert server.poll() is None, (folder / "log").read_text()[-5000:]
            assert time.monotonic() < deadline
            time.sleep(0.1)  # no event reports it
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(TIMEOUT)


def reachable(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@pytest.mark.matrix
def test_a_client_of_spark_connect_on_a_cluster_needs_no_jetspark(
    shipment: Shipment, cluster: StandaloneCluster, nats: Nats, tmp_path: Path
) -> None:
    source, target = nats.filled(1000), nats.stream()
    with connect_server(shipment, tmp_path, cluster.url) as remote:
        arguments = [remote, json.dumps({"servers": nats.url}), source, target, str(tmp_path / "checkpoint")]
        done = subprocess.run(
            [str(shipment.python), str(HERE / "connect_job.py"), *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
            env=program_environment(tmp_path / "home"),
        )
    assert done.returncode == 0, done.stderr[-5000:]
    assert json.loads(done.stdout) == [False, 100]
    written = nats.rows(target, "subject", "data")
    assert sorted((str(row["subject"]), row["data"]) for row in written) == sorted(
        (f"{target}.{way}", b"%d" % number) for number in range(1000) for way in ("batch", "stream")
    )
