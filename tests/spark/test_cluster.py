"""Executors with a shipped interpreter and package, as in `docs/clusters.md`, and clients of Spark Connect."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.cluster_job import job
from tests.spark.home import spark_home
from tests.spark.jvm import LIGHT, light_conf
from tests.spark.shipping import Shipment, program_environment
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


def submit(shipment: Shipment, folder: Path, *arguments: str) -> tuple[list[object], int, list[list[str]], str]:
    """The result of the job, the number of its processes, where its tasks ran, and all logs."""
    home = spark_home(folder, LOGGING)
    (folder / "environment").symlink_to(shipment.environment)  # that of the driver, beside it, as if unpacked there
    environment = program_environment(home, PYSPARK_PYTHON="./environment/bin/python", PYTHONPATH=str(shipment.package))
    conf = [part for name, value in {**light_conf(), **ALL_THERE}.items() for part in ("--conf", f"{name}={value}")]
    shipped = ["--archives", f"{shipment.archive}#environment", "--py-files", str(shipment.package)]
    spark_submit = [str(home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]"]
    command = [*spark_submit, *conf, *shipped, str(HERE / "cluster_job.py"), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found, processes, places = json.loads(done.stdout.strip().splitlines()[-1])
    logs = [file.read_text() for file in home.glob("work/*/*/std*")]
    assert len(logs) == 4  # two executors, two files each
    return found, processes, places, done.stdout + done.stderr + "".join(logs)


@pytest.mark.matrix
def test_executors_with_a_shipped_interpreter_and_package_work_like_local_threads(
    session: SparkSession, shipment: Shipment, tmp_path: Path
) -> None:
    """The rows are the same as here, and no log has a secret."""
    login = {"user": "me", "password": SECRET}
    with running(login, config={"authorization": login}) as nats:
        source, one, two = nats.filled(1000, ("a", "b", "c")), nats.stream(), nats.stream()
        options = {**login, "servers": nats.url}
        local = job(session, options, source, one, str(tmp_path / "one"))
        arguments = (json.dumps(options), source, two, str(tmp_path / "two"))
        cluster, processes, places, logged = submit(shipment, tmp_path, *arguments)
        assert local == cluster == [900, 495450, 2700, 3]
        assert processes == 3
        assert len(places) == 2
        for interpreter, package in places:
            assert interpreter.startswith(f"{tmp_path}/home/work/")
            assert package == "./jetspark.zip/jetspark/__init__.py"
        for target in (one, two):
            written = nats.rows(target, "subject", "data")
            assert sorted((str(row["subject"]), row["data"]) for row in written) == sorted(
                (subject, b"%d" % number)
                for number in range(1000)
                for subject in (f"{target}.{number + 1}", f"{target}.copy")
            )
    assert "INFO org.apache.spark" in logged
    assert SECRET not in logged


@contextlib.contextmanager
def connect_server(shipment: Shipment, folder: Path) -> Iterator[str]:
    """The address of a Spark Connect server whose Python has the wheel."""
    home = spark_home(folder, LOGGING)
    environment = program_environment(home, PYSPARK_PYTHON=str(shipment.python), PYTHONPATH=str(shipment.package))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-java-options", LIGHT]
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
def test_a_client_of_spark_connect_needs_no_jetspark(shipment: Shipment, nats: Nats, tmp_path: Path) -> None:
    source, target = nats.filled(1000), nats.stream()
    with connect_server(shipment, tmp_path) as remote:
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
