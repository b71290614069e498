"""A cluster that changed step by step equals a new cluster of its objects."""

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import ABSENT, CategoryColumn, IntegerColumn
from tallygate.accounting.cluster.pod_info import HostPort, PodInfo, create_pod_info
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.objects.scheduling import SchedulingNode, SchedulingPod

_NODES = st.sampled_from(["n0", "n1", "n2"])
_UIDS = st.sampled_from(["u0", "u1", "u2", "u3"])
_NAMESPACES = st.sampled_from(["red", "blue"])
_LABELS = st.dictionaries(st.sampled_from(["app", "zone"]), st.sampled_from(["a", "b"]), max_size=2)
_AMOUNTS = st.sampled_from(["1", "2", "9223372036854775807", "4Ei"])
_TAINTS = st.lists(
    st.fixed_dictionaries({"key": st.sampled_from(["gpu", "spot"]), "effect": st.just("NoSchedule")}), max_size=2
)
_LISTS = st.dictionaries(st.sampled_from(["cpu", "example.com/gpu", "pods"]), _AMOUNTS, max_size=3)
_TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}


def _node(name: str, labels: dict[str, str], taints: list[dict[str, str]], has: dict[str, str]) -> SchedulingNode:
    node = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": bool(taints)},
        "status": {"allocatable": has},
    }
    return msgspec.json.decode(msgspec.json.encode(node), type=SchedulingNode)


def _pod(  # noqa: PLR0913  # the drawn fields of a pod
    uid: str,
    namespace: str,
    labels: dict[str, str],
    node: str,
    requests: dict[str, str],
    *,
    has_anti_affinity: bool,
    is_terminating: bool,
    priority: int = 0,
) -> SchedulingPod:
    container = {
        "name": "c",
        "resources": {"requests": requests},
        "ports": [{"hostPort": 80}] if "cpu" in requests else [],
    }
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}
    pod = {
        "metadata": {"uid": uid, "name": uid, "namespace": namespace, "labels": labels}
        | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if is_terminating else {}),
        "spec": {"nodeName": node, "containers": [container], "priority": priority}
        | ({"affinity": {"podAntiAffinity": terms}} if has_anti_affinity else {}),
        "status": {"phase": "Running"},
    }
    return msgspec.json.decode(msgspec.json.encode(pod), type=SchedulingPod)


def _content(cluster: Cluster) -> dict[str, object]:
    """Return all readable state of a cluster, by names."""
    nodes = cluster.nodes
    indices = {nodes.get_name(index): index for index in nodes.get_indices().tolist()}
    return {
        "has": {name: nodes.get_allocatable(index) for name, index in indices.items()},
        "uses": {name: nodes.get_used(index) for name, index in indices.items()},
        "pods": {name: nodes.pods[index] for name, index in indices.items()},
        "weights": {
            name: [nodes.non_zero_requests[each][index] for each in nodes.non_zero_requests]
            for name, index in indices.items()
        },
        "labels": {name: nodes.get_labels(index) for name, index in indices.items()},
        "by label": {
            (name, key): column.value(index)
            for name, index in indices.items()
            for key in ("app", "zone")
            if (column := nodes.find_label_column(key)) is not None and column.ids[index] != ABSENT
        },
        "taints": {name: nodes.taints.value(index) for name, index in indices.items()},
        "closed": {name: bool(nodes.unschedulable[index]) for name, index in indices.items()},
        "on": {name: set(cluster.get_node_pods(index)) for name, index in indices.items()},
        "ports": {
            nodes.get_name(index): dict(addresses)
            for index, addresses in cluster.get_port_users(HostPort("TCP", 80, "0.0.0.0")).items()  # noqa: S104  # every address
        },
        "groups": {
            namespace: sorted(
                (
                    sorted(group.labels.items()),
                    sorted(group.requests.items()),
                    bool(group.anti_affinity),
                    sorted((nodes.get_name(index), pods) for index, pods in group.pod_counts.items()),
                    sorted((nodes.get_name(index), pods) for index, pods in group.terminating_counts.items()),
                )
                for group in cluster.label_index.find_in_namespace(namespace)
            )
            for namespace in sorted(cluster.label_index.namespaces())
        },
        "repelling": len(cluster.anti_affinity_index),
        "below": {
            (priority, name, resource): int(
                cluster.priority_usage.sum_lower_priorities(priority, resource, used.array)[index]
            )
            for priority in range(-1, 4)
            for resource in ("cpu", "example.com/gpu", "pods")
            if (used := nodes.pods if resource == "pods" else nodes.find_used_column(resource)) is not None
            for name, index in indices.items()
            if used[index]
        },
    }


class ChangingCluster(RuleBasedStateMachine):
    """A cluster whose nodes and pods are added, changed and removed; some pods name a missing node."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.nodes: dict[str, SchedulingNode] = {}
        self.pods: dict[str, SchedulingPod] = {}

    @rule(name=_NODES, labels=_LABELS, taints=_TAINTS, has=_LISTS)
    def put_node(self, name: str, labels: dict[str, str], taints: list[dict[str, str]], has: dict[str, str]) -> None:
        """Add or replace a node."""
        self.nodes[name] = _node(name, labels, taints, has)
        self.cluster.put_node(self.nodes[name])

    @rule(name=_NODES)
    def remove_node(self, name: str) -> None:
        """Remove a node, if it exists."""
        self.nodes.pop(name, None)
        self.cluster.remove_node(name)

    @rule(
        uid=_UIDS,
        namespace=_NAMESPACES,
        labels=_LABELS,
        node=_NODES,
        requests=_LISTS,
        has_anti_affinity=st.booleans(),
        is_terminating=st.booleans(),
        priority=st.integers(-1, 2),
    )
    def put_pod(  # noqa: PLR0913  # the drawn fields of a pod
        self,
        *,
        uid: str,
        namespace: str,
        labels: dict[str, str],
        node: str,
        requests: dict[str, str],
        has_anti_affinity: bool,
        is_terminating: bool,
        priority: int,
    ) -> None:
        """Add or replace a pod."""
        self.pods[uid] = _pod(
            uid,
            namespace,
            labels,
            node,
            requests,
            has_anti_affinity=has_anti_affinity,
            is_terminating=is_terminating,
            priority=priority,
        )
        self.cluster.put_pod(_create_pod_info(self.cluster, self.pods[uid]))

    @rule(uid=_UIDS)
    def remove_pod(self, uid: str) -> None:
        """Remove a pod, if it exists."""
        removed = self.cluster.remove_pod(uid)
        assert (removed is None) is (self.pods.pop(uid, None) is None)

    @invariant()
    def equals_a_new_cluster(self) -> None:
        """Check that a new cluster of the same objects has the same state."""
        rebuilt = Cluster()
        for node in self.nodes.values():
            rebuilt.put_node(node)
        for pod in self.pods.values():
            rebuilt.put_pod(_create_pod_info(rebuilt, pod))
        assert _content(self.cluster) == _content(rebuilt)
        assert len(self.cluster) == len(self.pods)


def _create_pod_info(cluster: Cluster, pod: SchedulingPod) -> PodInfo:
    found = create_pod_info(pod, cluster.groups)
    assert found is not None
    return found


TestChangingCluster = ChangingCluster.TestCase


def test_indices_of_removed_nodes_are_reused() -> None:
    cluster = Cluster()
    for number in range(1000):
        cluster.put_node(_node(f"n{number}", {"host": f"n{number}"}, [], {"cpu": "1"}))
        cluster.put_pod(
            _create_pod_info(
                cluster,
                _pod(
                    "u", "red", {"number": str(number)}, f"n{number}", {}, has_anti_affinity=True, is_terminating=False
                ),
            )
        )
        cluster.remove_pod("u")
        cluster.remove_node(f"n{number}")
    assert (cluster.nodes.size, len(cluster.nodes), len(cluster.groups)) == (64, 0, 0)
    assert cluster.nodes.find_label_column("host") is None


def test_columns_grow_with_the_number_of_nodes() -> None:
    cluster = Cluster()
    for number in range(200):
        cluster.put_node(_node(f"n{number}", {"zone": str(number % 3)}, [], {"cpu": str(number)}))
    assert len(cluster.nodes) == 200
    index = cluster.nodes.find_index("n150")
    assert index is not None
    assert cluster.nodes.get_allocatable(index) == Amounts({"cpu": 150_000})
    zone = cluster.nodes.find_label_column("zone")
    assert zone is not None
    assert int(zone.mask_values(["0"]).sum()) == 67


def test_an_invalid_node_leaves_the_cluster_unchanged() -> None:
    cluster = Cluster()
    cluster.put_node(_node("n", {"a": "b"}, [], {"cpu": "1"}))
    before = _content(cluster)
    with pytest.raises(QuantityError):
        cluster.put_node(_node("n", {"a": "c"}, [], {"cpu": "one"}))
    assert _content(cluster) == before


@pytest.mark.parametrize("number", [(1 << 62) - 1, 1 << 62, 1 << 63, -(1 << 62), 10**40])
def test_integers_of_any_size_are_exact(number: int) -> None:
    column = IntegerColumn(2)
    column[1] = 5
    column[0] = number
    column[0] += 1
    column.grow(4)
    assert (column[0], column[1], column[3]) == (number + 1, 5, 0)
    assert (column.array < number).tolist() == [False, number > 5, number > 0, number > 0]


def test_a_category_is_removed_with_its_last_index() -> None:
    column: CategoryColumn[str] = CategoryColumn(3)
    column.put(0, "a")
    column.put(1, "a")
    column.put(0, "b")
    column.put(1, None)
    assert dict(column.numbers()) == {"b": column.number("b")}
    assert column.number("a") == ABSENT
    column.put(2, "c")
    assert len(column) == 2
    assert column.mask_matching(lambda value: value > "b").tolist() == [False, False, True]


def test_the_usage_of_lower_priorities_is_an_exact_sum() -> None:
    cluster, each = Cluster(), str(1 << 61)
    cluster.put_node(_node("n", {}, [], {"example.com/gpu": "100E"}))
    for number in range(5):
        requests = {"example.com/gpu": each}
        cluster.put_pod(
            _create_pod_info(
                cluster,
                _pod(
                    f"u{number}",
                    "red",
                    {},
                    "n",
                    requests,
                    has_anti_affinity=False,
                    is_terminating=False,
                    priority=number,
                ),
            )
        )
    used = cluster.nodes.find_used_column("example.com/gpu")
    assert used is not None
    for priority in range(6):
        assert cluster.priority_usage.sum_lower_priorities(priority, "example.com/gpu", used.array)[0] == priority << 61
        assert cluster.priority_usage.sum_lower_priorities(priority, "pods", cluster.nodes.pods.array)[0] == priority
