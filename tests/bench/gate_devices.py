"""Rules on nodes for pods with claims in a gate: 500 nodes with 4,000 devices, 5,000 with 40,000, half of them used.

The stores of the gate get the lists; the memory is that of this process. Each review of a hostile pod must end within
0.2 s, whether the rule is evaluated or not: its times are seconds of CPU.
"""

import gc
import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tallygate.admission.kinds import DecodedRequest
from tallygate.admission.request import decode_review
from tallygate.admission.rule_index import RuleIndex
from tallygate.review.schedulability import check_schedulability
from tests.accounting.scheduling.devices import claim, claim_template, device_class, request
from tests.admission.case import parse_policies
from tests.bench.devices import create_slice, list_claims, read_memory
from tests.state.informers.device_watches import DeviceWatches

_SIZES = (500, 5_000)
_REPEATS = 10
_RULE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: placed}
spec: {resources: ["*"], enforcement: warn, checks: {schedulable: not-now}}
"""
_MEMORY = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("%dGi")) >= 0'
Json = dict[str, Any]


def main() -> None:
    """Measure and print the tables."""
    rows = []
    print("| nodes | pod | first review ms | p50 ms | max ms | result |\n| ---: | --- | ---: | ---: | ---: | --- |")
    for nodes in _SIZES:
        watches = _create_watches(nodes)
        gc.collect()
        before, begun = read_memory(), time.thread_time()
        watches.device_cache.build()
        built, built_memory = time.thread_time() - begun, read_memory()
        for name, objects, spec in _list_pods():
            watches.send(*objects)
            first, median, most, result = _measure(watches, spec)
            print(f"| {nodes:,} | {name} | {first:,.1f} | {median:,.2f} | {most:,.1f} | {result} |", flush=True)
        memory = " | ".join(f"{each:,.0f}" for each in (before, built_memory, read_memory()))
        rows.append(f"| {nodes:,} | {nodes * 8:,} | {memory} | {built:.1f} |")
    print("\n| nodes | devices | MiB of the stores | with devices | after the reviews | CPU s to build |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |", *rows, sep="\n")


def _create_watches(nodes: int) -> DeviceWatches:
    watches = DeviceWatches()
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    watches.relist(
        "Node",
        [{"kind": "Node", "metadata": {"name": f"node-{n}"}, "status": {"allocatable": amounts}} for n in range(nodes)],
    )
    watches.relist("DeviceClass", [device_class("gpu", resource="example.com/gpu")])
    watches.relist("ResourceSlice", [{"kind": "ResourceSlice", **create_slice(n)} for n in range(nodes)])
    watches.relist(
        "ResourceClaim",
        [{"kind": "ResourceClaim", **each} for number in range(nodes) for each in list_claims(number)],
    )
    return watches


def _list_pods() -> Iterator[tuple[str, Sequence[Mapping[str, Any]], Json]]:
    """Yield pods with the objects that they need: the name, the objects, and the spec."""
    yield "no claims", (), {}
    yield "a claim that fits", [claim("fits", request(selectors=[_MEMORY % 40]))], _refer("fits")
    yield "a claim that no node suits", [claim("none", request(selectors=[_MEMORY % 90]))], _refer("none")
    yield "a claim for nine devices", [claim("nine", request(count=9))], _refer("nine")
    yield "an extended resource", (), {"requests": {"example.com/gpu": "2"}}
    heavy = " && ".join(f'device.attributes["gpu.example.com"].uuid.matches("(a|b)*{n}$") == false' for n in range(60))
    yield "a selector of 4 KB", [claim("heavy", request(selectors=[heavy]))], _refer("heavy")
    many = [request(f"r{n}", selectors=[_MEMORY % (n + 1)] * 8) for n in range(16)]
    yield "128 selectors", [claim("many", *many)], _refer("many")
    loop = f"[{','.join(map(str, range(90)))}].all(a, [{','.join(map(str, range(90)))}].all(b, a + b >= 0))"
    yield "nested loops", [claim("loop", request(selectors=[loop]))], _refer("loop")
    constraints = [{"matchAttribute": f"gpu.example.com/{name}"} for name in ("model", "uuid", "pci") * 5]
    bound = claim("bound", *(request(f"r{n}") for n in range(8)), constraints=constraints)
    yield "15 constraints on 8 requests", [bound], _refer("bound")
    distinct = claim("all", request(allocationMode="All"), request("other", count=4))
    yield "all devices and 4 others", [distinct], _refer("all")
    options = [{"name": f"a{n}", "deviceClassName": "gpu", "count": 9 - n % 2} for n in range(8)]
    listed = claim("options", *({"name": f"r{n}", "firstAvailable": options} for n in range(16)))
    yield "16 requests of 8 alternatives", [listed], _refer("options")
    yield "32 claims", [claim(f"c{n}") for n in range(32)], _refer(*(f"c{n}" for n in range(32)))
    shared = [claim_template("one")]
    yield "200 copies", shared, {"copies": 200, **_refer_template("one")}
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    spread = {"topologySpreadConstraints": [constraint]}
    yield "200 copies that share a claim", [claim("shared")], {"copies": 200, **spread, **_refer("shared")}


def _refer(*names: str) -> Json:
    return {"resourceClaims": [{"name": each, "resourceClaimName": each} for each in names]}


def _refer_template(name: str) -> Json:
    return {"resourceClaims": [{"name": "one", "resourceClaimTemplateName": name}]}


def _measure(watches: DeviceWatches, spec: Json) -> tuple[float, float, float, str]:
    """Return the milliseconds of the first review, of half of them, of the slowest, and the last result."""
    index = RuleIndex(parse_policies(_RULE))
    body = _create_review(spec)
    times, verdict = [], None
    for _ in range(_REPEATS):
        request = decode_review(body)
        decoded = DecodedRequest(request, index.targets)
        selection = index.select(request.kind, request.namespace, None)
        begun = time.thread_time()
        verdict = check_schedulability(decoded, selection, watches)
        times.append((time.thread_time() - begun) * 1e3)
    assert verdict is not None
    result = ", ".join([each.code for each in verdict.warnings]) or ("unknown" if verdict.unknown else "fits")
    return times[0], statistics.median(times), max(times), result


def _create_review(spec: Json) -> bytes:
    copies, amounts = spec.get("copies"), spec.get("requests", {"cpu": "1"})
    resources = {"requests": amounts, "limits": {name: amount for name, amount in amounts.items() if "/" in name}}
    pod_spec: Json = {"containers": [{"name": "c", "resources": resources}], **spec}
    pod_spec = {name: value for name, value in pod_spec.items() if name not in {"copies", "requests"}}
    pod: Json = {"kind": "Pod", "metadata": {"name": "p", "uid": "u"}, "spec": pod_spec}
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    if copies:
        kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
        labels = {"matchLabels": {"a": "b"}}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec}
        pod = {"metadata": {"name": "p"}, "spec": {"replicas": copies, "selector": labels, "template": template}}
    whole: Json = {"uid": "r", "kind": kind, "operation": "CREATE", "namespace": "default", "name": "p"}
    whole |= {"userInfo": {"username": "jane"}, "object": msgspec.Raw(json.dumps(pod).encode())}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole})
