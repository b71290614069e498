"""The scheduler cache: after any watch events it equals a cache that is made from a final list."""

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.cluster.pod_info import PodInfo
from tallygate.kube.resource_codec import Replaced, WatchEvent
from tallygate.objects.scheduling import SchedulingPod
from tallygate.state.informers.named_stores import (
    DEVICE_CLASS_CODEC,
    NAMESPACE_CODEC,
    NODE_CODEC,
    DeviceClassStore,
    NamespaceStore,
    NodeClaimStore,
    NodePoolStore,
    NodeStore,
)
from tallygate.state.informers.pod_records import PodRecord
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.informers.scheduler_cache import SchedulerCache, SchedulingPodRecord
from tests.state.informers.pods import GPU, pod


class ClusterStores:
    """Stores of a cluster with a scheduler cache, whose events a test delivers."""

    def __init__(self) -> None:
        self.nodes, self.namespaces, self.pods = NodeStore(), NamespaceStore(), PodStore()
        self.device_classes = DeviceClassStore()
        self.scheduler_cache = SchedulerCache(
            self.nodes, self.namespaces, self.device_classes, NodePoolStore(), NodeClaimStore()
        )
        self._codec = self.scheduler_cache.create_pod_codec(self.pods, has_groups=True)
        self.revision = 1
        self.nodes.apply(Replaced([], 1))
        self.namespaces.apply(Replaced([], 1))

    def list(self, *items: dict[str, Any]) -> None:
        """Deliver a list of all pods."""
        self.revision += 1
        body = json.dumps({"metadata": {"resourceVersion": str(self.revision)}, "items": items}).encode()
        self._apply(Replaced(self._codec.decode_page(body).items, self.revision))

    def pod(self, kind: str, item: dict[str, Any]) -> None:
        """Deliver a line of the watch of pods."""
        self.revision += 1
        item["metadata"]["resourceVersion"] = str(self.revision)
        self._apply(self._codec.decode_event(json.dumps({"type": kind, "object": item}).encode()))

    def decode_record(self, item: dict[str, Any]) -> PodRecord:
        """Return the record of a pod of a list, without a change of the stores."""
        body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [item]}).encode()
        (record,) = self._codec.decode_page(body).items
        return record

    def decode(self, item: dict[str, Any]) -> PodInfo | None:
        """Return a pod of a list as the scheduler counts it, without a change of the stores."""
        record = self.decode_record(item)
        assert isinstance(record, SchedulingPodRecord)
        return record.pod_info

    def node(self, kind: str, name: str, gpus: str, **spec: Any) -> None:
        """Deliver a line of the watch of nodes."""
        self.revision += 1
        meta = {"name": name, "uid": name, "resourceVersion": str(self.revision), "labels": {"zone": "z"}}
        status = {"allocatable": {GPU: gpus, "pods": "110"}, "declaredFeatures": ["F"]}
        item = {"metadata": meta, "spec": spec, "status": status}
        self.nodes.apply(NODE_CODEC.decode_event(json.dumps({"type": kind, "object": item}).encode()))

    def describe(self) -> dict[str, Any]:
        """Return the content of the cached cluster."""
        with self.scheduler_cache.acquire(1.0) as cluster:
            assert cluster is not None
            return describe_cluster(cluster)

    def _apply(self, event: WatchEvent[PodRecord]) -> None:
        self.pods.apply(event)
        self.scheduler_cache.apply(event)


def describe_cluster(cluster: Cluster) -> dict[str, Any]:
    """Return the nodes and the pods of a cluster, and those of its PodGroups."""
    nodes, groups = cluster.nodes, cluster.pod_groups
    return {
        "nodes": {
            nodes.get_name(index): (nodes.get_allocatable(index), nodes.get_used(index))
            for index in nodes.get_indices().tolist()
        },
        "pods": {each.uid: (each.node, each.nominated_node, dict(each.group.requests)) for each in cluster.list_pods()},
        "groups": {
            key: [_list_uids(groups.list_placed(key)), _list_uids(groups.list_pending(key)), groups.list_pod_uids()]
            for key in (("team-a", "first"), ("team-a", "second"))
        },
    }


def _list_uids(pods: Iterable[SchedulingPod]) -> list[str]:
    return sorted((pod.metadata and pod.metadata.uid) or "" for pod in pods)


def describe_final_list(stores: ClusterStores, items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the content of a cluster that is made from the final objects."""
    cluster = Cluster()
    for row in stores.nodes.list_records():
        ingest(cluster, "Node", row.content)
    for item in items:
        ingest(cluster, "Pod", json.dumps(item).encode())
    return describe_cluster(cluster)


def test_a_node_has_its_taints_and_features() -> None:
    stores = ClusterStores()
    taint = {"key": "only", "value": "x", "effect": "NoSchedule"}
    stores.node("ADDED", "n1", "4", taints=[taint], unschedulable=True)
    with stores.scheduler_cache.acquire(1.0) as cluster:
        assert cluster is not None
        index = cluster.nodes.find_index("n1")
        assert index is not None
        assert cluster.nodes.unschedulable[index]
        assert cluster.nodes.taints.mask_matching(lambda taints: [each.key for each in taints] == ["only"])[index]
        assert cluster.nodes.features.mask_matching(lambda declared: declared == {"F"})[index]


def test_the_cache_has_no_pods_before_the_first_list() -> None:
    stores = ClusterStores()
    assert not stores.scheduler_cache.has_pods
    stores.list()
    assert stores.scheduler_cache.has_pods


def test_acquire_returns_none_after_the_timeout() -> None:
    stores = ClusterStores()
    with stores.scheduler_cache.acquire(1.0) as first, stores.scheduler_cache.acquire(0.01) as second:
        assert first is not None
        assert second is None


def test_a_pod_that_is_listed_again_is_in_memory_once() -> None:
    stores, placed = ClusterStores(), pod("u1", 1, "2", spec={"nodeName": "n1"})
    stores.list(placed)
    first = stores.decode(placed)
    assert first is not None
    assert first is stores.decode(placed)
    record = stores.decode_record(placed)
    assert (record.uid, record.name) == ("u1", first.name)
    assert (record.uid is first.uid, record.name is first.name) == (True, True)
    assert stores.decode(pod("u1", 2, "2", spec={"nodeName": "n2"})) != first


def test_a_node_with_an_invalid_quantity_is_ignored_and_harms_no_other() -> None:
    stores = ClusterStores()
    stores.node("ADDED", "n1", "4")
    stores.node("ADDED", "n2", "4")
    stores.node("MODIFIED", "n1", "many")
    assert stores.describe()["nodes"].keys() == {"n2"}


def test_the_cache_has_the_labels_of_namespaces() -> None:
    stores = ClusterStores()
    meta = {"name": "a", "uid": "a", "resourceVersion": "9", "labels": {"team": "x"}}
    for kind, labels in (("ADDED", {"team": "x"}), ("DELETED", None)):
        meta["resourceVersion"] = str(int(str(meta["resourceVersion"])) + 1)
        stores.namespaces.apply(
            NAMESPACE_CODEC.decode_event(json.dumps({"type": kind, "object": {"metadata": meta}}).encode())
        )
        with stores.scheduler_cache.acquire(1.0) as cluster:
            assert cluster is not None
            assert cluster.namespaces.get("a") == labels


def test_device_classes_follow_the_events() -> None:
    stores = ClusterStores()
    devices = stores.device_classes
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
        with stores.scheduler_cache.acquire(1.0) as cluster:
            assert cluster is not None
            assert cluster.device_classes.find_class("example.com/gpu") == found
            own = "fast" if kind != "DELETED" else None
            assert cluster.device_classes.find_class("deviceclass.resource.kubernetes.io/fast") == own


def test_a_pod_with_thousands_of_anti_affinity_terms_has_none() -> None:
    for many, kept in ((90, 90), (20_000, 0)):
        stores = ClusterStores()
        terms = [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": str(number)}}} for number in range(many)
        ]
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        stores.list(pod("u1", 1, "1", spec={"nodeName": "n1", "affinity": affinity}))
        with stores.scheduler_cache.acquire(1.0) as cluster:
            assert cluster is not None
            assert (len(cluster.anti_affinity_index), len(cluster)) == (kept, 1)


def test_a_pod_with_thousands_of_labels_has_none_and_is_counted() -> None:
    for many, kept in ((1000, 1000), (15_000, 0)):
        stores, item = ClusterStores(), pod("u1", 1, "2", spec={"nodeName": "n1"})
        item["metadata"]["labels"] = {f"label-{number}": "x" for number in range(many)}
        stores.node("ADDED", "n1", "4")
        stores.list(item)
        with stores.scheduler_cache.acquire(1.0) as cluster:
            assert cluster is not None
            (stored,) = cluster.list_pods()
            assert len(stored.group.labels) == kept
        assert stores.describe()["nodes"]["n1"][1] == {GPU: 2}


_UIDS = st.sampled_from("abcd")
_PODS = st.builds(
    lambda uid, node, gpus, phase, group: pod(
        uid,
        1,
        gpus,
        spec={"nodeName": node or None, "schedulingGroup": {"podGroupName": group}},
        status={"phase": phase},
    ),
    _UIDS,
    st.sampled_from(["n1", "n2", ""]),
    st.sampled_from("123"),
    st.sampled_from(["Running", "Succeeded"]),
    st.sampled_from(["first", "second", None]),
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
def test_the_cache_equals_one_that_is_made_from_a_final_list(steps: list[tuple[str, Any]]) -> None:
    stores, stored = ClusterStores(), dict[str, dict[str, Any]]()
    stores.list()
    for step, argument in steps:
        match step:
            case "list":
                stores.list(*argument)
                stored = {item["metadata"]["uid"]: item for item in argument}
            case "node" | "no node":
                stores.node("ADDED" if step == "node" else "DELETED", argument, "4")
            case _:
                stores.pod(step, argument)
                stored.pop(argument["metadata"]["uid"], None)
                stored |= {argument["metadata"]["uid"]: argument} if step == "ADDED" else {}
    assert stores.describe() == describe_final_list(stores, list(stored.values()))
    stores.list(*stored.values())
    assert stores.describe() == describe_final_list(stores, list(stored.values()))
