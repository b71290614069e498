"""The cluster as a scheduler knows it: whatever the watches tell, it is what a list at the end would make."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.state.informers.pods import GPU, pod
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.ingest import ingest
from webhook.kube.resource_codec import Replaced, WatchEvent
from webhook.state.informers.named_stores import (
    DEVICE_CLASS_CODEC,
    NAMESPACE_CODEC,
    NODE_CODEC,
    NamespaceStore,
    NodeStore,
)
from webhook.state.informers.pod_records import PodRecord
from webhook.state.informers.pod_store import PodStore
from webhook.state.informers.scheduler_cache import SchedulerCache


class Followed:
    """Views of a cluster, told what a test says."""

    def __init__(self) -> None:
        self.nodes, self.namespaces, self.pods = NodeStore(), NamespaceStore(), PodStore()
        self.view = SchedulerCache(self.nodes, self.namespaces)
        self._reading = self.view.create_pod_codec(self.pods)
        self.revision = 1
        self.nodes.apply(Replaced([], 1))
        self.namespaces.apply(Replaced([], 1))

    def list(self, *items: dict[str, Any]) -> None:
        """All pods there are."""
        self.revision += 1
        body = json.dumps({"metadata": {"resourceVersion": str(self.revision)}, "items": items}).encode()
        self._apply(Replaced(self._reading.decode_page(body).items, self.revision))

    def pod(self, kind: str, item: dict[str, Any]) -> None:
        """A line of the watch of pods."""
        self.revision += 1
        item["metadata"]["resourceVersion"] = str(self.revision)
        self._apply(self._reading.decode_event(json.dumps({"type": kind, "object": item}).encode()))

    def node(self, kind: str, name: str, gpus: str, **spec: Any) -> None:
        """A line of the watch of nodes."""
        self.revision += 1
        meta = {"name": name, "uid": name, "resourceVersion": str(self.revision), "labels": {"zone": "z"}}
        status = {"allocatable": {GPU: gpus, "pods": "110"}, "declaredFeatures": ["F"]}
        item = {"metadata": meta, "spec": spec, "status": status}
        self.nodes.apply(NODE_CODEC.decode_event(json.dumps({"type": kind, "object": item}).encode()))

    def shown(self) -> dict[str, Any]:
        """The cluster now."""
        with self.view.acquire(1.0) as cluster:
            assert cluster is not None
            return shown(cluster)

    def _apply(self, event: WatchEvent[PodRecord]) -> None:
        self.pods.apply(event)
        self.view.apply(event)


def shown(cluster: Cluster) -> dict[str, Any]:
    """What a cluster holds."""
    nodes = cluster.nodes
    return {
        "nodes": {
            nodes.get_name(place): (nodes.get_allocatable(place), nodes.get_used(place))
            for place in nodes.get_indices().tolist()
        },
        "pods": {each.uid: (each.node, each.nominated_node, dict(each.group.requests)) for each in cluster.list_pods()},
    }


def listed(followed: Followed, items: list[dict[str, Any]]) -> dict[str, Any]:
    """What it would be, made from nothing."""
    cluster = Cluster()
    for row in followed.nodes.list_records():
        ingest(cluster, "Node", row.content)
    for item in items:
        ingest(cluster, "Pod", json.dumps(item).encode())
    return shown(cluster)


def test_a_node_is_known_with_whom_it_lets_in() -> None:
    followed = Followed()
    taint = {"key": "only", "value": "x", "effect": "NoSchedule"}
    followed.node("ADDED", "n1", "4", taints=[taint], unschedulable=True)
    with followed.view.acquire(1.0) as cluster:
        assert cluster is not None
        place = cluster.nodes.find_index("n1")
        assert place is not None
        assert cluster.nodes.unschedulable[place]
        assert cluster.nodes.taints.mask_matching(lambda taints: [each.key for each in taints] == ["only"])[place]
        assert cluster.nodes.features.mask_matching(lambda declared: declared == {"F"})[place]


def test_before_pods_were_listed_there_are_none_to_go_by() -> None:
    followed = Followed()
    assert not followed.view.has_pods
    followed.list()
    assert followed.view.has_pods


def test_who_cannot_have_it_in_time_is_told_so() -> None:
    followed = Followed()
    with followed.view.acquire(1.0) as first, followed.view.acquire(0.01) as second:
        assert first is not None
        assert second is None


def test_a_node_with_a_quantity_that_is_none_is_no_node_and_harms_no_other() -> None:
    followed = Followed()
    followed.node("ADDED", "n1", "4")
    followed.node("ADDED", "n2", "4")
    followed.node("MODIFIED", "n1", "many")
    assert followed.shown()["nodes"].keys() == {"n2"}


def test_labels_of_namespaces_are_known() -> None:
    followed = Followed()
    meta = {"name": "a", "uid": "a", "resourceVersion": "9", "labels": {"team": "x"}}
    for kind, labels in (("ADDED", {"team": "x"}), ("DELETED", None)):
        meta["resourceVersion"] = str(int(str(meta["resourceVersion"])) + 1)
        followed.namespaces.apply(
            NAMESPACE_CODEC.decode_event(json.dumps({"type": kind, "object": {"metadata": meta}}).encode())
        )
        with followed.view.acquire(1.0) as cluster:
            assert cluster is not None
            assert cluster.namespaces.get("a") == labels


def test_device_classes_come_change_and_go() -> None:
    followed = Followed()
    devices = followed.view.device_class_store
    devices.apply(Replaced([], 0))
    for revision, (kind, served, found) in enumerate(
        [
            ("ADDED", "example.com/gpu", "fast"),
            ("MODIFIED", "example.com/other", None),
            ("MODIFIED", "example.com/gpu", "fast"),
            ("DELETED", "example.com/gpu", None),
        ],
        start=3,
    ):
        meta = {"name": "fast", "uid": "f", "resourceVersion": str(revision)}
        item = {"metadata": meta, "spec": {"extendedResourceName": served}}
        devices.apply(DEVICE_CLASS_CODEC.decode_event(json.dumps({"type": kind, "object": item}).encode()))
        with followed.view.acquire(1.0) as cluster:
            assert cluster is not None
            assert cluster.device_classes.find_class("example.com/gpu") == found
            own = "fast" if kind != "DELETED" else None
            assert cluster.device_classes.find_class("deviceclass.resource.kubernetes.io/fast") == own


def test_a_pod_that_keeps_thousands_away_keeps_nobody_away() -> None:
    for many, kept in ((90, 90), (20_000, 0)):
        followed = Followed()
        terms = [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": str(number)}}} for number in range(many)
        ]
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        followed.list(pod("u1", 1, "1", spec={"nodeName": "n1", "affinity": affinity}))
        with followed.view.acquire(1.0) as cluster:
            assert cluster is not None
            assert (len(cluster.anti_affinity_index), len(cluster)) == (kept, 1)


def test_a_pod_with_thousands_of_labels_has_none_and_takes_its_room() -> None:
    for many, kept in ((1000, 1000), (15_000, 0)):
        followed, item = Followed(), pod("u1", 1, "2", spec={"nodeName": "n1"})
        item["metadata"]["labels"] = {f"label-{number}": "x" for number in range(many)}
        followed.node("ADDED", "n1", "4")
        followed.list(item)
        with followed.view.acquire(1.0) as cluster:
            assert cluster is not None
            (there,) = cluster.list_pods()
            assert len(there.group.labels) == kept
        assert followed.shown()["nodes"]["n1"][1] == {GPU: 2}


_UIDS = st.sampled_from("abcd")
_PODS = st.builds(
    lambda uid, node, gpus, phase: pod(
        uid, 1, gpus, spec={"nodeName": node} if node else {"nodeName": None}, status={"phase": phase}
    ),
    _UIDS,
    st.sampled_from(["n1", "n2", ""]),
    st.sampled_from("123"),
    st.sampled_from(["Running", "Succeeded"]),
)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("list"), st.lists(_PODS, unique_by=lambda item: item["metadata"]["uid"])),
        st.tuples(st.sampled_from(["ADDED", "DELETED"]), _PODS),
        st.tuples(st.sampled_from(["node", "no node"]), st.sampled_from(["n1", "n2"])),
    ),
    max_size=12,
)


@given(_STEPS)
def test_it_is_what_a_list_at_the_end_would_make(steps: list[tuple[str, Any]]) -> None:
    followed, there = Followed(), dict[str, dict[str, Any]]()
    followed.list()
    for what, said in steps:
        match what:
            case "list":
                followed.list(*said)
                there = {item["metadata"]["uid"]: item for item in said}
            case "node" | "no node":
                followed.node("ADDED" if what == "node" else "DELETED", said, "4")
            case _:
                followed.pod(what, said)
                there.pop(said["metadata"]["uid"], None)
                there |= {said["metadata"]["uid"]: said} if what == "ADDED" else {}
    assert followed.shown() == listed(followed, list(there.values()))
    followed.list(*there.values())
    assert followed.shown() == listed(followed, list(there.values()))
