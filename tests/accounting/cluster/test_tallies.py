"""Counts of what selectors select, kept up with what changes."""

from collections.abc import Mapping

import pytest

from tests.accounting.scheduling.clusters import cluster_of, node, node_of, pod, pod_of
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import PodInfo, create_pod_info
from webhook.accounting.selectors import MATCH_EVERYTHING, MATCH_NOTHING, Selector, create_selector

_RED = frozenset({"red"})


def _placed(cluster: Cluster, uid: str, on: str, labels: Mapping[str, str], namespace: str = "red") -> PodInfo:
    written = pod(uid, on=on, labels=labels)
    written["metadata"]["namespace"] = namespace
    found = create_pod_info(pod_of(written), cluster.groups)
    assert found is not None
    return found


def _counted(cluster: Cluster, selector: Selector, namespaces: frozenset[str] | None = _RED) -> list[int]:
    tally = cluster.selector_counts.count_pods(selector, namespaces, cluster.nodes.size)
    return [int(pods) for pods in tally.pods[: len(cluster.nodes)]]


@pytest.fixture
def cluster() -> Cluster:
    return cluster_of([node("n0"), node("n1")])


def test_pods_that_come_and_go_are_counted(cluster: Cluster) -> None:
    app = create_selector({"app": "a"})
    assert _counted(cluster, app) == [0, 0]
    cluster.put_pod(_placed(cluster, "u0", "n0", {"app": "a"}))
    cluster.put_pod(_placed(cluster, "u1", "n1", {"app": "a", "rev": "1"}))
    cluster.put_pod(_placed(cluster, "u2", "n1", {"app": "b"}))
    cluster.put_pod(_placed(cluster, "u3", "n1", {"app": "a"}, namespace="blue"))
    assert _counted(cluster, app) == [1, 1]
    assert _counted(cluster, app, None) == [1, 2]
    cluster.remove_pod("uid-u0")
    assert _counted(cluster, app) == [0, 1]


def test_a_pod_that_starts_to_leave_is_counted_as_leaving_too(cluster: Cluster) -> None:
    there = _placed(cluster, "u", "n0", {"app": "a"})
    cluster.put_pod(there)
    tally = cluster.selector_counts.count_pods(MATCH_EVERYTHING, None, cluster.nodes.size)
    assert (tally.pods[0], tally.terminating[0]) == (1, 0)
    cluster.put_pod(there._replace(is_terminating=True))
    tally = cluster.selector_counts.count_pods(MATCH_EVERYTHING, None, cluster.nodes.size)
    assert (tally.pods[0], tally.terminating[0]) == (1, 1)


def test_what_selects_nothing_counts_nothing(cluster: Cluster) -> None:
    cluster.put_pod(_placed(cluster, "u", "n0", {}))
    assert _counted(cluster, MATCH_NOTHING) == [0, 0]
    assert _counted(cluster, MATCH_EVERYTHING) == [1, 0]


def test_many_changes_at_once_are_counted_anew(cluster: Cluster) -> None:
    app = create_selector({"app": "a"})
    assert _counted(cluster, app) == [0, 0]
    for number in range(5000):
        cluster.put_pod(_placed(cluster, f"u{number}", f"n{number % 2}", {"app": "ab"[number % 3 == 0]}))
    assert _counted(cluster, app) == [1666, 1667]


def test_many_selectors_take_turns(cluster: Cluster) -> None:
    selectors = [create_selector({"app": f"a{number}"}) for number in range(200)]
    for number, each in enumerate(selectors):
        assert _counted(cluster, each) == [0, 0]
        cluster.put_pod(_placed(cluster, f"u{number}", "n1", {"app": f"a{number}"}))
    assert [_counted(cluster, each) for each in selectors] == [[0, 1]] * 200


def test_nodes_that_come_later_have_their_pods_counted(cluster: Cluster) -> None:
    assert _counted(cluster, MATCH_EVERYTHING) == [0, 0]
    for number in range(2, 300):
        cluster.put_node(node_of(node(f"n{number}")))
    cluster.put_pod(_placed(cluster, "u", "n299", {}))
    assert sum(_counted(cluster, MATCH_EVERYTHING)) == 1
