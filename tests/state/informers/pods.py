"""Pods as the API server sends them, and caps that count them."""

import json
from typing import Any

from tallygate.accounting.quantity import Quantity
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.kube.resource_codec import Replaced, WatchEvent
from tallygate.policy.model import NamespaceCap, PodFilter, PolicySet, SourceLocation
from tallygate.policy.selectors import NamespaceSelector, PolicyLabelSelector, Subjects
from tallygate.state.informers.pod_records import ChargeGroupInterner, PodRecord, create_pod_codec

GPU = "nvidia.com/gpu"
PODS = create_pod_codec(ChargeGroupInterner())


def cap(*names: str, pods: PodFilter | None = None) -> ActiveCap:
    """Return a cap on the named resources of the pods that match the filter."""
    definition = NamespaceCap(
        name="cap",
        namespaces=NamespaceSelector(),
        hard={name: Quantity.from_int(10) for name in names},
        soft={},
        shared=False,
        pods=pods or PodFilter(),
        exceed=Subjects(),
        location=SourceLocation("caps.yaml", 1, 1),
    )
    return CapIndex(PolicySet(rules=(), caps=(definition,)), None).list_caps()[0]


GPUS = cap(GPU, "pods", "limits.memory")
BATCH = cap(GPU, pods=PodFilter(objects=PolicyLabelSelector(match_labels={"tier": "batch"})))


def pod(uid: str, revision: int, gpus: str = "1", namespace: str = "team-a", **more: Any) -> dict[str, Any]:
    """Return a pod as the API server sends it."""
    container = {"name": "main", "resources": {"requests": {GPU: gpus}, "limits": {GPU: gpus}}}
    meta = {"name": f"pod-{uid}", "namespace": namespace, "uid": uid, "resourceVersion": str(revision)}
    return {
        "metadata": meta | more.get("metadata", {}),
        "spec": {"containers": [container], "nodeName": "n1"} | more.get("spec", {}),
        "status": {"phase": "Running"} | more.get("status", {}),
    }


def line(kind: str, item: dict[str, Any]) -> WatchEvent[PodRecord]:
    """Return the watch event of a line."""
    return PODS.decode_event(json.dumps({"type": kind, "object": item}).encode())


def page(revision: int, *items: dict[str, Any]) -> Replaced[PodRecord]:
    """Return the event of a complete list."""
    body = json.dumps({"metadata": {"resourceVersion": str(revision)}, "items": items}).encode()
    return Replaced(PODS.decode_page(body).items, revision)
