"""A chaos run: numbers are published while queries read them, and everything that can fail fails. Each number once?

    python -m tests.chaos.campaign            50 faults over 1,000,000 messages; prints faults, lost, duplicated

Legs: a limits stream, an interest stream with `commitMode` = `consumer` and a work queue with `purge`, each into
Parquet; the limits stream once more with a filter, and into three streams by the sink: with a `ledgerStream`, without
one, and in atomic batches. Faults: SIGKILL of the driver, of a driver whose executors continue beside the next one, of
an executor, of the server or the leader; a leader that steps down; cut connections. Only faults that happened count.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession
from tests.chaos.driver import Driver, DriverError
from tests.chaos.job import Found, Job, Leg, drain
from tests.chaos.publisher import Publisher
from tests.chaos.world import World, cluster, single
from tests.spark.committing import await_interest

from jetspark import bulk
from jetspark.errors import Error
from jetspark.jetstream import RetentionPolicy
from jetspark.jetstream.api import ConsumerInfoRequest, ConsumerNamesRequest

__all__ = ["LEGS", "Campaign", "Verdict", "run"]

LEGS = ("limits", "filtered", "interest", "workqueue", "sink", "plain", "atomic")
KILL_DRIVER, ORPHAN, KILL_EXECUTOR = "kill driver", "orphan executor", "kill executor"
DIGITS = list(range(10))
FILTERED = [3, 7]
TARGETS = {"sink": "TARGET", "plain": "PLAIN", "atomic": "ATOMIC"}
BATCH_TIMEOUT = 600.0  # Spark starts again, with all its processes, on a machine that may be busy
DRAIN_TIMEOUT = 900.0
PUBLISH_TIMEOUT = 300.0
FAULT_TIMEOUT = 120.0
ORPHAN_TIMEOUT = 75.0  # shorter than the duplicate window of a stream, including the time of a kill
WINDOW = timedelta(minutes=30)
RELEASE_TIMEOUT = 30.0
CONSUMERS_GONE = 60.0  # the inactive threshold is half of it
COMMIT_CONSUMER = "spark"
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


@dataclass
class Verdict:
    """The result of a run.

    Attributes
    ----------
    faults
        How often each fault happened.
    starts
        How often the driver was started.
    failures
        Queries that failed by themselves and were started again, with the reason.
    lost, duplicated, strange
        Numbers that are missing, that came more than once, and that should not exist, by leg.
    kept
        Messages that were committed and not released, by stream.
    consumers
        Consumers that were left on the server, by stream.
    """

    faults: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    lost: dict[str, int] = field(default_factory=dict)
    duplicated: dict[str, int] = field(default_factory=dict)
    strange: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    consumers: dict[str, list[str]] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether each number came through exactly once and no message or consumer was left."""
        counts = (self.lost, self.duplicated, self.strange, self.kept, self.consumers)
        return not any(any(each.values()) for each in counts)


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
        legs = [_leg(world, name, folder / name, campaign.numbers) for name in campaign.legs]
        streams = sorted({leg["options"]["stream"] for leg in legs})
        targets = [TARGETS[leg["name"]] for leg in legs if leg["sink"]]
        job = Job(master="local-cluster[1,2,1024]", conf=CONF, legs=legs)
        for leg in legs:
            leg["options"]["maxOffsetsPerTrigger"] = str(max(campaign.numbers // (2 * campaign.faults), 100))
        driver = Driver(folder, job)
        publisher = Publisher(world.servers, streams, campaign.numbers)
        try:
            driver.start()
            _await_commit_consumers(world, streams, driver)
            publisher.start()
            for done, fault in enumerate(_faults(world, campaign, chance), 1):
                mark = driver.mark()
                publisher.allow(campaign.numbers * (2 * done - 1) // (2 * campaign.faults))
                driver.await_batches(campaign.legs, BATCH_TIMEOUT, mark)
                publisher.allow(campaign.numbers * done // campaign.faults)
                time.sleep(chance.uniform(0.0, 1.0))  # at a random time during the next micro-batches of each leg
                tell(f"{done}/{campaign.faults} {fault}, {publisher.done} of {campaign.numbers} published")
                _do(world, driver, campaign.legs, fault, chance.choice([*streams, *targets]))
                verdict.faults[fault] += 1
            publisher.finish(PUBLISH_TIMEOUT)
        finally:
            driver.kill()
        found = driver.drain(DRAIN_TIMEOUT) if spark is None else drain(spark, legs)
        verdict.starts, verdict.failures = driver.starts, driver.failures
        _judge(world, legs, found, campaign, verdict)
    return verdict


def _leg(world: World, name: str, folder: Path, numbers: int) -> Leg:
    folder.mkdir()
    source: dict[str, dict[str, object]] = {
        "interest": {"retention": RetentionPolicy.INTEREST, "allow_direct": True},
        "workqueue": {"retention": RetentionPolicy.WORK_QUEUE, "allow_direct": True},
    }
    options: dict[str, str] = {
        "filtered": {"subject": ",".join(f"LIMITS.{digit}" for digit in FILTERED)},
        "interest": {"commitMode": "consumer", "commitConsumer": COMMIT_CONSUMER},
        "workqueue": {"commitMode": "purge"},
    }.get(name, {})
    stream = name.upper() if name in source else "LIMITS"
    world.create(stream, **source.get(name, {}))  # the same again, for the leg that shares it
    servers = ",".join(world.proxied)
    common = {"servers": servers, "stream": stream, "startingOffsets": "earliest", "retryTimeout": "60s"}
    sink: dict[str, str] = {}
    if name in TARGETS:
        # Without a record, only the duplicate window recognises repeats, even those of a driver that starts slowly.
        fields: dict[str, object] = {} if name == "sink" else {"duplicate_window": WINDOW}
        world.create(TARGETS[name], allow_atomic=name == "atomic", **fields)
        sink = {"servers": servers, "subject": f"{TARGETS[name]}.number", "ackTimeout": "30s"}
        sink |= {"ledgerStream": "PROGRESS"} if name == "sink" else {"maxReplayDelay": "30m"}
        sink |= {"atomic": "true"} if name == "atomic" else {}
    return Leg(
        name=name,
        options={**common, **options},
        sink=sink,
        folder=str(folder),
        numbers=numbers,
        digits=FILTERED if name == "filtered" else DIGITS,
    )


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


def _faults(world: World, campaign: Campaign, chance: random.Random) -> Iterator[str]:
    """Return each kind as often as any other, in random order."""
    kinds = campaign.kinds or [KILL_DRIVER, ORPHAN, KILL_EXECUTOR, *world.faults]
    rest = list(itertools.islice(itertools.cycle(kinds), campaign.faults))
    chance.shuffle(rest)
    yield from rest


def _do(world: World, driver: Driver, legs: Sequence[str], fault: str, stream: str) -> None:
    """Cause a fault, in several attempts if needed: there may be no executor or no leader at the moment."""
    deadline = time.monotonic() + FAULT_TIMEOUT
    while not _try(world, driver, legs, fault, stream):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{fault} could not be done: {driver.log()}")
        time.sleep(0.05)  # no event reports a new executor or leader


def _try(world: World, driver: Driver, legs: Sequence[str], fault: str, stream: str) -> bool:
    if fault == KILL_EXECUTOR:
        return driver.kill_executor()
    if fault not in {KILL_DRIVER, ORPHAN}:
        return world.faults[fault](stream)
    done = driver.kill() if fault == KILL_DRIVER else driver.orphan_executor()
    if not driver.running:
        driver.start()
    if fault == ORPHAN and done:
        with contextlib.suppress(DriverError):  # one of them may have nothing new to read
            driver.await_batches(legs, ORPHAN_TIMEOUT)
        driver.wake()
    return done


def _judge(world: World, legs: Sequence[Leg], found: dict[str, Found], campaign: Campaign, verdict: Verdict) -> None:
    for leg in legs:
        name, stream = leg["name"], leg["options"]["stream"]
        counts = _stored(world, TARGETS[name], leg) if leg["sink"] else found[name]
        verdict.lost[name] = len(_wanted(leg)) - counts["different"]
        verdict.duplicated[name] = counts["rows"] - counts["strange"] - counts["different"]
        verdict.strange[name] = counts["strange"]
        if leg["options"].get("commitMode"):
            verdict.kept[stream] = _kept(world, stream)
        if campaign.await_consumers:
            verdict.consumers[stream] = _consumers(world, stream)
    if "limits" in verdict.lost and world.info("LIMITS").state.messages != campaign.numbers:
        raise AssertionError("the publisher published a number twice, or not at all")


def _wanted(leg: Leg) -> set[bytes]:
    """Return the numbers that must come through, as they stand in the messages."""
    return {b"%d" % number for number in range(1, leg["numbers"] + 1) if number % 10 in leg["digits"]}


def _stored(world: World, stream: str, leg: Leg) -> Found:
    numbers: Counter[bytes] = Counter()
    with bulk.connect(world.servers) as connection, bulk.scan(connection, stream, columns=["data"]) as batches:
        for batch in batches:
            numbers.update(batch.column("data").to_pylist())
    wanted = _wanted(leg)
    strange = sum(count for number, count in numbers.items() if number not in wanted)
    return Found(rows=numbers.total(), different=len(wanted & numbers.keys()), strange=strange)


def _kept(world: World, stream: str) -> int:
    """Return the messages that are left, after every server of a cluster has had time to release messages."""
    deadline = time.monotonic() + RELEASE_TIMEOUT
    while (kept := world.info(stream).state.messages) and time.monotonic() < deadline:
        time.sleep(0.1)  # each server releases by itself, without an event
    return kept


def _consumers(world: World, stream: str) -> list[str]:
    """Return the consumers without the commit consumers, after those of killed tasks have had time to be removed."""
    deadline = time.monotonic() + CONSUMERS_GONE
    while True:
        with bulk.connect(world.servers) as connection:
            names = [name for name in connection.request(ConsumerNamesRequest(stream)).items if name != COMMIT_CONSUMER]
        if not names or time.monotonic() > deadline:
            return names
        time.sleep(0.5)  # the server sends no event when it removes one


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
    share, faults = given.messages // 6, given.faults * 3 // 5  # three streams in one, three in the other
    campaigns = {
        "one server": Campaign(single, LEGS, faults, share, given.seed),
        "three servers": Campaign(cluster, LEGS, given.faults - faults, given.messages // 3 - share, given.seed),
    }
    print(f"seed {given.seed}")
    verdicts = []
    for name, campaign in campaigns.items():
        folder = Path(tempfile.mkdtemp(prefix=f"{name.replace(' ', '-')}-", dir=given.folder))
        verdict = run(campaign, folder, lambda line: print(line, flush=True))
        if given.folder is None:
            shutil.rmtree(folder)
        verdicts.append(verdict)
        done = ", ".join(f"{count} x {fault}" for fault, count in sorted(verdict.faults.items()))
        print(f"{name}: {verdict.faults.total()} faults ({done}), {verdict.starts} starts of the driver")
        for failure, count in sorted(verdict.failures.items()):
            print(f"  failed and started again {count} x {failure}")
        for leg in verdict.lost:
            print(
                f"  {leg}: {campaign.numbers} numbers in its stream, lost {verdict.lost[leg]}, "
                f"duplicated {verdict.duplicated[leg]}, strange {verdict.strange[leg]}"
            )
        print(f"  committed and not released: {verdict.kept}; consumers left: {verdict.consumers}")
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
