"""The result of a chaos run: each number is counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.job import Found, Leg
from tests.chaos.legs import COMMIT_CONSUMER, TARGETS, UNGUARDED
from tests.chaos.world import World

from jetspark import bulk
from jetspark.jetstream.api import ConsumerNamesRequest

__all__ = ["Verdict"]

RELEASE_TIMEOUT = 30.0
CONSUMERS_GONE = 60.0  # the inactive threshold is half of it


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
        Numbers that are missing, that came more than once, and that should not exist, by leg. The guarantees say that
        there are none.
    removed
        Numbers that a fault removed from the stream before they were read, by leg.
    repeated
        Numbers that came more than once although nothing says that they do not, by leg.
    unreported
        Legs with removed numbers whose queries did not say so.
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
    removed: dict[str, int] = field(default_factory=dict)
    repeated: dict[str, int] = field(default_factory=dict)
    unreported: list[str] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)
    consumers: dict[str, list[str]] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether each number came through exactly once, and no message, no consumer and no loss is unexplained."""
        counts = (self.lost, self.duplicated, self.strange, self.kept, self.consumers)
        return not any(any(each.values()) for each in counts) and not self.unreported

    def judge(self, world: World, legs: Sequence[Leg], found: dict[str, Found], *, await_consumers: bool) -> None:
        """Count the numbers of each leg, and what is left on the servers."""
        for leg in legs:
            name, stream = leg["name"], leg["options"]["stream"]
            counts = _stored(world, TARGETS[name], leg) if leg["sink"] else found[name]
            removed = world.removed[stream] & set(map(_message, counts["missing"]))
            self.lost[name] = len(counts["missing"]) - len(removed)
            more = counts["rows"] - counts["strange"] - counts["different"]
            self.duplicated[name] = 0 if name == UNGUARDED else more
            self.strange[name] = counts["strange"]
            if name == UNGUARDED:
                self.repeated[name] = more
            if removed:
                self.removed[name] = len(removed)
                if not any(text.startswith(f"{name}: ") and "failOnDataLoss" in text for text in self.failures):
                    self.unreported.append(name)
            if leg["options"].get("commitMode"):
                self.kept[stream] = _kept(world, stream)
            if await_consumers:
                self.consumers[stream] = _consumers(world, stream)
        if "limits" in self.lost:
            numbers = world.messages("LIMITS")
            wanted = {_message(number) for number in range(1, legs[0]["numbers"] + 1)}
            if len(numbers) != len(wanted) or set(numbers) != wanted:
                raise AssertionError(
                    f"{len(wanted - set(numbers))} acknowledged numbers are not in the stream, and "
                    f"{len(numbers) - len(set(numbers))} are there twice: the server lost them, or the publisher"
                )

    def lines(self, numbers: int) -> Iterator[str]:
        """Return the result as text; `numbers` were published to each stream."""
        done = ", ".join(f"{count} x {fault}" for fault, count in sorted(self.faults.items()))
        yield f"{self.faults.total()} faults ({done}), {self.starts} starts of the driver"
        for failure, count in sorted(self.failures.items()):
            yield f"  failed and started again {count} x {failure}"
        for leg in self.lost:
            line = f"  {leg}: {numbers} numbers in its stream, lost {self.lost[leg]}, "
            line += f"duplicated {self.duplicated[leg]}, strange {self.strange[leg]}"
            if leg in self.removed:
                line += f"; {self.removed[leg]} removed from the stream before they were read"
                line += ", and NOT reported" if leg in self.unreported else ", and reported"
            if leg in self.repeated:
                line += f"; {self.repeated[leg]} stored twice, as nothing prevents it"
            yield line
        yield f"  committed and not released: {self.kept}; consumers left: {self.consumers}"


def _message(number: int) -> bytes:
    return b"%d" % number


def _stored(world: World, stream: str, leg: Leg) -> Found:
    numbers = Counter(world.messages(stream))
    wanted = {number for number in range(1, leg["numbers"] + 1) if number % 10 in leg["digits"]}
    missing = [number for number in wanted if _message(number) not in numbers]
    different = len(wanted) - len(missing)
    strange = numbers.total() - sum(numbers[_message(number)] for number in wanted)
    return Found(rows=numbers.total(), different=different, strange=strange, missing=missing)


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
