"""One Spark session and one server for this folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.home import spark_home
from tests.spark.jvm import light_conf
from tests.spark.support import Nats, running

from jetspark.spark import recommended_conf
from jetspark.spark.connections import close_idle

ROOT = Path(__file__).resolve().parents[2]
PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="session")
def java() -> None:
    """Set the Java home, and the Python of the workers."""
    if "JAVA_HOME" not in os.environ:
        found = subprocess.run(
            [sys.executable, ROOT / "tools/java_home.py"], capture_output=True, text=True, check=True
        )
        os.environ["JAVA_HOME"] = found.stdout.strip()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@pytest.fixture(scope="session")
def session(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return a session with two cores; a failed task is tried once more."""
    settings: dict[str, bool | float | int | str | None] = {
        **recommended_conf(),
        **light_conf(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.session.timeZone": "UTC",
    }
    with pytest.MonkeyPatch.context() as start:
        start.setenv("SPARK_HOME", str(spark_home(tmp_path_factory.mktemp("spark"))))
        session = SparkSession.builder.master("local[2,2]").appName("tests").config(map=settings).getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def spark(session: SparkSession) -> Iterator[SparkSession]:
    """The session; its settings are restored after a test."""
    push_down = session.conf.get(PUSH_DOWN)
    yield session
    session.conf.set(PUSH_DOWN, str(push_down))


@pytest.fixture(scope="session")
def nats() -> Iterator[Nats]:
    """A server for the whole run.

    It closes no connection that leaves PINGs unanswered for minutes. Our connections do so while other tests run.
    """
    with running(config={"ping_interval": "2h"}) as nats:
        yield nats


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Remove the server address from the environment, and close connections to servers of this test."""
    monkeypatch.delenv("NATS_URL", raising=False)
    yield
    close_idle()
