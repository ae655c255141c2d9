"""The benchmark: its measurements, its ratios, and one short run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.registry import Figure
from bench.report import Ratio, summarise
from bench.run import Run

from bench import registry

ROOT = Path(__file__).parents[2]


def figure(name: str, reference: str | None = None, *against: str) -> Figure:
    return Figure(name, lambda run: 1.0, "msg/s", "group", reference, against)


def test_the_expected_measurements_exist() -> None:
    registry.load()
    names = set(registry.FIGURES)
    assert names >= {"raw_drain", "scan", "raw_publish", "bulk_publish", "spark_read", "spark_write"}
    assert names >= {"publish_async", "consume", "fetch", "push"}
    assert names >= {"spark_read_nats_py", "spark_write_nats_py", "natsio_consume", "natsrpy_fetch"}
    for each in registry.FIGURES.values():
        assert set(each.references) <= names, each.name


def test_a_ratio_is_the_median_of_the_ratios_of_each_round() -> None:
    figures = [figure("raw"), figure("ours", "raw", "absent")]
    summaries, ratios = summarise(figures, {"raw": [10.0, 100.0, 1000.0], "ours": [9.0, 50.0, 700.0]})
    assert [(each.name, each.median, each.min, each.max, each.rounds) for each in summaries] == [
        ("raw", 100.0, 10.0, 1000.0, 3),
        ("ours", 50.0, 9.0, 700.0, 3),
    ]
    assert ratios == [Ratio("ours", "raw", 0.7)]


def test_a_measurement_includes_its_reference() -> None:
    registry.load()
    assert [each.name for each in registry.select(["scan"])] == ["raw_drain", "scan"]
    assert {"raw_drain", "raw_publish"} <= {each.name for each in registry.select(["raw"])}
    with pytest.raises(ValueError, match="no figure or group 'speed'"):
        registry.select(["speed"])


def test_a_quick_run_moves_fewer_messages_and_a_warm_up_even_fewer() -> None:
    run = Run(quick=True)
    assert (run.count(1_000_000), Run(quick=False).count(1_000_000)) == (200_000, 1_000_000)
    run.warming_up = True
    assert (run.count(1_000_000), run.count(10)) == (10_000, 1_000)


def test_a_run_prints_the_table_and_writes_the_json(tmp_path: Path) -> None:
    environment = {**os.environ, "ONLY": "bulk_publish", "QUICK": "1", "ROUNDS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "bench"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "build/bench.json").read_text())
    assert [each["name"] for each in written["figures"]] == ["raw_publish", "bulk_publish"]
    for each in written["figures"]:
        assert set(each) == {"name", "unit", "median", "min", "max", "rounds"}
        assert each["median"] > 1000
        assert each["name"] in done.stdout
    (ratio,) = written["ratios"]
    assert set(ratio) == {"name", "reference", "ratio"}
    assert (ratio["name"], ratio["reference"]) == ("bulk_publish", "raw_publish")


def test_an_unknown_measurement_is_reported_and_nothing_runs(tmp_path: Path) -> None:
    environment = {**os.environ, "ONLY": "speed", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "bench"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no figure or group 'speed'" in done.stderr
    assert not (tmp_path / "build").exists()
