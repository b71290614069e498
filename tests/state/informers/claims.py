"""Claims as the API server sends them, in lists and watch events."""

import json
from typing import Any

from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.admission.cap_sources import CapSources
from tallygate.kube.resource_codec import Replaced, WatchEvent
from tallygate.objects.devices import EXTENDED_RESOURCE_CLAIM_ANNOTATION
from tallygate.state.informers.claim_records import ClaimGroup, create_claim_codec
from tallygate.state.informers.pod_records import ChargeGroupInterner, PodRecord
from tests.accounting.claims import CLASS, Object, claim_object, exactly, result
from tests.admission.case import parse_policies

GPU = "nvidia.com/gpu"
CLAIMS = create_claim_codec(ChargeGroupInterner(ClaimGroup))


def device_cap(text: str) -> ActiveCap:
    """Return the only cap of the policies, in a cluster whose class has the extended resource of GPUs."""
    (cap,) = CapIndex(parse_policies(text), None, CapSources({CLASS: GPU})).list_caps()
    return cap


def create_claim(uid: str, revision: int, count: int = 1, namespace: str = "team-a", **metadata: Any) -> Object:
    """Return a claim for devices of the class."""
    identity = {"name": f"claim-{uid}", "namespace": namespace, "uid": uid, "resourceVersion": str(revision)}
    return claim_object(exactly(count), **(identity | metadata))


def scheduler_claim(uid: str, revision: int, pod_uid: str, count: int = 1, *, is_reserved: bool = True) -> Object:
    """Return a claim as kube-scheduler makes it for a pod; reserved, it has its devices."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": f"pod-{pod_uid}", "uid": pod_uid, "controller": True}
    annotations = {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}
    made = create_claim(uid, revision, count, annotations=annotations, ownerReferences=[owner])
    if not is_reserved:
        return made
    results = [result() for _ in range(count)]
    reserved_for = [{"resource": "pods", "name": f"pod-{pod_uid}", "uid": pod_uid}]
    return {**made, "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved_for}}


def claim_line(kind: str, item: Object) -> WatchEvent[PodRecord]:
    """Return the watch event of a line."""
    return CLAIMS.decode_event(json.dumps({"type": kind, "object": item}).encode())


def claim_page(revision: int, *items: Object) -> Replaced[PodRecord]:
    """Return the event of a complete list."""
    body = json.dumps({"metadata": {"resourceVersion": str(revision)}, "items": items}).encode()
    return Replaced(CLAIMS.decode_page(body).items, revision)
