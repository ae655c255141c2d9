"""The demo in small: every number is right, and the exit code shows a wrong one."""

import io
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pandas as pd
import pytest
from demo.__main__ import main
from demo.checks import Results, check_results, closed_windows, expected_delays, stages
from demo.counts import Archived, Counts, ReturnedDelays
from demo.publish import Published, encode_flights, load_flights
from demo.report import end_of_log, show_checks, show_stages
from rich.console import Console

from jetspark.bulk import PublishReport
from jetspark.bulk.publish_acks import StreamAcks

ROOT = Path(__file__).parents[2]


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def test_help_names_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capsys.readouterr().out
    assert "--rows" in shown
    assert "--output" in shown


@pytest.mark.parametrize("rows", ["0", "-5", "many"])
def test_an_invalid_number_of_rows_is_refused(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([f"--rows={rows}"])
    assert f"not a positive number: '{rows}'" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.matrix
def test_a_short_run_survives_the_kill_counts_every_message_and_keeps_its_results(tmp_path: Path) -> None:
    done = run_python("-m", "demo", "--rows", "3000", "--output", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all 13 checks hold" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["publish", "FLIGHTS", "3,000", "0", "0"] in [line[:5] for line in lines]
    assert ["FLIGHTS", "to", "Parquet", "3,000", "0", "0"] in [line[:6] for line in lines]
    assert ["delays", "to", "DELAYS", "532", "0", "0"] in [line[:6] for line in lines]
    assert "Spark's driver was killed once and started again" in done.stdout
    assert done.stderr == ""
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "flights.parquet").glob("part-*.parquet"))
    assert "recognises duplicates" not in (tmp_path / "spark.log").read_text()  # for too short a time


def results(flights: pd.DataFrame, **changes: object) -> Results:
    """The result of a run without errors, except for the given changes of its counts."""
    total, windows = len(flights), len(closed_windows(flights))
    report = PublishReport(total, 1, 0, {"FLIGHTS": StreamAcks(total, 0, 1, total)})
    missing = int(flights["dep_delay"].isna().sum())
    archived = msgspec.structs.replace(
        Archived(total, total, 1, total, missing, 0),
        **{name: value for name, value in changes.items() if name in Archived.__struct_fields__},
    )
    returned = msgspec.structs.replace(
        ReturnedDelays(windows, windows, expected_delays(flights)),
        **{name: value for name, value in changes.items() if name in ReturnedDelays.__struct_fields__},
    )
    seconds = {"archive": 1.0, "windows": 1.0}
    return Results(flights, Published(total, report, 1.0), Counts(archived, returned), windows, True, 3, seconds)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"written": 501}, "rows in Parquet: expected 500, got 501"),
        ({"distinct": 499}, "different sequences in Parquet: expected 500, got 499"),
        ({"misplaced": 1}, "rows whose content is not of their subject: expected 0, got 1"),
        ({"messages": 81}, "windows read from DELAYS: expected 80, got 81"),
        ({"rows": []}, "delays read back, as pandas computes them: expected 80 rows, got 0 rows"),
    ],
)
def test_a_count_that_does_not_match_is_named(changes: dict[str, object], said: str) -> None:
    flights = load_flights(500)
    console = Console(record=True, width=120, file=io.StringIO())
    assert not show_checks(console, check_results(results(flights, **changes)))
    text = console.export_text()
    assert said in text
    assert text.count("✗") == 1


def test_matching_counts_are_shown_as_such() -> None:
    flights = load_flights(500)
    console = Console(record=True, width=120, file=io.StringIO())
    assert show_checks(console, check_results(results(flights)))
    show_stages(console, stages(results(flights, written=502, distinct=499)))
    lines = [line.split() for line in console.export_text().splitlines()]
    assert ["FLIGHTS", "to", "Parquet", "502", "1", "3", "500"] in lines


def test_a_missing_delay_becomes_null() -> None:
    flights = load_flights(2000)
    cancelled = flights[flights["dep_delay"].isna()].head(1)
    assert len(cancelled) == 1
    batch = encode_flights(cancelled, lambda done: None)[0]
    assert '"dep_delay":null' in batch.column("data")[0].as_py()
    assert batch.column("subject")[0].as_py() == f"flights.{cancelled['origin'].iloc[0]}.{cancelled['carrier'].iloc[0]}"


def test_the_end_of_a_log_is_shown_without_jvm_stack_frames(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    frames = "\tat org.apache.spark.scheduler.DAGScheduler\n" * 100
    log.write_text("begin\n" * 50 + "java.lang.IllegalStateException: why\n" + frames + "RuntimeError: so\n")
    lines = end_of_log(log).splitlines()
    assert lines[-2:] == ["java.lang.IllegalStateException: why", "RuntimeError: so"]
    assert len(lines) == 30
