"""The cost of shapes in one review by `advertised` and `schedulable: never`, in process: 500 nodes, and 0 or 20 shapes.

The same with the shapes of 20 NodePools, of which each may choose among three zones, which the pod names. The review
is decoded before.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.node_shape import ZONE
from tallygate.admission.kinds import REVIEW_TARGETS, DecodedRequest
from tallygate.admission.request import AdmissionRequest, decode_review
from tallygate.admission.rule_index import RuleIndex
from tallygate.review.cluster_snapshot import FixedSnapshot
from tallygate.review.schedulability import check_schedulability
from tests.accounting.scheduling.clusters import create_cluster
from tests.admission.case import parse_policies
from tests.bench.schedulability import RULE
from tests.bench.scheduling import compute_percentiles
from tests.gate.gate_fixture import GPU, pod

_NODES, _SHAPES, _REPEATS = 500, 20, 1000
_IN_ZONES = {"key": ZONE, "operator": "In", "values": ["z0", "z1", "z2"]}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SHAPE = """
---
apiVersion: tallygate.dev/v1alpha1
kind: NodeShape
metadata: {name: shape-%s}
spec:
  labels: {topology.kubernetes.io/zone: z0}
  taints: [{key: pool-%s, effect: NoSchedule}]
  allocatable: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 16}
"""


def main() -> None:
    """Measure and print the table."""
    cluster = create_cluster(_create_node(number) for number in range(_NODES))
    with_pools = Cluster()
    for number in range(_NODES):
        ingest(with_pools, "Node", json.dumps(_create_node(number)).encode())
    for number in range(_SHAPES):
        ingest(with_pools, "NodePool", json.dumps(_create_node_pool(number)).encode())
    print("| a pod that | shapes | p50 µs | p99 µs |")
    print("| --- | ---: | ---: | ---: |")
    for description, gpus, code in (("fits", 2, ""), ("neither a node nor a shape can run", 12, "TG113")):
        for shown, nodes, shape_count in (("0", cluster, 0), ("20", cluster, _SHAPES), ("20 pools", with_pools, 0)):
            median, p99 = compute_percentiles(list(_time_reviews(nodes, gpus, shape_count, code)))
            print(f"| {description} | {shown} | {median:,.0f} | {p99:,.0f} |")


def _create_node_pool(number: int) -> dict[str, Any]:
    requirements = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["a8"]},
        _IN_ZONES,
    ]
    template = {"spec": {"taints": [{"key": f"pool-{number}", "effect": "NoSchedule"}], "requirements": requirements}}
    return {"metadata": {"name": f"pool-{number}"}, "spec": {"template": template}}


def _create_node(number: int) -> dict[str, Any]:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: "8"}
    pool = {"karpenter.sh/nodepool": f"pool-{number % _SHAPES}"}
    labels = {"kubernetes.io/hostname": f"n{number}", ZONE: f"z{number % 3}", **pool}
    return {"metadata": {"name": f"n{number}", "labels": labels}, "status": {"allocatable": amounts}}


def _time_reviews(cluster: Cluster, gpus: int, shape_count: int, code: str) -> Iterator[float]:
    """Yield the microseconds of each of some reviews.

    Raises:
        AssertionError: if a verdict is wrong: a figure counts only if the answer is right.
    """
    shapes = "".join(_SHAPE % (number, number) for number in range(shape_count))
    index, snapshots = RuleIndex(parse_policies(RULE % "never" + shapes)), FixedSnapshot(cluster)
    request = _create_request(gpus)
    selection = index.select(request.kind, request.namespace, None)
    for _ in range(_REPEATS):
        started_at = time.perf_counter()
        verdict = check_schedulability(DecodedRequest(request, REVIEW_TARGETS), selection, snapshots)
        yield (time.perf_counter() - started_at) * 1e6
        if [each.code for each in verdict.warnings] != ([code] if code else []):
            raise AssertionError(verdict)


def _create_request(gpus: int) -> AdmissionRequest:
    term = {"matchExpressions": [_IN_ZONES]}
    request = {
        "uid": "r",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "team-a",
        "name": "p",
        "userInfo": {"username": "jane"},
        "object": pod("u", gpus, affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [term]}}}),
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return decode_review(json.dumps(body).encode())
