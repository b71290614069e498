"""The words of messages of the gate that no recorded output has, each once; other tests state the facts."""

from collections.abc import Callable
from typing import Any

import pytest

from tallygate.gate.decisions import Decision
from tests.accounting.claims import exactly
from tests.accounting.scheduling.devices import claim, request
from tests.gate import test_claim_forecast as claims
from tests.gate import test_device_forecast as devices
from tests.gate import test_overrides as overrides
from tests.gate import test_pod_set_forecast as pod_sets
from tests.gate import test_quotas as quotas
from tests.gate import test_schedulability as nodes
from tests.gate import test_schedulable_devices as devices_of_nodes
from tests.gate.gate_fixture import CAP, GPU, GateFixture, pod, response
from tests.gate.test_workload_forecast import LIMITS, rolling, workload

HARD = "cap gpus of this namespace has hard 4"
PUBLISHED = "gpu-memory of the published devices, cap gpus of this namespace has hard 160Gi"


def apply(fixture: GateFixture, body: dict[str, Any], group: str = "apps", **request: Any) -> Decision:
    """Return the decision on a workload w."""
    return fixture.admit(body, kind={"group": group, "kind": body["kind"]}, name="w", **request)


def with_pods(fixture: GateFixture, gpus: int) -> GateFixture:
    """Return a gate after the creation of a pod with these GPUs."""
    fixture.create(gpus)
    return fixture


def with_limit_of_memory() -> Decision:
    """Return the decision on a workload whose container has no limit."""
    return apply(GateFixture(LIMITS), workload(1))


def grow() -> Decision:
    """Return the decision on a workload that gets two more pods, of which one runs now."""
    fixture = with_pods(GateFixture(), 3)
    return apply(fixture, workload(1, replicas=5), oldObject=workload(1, replicas=2))


def preempt(gpus: int, kind: str, **spec: Any) -> Decision:
    """Return the decision on a workload with a priority, on a node where others use two GPUs, and another."""
    full = nodes.cluster(4, 2)
    nodes.place_pod(full, "a" if kind == "Deployment" else "b", 2, priority=0)
    return apply(nodes.create_fixture(full, nodes.NOT_NOW), nodes.set_priority(workload(gpus, kind, **spec)))


def lower(hard: int) -> Decision:
    """Return the decision on a workload under a limit that is lowered for a time."""
    fixture = GateFixture(overrides.LOWERED.replace("gpu: 2", f"gpu: {hard}"))
    fixture.utc = overrides.BEFORE
    return apply(fixture, workload(1, replicas=4))


def grow_on_nodes() -> Decision:
    """Return the decision on a workload that gets two more pods, of which one fits."""
    full = nodes.cluster(4)
    nodes.place_pod(full, "a", 3)
    fixture = nodes.create_fixture(full, nodes.NOT_NOW, "warn")
    return apply(fixture, workload(1, replicas=5), oldObject=workload(1, replicas=3))


def preempt_own() -> Decision:
    """Return the decision on a pod that would preempt pods of its own namespace and another."""
    full = nodes.cluster(5)
    for number in range(5):
        namespace = "team-a" if number < 4 else "elsewhere"
        nodes.place_pod(full, "a", 1, priority=0, namespace=namespace, name=f"old-{number}")
    return nodes.create_fixture(full, nodes.NOT_NOW).admit(pod("u", 5, priority=10))


def lack_devices(body: dict[str, Any], *objects: dict[str, Any]) -> Decision:
    """Return the decision on a pod for which a node has too few devices."""
    return devices_of_nodes.create_gate(nodes.NEVER, *objects)[0].admit(body)


def scale_pod_sets(spec: dict[str, Any], kind: str = "RayCluster", group: str = "ray.io", old: Any = None) -> Decision:
    """Return the decision on an object of another project."""
    change = {} if old is None else {"oldObject": {"kind": kind, "spec": old}}
    return apply(GateFixture(), {"kind": kind, "spec": spec}, group, **change)


def scale_two_groups() -> Decision:
    """Return the decision on a cluster with two groups of workers that an autoscaler scales."""
    spec = pod_sets.ray(1, 3)
    spec["workerGroupSpecs"].append({**spec["workerGroupSpecs"][0], "groupName": "b", "maxReplicas": 2})
    return scale_pod_sets(spec)


CASES: dict[str, tuple[Callable[[], Decision], str]] = {
    "a limit that a template lacks": (
        with_limit_of_memory,
        (
            "spec.template.spec.containers: cap gpus counts limits.memory, which is missing or 0 on c: set it (TG203, "
            "cap gpus)"
        ),
    ),
    "one pod": (
        lambda: apply(GateFixture(), workload(5, "CronJob"), "batch"),
        f"1 parallel pod requests 5 {GPU}, {HARD}: ",
    ),
    "pods that can run now": (
        grow,
        f"5 replicas request 5 {GPU}, {HARD}, free 1: 3 of them can run now, and 4 at a time (TG204, cap gpus)",
    ),
    "pods that a quota lets wait": (
        lambda: apply(quotas.create_fixture(quotas.gpus(8, 5)), workload(2, replicas=3)),
        (
            f"3 replicas request 6 requests.{GPU}, quota q of this namespace has hard 8, free 3: "
            "2 wait until other pods end (TG208)"
        ),
    ),
    "pods with claims that wait": (
        lambda: apply(with_pods(claims.create_fixture(), 3), claims.claiming_workload("one", replicas=3)),
        (
            f"3 replicas with their claims request 3 {GPU}, {HARD}, free 1: 2 wait until other pods end or claims are "
            "deleted (TG205, cap gpus)"
        ),
    ),
    "claims without a factor": (
        lambda: claims.create_fixture(claims.PRODUCT).admit(claims.claiming("one")),
        (
            f"spec.resourceClaims: cap gpus counts gpu-memory = {GPU} × nvidia.com/gpumem of containers, and the "
            "claims that templates make have no such product: request the resources in a container (TG203, cap gpus)"
        ),
    ),
    "a class that was not seen": (
        lambda: claims.create_fixture(CAP, claims.FUTURE).admit(claims.claiming("future")),
        (
            "devices were not compared with cap gpus: DeviceClass future does not exist, or was not seen yet, so it "
            f"is not known what its devices count under {GPU}"
        ),
    ),
    "a limit that some pods wait for": (
        lambda: lower(2),
        "(until 2026-12-04T18:00Z, then 4): not all of them can run before the limit is larger (TG204, cap gpus)",
    ),
    "a limit that all pods wait for": (
        lambda: lower(0),
        "(until 2026-12-04T18:00Z, then 4): none of them can run before the limit is larger (TG204, cap gpus)",
    ),
    "devices that a claim waits for": (
        lambda: devices.create_gate(allocated=1).review_claim(devices.new_claim(exactly(2))),
        (
            f"this claim gets at least 160Gi {PUBLISHED}, free 80Gi: its pod stays pending until the devices of other "
            "claims are free (TG212, cap gpus)"
        ),
    ),
    "devices that a pod waits for": (
        lambda: devices.create_gate(allocated=1).admit(claims.claiming("1", "1")),
        (
            f"the claims of this pod get at least 160Gi {PUBLISHED}, free 80Gi: the pod stays pending until the "
            "devices of other claims are free (TG212, cap gpus)"
        ),
    ),
    "devices that a cap never allows": (
        lambda: devices.create_gate().admit(claims.claiming("3")),
        (
            f"the claims of this pod get at least 240Gi {PUBLISHED}: with these devices the pod can never run (TG211, "
            "cap gpus)"
        ),
    ),
    "devices of a workload": (
        lambda: apply(devices.create_gate(), devices.claiming_workload("1", 3)),
        (
            f"3 replicas with their claims get at least 240Gi {PUBLISHED}: at most 2 of them can run at a time "
            "(TG204, cap gpus)"
        ),
    ),
    "devices of one replica": (
        lambda: apply(devices.create_gate(), devices.claiming_workload("3", 1)),
        f"1 replica with its claims gets at least 240Gi {PUBLISHED}: ",
    ),
    "devices that a workload waits for": (
        lambda: apply(devices.create_gate(allocated=1), devices.claiming_workload("1", 2, strategy=rolling(0, 1))),
        (
            f"2 replicas with their claims get at least 160Gi {PUBLISHED}, free 80Gi: at least 1 waits until the "
            "devices of other claims are free (TG205, cap gpus)"
        ),
    ),
    "an autoscaler": (
        lambda: scale_pod_sets(pod_sets.ray(1, 20)),
        (
            f"with up to 20 workers, 20 workers request 20 {GPU}, {HARD}: the autoscaler can never start more than 4 "
            "workers (TG214, cap gpus)"
        ),
    ),
    "an autoscaler of two groups": (
        scale_two_groups,
        (
            f"with up to 3 workers and 2 workers, 5 pods request 5 {GPU}, {HARD}: the autoscaler can never start all "
            "of them (TG214, cap gpus)"
        ),
    ),
    "workers": (
        lambda: scale_pod_sets(pod_sets.ray(5, 20)),
        f"5 workers request 5 {GPU}, {HARD}: ",
    ),
    "steps of several sizes": (
        lambda: scale_pod_sets(
            pod_sets.steps([{"template": "step-1"}, {"template": "step-2"}]), "Workflow", "argoproj.io"
        ),
        f"2 pods request 5 {GPU}, {HARD}: not all of them can run at a time (TG204, cap gpus)",
    ),
    "both versions at a time": (
        lambda: scale_pod_sets(pod_sets.rollout(3, {"blueGreen": {"activeService": "a"}}), "Rollout", "argoproj.io"),
        (
            f"with 3 more during a rollout, 6 replicas request 6 {GPU}, {HARD}: the rollout can never proceed, since "
            "no old pod ends before all new ones run (TG206, cap gpus)"
        ),
    ),
    "a preemption for replicas": (
        lambda: preempt(2, "Deployment", replicas=3),
        (
            "spec.template.spec: only 2 of 3 replicas fit now; the scheduler can preempt pods of lower priority: 1 "
            "of other namespaces on node a, for example (TG115, rule placed)"
        ),
    ),
    "a preemption for a DaemonSet": (
        lambda: preempt(1, "DaemonSet"),
        (
            "spec.template.spec: only 1 of 2 eligible nodes can run its pod now; the scheduler can preempt pods of "
            "lower priority: 1 of other namespaces on node b, for example (TG115, rule placed)"
        ),
    ),
    "victims of the own namespace": (
        preempt_own,
        "lower priority: old-0, old-1, old-2 and 2 more on node a, for example (TG115, rule placed)",
    ),
    "more replicas": (
        grow_on_nodes,
        (
            "spec.template.spec: only 1 of 2 more replicas fits now: 0/1 nodes are available: 1 Insufficient "
            "nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod "
            "(TG114, rule placed)"
        ),
    ),
    "a name that no node advertises": (
        lambda: nodes.create_fixture(nodes.cluster(4), nodes.ADVERTISED).admit(nodes.create_pod("example.org/other")),
        "no node advertises example.org/other, so no node can run this pod (TG112, rule placed)",
    ),
    "a similar name that one node advertises": (
        lambda: nodes.create_fixture(nodes.cluster(4), nodes.ADVERTISED).admit(nodes.create_pod(f"{GPU}s")),
        f"no node advertises {GPU}s: did you mean {GPU}? node a advertises it (TG112, rule placed)",
    ),
    "a DaemonSet on nodes that are not known": (
        lambda: apply(GateFixture(CAP), workload(2, "DaemonSet")),
        (
            "the forecast of cap gpus counts one pod of a DaemonSet, which has one on each of its nodes: these are not "
            "known here"
        ),
    ),
    "devices of a claim": (
        lambda: lack_devices(
            devices_of_nodes.create_pod(claims=[devices_of_nodes.use_claim("three")]),
            devices_of_nodes.own(claim("three", request(count=3))),
        ),
        (
            "request r of claim team-a/three for 3 devices of "
            "class gpu: pool gpu.example.com/a of node a: 2 devices, 2 suitable (TG113, rule placed)"
        ),
    ),
    "devices of an extended resource": (
        lambda: lack_devices(devices_of_nodes.create_pod(gpu="3")),
        (
            "extended resources for 3 devices of class "
            "backing: pool gpu.example.com/a of node a: 2 devices, 2 suitable (TG113, rule placed)"
        ),
    ),
    "one device of a claim": (
        lambda: lack_devices(
            devices_of_nodes.create_pod(claims=[devices_of_nodes.use_claim("one")]),
            devices_of_nodes.own(claim("one", request(selectors=["false"]))),
        ),
        (
            "request r of claim team-a/one for 1 device of class gpu: pool gpu.example.com/a of node a: 2 devices, 2 "
            "fail selector `false`, 0 suitable (TG113, rule placed)"
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_message_has_these_words(case: str) -> None:
    decide, text = CASES[case]
    found = response(decide())
    messages = [*found.get("warnings", []), *([] if found["allowed"] else [found["status"]["message"]])]
    assert [message for message in messages if text in message], messages
