"""The watches of a gate over a cluster with devices: stores, the scheduler cache, and the cache of devices."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.kube.resource_codec import Changed, Replaced, ResourceCodec
from tallygate.review.cluster_snapshot import ClusterSnapshot
from tallygate.state.informers.claim_store import ClaimStore
from tallygate.state.informers.device_cache import DeviceCache
from tallygate.state.informers.device_store import RESOURCE_SLICE_CODEC, DeviceStore
from tallygate.state.informers.named_stores import (
    DEVICE_CLASS_CODEC,
    DEVICE_TAINT_RULE_CODEC,
    NAMESPACE_CODEC,
    NODE_CODEC,
    DeviceClassStore,
    DeviceTaintRuleStore,
    NamespaceStore,
    NodeClaimStore,
    NodePoolStore,
    NodeStore,
)
from tallygate.state.informers.namespaced_stores import ClaimTemplateStore
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.informers.scheduler_cache import SchedulerCache

Json = Mapping[str, Any]
_NAMESPACED = {"Pod", "ResourceClaim", "ResourceClaimTemplate"}


class DeviceWatches:
    """The stores of a gate, whose events a test delivers; a `SnapshotProvider` whose snapshots are never stale."""

    def __init__(self, git_version: str = "v1.37.0") -> None:
        self.nodes, self.namespaces, self.pods = NodeStore(), NamespaceStore(), PodStore()
        self.claims, self.templates = ClaimStore(lambda: 0.0), ClaimTemplateStore()
        self.devices = DeviceStore(self.claims.list_devices)
        self.taint_rules = DeviceTaintRuleStore()
        self.device_classes = DeviceClassStore()
        self.scheduler_cache = SchedulerCache(
            self.nodes, self.namespaces, self.device_classes, NodePoolStore(), NodeClaimStore()
        )
        self.scheduler_cache.set_version(git_version)
        self.device_cache = DeviceCache(
            self.scheduler_cache, self.devices, self.taint_rules, self.claims, self.templates
        )
        self.revision = 1
        pod_codec = self.scheduler_cache.create_pod_codec(self.pods)
        classes = self.device_classes
        self._appliers: dict[str, tuple[ResourceCodec[Any, Any], Any]] = {
            "Node": (NODE_CODEC, self.nodes.apply),
            "Namespace": (NAMESPACE_CODEC, self.namespaces.apply),
            "Pod": (pod_codec, self._apply_pod_event),
            "DeviceClass": (DEVICE_CLASS_CODEC, classes.apply),
            "ResourceSlice": (RESOURCE_SLICE_CODEC, self.devices.apply),
            "DeviceTaintRule": (DEVICE_TAINT_RULE_CODEC, self.taint_rules.apply),
            "ResourceClaim": (self.claims.codec, self.claims.apply),
            "ResourceClaimTemplate": (self.templates.codec, self.templates.apply),
        }
        for kind in self._appliers:
            self.relist(kind, ())

    def send(self, *objects: Json, event: str = "MODIFIED") -> None:
        """Deliver an event of the watch of each object; other kinds are ignored."""
        for each in objects:
            if each["kind"] in self._appliers:
                codec, apply = self._appliers[each["kind"]]
                self.revision += 1
                apply(codec.decode_event(_encode(event, each, self.revision)))

    def relist(self, kind: str, objects: Iterable[Json]) -> None:
        """Deliver a complete list of one kind."""
        codec, apply = self._appliers[kind]
        self.revision += 1
        events = [codec.decode_event(_encode("MODIFIED", each, self.revision)) for each in objects]
        apply(Replaced([each.item for each in events if isinstance(each, Changed)], self.revision))

    @contextmanager
    def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:
        """Yield the cluster with the devices, if they are built."""
        with self.open_cluster() as cluster:
            yield ClusterSnapshot(cluster, has_pods=pods)

    @contextmanager
    def open_cluster(self) -> Iterator[Cluster]:
        """Yield the locked cluster."""
        with self.scheduler_cache.acquire(1.0) as cluster:
            assert cluster is not None
            cluster.devices = self.device_cache.get_index()
            yield cluster

    def request_devices(self) -> None:
        """Build the devices."""
        self.device_cache.build()

    def _apply_pod_event(self, event: Any) -> None:
        self.pods.apply(event)
        self.scheduler_cache.apply(event)


def _encode(event: str, item: Json, revision: int) -> bytes:
    """Return a line of a watch, with the metadata that every stored object has."""
    meta = item["metadata"]
    namespace = (
        {}
        if item["kind"] in {"Node", "Namespace", "DeviceClass", "ResourceSlice", "DeviceTaintRule"}
        else {"namespace": "default"}
    )
    identity = {**namespace, "uid": f"uid-{meta['name']}", **meta, "resourceVersion": f"{revision}"}
    return json.dumps({"type": event, "object": {**item, "metadata": identity}}).encode()
