"""What the rules about nodes add to one review, in process: the cluster of `placing`, pods that fit and that do not.

The review is decoded beforehand, as the gate has it when it comes to these rules. Before each a pod has come or gone.
"""

import time
from collections.abc import Iterator
from itertools import cycle
from typing import Any, NamedTuple

import msgspec

from tests.admission.case import policies
from tests.bench.placing import HOST, WORKLOADS, ZONE, broad, company, cuts, made_up, pod_json, spread, term
from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.pod_info import PodInfo
from webhook.admission.request import AdmissionRequest, Verdict, decode_review
from webhook.admission.rule_index import RuleIndex
from webhook.gate.schedulability import FixedSnapshot, check_schedulability

_REPEATS = 200
_RULE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: placed}
spec: {resources: ["*"], enforcement: warn, checks: {advertised: true, schedulable: %s}}
"""
_TERMS = 15_000  # of a pod that an API server lets through: 1.5 MB
Json = dict[str, Any]


class Asked(NamedTuple):
    """A pod that is sent, in words, and the code of what is told by `never` and by `not-now`."""

    words: str
    cpu: str
    devices: str
    priority: int
    never: str
    not_now: str


_ASKED = (
    Asked("fits", "500m", "1", 0, "", ""),
    Asked("fits nowhere now", "60", "1", 0, "", "TG114"),
    Asked("fits where others leave", "60", "1", 10, "", "TG115"),
    Asked("can never fit", "500m", "9", 0, "TG113", "TG113"),
)


def main() -> None:
    """Print what it costs."""
    cluster, pods = made_up()
    turn = cycle(pods)
    words: dict[str, Json] = {
        "no word of other pods": {},
        "spread, and affinity to pods, by app": _by_app(),
        "spread, and affinity to pods, by tier, in all namespaces": broad(),
    }
    print("| a pod with | and it | `never` p50 µs | p99 µs | `not-now` p50 µs | p99 µs |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for name, said in words.items():
        for asked in _ASKED:
            columns = [
                cuts(list(_timed(cluster, turn, said, asked, rule, code)))
                for rule, code in (("never", asked.never), ("not-now", asked.not_now))
            ]
            print(
                f"| {name} | {asked.words} | " + " | ".join(f"{each:,.0f}" for pair in columns for each in pair) + " |"
            )
    hostile = company(away=[term(HOST, {"app": f"{number}"}) for number in range(_TERMS)])
    times = list(_timed(cluster, turn, hostile, _ASKED[0], "not-now", ""))
    middle, most = cuts(times)
    print(f"\nA pod with {_TERMS:,} terms, which is not judged: {middle / 1e3:,.1f} ms, p99 {most / 1e3:,.1f} ms.")


def _by_app() -> Json:
    near, away = [term(ZONE, {"app": "app-@"})], [term(HOST, {"app": "app-@"})]
    return company(near, away) | {"topologySpreadConstraints": [spread(ZONE, 50, {"app": "app-@"})]}


def _timed(  # noqa: PLR0913, PLR0917  # what a case is made of
    cluster: Cluster, turn: Iterator[PodInfo], said: Json, asked: Asked, rule: str, code: str
) -> Iterator[float]:
    """Microseconds for each of some reviews, of a pod of one workload after another."""
    index, placing = RuleIndex(policies(_RULE % rule)), FixedSnapshot(cluster)
    for number in range(_REPEATS):
        pod = next(turn)
        cluster.remove_pod(pod.uid)
        cluster.put_pod(pod)
        change = _change(number * 37 % WORKLOADS, said, asked)
        selection = index.select(change.kind, change.namespace, None)
        begun = time.perf_counter()
        verdict = check_schedulability(change, selection, placing)
        yield (time.perf_counter() - begun) * 1e6
        _check(verdict, code, asked)


def _check(verdict: Verdict, code: str, asked: Asked) -> None:
    """A figure is worth something only where the answer is right."""
    told = {each.code for each in verdict.warnings}
    if told != ({code} if code else set()):
        raise AssertionError(asked, told, verdict.unknown)


def _change(workload: int, said: Json, asked: Asked) -> AdmissionRequest:
    """A pod as the API server sends it."""
    body = pod_json(workload, said)
    body["metadata"] |= {"uid": "new", "name": "new"}
    body["spec"] |= {"priority": asked.priority, "nodeName": ""}
    device = next(name for name in body["spec"]["containers"][0]["resources"]["requests"] if "/" in name)
    amounts = {"cpu": asked.cpu, "memory": "1Gi", device: asked.devices}
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
