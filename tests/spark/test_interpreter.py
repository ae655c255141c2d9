"""The format is found if the environment's python is called by its path, and settings of the user are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from tests.spark.jvm import LIGHT
from tests.spark.support import Nats

from jetspark.errors import ConfigError
from jetspark.spark import configure, recommended_conf

VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_REMOTE")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without preparation: Spark does not run, and `python3` is a different one."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setattr(SparkContext, "_jvm", None)


def builder(**settings: str) -> SparkSession.Builder:
    made = SparkSession.Builder()
    made._options = {}
    return made.config(map={**settings})


def test_spark_uses_the_running_interpreter(bare: None) -> None:
    made = configure(builder())
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert made._options == recommended_conf()


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_setting_in_the_environment_is_kept(bare: None, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "chosen")
    configure(builder())
    assert {name: os.environ.get(name) for name in VARIABLES} == {**dict.fromkeys(VARIABLES), variable: "chosen"}


@pytest.mark.parametrize(
    "setting",
    [
        {"spark.pyspark.python": "chosen"},
        {"spark.pyspark.driver.python": "chosen"},
        {"spark.master": "spark://127.0.0.1:7077"},
    ],
)
def test_a_setting_of_the_builder_is_kept(bare: None, setting: dict[str, str]) -> None:
    made = configure(builder(**setting))
    assert "PYSPARK_PYTHON" not in os.environ
    assert made._options.items() >= setting.items()


def test_spark_connect_is_not_changed(bare: None) -> None:
    made = configure(builder(**{"spark.remote": "sc://127.0.0.1"}))
    assert "PYSPARK_PYTHON" not in os.environ
    assert made._options == {"spark.remote": "sc://127.0.0.1"}


def test_an_interpreter_that_spark_finds_by_itself_is_kept(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    configure(builder())
    assert "PYSPARK_PYTHON" not in os.environ


@pytest.mark.parametrize("named", [None, "chosen"])
def test_a_running_spark_with_another_python_is_an_error_with_instructions(
    bare: None, monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    system = SimpleNamespace(getenv=lambda _: named)
    monkeypatch.setattr(
        SparkContext, "_jvm", SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))
    )
    if named is None:
        with pytest.raises(ConfigError, match=r"call configure\(\) before the first session, or .*register\(spark\)"):
            configure(builder())
    else:
        configure(builder())
    assert "PYSPARK_PYTHON" not in os.environ


SCRIPT = """
from pyspark.sql import SparkSession
from jetspark.spark import register

spark = SparkSession.builder.getOrCreate()
register(spark)
register(spark)
print("rows", spark.read.format("jetstream").option("stream", {stream!r}).load().count())
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.matrix
def test_the_format_can_be_registered_if_spark_runs_another_python(nats: Nats, tmp_path: Path, java: None) -> None:
    """The examples of the README run `configure`, which does the same before Spark starts."""
    stream = nats.filled(3)
    script = tmp_path / "count.py"
    script.write_text(SCRIPT.format(stream=stream))
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment |= {"PATH": os.defpath, "SPARK_LOCAL_IP": "127.0.0.1", "NATS_URL": nats.url, "JDK_JAVA_OPTIONS": LIGHT}
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["rows 3"]
    assert "replaced" not in done.stderr
