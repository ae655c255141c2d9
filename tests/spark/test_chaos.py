"""The short form of `make chaos`: a driver, an executor, the server and the connections, each killed once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.chaos.campaign import Campaign, run
from tests.chaos.world import single

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_each_number_comes_through_exactly_once_whatever_is_killed(session: SparkSession, tmp_path: Path) -> None:
    """R61: counts are the same after restarts, wherever they hit."""
    campaign = Campaign(single, ("limits", "workqueue"), faults=4, numbers=8_000, seed=20261128, await_consumers=False)
    verdict = run(campaign, tmp_path, spark=session)
    assert verdict.faults == {"kill driver": 1, "kill executor": 1, "kill server": 1, "cut connections": 1}
    assert verdict.lost == {"limits": 0, "workqueue": 0}
    assert verdict.duplicated == {"limits": 0, "workqueue": 0}
    assert verdict.kept == {"WORKQUEUE": 0}
    assert verdict.clean
