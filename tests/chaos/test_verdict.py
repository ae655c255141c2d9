"""The verdict of a chaos run notices each kind of wrong number."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.chaos.job import Found, Leg
from tests.chaos.legs import UNGUARDED
from tests.chaos.verdict import Verdict
from tests.chaos.world import PURGED, World

LOSS = "set option failOnDataLoss = false"


class StoredWorld(World):
    """Streams with fixed messages."""

    def __init__(self, **streams: list[int]) -> None:
        super().__init__([], [], [], 1, {})
        self.streams = streams

    def messages(self, name: str) -> list[bytes]:
        return [b"%d" % number for number in self.streams[name]]


def leg(name: str, stream: str, *, sink: bool) -> Leg:
    target = {"subject": "x"} if sink else {}
    return Leg(name=name, options={"stream": stream}, sink=target, folder="", numbers=4, digits=list(range(10)))


def judged(world: World, *legs: Leg, failures: tuple[str, ...] = (), found: dict[str, Found] | None = None) -> Verdict:
    verdict = Verdict(failures=Counter(failures))
    verdict.judge(world, legs, found or {}, await_consumers=False)
    return verdict


def test_each_number_once_is_clean() -> None:
    verdict = judged(StoredWorld(TARGET=[1, 2, 3, 4]), leg("sink", "S", sink=True))
    assert verdict.clean
    assert (verdict.lost, verdict.duplicated, verdict.strange) == ({"sink": 0}, {"sink": 0}, {"sink": 0})


@pytest.mark.parametrize(
    ("stored", "wrong"),
    [([1, 2, 4], (1, 0, 0)), ([1, 2, 3, 3, 3, 4], (0, 2, 0)), ([1, 2, 3, 4, 9], (0, 0, 1)), ([1, 1, 9, 9], (3, 1, 2))],
)
def test_lost_and_repeated_and_strange_numbers_are_counted(stored: list[int], wrong: tuple[int, int, int]) -> None:
    verdict = judged(StoredWorld(TARGET=stored), leg("sink", "S", sink=True))
    assert (verdict.lost["sink"], verdict.duplicated["sink"], verdict.strange["sink"]) == wrong
    assert not verdict.clean


def test_repeated_numbers_are_only_counted_where_nothing_prevents_them() -> None:
    verdict = judged(StoredWorld(UNGUARDED=[1, 2, 2, 3, 4]), leg(UNGUARDED, "S", sink=True))
    assert verdict.clean
    assert verdict.repeated == {UNGUARDED: 1}
    assert "1 stored twice, as nothing prevents it" in "\n".join(verdict.lines(4))


@pytest.mark.parametrize(
    ("failures", "missing", "clean", "lost"),
    [
        ((f"purged: {LOSS}",), [2, 3], True, 0),
        ((f"limits: {LOSS}",), [2, 3], False, 0),
        ((), [2], False, 0),
        ((f"purged: {LOSS}",), [2, 4], False, 1),
        ((), [], True, 0),
    ],
)
def test_numbers_that_a_fault_removed_must_be_reported(
    failures: tuple[str, ...], missing: list[int], clean: bool, lost: int
) -> None:
    world = StoredWorld()
    world.removed[PURGED] = {b"1", b"2", b"3"}
    found = Found(rows=4 - len(missing), different=4 - len(missing), strange=0, missing=missing)
    verdict = judged(world, leg("purged", PURGED, sink=False), failures=failures, found={"purged": found})
    assert (verdict.clean, verdict.lost) == (clean, {"purged": lost})
    removed = len(set(missing) & {1, 2, 3})
    assert verdict.removed == ({"purged": removed} if removed else {})


def test_a_number_that_the_publisher_stored_twice_ends_the_run() -> None:
    found = {"limits": Found(rows=4, different=4, strange=0, missing=[])}
    with pytest.raises(AssertionError, match="0 acknowledged numbers are not in the stream, and 1 are there twice"):
        judged(StoredWorld(LIMITS=[1, 2, 3, 4, 4]), leg("limits", "LIMITS", sink=False), found=found)
