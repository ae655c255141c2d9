"""nats-py's own suite, where it is: below `build/nats.py`, or where NATS_PY_SUITE says."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
from tests.peers.left_out import LEFT_OUT, LEFT_OUT_CLASSES
from tests.peers.run import find, run

SUITE = Path(os.environ.get("NATS_PY_SUITE", Path(__file__).parents[2] / "build" / "nats.py"))

pytestmark = pytest.mark.skipif(not SUITE.is_dir(), reason="nats-py's suite is not there; `make peers` fetches it")


def test_what_is_left_out_is_in_the_suite() -> None:
    tree = ast.parse((find(SUITE) / "tests" / "test_js.py").read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    tests = {
        f"{name}::{function.name}"
        for name, node in classes.items()
        for function in node.body
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert set(LEFT_OUT_CLASSES) <= set(classes)
    assert set(LEFT_OUT) <= tests
    assert all(len(reason) > 5 for reason in (*LEFT_OUT.values(), *LEFT_OUT_CLASSES.values()))


@pytest.mark.slow
def test_the_suite_passes() -> None:
    assert run(find(SUITE), []) == 0
