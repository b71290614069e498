"""What is said of a cluster that has changed step by step is what is said of one built anew, however often asked."""

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.accounting.scheduling import inter_pod_generators as draws
from tests.accounting.scheduling.clusters import cluster_of, node_of, pod_of
from tests.effort import examples
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import NodeIndices
from webhook.accounting.cluster.pod_info import create_pod_info
from webhook.accounting.scheduling.filters import run_filters
from webhook.accounting.scheduling.incoming_pod import IncomingPod

Json = dict[str, Any]

_UIDS = st.sampled_from(["u0", "u1", "u2", "u3", "u4"])
_NODES = st.sampled_from(draws.NODES)


class Asking(RuleBasedStateMachine):
    """Nodes, pods and namespaces change while pods are asked about that have a word to say of others."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.nodes: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        self.asked: list[IncomingPod] = []

    @rule(drawn=draws.nodes())
    def put_nodes(self, drawn: list[Json]) -> None:
        """Nodes come, or are others now."""
        for each in drawn:
            self.nodes[each["metadata"]["name"]] = each
            self.cluster.put_node(node_of(each))

    @rule(name=_NODES)
    def remove_node(self, name: str) -> None:
        """A node goes, if it is there; its pods outlast it."""
        self.nodes.pop(name, None)
        self.cluster.remove_node(name)

    @rule(uid=_UIDS, drawn=draws.stored_pods(_NODES))
    def put_pod(self, uid: str, drawn: Json) -> None:
        """A pod comes, or is another now."""
        self.pods[uid] = drawn | {"metadata": drawn["metadata"] | {"uid": uid}}
        found = create_pod_info(pod_of(self.pods[uid]), self.cluster.groups)
        assert found is not None
        self.cluster.put_pod(found)

    @rule(uid=_UIDS)
    def remove_pod(self, uid: str) -> None:
        """A pod goes, if it is there."""
        self.pods.pop(uid, None)
        self.cluster.remove_pod(uid)

    @rule(name=st.sampled_from(draws.NAMESPACES), team=st.sampled_from(["a", "b"]))
    def label_namespace(self, name: str, team: str) -> None:
        """A namespace comes, or has another label."""
        self.cluster.namespaces[name] = {"team": team}

    @rule(pod=draws.newcomers())
    def ask(self, pod: Json) -> None:
        """One more pod is asked about from now on."""
        self.asked = [*self.asked[-3:], IncomingPod.from_pod(pod_of(pod))]

    @invariant()
    def says_what_a_new_one_says(self) -> None:
        """All that were asked about lately are told the same by a cluster built anew, and by each node alone."""
        anew = cluster_of(self.nodes.values(), self.pods.values())
        anew.namespaces.update(self.cluster.namespaces)
        for each in self.asked:
            said = _said(each, self.cluster)
            assert said == _said(each, anew)
            for place in self.cluster.nodes.get_indices():
                alone = _said(each, self.cluster, np.array([place]))
                assert alone.items() <= said.items()


def _said(pod: IncomingPod, cluster: Cluster, places: NodeIndices | None = None) -> dict[str, tuple[str, ...]]:
    said = run_filters(pod, cluster, places)
    return {cluster.nodes.get_name(place): said.reasons(place) for place in said.nodes.tolist()}


Asking.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=20)
TestAsking = Asking.TestCase
