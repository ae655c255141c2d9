"""The leader of a stream or consumer, as a node reports it."""

import pytest

from jetspark.server.cluster import reported_leader

OLD = {"name": "c", "raft_group": "S-R3M-x"}
GROUP = {**OLD, "traffic_account": "$SYS"}
SINCE = "2031-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("cluster", "leader"),
    [
        pytest.param({**GROUP, "leader": "a", "leader_since": SINCE}, "a", id="itself"),
        pytest.param({**GROUP, "leader": "a"}, "", id="itself, and it does not answer yet"),
        pytest.param({**GROUP, "leader": "b"}, "b", id="another one"),
        pytest.param(GROUP, "", id="nobody"),
        pytest.param({"name": "c", "leader": "a"}, "a", id="itself, without replicas"),
        pytest.param({**OLD, "leader": "a"}, "a", id="itself, on a server that never says since when"),
    ],
)
def test_a_node_is_leader_if_it_reports_since_when(cluster: dict[str, str], leader: str) -> None:
    assert reported_leader("a", {"name": "S", "cluster": cluster}) == leader
    assert reported_leader("a", {"name": "S"}) == ""
