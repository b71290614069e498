"""The column filters of inter-pod constraints agree with the reference plugins, node by node."""

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tallygate.accounting.cluster.cluster import Cluster, fork
from tallygate.accounting.cluster.pod_info import PodInfo, create_pod_info
from tallygate.accounting.kubernetes_versions.version import DEFAULT_VERSION
from tallygate.accounting.scheduling.filters import Filter
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins import inter_pod_constraints
from tests.accounting.scheduling import inter_pod_generators as draws
from tests.accounting.scheduling.clusters import create_cluster, decode_pod
from tests.accounting.scheduling.reference.admission_defaults import apply_admission
from tests.accounting.scheduling.reference.cluster import NodeInfo
from tests.accounting.scheduling.reference.cluster import PodInfo as ReferencePodInfo
from tests.accounting.scheduling.reference.cluster import create_cluster as create_reference_cluster
from tests.accounting.scheduling.reference.inter_pod_affinity import InterPodAffinity
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.pod_topology_spread import PodTopologySpread
from tests.accounting.scheduling.reference.status import SUCCESS, Code, Status, unresolvable, unschedulable
from tests.effort import examples

Json = dict[str, Any]

_FILTERS: tuple[tuple[Filter, Plugin], ...] = (
    (inter_pod_constraints.filter_topology_spread, PodTopologySpread()),
    (inter_pod_constraints.filter_inter_pod_affinity, InterPodAffinity()),
)


class _Drawn(NamedTuple):
    nodes: list[Json]
    pods: list[Json]
    namespaces: dict[str, dict[str, str]]


@st.composite
def _clusters(draw: st.DrawFn) -> _Drawn:
    numbers = range(draw(st.integers(2, 9)))
    pods = [draw(draws.pods_on_nodes(st.sampled_from(draws.NODES), uid=st.just(f"u{number}"))) for number in numbers]
    return _Drawn(draw(draws.nodes()), pods, draw(draws.namespaces))


_nominated_pods = draws.pods_on_nodes(st.just("n0"))


def _filter_nodes(pod: Json, cluster: Cluster, run_filter: Filter) -> dict[str, Status]:
    """Return the status of each node by the product's filter."""
    indices = cluster.nodes.get_indices()
    statuses = {cluster.nodes.get_name(index): SUCCESS for index in indices.tolist()}
    for each in run_filter(IncomingPod.from_pod(decode_pod(pod)), cluster, indices):
        for index in each.rejected.nonzero()[0].tolist():
            name = cluster.nodes.get_name(int(indices[index]))
            assert statuses[name] is SUCCESS, "a node has one status only"
            statuses[name] = unresolvable(each.reason) if each.unresolvable[index] else unschedulable(each.reason)
    return statuses


class _ReferencePlugin:
    """One reference plugin in one scheduling cycle, with pods added and removed."""

    def __init__(self, plugin: Plugin, pod: Json, drawn: _Drawn) -> None:
        others = draws.namespace_objects(drawn.namespaces)
        self._plugin, self._cycle = (
            plugin,
            Cycle(create_reference_cluster(drawn.nodes, drawn.pods, others), minor=DEFAULT_VERSION.minor),
        )
        self._pod = ReferencePodInfo(apply_admission(pod, others), on_node=False)
        _, status = plugin.pre_filter(self._cycle, self._pod)
        self._is_skipped = status.code is Code.SKIP

    def nodes(self) -> list[NodeInfo]:
        return self._cycle.cluster.nodes

    def filter_nodes(self) -> dict[str, Status]:
        if self._is_skipped:
            return {each.name: SUCCESS for each in self.nodes()}
        return {each.name: self._plugin.filter(self._cycle, self._pod, each) for each in self.nodes()}

    def count(self, other: ReferencePodInfo, node: NodeInfo, by: int) -> None:
        if not self._is_skipped:
            self._plugin.count(self._cycle, self._pod, other, node, by)


@settings(max_examples=examples(150))
@given(_clusters(), draws.incoming_pods())
def test_each_node_has_the_status_of_the_reference(drawn: _Drawn, pod: Json) -> None:
    cluster = _cluster(drawn)
    for run_filter, plugin in _FILTERS:
        assert _filter_nodes(pod, cluster, run_filter) == _ReferencePlugin(plugin, pod, drawn).filter_nodes(), (
            plugin.name
        )


@settings(max_examples=examples(100))
@given(
    _clusters(),
    draws.incoming_pods(),
    st.sampled_from(draws.NODES),
    st.sets(st.integers(0, 8)),
    st.lists(_nominated_pods),
)
def test_assumed_and_removed_pods_count_as_in_the_reference(
    drawn: _Drawn, pod: Json, name: str, removed: set[int], nominated: list[Json]
) -> None:
    cluster = _cluster(drawn)
    for run_filter, plugin in _FILTERS:
        reference = _ReferencePlugin(plugin, pod, drawn)
        node = next((each for each in reference.nodes() if each.name == name), None)
        if node is not None:
            with fork(cluster) as changes:
                for other in [each for number, each in enumerate(node.pods) if number in removed]:
                    changes.remove(_find_pod(cluster, other))
                    reference.count(other, node, -1)
                for number, each in enumerate(nominated):
                    changes.assume(_create_nominated_pod(each, f"w{number}", name, cluster))
                    reference.count(ReferencePodInfo(each, on_node=True), node, 1)
                assert _filter_nodes(pod, cluster, run_filter)[name] == reference.filter_nodes()[name], plugin.name
        assert _filter_nodes(pod, cluster, run_filter) == _ReferencePlugin(plugin, pod, drawn).filter_nodes(), (
            plugin.name
        )


def _cluster(drawn: _Drawn) -> Cluster:
    cluster = create_cluster(drawn.nodes, drawn.pods)
    cluster.namespaces.update(drawn.namespaces)
    return cluster


def _find_pod(cluster: Cluster, other: ReferencePodInfo) -> PodInfo:
    stored = cluster.find_pod(str(other.pod["metadata"]["uid"]))
    assert stored is not None
    return stored


def _create_nominated_pod(pod: Json, uid: str, node: str, cluster: Cluster) -> PodInfo:
    """Create a pod without a node and with a nominated node."""
    found = create_pod_info(decode_pod(pod), cluster.groups)
    assert found is not None
    return replace(found, uid=uid, node="", nominated_node=node)
