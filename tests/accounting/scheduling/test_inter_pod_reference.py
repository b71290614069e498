"""What columns say of pods that have a word to say of each other is what the plain transcription says, node by node."""

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.accounting.scheduling import inter_pod_generators as draws
from tests.accounting.scheduling.clusters import cluster_of, pod_of
from tests.accounting.scheduling.reference.admitted import admitted
from tests.accounting.scheduling.reference.cluster import NodeInfo
from tests.accounting.scheduling.reference.cluster import PodInfo as ReferencePodInfo
from tests.accounting.scheduling.reference.cluster import cluster_of as plain_cluster_of
from tests.accounting.scheduling.reference.inter_pod_affinity import InterPodAffinity
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.pod_topology_spread import PodTopologySpread
from tests.accounting.scheduling.reference.status import SUCCESS, Code, Status, unresolvable, unschedulable
from tests.effort import examples
from webhook.accounting.cluster.cluster import Cluster, fork
from webhook.accounting.cluster.pod_info import PodInfo, create_pod_info
from webhook.accounting.scheduling.filters import Filter
from webhook.accounting.scheduling.incoming_pod import IncomingPod
from webhook.accounting.scheduling.plugins import inter_pod_constraints

Json = dict[str, Any]

_BOTH: tuple[tuple[Filter, Plugin], ...] = (
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
    pods = [draw(draws.stored_pods(st.sampled_from(draws.NODES), uid=st.just(f"u{number}"))) for number in numbers]
    return _Drawn(draw(draws.nodes()), pods, draw(draws.namespaces))


_waiting = draws.stored_pods(st.just("n0"))


def _said(pod: Json, cluster: Cluster, judge: Filter) -> dict[str, Status]:
    """What our filter says of each node."""
    places = cluster.nodes.get_indices()
    said = {cluster.nodes.get_name(place): SUCCESS for place in places.tolist()}
    for each in judge(IncomingPod.from_pod(pod_of(pod)), cluster, places):
        for index in each.rejected.nonzero()[0].tolist():
            name = cluster.nodes.get_name(int(places[index]))
            assert said[name] is SUCCESS, "a node says one thing only"
            said[name] = unresolvable(each.reason) if each.unresolvable[index] else unschedulable(each.reason)
    return said


class _Asked:
    """One plugin of the transcription, asked before anything is supposed and after."""

    def __init__(self, plugin: Plugin, pod: Json, drawn: _Drawn) -> None:
        others = draws.namespace_objects(drawn.namespaces)
        self._plugin, self._cycle = plugin, Cycle(plain_cluster_of(drawn.nodes, drawn.pods, others))
        self._pod = ReferencePodInfo(admitted(pod, others), on_node=False)
        _, status = plugin.pre_filter(self._cycle, self._pod)
        self._is_skipped = status.code is Code.SKIP

    def nodes(self) -> list[NodeInfo]:
        return self._cycle.cluster.nodes

    def said(self) -> dict[str, Status]:
        if self._is_skipped:
            return {each.name: SUCCESS for each in self.nodes()}
        return {each.name: self._plugin.filter(self._cycle, self._pod, each) for each in self.nodes()}

    def count(self, other: ReferencePodInfo, node: NodeInfo, by: int) -> None:
        if not self._is_skipped:
            self._plugin.count(self._cycle, self._pod, other, node, by)


@settings(max_examples=examples(150))
@given(_clusters(), draws.newcomers())
def test_each_node_says_what_the_plain_rules_say(drawn: _Drawn, pod: Json) -> None:
    cluster = _cluster(drawn)
    for judge, plugin in _BOTH:
        assert _said(pod, cluster, judge) == _Asked(plugin, pod, drawn).said(), plugin.name


@settings(max_examples=examples(100))
@given(_clusters(), draws.newcomers(), st.sampled_from(draws.NODES), st.sets(st.integers(0, 8)), st.lists(_waiting))
def test_what_is_supposed_of_a_node_counts_as_it_does_when_others_are_to_make_room(
    drawn: _Drawn, pod: Json, name: str, gone: set[int], waiting: list[Json]
) -> None:
    cluster = _cluster(drawn)
    for judge, plugin in _BOTH:
        asked = _Asked(plugin, pod, drawn)
        node = next((each for each in asked.nodes() if each.name == name), None)
        if node is not None:
            with fork(cluster) as suppose:
                for other in [each for number, each in enumerate(node.pods) if number in gone]:
                    suppose.remove(_there(cluster, other))
                    asked.count(other, node, -1)
                for number, each in enumerate(waiting):
                    suppose.assume(_promised(each, f"w{number}", name, cluster))
                    asked.count(ReferencePodInfo(each, on_node=True), node, 1)
                assert _said(pod, cluster, judge)[name] == asked.said()[name], plugin.name
        assert _said(pod, cluster, judge) == _Asked(plugin, pod, drawn).said(), plugin.name


def _cluster(drawn: _Drawn) -> Cluster:
    cluster = cluster_of(drawn.nodes, drawn.pods)
    cluster.namespaces.update(drawn.namespaces)
    return cluster


def _there(cluster: Cluster, other: ReferencePodInfo) -> PodInfo:
    there = cluster.find_pod(str(other.pod["metadata"]["uid"]))
    assert there is not None
    return there


def _promised(waiting: Json, uid: str, node: str, cluster: Cluster) -> PodInfo:
    """A pod that waits for a node."""
    found = create_pod_info(pod_of(waiting), cluster.groups)
    assert found is not None
    return found._replace(uid=uid, node="", nominated_node=node)
