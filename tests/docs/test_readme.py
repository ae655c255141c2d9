"""The examples of the README run unchanged, and its links are valid."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.jvm import LIGHT

from jetspark import bulk
from jetspark.jetstream import StreamConfig
from jetspark.jetstream.api import StreamCreateRequest, StreamInfoRequest
from jetspark.server import NatsServer

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

QUICK_START = {"JDK_JAVA_OPTIONS": f"{LIGHT} -Dspark.ui.enabled=false", "SPARK_LOCAL_IP": "127.0.0.1"}
"""For JVMs that live for a few seconds."""


def example(section: str) -> str:
    """Return the Python block of a section."""
    found = re.search(rf"^## {section}\n.*?^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no example under {section!r}"
    assert "\n## " not in found[0], f"the example is not under {section!r}"
    return found[1]


def run_examples(*sections: str, directory: Path, **environment: str) -> str:
    """Run blocks one after the other as one script; return its output. The interpreter is not on the path."""
    script = directory / "example.py"
    script.write_text("".join(map(example, sections)))
    inherited = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=directory,
        env={**inherited, **QUICK_START, "PATH": os.defpath, **environment},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def connection() -> Iterator[bulk.Connection]:
    with NatsServer() as server, bulk.connect(server.url) as opened:
        opened.request(StreamCreateRequest(StreamConfig(name="SENSORS", subjects=["sensors.>"])))
        yield opened


@pytest.mark.spark
@pytest.mark.slow
def test_the_spark_examples_run_unchanged(connection: bulk.Connection, tmp_path: Path) -> None:
    connection.request(StreamCreateRequest(StreamConfig(name="ALARMS", subjects=["alarms.>"])))
    printed = run_examples("Write", "Read", "Stream", directory=tmp_path, NATS_URL=str(connection.address))
    state = connection.request(StreamInfoRequest("SENSORS")).state
    assert (state.messages, state.num_subjects) == (1000, 10)

    expected = [f"{{{number}, {20 + number % 7}}}" for number in range(3, 1000, 10) if 20 + number % 7 > 22]
    shown = re.findall(r"\{\d+, \d+\}", printed)
    assert len(shown) == 20
    assert set(shown) <= set(expected)

    assert connection.request(StreamInfoRequest("ALARMS")).state.messages == sum(n % 7 == 6 for n in range(1000))


def test_the_bulk_example_runs_unchanged(tmp_path: Path) -> None:
    printed = run_examples("Without Spark", directory=tmp_path)
    assert printed.splitlines() == ["100000 stored, the last one as 100000", "50000 read of 50000"]


def test_the_client_example_runs_unchanged(tmp_path: Path) -> None:
    printed = run_examples("As a client", directory=tmp_path)
    assert printed.splitlines() == ["1 order 0", "2 order 1", "3 order 2"]


@pytest.mark.parametrize("section", ["Write", "Read", "Stream"])
def test_the_spark_examples_have_ten_lines_at_most(section: str) -> None:
    assert sum(bool(line) for line in example(section).splitlines()) <= 10


def test_both_commands_are_documented_and_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)", README))
    assert {"demo", "test"} <= named <= targets


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_links_to_files_are_valid(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    for link in links:
        if not link.startswith(("http://", "https://")):
            assert (page.parent / link).exists(), link
