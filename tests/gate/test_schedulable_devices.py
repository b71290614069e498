"""Rules on nodes for pods with claims: what predict would say, from the watches of a gate."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.accounting.scheduling.clusters import node
from tests.accounting.scheduling.devices import (
    claim,
    claim_template,
    device,
    device_class,
    device_slice,
    request,
    taint_rule,
)
from tests.gate.gate_fixture import GateFixture, read_facts, response
from tests.gate.test_schedulability import NEVER, NOT_NOW, RULE
from tests.state.informers.device_watches import DeviceWatches

Json = dict[str, Any]
LARGE = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0'
NAMESPACE = {"namespace": "team-a"}
CLUSTER: Sequence[Json] = (
    node("a", cpu="8") | {"kind": "Node"},
    device_class(),
    device_class("backing", resource="example.com/gpu"),
    device_slice("a", [device("d0", "80Gi"), device("d1", "40Gi")]),
)
NO_NODE = "0/1 nodes are available: 1 cannot allocate all claims"
STILL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling"


def own(kind: Json) -> Json:
    """Return an object of the namespace of the pods."""
    return kind | {"metadata": kind["metadata"] | NAMESPACE}


def create_pod(*, claims: Sequence[Json] = (), cpu: str = "", gpu: str = "") -> Json:
    """Return a pod as the API server sends it: it has a UID, and no claims from templates yet."""
    requests = {"cpu": cpu, "example.com/gpu": gpu}
    resources = {"requests": {name: amount for name, amount in requests.items() if amount}}
    references = [{"name": f"r{number}", **each} for number, each in enumerate(claims)]
    container = {"name": "c", "resources": resources}
    return {
        "kind": "Pod",
        "metadata": {"uid": "u", "name": "p"},
        "spec": {"containers": [container], "resourceClaims": references},
    }


def use_claim(name: str) -> Json:
    """Return a reference to a claim."""
    return {"resourceClaimName": name}


def use_template(name: str) -> Json:
    """Return a reference to a template."""
    return {"resourceClaimTemplateName": name}


def create_deployment(replicas: int, pod: Json) -> Json:
    """Return a Deployment of a pod."""
    metadata = {"labels": {"app": "x"}}
    return {
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": metadata, "spec": pod["spec"]},
        },
    }


def create_gate(checks: str, *objects: Json, is_built: bool = True) -> tuple[GateFixture, DeviceWatches]:
    """Return a gate with one rule that watches a cluster."""
    watches = DeviceWatches()
    watches.send(*CLUSTER, *objects)
    if is_built:
        watches.device_cache.build()
    return GateFixture(RULE % ("deny", checks), snapshots=watches), watches


def read_message(fixture: GateFixture, body: Json) -> str:
    """Return the facts of the message of a denial; empty if the pod is allowed."""
    group = "apps" if body["kind"] == "Deployment" else ""
    found = response(fixture.admit(body, kind={"group": group, "version": "v1", "kind": body["kind"]}))
    if found["allowed"]:
        return ""
    return read_facts(str(found["status"]["message"]).partition("spec: ")[2])


_LARGE = read_facts(f"selector `{LARGE}`,")
CASES: dict[str, tuple[str, Sequence[Json], Json, str]] = {
    "a claim that fits is allowed": (
        NOT_NOW,
        [own(claim("one"))],
        create_pod(claims=[use_claim("one")]),
        "",
    ),
    "a claim of more devices than any node has is never satisfied": (
        NEVER,
        [own(claim("three", request(count=3)))],
        create_pod(claims=[use_claim("three")]),
        f"{NO_NODE} team-a/three 3 gpu gpu.example.com/a 2 2",
    ),
    "a template is evaluated though the pod has a UID already": (
        NEVER,
        [own(claim_template("two-large", request(count=2, selectors=[LARGE])))],
        create_pod(claims=[use_template("two-large")]),
        f"{NO_NODE} team-a/p-r0 2 gpu gpu.example.com/a 2 1 {_LARGE} memory 40Gi 1",
    ),
    "a device that a taint rule taints is not free now": (
        NOT_NOW,
        [own(claim("one")), taint_rule("upkeep", {"pool": "a"})],
        create_pod(claims=[use_claim("one")]),
        f"{NO_NODE}. {STILL} team-a/one 1 gpu gpu.example.com/a 2 2 k:NoSchedule DeviceTaintRule 0",
    ),
    "tainted devices are no reason for never": (
        NEVER,
        [own(claim("one")), taint_rule("upkeep", {"pool": "a"})],
        create_pod(claims=[use_claim("one")]),
        "",
    ),
    "a device of another namespace is in use and unnamed": (
        NOT_NOW,
        [
            own(claim("one", request(selectors=[LARGE]))),
            claim("theirs", allocated=["a/d0"], pods=["their-pod"]),
        ],
        create_pod(claims=[use_claim("one")]),
        f"{NO_NODE}. {STILL} team-a/one 1 gpu gpu.example.com/a 2 1 {_LARGE} memory 40Gi 1 0",
    ),
    "a device of the own namespace is in use by a named claim": (
        NOT_NOW,
        [
            own(claim("two", request(count=2))),
            own(claim("ours", allocated=["a/d0"], pods=["our-pod"])),
        ],
        create_pod(claims=[use_claim("two")]),
        f"{NO_NODE}. {STILL} team-a/two 2 gpu gpu.example.com/a 2 1 team-a/our-pod team-a/ours 1",
    ),
    "devices in use are no reason for never": (
        NEVER,
        [own(claim("two", request(count=2))), claim("theirs", allocated=["a/d0"])],
        create_pod(claims=[use_claim("two")]),
        "",
    ),
    "extended resources of a class get devices": (NOT_NOW, [], create_pod(gpu="2"), ""),
    "extended resources of a class lack devices": (
        NEVER,
        [],
        create_pod(gpu="3"),
        f"{NO_NODE} 3 gpu.example.com/a 2 2",
    ),
    "a missing claim may be stored after the pod": (NOT_NOW, [], create_pod(claims=[use_claim("later")]), ""),
    "a missing template may be stored after the pod": (
        NOT_NOW,
        [],
        create_pod(claims=[use_template("later")]),
        "",
    ),
    "a claim that is being deleted is no reason": (
        NOT_NOW,
        [own(claim("old", request(count=3), metadata=NAMESPACE | {"deletionTimestamp": "2026-01-01T00:00:00Z"}))],
        create_pod(claims=[use_claim("old")]),
        "",
    ),
    "an allocated claim needs a node that reaches its devices": (
        NOT_NOW,
        [own(claim("far", allocated=["b/d0"], pods=["our-pod"]))],
        create_pod(claims=[use_claim("far")]),
        f"0/1 nodes are available: 1 resourceclaim not available on the node. {STILL}",
    ),
    "a pool that lacks a slice may have the devices": (
        NEVER,
        [
            own(claim("three", request(count=3))),
            device_slice("a", ["d0"], pool={"generation": 2, "resourceSliceCount": 2}),
        ],
        create_pod(claims=[use_claim("three")]),
        "",
    ),
    "a pool of a missing node that lacks a slice excuses no other": (
        NEVER,
        [
            own(claim("three", request(count=3))),
            device_slice("b", ["d0"], pool={"resourceSliceCount": 2}),
        ],
        create_pod(claims=[use_claim("three")]),
        f"{NO_NODE} team-a/three 3 gpu gpu.example.com/a 2 2",
    ),
    "copies of a workload get devices for each": (
        NOT_NOW,
        [own(claim_template("one"))],
        create_deployment(3, create_pod(claims=[use_template("one")])),
        f"2 3 {NO_NODE}. {STILL}",
    ),
    "copies of a workload that fit": (
        NOT_NOW,
        [own(claim_template("one"))],
        create_deployment(2, create_pod(claims=[use_template("one")])),
        "",
    ),
    "amounts decide before devices": (
        NEVER,
        [own(claim("one"))],
        create_pod(claims=[use_claim("one")], cpu="900"),
        "900 cpu 8",
    ),
}


_CODES = {NEVER: "TG113", NOT_NOW: "TG114"}


@pytest.mark.parametrize("case", CASES)
def test_a_pod_with_devices_is_denied_with_the_devices_that_it_lacks(case: str) -> None:
    checks, objects, body, expected = CASES[case]
    fixture, _ = create_gate(checks, *objects)
    facts = f"{expected} {_CODES[checks]}" if expected else ""
    assert read_message(fixture, body) == facts
    assert read_message(fixture, body) == facts


def test_the_first_pod_lets_the_gate_read_the_devices_and_the_second_is_evaluated() -> None:
    fixture, _ = create_gate(NEVER, own(claim("three", request(count=3))), is_built=False)
    assert read_message(fixture, create_pod(cpu="1")) == ""
    body = create_pod(claims=[use_claim("three")])
    assert [bool(read_message(fixture, body)) for _ in range(2)] == [False, True]


def test_a_pod_without_devices_lets_the_gate_read_none() -> None:
    fixture, watches = create_gate(NOT_NOW, is_built=False)
    assert read_message(fixture, create_pod(cpu="1")) == ""
    assert watches.device_cache.get_index() is None


def test_a_pod_with_very_many_claims_is_not_evaluated() -> None:
    fixture, _ = create_gate(NEVER, own(claim("three", request(count=3))))
    body = create_pod(claims=[use_claim("three")] * 33)
    assert response(fixture.admit(body))["warnings"] == [
        "rule placed was not evaluated: the pod's constraints on nodes and other pods are too complex"
    ]


LOOP = f"[{','.join(map(str, range(90)))}].all(a, [{','.join(map(str, range(90)))}].all(b, a + b >= 0))"
LONG = " && ".join(f'device.driver != "{number}"' for number in range(400))
CONSTRAINTS = [{"distinctAttribute": "gpu.example.com/rank"}, {"matchAttribute": "gpu.example.com/half"}]
OPTIONS = [{"name": f"a{number}", "deviceClassName": "gpu", "count": 4} for number in range(8)]
HOSTILE: dict[str, Sequence[Json]] = {
    "an expression with nested loops": [claim("c", request(selectors=[LOOP]))],
    "expressions that take long to compile": [
        claim("c", *(request(f"r{each}", selectors=[f"{LONG} && {each} > 0"]) for each in range(8)))
    ],
    "constraints that exclude each combination late": [
        claim("c", *(request(f"r{each}") for each in range(6)), constraints=CONSTRAINTS)
    ],
    "requests of many alternatives": [claim("c", *({"name": f"r{n}", "firstAvailable": OPTIONS} for n in range(4)))],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_search_that_takes_too_long_ends_and_leaves_other_pods_evaluated(case: str) -> None:
    numbered = {"rank": {"int": 1}}
    devices = [device(f"d{n}", attributes=numbered | {"half": {"int": n % 2}}) for n in range(12)]
    slices = [device_slice(f"n{each}", devices) for each in range(40)]
    nodes = [node(f"n{each}", cpu="8") | {"kind": "Node"} for each in range(40)]
    hostile = [own(each) for each in HOSTILE[case]]
    fixture, _ = create_gate(NOT_NOW, *nodes, *slices, *hostile, own(claim("many", request(count=20))))
    assert response(fixture.admit(create_pod(claims=[use_claim("c")])))["warnings"] == [
        "rule placed was not evaluated: the search for devices takes more work than is allowed"
    ]
    assert "team-a/many 20 gpu" in read_message(fixture, create_pod(claims=[use_claim("many")]))


@pytest.mark.parametrize(
    ("patterns", "is_denied"),
    [
        pytest.param('["*"]', True, id="every resource"),
        pytest.param("[extended]", True, id="extended resources, which include the devices of every class"),
        pytest.param('["deviceclass.resource.kubernetes.io/*"]', True, id="the devices of every class"),
        pytest.param("[cpu]", False, id="another resource"),
        pytest.param('[extended, "!extended"]', False, id="none"),
    ],
)
def test_a_rule_on_the_devices_of_every_class_concerns_pods_with_claims(patterns: str, *, is_denied: bool) -> None:
    """Compare a pod that requests no resource by name, whose claim no node can satisfy."""
    watches = DeviceWatches()
    watches.send(*CLUSTER, own(claim("three", request(count=3))))
    watches.device_cache.build()
    rule = RULE.replace('["*"]', patterns) % ("deny", NEVER)
    gate = GateFixture(rule, snapshots=watches)
    pod = create_pod(claims=[use_claim("three")])
    answer = response(gate.admit(pod, kind={"group": "", "version": "v1", "kind": "Pod"}))
    assert answer["allowed"] is not is_denied
