"""The set of ids in which a task looks up its own."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from jetspark.spark.write.id_set import IdSet

ids = st.lists(st.text(max_size=3), max_size=30)


@given(st.lists(ids, max_size=4), ids)
def test_the_set_contains_exactly_the_added_ids(added: list[list[str]], wanted: list[str]) -> None:
    stored = IdSet()
    for each in added:
        stored.add(pa.array(each, pa.string()))
    there = {text for each in added for text in each}
    assert stored.contains(pa.array(wanted, pa.string())).to_pylist() == [text in there for text in wanted]


def test_ids_can_be_added_after_a_lookup() -> None:
    stored = IdSet()
    looked = pa.array(["a", "b"])
    assert stored.contains(looked).to_pylist() == [False, False]
    stored.add(pa.array(["b", None, "c"]))
    assert stored.contains(looked).to_pylist() == [False, True]
    stored.add(pa.array(["a"]))
    assert stored.contains(looked).to_pylist() == [True, True]
    assert stored.contains(pa.array([], pa.string())).to_pylist() == []
