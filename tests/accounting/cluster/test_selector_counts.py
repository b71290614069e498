"""Counts of the pods that selectors match, updated with every change."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.pod_info import PodInfo, create_pod_info
from tallygate.accounting.selectors import MATCH_EVERYTHING, MATCH_NOTHING, Selector, create_selector
from tests.accounting.scheduling.clusters import create_cluster, decode_node, decode_pod, node, pod

_RED = frozenset({"red"})


def _create_pod_info(cluster: Cluster, uid: str, on: str, labels: Mapping[str, str], namespace: str = "red") -> PodInfo:
    written = pod(uid, on=on, labels=labels)
    written["metadata"]["namespace"] = namespace
    found = create_pod_info(decode_pod(written), cluster.groups)
    assert found is not None
    return found


def _count_pods(cluster: Cluster, selector: Selector, namespaces: frozenset[str] | None = _RED) -> list[int]:
    counts = cluster.selector_counts.count_pods(selector, namespaces, cluster.nodes.size)
    return [int(pods) for pods in counts.pods[: len(cluster.nodes)]]


@pytest.fixture
def cluster() -> Cluster:
    return create_cluster([node("n0"), node("n1")])


def test_added_and_removed_pods_change_the_counts(cluster: Cluster) -> None:
    app = create_selector({"app": "a"})
    assert _count_pods(cluster, app) == [0, 0]
    cluster.put_pod(_create_pod_info(cluster, "u0", "n0", {"app": "a"}))
    cluster.put_pod(_create_pod_info(cluster, "u1", "n1", {"app": "a", "rev": "1"}))
    cluster.put_pod(_create_pod_info(cluster, "u2", "n1", {"app": "b"}))
    cluster.put_pod(_create_pod_info(cluster, "u3", "n1", {"app": "a"}, namespace="blue"))
    assert _count_pods(cluster, app) == [1, 1]
    assert _count_pods(cluster, app, None) == [1, 2]
    cluster.remove_pod("uid-u0")
    assert _count_pods(cluster, app) == [0, 1]


def test_a_terminating_pod_is_also_counted_as_terminating(cluster: Cluster) -> None:
    there = _create_pod_info(cluster, "u", "n0", {"app": "a"})
    cluster.put_pod(there)
    counts = cluster.selector_counts.count_pods(MATCH_EVERYTHING, None, cluster.nodes.size)
    assert (counts.pods[0], counts.terminating[0]) == (1, 0)
    cluster.put_pod(replace(there, is_terminating=True))
    counts = cluster.selector_counts.count_pods(MATCH_EVERYTHING, None, cluster.nodes.size)
    assert (counts.pods[0], counts.terminating[0]) == (1, 1)


def test_a_selector_that_matches_nothing_counts_no_pod(cluster: Cluster) -> None:
    cluster.put_pod(_create_pod_info(cluster, "u", "n0", {}))
    assert _count_pods(cluster, MATCH_NOTHING) == [0, 0]
    assert _count_pods(cluster, MATCH_EVERYTHING) == [1, 0]


def test_many_changes_at_once_change_the_counts(cluster: Cluster) -> None:
    app = create_selector({"app": "a"})
    assert _count_pods(cluster, app) == [0, 0]
    for number in range(5000):
        cluster.put_pod(_create_pod_info(cluster, f"u{number}", f"n{number % 2}", {"app": "ab"[number % 3 == 0]}))
    assert _count_pods(cluster, app) == [1666, 1667]


def test_more_selectors_than_the_cache_stores_are_counted(cluster: Cluster) -> None:
    selectors = [create_selector({"app": f"a{number}"}) for number in range(200)]
    for number, each in enumerate(selectors):
        assert _count_pods(cluster, each) == [0, 0]
        cluster.put_pod(_create_pod_info(cluster, f"u{number}", "n1", {"app": f"a{number}"}))
    assert [_count_pods(cluster, each) for each in selectors] == [[0, 1]] * 200


def test_pods_of_nodes_that_are_added_later_are_counted(cluster: Cluster) -> None:
    assert _count_pods(cluster, MATCH_EVERYTHING) == [0, 0]
    for number in range(2, 300):
        cluster.put_node(decode_node(node(f"n{number}")))
    cluster.put_pod(_create_pod_info(cluster, "u", "n299", {}))
    assert sum(_count_pods(cluster, MATCH_EVERYTHING)) == 1
