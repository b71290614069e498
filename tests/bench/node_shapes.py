"""The cost of shapes in one review by `advertised` and `schedulable: never`, in process: 500 nodes, and 0 or 20 shapes.

The review is decoded before.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

from tallygate.webhook.accounting.cluster.cluster import Cluster
from tallygate.webhook.admission.kinds import REVIEW_TARGETS, DecodedRequest
from tallygate.webhook.admission.request import AdmissionRequest, decode_review
from tallygate.webhook.admission.rule_index import RuleIndex
from tallygate.webhook.gate.cluster_snapshot import FixedSnapshot
from tallygate.webhook.gate.schedulability import check_schedulability
from tests.accounting.scheduling.clusters import create_cluster
from tests.admission.case import parse_policies
from tests.bench.schedulability import RULE
from tests.bench.scheduling import compute_percentiles
from tests.gate.gate_fixture import GPU, pod

_NODES, _SHAPES, _REPEATS = 500, 20, 1000
_SHAPE = """
---
apiVersion: tallygate.dev/v1alpha1
kind: NodeShape
metadata: {name: shape-%s}
spec: {taints: [{key: pool-%s, effect: NoSchedule}], allocatable: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 16}}
"""


def main() -> None:
    """Measure and print the table."""
    cluster = create_cluster(_create_node(number) for number in range(_NODES))
    print("| a pod that | shapes | p50 µs | p99 µs |")
    print("| --- | ---: | ---: | ---: |")
    for description, gpus, code in (("fits", 2, ""), ("neither a node nor a shape can run", 12, "TG113")):
        for shape_count in (0, _SHAPES):
            median, p99 = compute_percentiles(list(_time_reviews(cluster, gpus, shape_count, code)))
            print(f"| {description} | {shape_count} | {median:,.0f} | {p99:,.0f} |")


def _create_node(number: int) -> dict[str, Any]:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: "8"}
    labels = {"kubernetes.io/hostname": f"n{number}", "zone": f"z{number % 3}"}
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
    request = {
        "uid": "r",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "team-a",
        "name": "p",
        "userInfo": {"username": "jane"},
        "object": pod("u", gpus),
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return decode_review(json.dumps(body).encode())
