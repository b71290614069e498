"""Filters give the same answer for a cluster that changed step by step and for one that is built from its objects."""

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import NodeIndices
from tallygate.accounting.cluster.pod_info import create_pod_info
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tests.accounting.scheduling import inter_pod_generators as draws
from tests.accounting.scheduling.clusters import create_cluster, decode_node, decode_pod
from tests.effort import examples

Json = dict[str, Any]

_UIDS = st.sampled_from(["u0", "u1", "u2", "u3", "u4"])
_NODES = st.sampled_from(draws.NODES)


class ChangingCluster(RuleBasedStateMachine):
    """A cluster whose nodes, pods and namespaces change while incoming pods with inter-pod constraints are filtered."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.nodes: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        self.incoming: list[IncomingPod] = []

    @rule(drawn=draws.nodes())
    def put_nodes(self, drawn: list[Json]) -> None:
        """Add or replace nodes."""
        for each in drawn:
            self.nodes[each["metadata"]["name"]] = each
            self.cluster.put_node(decode_node(each))

    @rule(name=_NODES)
    def remove_node(self, name: str) -> None:
        """Remove a node, if it exists; its pods stay."""
        self.nodes.pop(name, None)
        self.cluster.remove_node(name)

    @rule(uid=_UIDS, drawn=draws.pods_on_nodes(_NODES))
    def put_pod(self, uid: str, drawn: Json) -> None:
        """Add or replace a pod."""
        self.pods[uid] = drawn | {"metadata": drawn["metadata"] | {"uid": uid}}
        found = create_pod_info(decode_pod(self.pods[uid]), self.cluster.groups)
        assert found is not None
        self.cluster.put_pod(found)

    @rule(uid=_UIDS)
    def remove_pod(self, uid: str) -> None:
        """Remove a pod, if it exists."""
        self.pods.pop(uid, None)
        self.cluster.remove_pod(uid)

    @rule(name=st.sampled_from(draws.NAMESPACES), team=st.sampled_from(["a", "b"]))
    def label_namespace(self, name: str, team: str) -> None:
        """Add a namespace, or change its label."""
        self.cluster.namespaces[name] = {"team": team}

    @rule(pod=draws.incoming_pods())
    def add_incoming_pod(self, pod: Json) -> None:
        """Filter one more pod from now on."""
        self.incoming = [*self.incoming[-3:], IncomingPod.from_pod(decode_pod(pod))]

    @invariant()
    def equals_a_new_cluster(self) -> None:
        """Check that the latest incoming pods get the same reasons from a new cluster, and from each node alone."""
        rebuilt = create_cluster(self.nodes.values(), self.pods.values())
        rebuilt.namespaces.update(self.cluster.namespaces)
        for each in self.incoming:
            reasons = _list_reasons(each, self.cluster)
            assert reasons == _list_reasons(each, rebuilt)
            for index in self.cluster.nodes.get_indices():
                alone = _list_reasons(each, self.cluster, np.array([index]))
                assert alone.items() <= reasons.items()


def _list_reasons(pod: IncomingPod, cluster: Cluster, indices: NodeIndices | None = None) -> dict[str, tuple[str, ...]]:
    diagnosis = run_filters(pod, cluster, indices)
    return {cluster.nodes.get_name(index): diagnosis.reasons(index) for index in diagnosis.nodes.tolist()}


ChangingCluster.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=20)
TestChangingCluster = ChangingCluster.TestCase
