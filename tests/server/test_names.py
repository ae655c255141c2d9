"""Names of servers and clusters, which are also names of folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetspark.server import NatsCluster, NatsServer


@pytest.mark.parametrize("name", ["", "../../x", "a/b", "..", ".hidden", "-option", "a b", "a\nb", "ü", "x" * 129])
def test_a_name_that_leaves_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        NatsCluster(name=name, store_dir=tmp_path / "stores")
    with pytest.raises(ValueError, match="name"):
        NatsServer(name=name)
    assert list(tmp_path.iterdir()) == []


def test_usual_names_are_kept() -> None:
    assert NatsServer(name="orders-1.eu_west").name == "orders-1.eu_west"
    assert [node.name for node in NatsCluster(name="orders").nodes] == ["orders-1", "orders-2", "orders-3"]
