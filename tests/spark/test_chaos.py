"""The short form of `make chaos`: a driver, an executor, the servers and the connections are killed once each."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.chaos.campaign import Campaign, Verdict, run
from tests.chaos.world import cluster, single

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEED = 20261128


def assert_clean(verdict: Verdict, campaign: Campaign, *released: str) -> None:
    assert campaign.kinds is not None
    assert verdict.faults == dict.fromkeys(campaign.kinds, 1)
    nothing = dict.fromkeys(campaign.legs, 0)
    assert (verdict.lost, verdict.duplicated, verdict.strange) == (nothing, nothing, nothing)
    assert verdict.kept == dict.fromkeys(released, 0)
    assert verdict.clean


@pytest.mark.matrix
def test_each_number_arrives_exactly_once_whatever_is_killed(session: SparkSession, tmp_path: Path) -> None:
    """R61: counts are the same after restarts at any time, even if an executor outlives its driver."""
    kinds = ("orphan executor", "kill executor", "kill server", "cut connections")
    legs = ("filtered", "workqueue", "sink")
    campaign = Campaign(single, legs, len(kinds), numbers=8_000, seed=SEED, kinds=kinds, await_consumers=False)
    assert_clean(run(campaign, tmp_path, spark=session), campaign, "WORKQUEUE")


@pytest.mark.matrix
def test_each_number_arrives_exactly_once_during_elections(session: SparkSession, tmp_path: Path) -> None:
    """The leaders of three servers are killed and step down, for an interest stream and for the stream of the sink."""
    kinds = ("kill leader", "leader steps down")
    legs = ("interest", "plain")
    campaign = Campaign(cluster, legs, len(kinds), numbers=4_000, seed=SEED, kinds=kinds, await_consumers=False)
    assert_clean(run(campaign, tmp_path, spark=session), campaign, "INTEREST")
