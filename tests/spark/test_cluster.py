"""Executors in processes of their own do what the local ones do, and no log of theirs holds a secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.spark.cluster_job import job
from tests.spark.support import running

JOB = Path(__file__).with_name("cluster_job.py")
SECRET = "geheim-4711"

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


def spark_home(folder: Path) -> Path:
    """A Spark home like the installed one, but that it logs everything, and holds the executors' logs."""
    home = folder / "home"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "log4j2.properties").write_text(LOGGING)
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "conf":
            (home / part.name).symlink_to(part)
    return home


def run(master: str, folder: Path, *arguments: str) -> tuple[list[object], int, str]:
    """What the job returned, the number of its processes, and everything that was logged."""
    home = spark_home(folder)
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_CONF_DIR": str(home / "conf")}
    command = [sys.executable, str(JOB), master, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found, processes = json.loads(done.stdout.strip().splitlines()[-1])
    logs = [file.read_text() for file in home.glob("work/*/*/std*")]
    assert len(logs) == 4  # two executors, two files each
    return found, processes, done.stdout + done.stderr + "".join(logs)


def test_a_local_cluster_gives_what_local_threads_give(session: SparkSession, tmp_path: Path) -> None:
    login = {"user": "me", "password": SECRET}
    with running(login, config={"authorization": login}) as nats:
        source, one, two = nats.filled(1000, ("a", "b", "c")), nats.stream(), nats.stream()
        options = {**login, "servers": nats.url}
        local = job(session, options, source, one)
        cluster, processes, logged = run("local-cluster[2,1,1024]", tmp_path, json.dumps(options), source, two)
        assert local == cluster == [900, 495450, 2700, 3]
        assert processes == 3
        for target in (one, two):
            written = nats.rows(target, "subject", "data")
            assert sorted((str(row["subject"]), row["data"]) for row in written) == sorted(
                (f"{target}.{number + 1}", b"%d" % number) for number in range(1000)
            )
    assert "INFO org.apache.spark" in logged
    assert SECRET not in logged
