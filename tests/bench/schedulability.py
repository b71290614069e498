"""The cost of the rules about nodes in one review, in process: the cluster of `scheduling`, pods that fit or do not.

The review is decoded before. A pod is removed and put back before each review.
"""

import time
from collections.abc import Iterator
from itertools import cycle
from typing import Any, NamedTuple

import msgspec

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.pod_info import PodInfo
from tallygate.admission.kinds import REVIEW_TARGETS, DecodedRequest
from tallygate.admission.request import AdmissionRequest, Verdict, decode_review
from tallygate.admission.rule_index import RuleIndex
from tallygate.review.cluster_snapshot import FixedSnapshot
from tallygate.review.schedulability import check_schedulability
from tests.admission.case import parse_policies
from tests.bench.scheduling import (
    HOST,
    WORKLOADS,
    ZONE,
    compute_percentiles,
    create_affinity,
    create_broad_constraints,
    create_cluster,
    create_pod,
    create_spread,
    create_term,
)

_REPEATS = 200
RULE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: placed}
spec: {resources: ["*"], enforcement: warn, checks: {advertised: true, schedulable: %s}}
"""
_TERMS = 15_000  # of a pod that an API server accepts: 1.5 MB
Json = dict[str, Any]


class RequestedPod(NamedTuple):
    """A pod of a review, its description, and the codes of the warnings by `never` and by `not-now`."""

    description: str
    cpu: str
    devices: str
    priority: int
    never: str
    not_now: str


_PODS = (
    RequestedPod("fits", "500m", "1", 0, "", ""),
    RequestedPod("fits nowhere now", "60", "1", 0, "", "TG114"),
    RequestedPod("fits where others leave", "60", "1", 10, "", "TG115"),
    RequestedPod("can never fit", "500m", "9", 0, "TG113", "TG113"),
)


def main() -> None:
    """Measure and print the table."""
    cluster, pods = create_cluster()
    pod_cycle = cycle(pods)
    constraint_sets: dict[str, Json] = {
        "no word of other pods": {},
        "spread, and affinity to pods, by app": _create_app_constraints(),
        "spread, and affinity to pods, by tier, in all namespaces": create_broad_constraints(),
    }
    print("| a pod with | and it | `never` p50 µs | p99 µs | `not-now` p50 µs | p99 µs |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for name, constraints in constraint_sets.items():
        for requested in _PODS:
            columns = [
                compute_percentiles(list(_time_reviews(cluster, pod_cycle, constraints, requested, rule, code)))
                for rule, code in (("never", requested.never), ("not-now", requested.not_now))
            ]
            print(
                f"| {name} | {requested.description} | "
                + " | ".join(f"{each:,.0f}" for pair in columns for each in pair)
                + " |"
            )
    hostile = create_affinity(away=[create_term(HOST, {"app": f"{number}"}) for number in range(_TERMS)])
    times = list(_time_reviews(cluster, pod_cycle, hostile, _PODS[0], "not-now", ""))
    median, p99 = compute_percentiles(times)
    print(f"\nA pod with {_TERMS:,} terms, which is not evaluated: {median / 1e3:,.1f} ms, p99 {p99 / 1e3:,.1f} ms.")


def _create_app_constraints() -> Json:
    near, away = [create_term(ZONE, {"app": "app-@"})], [create_term(HOST, {"app": "app-@"})]
    return create_affinity(near, away) | {"topologySpreadConstraints": [create_spread(ZONE, 50, {"app": "app-@"})]}


def _time_reviews(  # noqa: PLR0913, PLR0917  # what a case is made of
    cluster: Cluster, pod_cycle: Iterator[PodInfo], constraints: Json, requested: RequestedPod, rule: str, code: str
) -> Iterator[float]:
    """Yield the microseconds of each of some reviews, of a pod of one workload after another."""
    index, snapshots = RuleIndex(parse_policies(RULE % rule)), FixedSnapshot(cluster)
    for number in range(_REPEATS):
        pod = next(pod_cycle)
        cluster.remove_pod(pod.uid)
        cluster.put_pod(pod)
        request = create_request(number * 37 % WORKLOADS, constraints, requested)
        selection = index.select(request.kind, request.namespace, None)
        started_at = time.perf_counter()
        verdict = check_schedulability(DecodedRequest(request, REVIEW_TARGETS), selection, snapshots)
        yield (time.perf_counter() - started_at) * 1e6
        _check(verdict, code, requested)


def _check(verdict: Verdict, code: str, requested: RequestedPod) -> None:
    """Check the verdict: a figure counts only if the answer is right."""
    codes = {each.code for each in verdict.warnings}
    if codes != ({code} if code else set()):
        raise AssertionError(requested, codes, verdict.unknown)


def create_request(workload: int, constraints: Json, requested: RequestedPod) -> AdmissionRequest:
    """Return a request for a pod as the API server sends it."""
    body = create_pod(workload, constraints)
    body["metadata"] |= {"uid": "new", "name": "new"}
    body["spec"] |= {"priority": requested.priority, "nodeName": ""}
    device = next(name for name in body["spec"]["containers"][0]["resources"]["requests"] if "/" in name)
    amounts = {"cpu": requested.cpu, "memory": "1Gi", device: requested.devices}
    body["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    request = {
        "uid": "r",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": body["metadata"]["namespace"],
        "name": "new",
        "userInfo": {"username": "jane"},
        "object": msgspec.Raw(msgspec.json.encode(body).replace(b"@", str(workload).encode())),
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return decode_review(msgspec.json.encode(review))
