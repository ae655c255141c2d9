"""A chaos run: numbers are published while queries read them, and everything that can fail fails. Each number once?

    python -m tests.chaos.campaign            50 faults over 1,000,000 messages; prints faults, lost, duplicated

Legs: a limits stream, an interest stream with `commitMode` = `consumer`, a work queue with `purge` and a stream that
is purged and made again, each into Parquet; the limits stream once more with a filter, and into five streams by the
sink: with a `ledgerStream`, without one, in atomic batches, and with a short duplicate window, with and without a
`ledgerStream`.

Faults: SIGKILL of the driver, of a driver whose executors continue beside the next one, of an executor, of the server
or the leader; a server that is silent for 8 s or 60 s, that is in lame duck mode, or away for longer than the short
duplicate window; a full disk; a leader that steps down, or that is cut off from the other servers; cut connections and
a slow link; a purge and a deletion of a stream; a fault of the servers together with one of the driver. Only faults
that happened count.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from tests.chaos.driver import Driver
from tests.chaos.faults import FaultMaker
from tests.chaos.job import Job, drain
from tests.chaos.legs import COMMIT_CONSUMER, LEGS, TARGETS, make_leg
from tests.chaos.publisher import Publisher
from tests.chaos.verdict import Verdict
from tests.chaos.world import World, cluster, single
from tests.spark.committing import await_interest

from jetspark import bulk
from jetspark.errors import Error
from jetspark.jetstream.api import ConsumerInfoRequest

__all__ = ["LEGS", "Campaign", "Verdict", "run"]

BATCH_TIMEOUT = 600.0  # Spark starts again, with all its processes, on a machine that may be busy
DRAIN_TIMEOUT = 900.0
PUBLISH_TIMEOUT = 300.0
CONF = {
    "spark.task.maxFailures": "8",
    "spark.python.authenticate.socketTimeout": "120s",  # the processes of Spark, on a machine that may be busy
}


@dataclass(frozen=True)
class Campaign:
    """The settings of a run.

    Attributes
    ----------
    where
        Creates the servers.
    legs
        The names of the legs from `LEGS`.
    faults
        How many.
    numbers
        How many messages are published to each stream.
    seed
        Of all random choices.
    kinds
        The kinds of faults; None uses all.
    await_consumers
        Check at the end whether the consumers of killed tasks are removed, which takes half a minute.
    """

    where: Callable[[random.Random], AbstractContextManager[World]]
    legs: Sequence[str]
    faults: int
    numbers: int
    seed: int
    kinds: Sequence[str] | None = None
    await_consumers: bool = True


def run(
    campaign: Campaign,
    folder: Path,
    tell: Callable[[str], object] = lambda line: None,
    spark: SparkSession | None = None,
) -> Verdict:
    """Run the campaign. `tell` gets a line for each fault. `spark` reads the rest; None creates a session."""
    chance = random.Random(campaign.seed)
    verdict = Verdict()
    with campaign.where(chance) as world:
        legs = [make_leg(world, name, folder / name, campaign.numbers) for name in campaign.legs]
        streams = sorted({leg["options"]["stream"] for leg in legs})
        targets = [TARGETS[leg["name"]] for leg in legs if leg["sink"]]
        job = Job(master="local-cluster[1,2,1024]", conf=CONF, legs=legs)
        for leg in legs:
            leg["options"]["maxOffsetsPerTrigger"] = str(max(campaign.numbers // (2 * campaign.faults), 100))
        driver = Driver(folder, job)
        publisher = Publisher(world.servers, streams, campaign.numbers)
        world.publisher_paused = lambda: publisher.paused
        faults = FaultMaker(world, driver, campaign.legs, [*streams, *targets], chance)
        try:
            driver.start()
            _await_commit_consumers(world, streams, driver)
            publisher.start()
            for done, fault in enumerate(faults.choose(campaign.faults, campaign.kinds), 1):
                mark = driver.mark()
                publisher.allow(campaign.numbers * (2 * done - 1) // (2 * campaign.faults))
                driver.await_batches(campaign.legs, BATCH_TIMEOUT, mark)
                publisher.allow(campaign.numbers * done // campaign.faults)
                time.sleep(chance.uniform(0.0, 1.0))  # at a random time during the next micro-batches of each leg
                tell(f"{done}/{campaign.faults} {fault}, {publisher.done} of {campaign.numbers} published")
                faults.do(fault)
                verdict.faults[fault] += 1
            publisher.finish(PUBLISH_TIMEOUT)
        finally:
            driver.kill()
        found = driver.drain(DRAIN_TIMEOUT) if spark is None else drain(spark, legs, driver.note_failure)
        verdict.starts, verdict.failures = driver.starts, driver.failures
        verdict.judge(world, legs, found, await_consumers=campaign.await_consumers)
    return verdict


def _await_commit_consumers(world: World, streams: Sequence[str], driver: Driver) -> None:
    """An interest stream keeps no message before it has a consumer."""
    deadline = time.monotonic() + BATCH_TIMEOUT
    while "INTEREST" in streams:
        try:
            with bulk.connect(world.servers) as connection:
                connection.request(ConsumerInfoRequest("INTEREST", COMMIT_CONSUMER))
        except Error as error:
            if time.monotonic() > deadline or not driver.running:
                raise TimeoutError(f"no commit consumer: {driver.log()}") from error
            time.sleep(0.1)  # Spark starts
        else:
            await_interest(world.nodes, "INTEREST", COMMIT_CONSUMER)
            return


def main() -> int:
    """Run the long form and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument(
        "--folder", type=Path, help="keep logs, checkpoints and files there, in a new folder for each run"
    )
    given = parser.parse_args()
    share, faults = given.messages // 8, given.faults * 3 // 5  # four streams in one, four in the other
    campaigns = {
        "one server": Campaign(single, LEGS, faults, share, given.seed),
        "three servers": Campaign(cluster, LEGS, given.faults - faults, given.messages // 4 - share, given.seed),
    }
    print(f"seed {given.seed}")
    verdicts = []
    for name, campaign in campaigns.items():
        folder = Path(tempfile.mkdtemp(prefix=f"{name.replace(' ', '-')}-", dir=given.folder))
        verdict = run(campaign, folder, lambda line: print(line, flush=True))
        if given.folder is None:
            shutil.rmtree(folder)
        verdicts.append(verdict)
        for number, line in enumerate(verdict.lines(campaign.numbers)):
            print(line if number else f"{name}: {line}")
    clean = all(verdict.clean for verdict in verdicts)
    lost = sum(sum(verdict.lost.values()) for verdict in verdicts)
    duplicated = sum(sum(verdict.duplicated.values()) for verdict in verdicts)
    print(
        f"{sum(verdict.faults.total() for verdict in verdicts)} faults over {given.messages} messages: lost {lost}, "
        f"duplicated {duplicated}; {'each' if clean else 'NOT each'} number exactly once"
    )
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
