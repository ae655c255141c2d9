"""The short form of `make chaos`: each fault once, in a few runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.chaos.campaign import Campaign, Verdict, run
from tests.chaos.full_disk import can_mount
from tests.chaos.world import cluster, single

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEED = 20261128


def assert_clean(verdict: Verdict, campaign: Campaign, *released: str) -> None:
    assert campaign.kinds is not None
    assert verdict.faults == dict.fromkeys(campaign.kinds, 1)
    nothing = dict.fromkeys(campaign.legs, 0)
    assert (verdict.lost, verdict.duplicated, verdict.strange) == (nothing, nothing, nothing)
    assert verdict.kept == dict.fromkeys(released, 0)
    assert verdict.clean, list(verdict.lines(campaign.numbers))


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


@pytest.mark.matrix
def test_each_lost_number_is_named_when_a_stream_is_purged_or_made_again(session: SparkSession, tmp_path: Path) -> None:
    """The queries fail with the reason; a start that allows the loss reads the rest."""
    kinds = ("purge stream", "make stream again")
    campaign = Campaign(single, ["purged"], len(kinds), numbers=4_000, seed=SEED, kinds=kinds, await_consumers=False)
    assert_clean(run(campaign, tmp_path, spark=session), campaign)


@pytest.mark.matrix
def test_each_number_arrives_exactly_once_although_a_server_does_not_serve(
    session: SparkSession, tmp_path: Path
) -> None:
    """It has no room, is silent, leaves, or is away for longer than the duplicate window; the link is slow."""
    kinds = (
        *(["full disk"] if can_mount() else []),
        "silent server for 8 s",
        "silent server for 60 s",
        "lame duck server",
        "outage longer than the window",
        "slow link",
        "two at once",
    )
    legs = ("limits", "window")
    campaign = Campaign(single, legs, len(kinds), numbers=14_000, seed=SEED, kinds=kinds, await_consumers=False)
    assert_clean(run(campaign, tmp_path, spark=session), campaign)


@pytest.mark.matrix
def test_each_number_arrives_exactly_once_although_a_leader_is_cut_off(session: SparkSession, tmp_path: Path) -> None:
    """Its clients still reach it, and it reaches no other server."""
    kinds = ("cut off leader", "silent leader for 8 s")
    legs = ("limits", "window")
    campaign = Campaign(cluster, legs, len(kinds), numbers=4_000, seed=SEED, kinds=kinds, await_consumers=False)
    assert_clean(run(campaign, tmp_path, spark=session), campaign)
