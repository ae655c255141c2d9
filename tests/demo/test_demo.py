"""The demo, in small: every number right, and an exit code that tells when one is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from demo.publish import encode_flights, load_flights

ROOT = Path(__file__).parents[2]
DISTURBED = """
import sys
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from demo.checks import check_results, stages
from demo.publish import create_streams, load_flights
from demo.report import make_progress, show_checks, show_stages
from demo.run import run
from jetspark import bulk
from jetspark.server import NatsServer

STRANGER = '{"origin": "EWR", "carrier": "UA", "hour": 7, "dep_delay": 1.0}'
console = Console(width=100)
with NatsServer() as server, make_progress(console) as progress:
    with bulk.connect(server.url) as connection:
        create_streams(connection)
        bulk.publish(connection, pa.record_batch({"subject": ["flights.JFK.XX"], "data": [STRANGER]}))
    results = run(server, load_flights(500), Path(sys.argv[1]), progress)
show_stages(console, stages(results))
sys.exit(0 if show_checks(console, check_results(results)) else 1)
"""


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_help_names_the_options() -> None:
    done = run_python("-m", "demo", "--help")
    assert done.returncode == 0
    assert "--rows" in done.stdout
    assert "--output" in done.stdout


@pytest.mark.parametrize("rows", ["0", "-5", "many"])
def test_a_number_of_rows_that_makes_no_sense_is_refused(rows: str) -> None:
    done = run_python("-m", "demo", f"--rows={rows}")
    assert done.returncode == 2
    assert f"not a positive number: '{rows}'" in done.stderr


@pytest.mark.spark
@pytest.mark.slow
def test_a_short_run_counts_every_message_and_leaves_its_results(tmp_path: Path) -> None:
    done = run_python("-m", "demo", "--rows", "3000", "--output", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checks hold" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["publish", "FLIGHTS", "3,000", "0", "0"] in [line[:5] for line in lines]
    assert ["FLIGHTS", "to", "Parquet", "3,000", "3,000", "0", "0"] in [line[:7] for line in lines]
    assert done.stderr == ""
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "flights.parquet").glob("part-*.parquet"))) == 2


@pytest.mark.spark
@pytest.mark.slow
def test_a_message_of_somebody_else_in_the_stream_is_noticed(tmp_path: Path) -> None:
    done = run_python("-c", DISTURBED, str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "messages read by Spark: expected 500, got 501" in done.stdout
    assert "rows whose content is not of their subject: expected 0, got 1" in done.stdout


def test_a_missing_delay_becomes_null() -> None:
    flights = load_flights(2000)
    cancelled = flights[flights["dep_delay"].isna()].head(1)
    assert len(cancelled) == 1
    batch = encode_flights(cancelled, lambda done: None)[0]
    assert '"dep_delay":null' in batch.column("data")[0].as_py()
    assert batch.column("subject")[0].as_py() == f"flights.{cancelled['origin'].iloc[0]}.{cancelled['carrier'].iloc[0]}"
