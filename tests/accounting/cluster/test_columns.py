"""A cluster changed step by step is the cluster that would be built anew from what is there."""

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from webhook.accounting.amounts import Amounts
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import ABSENT, CategoryColumn, IntegerColumn
from webhook.accounting.cluster.pod_info import HostPort, PodInfo, create_pod_info
from webhook.accounting.quantity_parser import QuantityError
from webhook.objects.scheduling import SchedulingNode, SchedulingPod

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


def _pod(  # noqa: PLR0913  # what a pod is drawn from
    uid: str,
    namespace: str,
    labels: dict[str, str],
    node: str,
    asks: dict[str, str],
    *,
    shuns: bool,
    leaving: bool,
    priority: int = 0,
) -> SchedulingPod:
    container = {"name": "c", "resources": {"requests": asks}, "ports": [{"hostPort": 80}] if "cpu" in asks else []}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}
    pod = {
        "metadata": {"uid": uid, "name": uid, "namespace": namespace, "labels": labels}
        | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}),
        "spec": {"nodeName": node, "containers": [container], "priority": priority}
        | ({"affinity": {"podAntiAffinity": terms}} if shuns else {}),
        "status": {"phase": "Running"},
    }
    return msgspec.json.decode(msgspec.json.encode(pod), type=SchedulingPod)


def _content(cluster: Cluster) -> dict[str, object]:
    """All that anybody can ask a cluster, by names."""
    nodes = cluster.nodes
    places = {nodes.get_name(place): place for place in nodes.get_indices().tolist()}
    return {
        "has": {name: nodes.get_allocatable(place) for name, place in places.items()},
        "uses": {name: nodes.get_used(place) for name, place in places.items()},
        "pods": {name: nodes.pods[place] for name, place in places.items()},
        "weights": {
            name: [nodes.non_zero_requests[each][place] for each in nodes.non_zero_requests]
            for name, place in places.items()
        },
        "labels": {name: nodes.get_labels(place) for name, place in places.items()},
        "by label": {
            (name, key): column.value(place)
            for name, place in places.items()
            for key in ("app", "zone")
            if (column := nodes.find_label_column(key)) is not None and column.ids[place] != ABSENT
        },
        "taints": {name: nodes.taints.value(place) for name, place in places.items()},
        "closed": {name: bool(nodes.unschedulable[place]) for name, place in places.items()},
        "on": {name: set(cluster.get_node_pods(place)) for name, place in places.items()},
        "ports": {
            nodes.get_name(place): dict(addresses)
            for place, addresses in cluster.get_port_users(HostPort("TCP", 80, "0.0.0.0")).items()  # noqa: S104  # every address
        },
        "shapes": {
            namespace: sorted(
                (
                    sorted(shape.labels.items()),
                    sorted(shape.requests.items()),
                    bool(shape.anti_affinity),
                    sorted((nodes.get_name(place), pods) for place, pods in shape.pod_counts.items()),
                    sorted((nodes.get_name(place), pods) for place, pods in shape.terminating_counts.items()),
                )
                for shape in cluster.label_index.find_in_namespace(namespace)
            )
            for namespace in sorted(cluster.label_index.namespaces())
        },
        "repelling": len(cluster.anti_affinity_index),
        "below": {
            (priority, name, resource): int(
                cluster.priority_usage.sum_lower_priorities(priority, resource, used.array)[place]
            )
            for priority in range(-1, 4)
            for resource in ("cpu", "example.com/gpu", "pods")
            if (used := nodes.pods if resource == "pods" else nodes.find_used_column(resource)) is not None
            for name, place in places.items()
            if used[place]
        },
    }


class Changing(RuleBasedStateMachine):
    """Nodes and pods come, change and go, in any order; some pods name a node that is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.nodes: dict[str, SchedulingNode] = {}
        self.pods: dict[str, SchedulingPod] = {}

    @rule(name=_NODES, labels=_LABELS, taints=_TAINTS, has=_LISTS)
    def put_node(self, name: str, labels: dict[str, str], taints: list[dict[str, str]], has: dict[str, str]) -> None:
        """A node comes, or is another now."""
        self.nodes[name] = _node(name, labels, taints, has)
        self.cluster.put_node(self.nodes[name])

    @rule(name=_NODES)
    def remove_node(self, name: str) -> None:
        """A node goes, if it is there."""
        self.nodes.pop(name, None)
        self.cluster.remove_node(name)

    @rule(
        uid=_UIDS,
        namespace=_NAMESPACES,
        labels=_LABELS,
        node=_NODES,
        asks=_LISTS,
        shuns=st.booleans(),
        leaving=st.booleans(),
        priority=st.integers(-1, 2),
    )
    def put_pod(  # noqa: PLR0913  # what a pod is drawn from
        self,
        *,
        uid: str,
        namespace: str,
        labels: dict[str, str],
        node: str,
        asks: dict[str, str],
        shuns: bool,
        leaving: bool,
        priority: int,
    ) -> None:
        """A pod comes, or is another now."""
        self.pods[uid] = _pod(uid, namespace, labels, node, asks, shuns=shuns, leaving=leaving, priority=priority)
        self.cluster.put_pod(_on(self.cluster, self.pods[uid]))

    @rule(uid=_UIDS)
    def remove_pod(self, uid: str) -> None:
        """A pod goes, if it is there."""
        gone = self.cluster.remove_pod(uid)
        assert (gone is None) is (self.pods.pop(uid, None) is None)

    @invariant()
    def is_as_built_anew(self) -> None:
        """Nothing is left of what was, and nothing is lost."""
        anew = Cluster()
        for node in self.nodes.values():
            anew.put_node(node)
        for pod in self.pods.values():
            anew.put_pod(_on(anew, pod))
        assert _content(self.cluster) == _content(anew)
        assert len(self.cluster) == len(self.pods)


def _on(cluster: Cluster, pod: SchedulingPod) -> PodInfo:
    found = create_pod_info(pod, cluster.groups)
    assert found is not None
    return found


TestChanging = Changing.TestCase


def test_places_of_what_is_gone_are_given_to_others() -> None:
    cluster = Cluster()
    for number in range(1000):
        cluster.put_node(_node(f"n{number}", {"host": f"n{number}"}, [], {"cpu": "1"}))
        cluster.put_pod(
            _on(cluster, _pod("u", "red", {"number": str(number)}, f"n{number}", {}, shuns=True, leaving=False))
        )
        cluster.remove_pod("u")
        cluster.remove_node(f"n{number}")
    assert (cluster.nodes.size, len(cluster.nodes), len(cluster.groups)) == (64, 0, 0)
    assert cluster.nodes.find_label_column("host") is None


def test_more_nodes_than_there_were_places_for() -> None:
    cluster = Cluster()
    for number in range(200):
        cluster.put_node(_node(f"n{number}", {"zone": str(number % 3)}, [], {"cpu": str(number)}))
    assert len(cluster.nodes) == 200
    place = cluster.nodes.find_index("n150")
    assert place is not None
    assert cluster.nodes.get_allocatable(place) == Amounts({"cpu": 150_000})
    zone = cluster.nodes.find_label_column("zone")
    assert zone is not None
    assert int(zone.mask_values(["0"]).sum()) == 67


def test_a_node_that_cannot_be_read_changes_nothing() -> None:
    cluster = Cluster()
    cluster.put_node(_node("n", {"a": "b"}, [], {"cpu": "1"}))
    before = _content(cluster)
    with pytest.raises(QuantityError):
        cluster.put_node(_node("n", {"a": "c"}, [], {"cpu": "one"}))
    assert _content(cluster) == before


@pytest.mark.parametrize("number", [(1 << 62) - 1, 1 << 62, 1 << 63, -(1 << 62), 10**40])
def test_integers_are_exact_whatever_their_size(number: int) -> None:
    column = IntegerColumn(2)
    column[1] = 5
    column[0] = number
    column[0] += 1
    column.grow(4)
    assert (column[0], column[1], column[3]) == (number + 1, 5, 0)
    assert (column.array < number).tolist() == [False, number > 5, number > 0, number > 0]


def test_a_category_is_forgotten_with_its_last_place() -> None:
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


def test_what_those_below_a_priority_take_is_summed_exactly() -> None:
    cluster, each = Cluster(), str(1 << 61)
    cluster.put_node(_node("n", {}, [], {"example.com/gpu": "100E"}))
    for number in range(5):
        asks = {"example.com/gpu": each}
        cluster.put_pod(
            _on(cluster, _pod(f"u{number}", "red", {}, "n", asks, shuns=False, leaving=False, priority=number))
        )
    used = cluster.nodes.find_used_column("example.com/gpu")
    assert used is not None
    for priority in range(6):
        assert cluster.priority_usage.sum_lower_priorities(priority, "example.com/gpu", used.array)[0] == priority << 61
        assert cluster.priority_usage.sum_lower_priorities(priority, "pods", cluster.nodes.pods.array)[0] == priority
