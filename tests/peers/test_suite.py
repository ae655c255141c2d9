"""The suite of nats-py, if it is available: below `build/nats.py`, or at NATS_PY_SUITE."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.peers.left_out import LEFT_OUT
from tests.peers.run import find, run, tests_of

SUITE = Path(os.environ.get("NATS_PY_SUITE", Path(__file__).parents[2] / "build" / "nats.py"))

pytestmark = pytest.mark.skipif(not SUITE.is_dir(), reason="nats-py's suite is not there; `make peers` fetches it")


def test_tests_that_are_left_out_are_in_the_suite() -> None:
    classes = tests_of(find(SUITE))
    tests = {f"{name}::{test}" for name, names in classes.items() for test in names}
    assert set(LEFT_OUT) <= tests
    assert all(len(reason) > 5 for reason in LEFT_OUT.values())


@pytest.mark.slow
def test_the_suite_passes() -> None:
    assert run(find(SUITE), []) == 0
