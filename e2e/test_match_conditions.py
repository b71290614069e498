"""The match conditions, evaluated by a real API server: which requests reach the gate, and which do not."""

import itertools
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from e2e.api import JSON, STRATEGIC, Object, api
from e2e.ports import Cluster, Gate
from e2e.waiting import until
from tests.admission.complete import is_complete

_WITHIN = 240.0  # seconds, until the gate has written its log; it takes a tenth of one
_LONG = 2000  # variables of a container, some hundred kilobytes in all
_BOTH = {"mutate", "validate"}
_NOTE = {"metadata": {"annotations": {"note": "1"}}}
_TIER = {"metadata": {"labels": {"tier": "x"}}}
_TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "main", "image": "none"}], "tolerations": [{"key": "nowhere"}]},
}
_SELECTED = {"selector": {"matchLabels": {"app": "x"}}, "template": _TEMPLATE}
_JOB = {"template": {**_TEMPLATE, "spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}}

OBJECTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "Pod": ("v1", {"spec": _TEMPLATE["spec"]}, {"spec": {"activeDeadlineSeconds": 1000}}),
    "Deployment": ("apps/v1", {"spec": {**_SELECTED, "replicas": 0}}, {"spec": {"paused": True}}),
    "CronJob": (
        "batch/v1",
        {"spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": _JOB}}},
        {"spec": {"schedule": "1 0 1 1 *"}},
    ),
    "PodTemplate": ("v1", {"template": _TEMPLATE}, {"template": {"metadata": {"labels": {"more": "x"}}}}),
    "ResourceQuota": ("v1", {"spec": {"hard": {"services": "5"}}}, {"spec": {"hard": {"services": "6"}}}),
    "LimitRange": (
        "v1",
        {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "64"}}]}},
        {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "65"}}]}},
    ),
}
"""An object of each kind, and a change that is evaluated."""


PhaseExpectation = Callable[..., None]

_ANY = "a-b.example.com/x"
PODS: dict[str, dict[str, Any]] = {
    "nothing is asked for": {"containers": [{}]},
    "limits alone, which are requests too": {"containers": [{"limits": {_ANY: "2", "cpu": "1500m", "memory": "1Gi"}}]},
    "a request is missing its limit": {"containers": [{"requests": {"cpu": "1"}}]},
    "a part": {"containers": [{"requests": {_ANY: "1500m"}, "limits": {_ANY: "1500m"}}]},
    "thousands": {"containers": [{"limits": {_ANY: "3Ki"}}]},
    "one of two containers is incomplete": {"containers": [{"limits": {_ANY: "1"}}, {"requests": {"memory": "1Gi"}}]},
    "an init container is incomplete": {
        "containers": [{"limits": {_ANY: "1"}}],
        "initContainers": [{"requests": {"cpu": "1"}}],
    },
    "init containers are complete": {"containers": [{}], "initContainers": [{"limits": {_ANY: "1"}}, {}]},
    "much memory": {"containers": [{"limits": {"memory": "64Ti", "cpu": "100m"}}]},
    "more cpu than 64 bits hold": {"containers": [{"limits": {"cpu": "10E"}}]},
    "hugepages": {"containers": [{"limits": {"hugepages-2Mi": "2Mi", "cpu": "1"}}]},
    "an opaque resource": {"containers": [{"limits": {"pod.alpha.kubernetes.io/opaque-int-resource-bananas": "1"}}]},
    "no domain": {"containers": [{"limits": {"bananas": "1"}}]},
    "a domain of its own": {"containers": [{"limits": {"example.com/Some_Thing.1": "999999999999999"}}]},
    "many": {"containers": [{"limits": {f"{_ANY}-{number}": "1" for number in range(8)}} for _ in range(20)]},
    "more names than are looked at": {"containers": [{"limits": {f"{_ANY}-{number}": "1" for number in range(9)}}]},
    "more containers than are looked at": {"containers": [{}] * 21},
    "more than any pod has": {
        "containers": [{"limits": {f"{_ANY}-{number}": "1" for number in range(200)}} for _ in range(50)]
    },
}
"""Pods by the requests of their containers."""


@pytest.fixture
def machine(cluster: Cluster) -> Iterator[str]:
    """Yield the path of a node that is deleted after the case."""
    name = f"matched-{uuid4().hex[:8]}"
    api(cluster.kubeconfig).create("/api/v1/nodes", {"metadata": {"name": name}, "spec": {"unschedulable": True}})
    yield f"/api/v1/nodes/{name}"
    api(cluster.kubeconfig).delete(f"/api/v1/nodes/{name}")


def _create(cluster: Cluster, manifest: Object) -> str:
    """Create an object and return its path."""
    ours = api(cluster.kubeconfig)
    path = ours.collection(manifest, manifest["metadata"]["namespace"])
    ours.create(path, manifest)
    return f"{path}/{manifest['metadata']['name']}"


@pytest.fixture
def expect_phases(cluster: Cluster, gate: Gate) -> PhaseExpectation:
    """Return a function that checks in which phases the gate was called about an object since it was last called.

    It takes the name of the object and the possible sets of phases. The number of calls is not compared: where a
    controller writes at the same moment, the API server goes through a patch again. A line may come after that of a
    later call, since each is logged by the thread that has answered.
    """
    seen = 0

    def list_phases(name: str, operation: str) -> set[str]:
        lines = [line for line in gate.log()[seen:].splitlines(keepends=True) if name in line and line.endswith("\n")]
        events = map(json.loads, lines)
        return {each["phase"] for each in events if each["operation"] == operation and each["object"].endswith(name)}

    def expect(name: str, *possible: set[str], operation: str = "UPDATE") -> None:
        nonlocal seen
        mark = f"mark-{uuid4().hex}"
        pod, pods = {"metadata": {"name": mark}, "spec": _TEMPLATE["spec"]}, "/api/v1/namespaces/default/pods"
        api(cluster.kubeconfig).ask("POST", pods, pod, query={"dryRun": "All"}).object()
        until("the gate has logged what was before", lambda: mark in gate.log(), _WITHIN)
        calls = partial(list_phases, name, operation)
        until(f"the calls are one of {possible}", lambda: calls() in possible, _WITHIN, lambda: f"they are {calls()}")
        seen = gate.log().rindex("\n") + 1

    return expect


@pytest.mark.parametrize("kind", OBJECTS)
def test_only_updates_of_evaluated_fields_reach_the_gate(
    cluster: Cluster, expect_phases: PhaseExpectation, namespace: str, kind: str
) -> None:
    version, body, change = OBJECTS[kind]
    name = f"matched-{uuid4().hex[:8]}"
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **body}
    ours, path = api(cluster.kubeconfig), _create(cluster, manifest)
    ours.patch(path, _NOTE)
    ours.patch(path, {"metadata": {"finalizers": ["tallygate.dev/case"]}})
    ours.patch(path, {"metadata": {"finalizers": None}})
    expect_phases(name, set())
    ours.patch(path, _TIER)
    expect_phases(name, _BOTH)
    ours.patch(path, change)
    expect_phases(name, _BOTH)


@pytest.mark.parametrize("what", PODS)
def test_a_complete_pod_is_sent_once(
    cluster: Cluster, expect_phases: PhaseExpectation, namespace: str, what: str
) -> None:
    """Evaluate it once the API server has applied its defaults: a missing request is its limit."""
    name = f"matched-{uuid4().hex[:8]}"
    spec = {
        part: [
            {"name": f"{part.lower()}-{number}", "image": "none", "resources": asks} for number, asks in enumerate(all_)
        ]
        for part, all_ in PODS[what].items()
    }
    manifest = {"metadata": {"name": name}, "spec": spec}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api(cluster.kubeconfig).ask("POST", pods, manifest, query={"dryRun": "All"})
    possible = [{"validate"}] if is_complete(_fill_requests(manifest)) else [{"mutate"}, _BOTH]
    expect_phases(name, *possible, operation="CREATE")


def _fill_requests(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the pod with the requests that the API server takes from limits (SetDefaults_Pod)."""
    for container in itertools.chain.from_iterable(pod["spec"].values()):
        limits = container["resources"].get("limits")
        if limits:
            container["resources"]["requests"] = limits | container["resources"].get("requests", {})
    return pod


def test_a_resize_reaches_the_gate_unless_it_changes_nothing(
    cluster: Cluster, expect_phases: PhaseExpectation, namespace: str
) -> None:
    name = f"matched-{uuid4().hex[:8]}"
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    spec = {"nodeSelector": {"nowhere": ""}, "containers": [container]}  # it waits: no node here can resize what runs
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
    resize = f"{_create(cluster, manifest)}/resize"
    for cpu, phases in (("100m", set()), ("200m", _BOTH), ("200m", set()), ("50m", _BOTH)):
        patch = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
        api(cluster.kubeconfig).patch(resize, patch, STRATEGIC)
        expect_phases(name, phases)


def test_heartbeats_of_a_node_do_not_reach_the_gate_and_its_capacity_does(
    cluster: Cluster, expect_phases: PhaseExpectation, machine: str
) -> None:
    ours, name = api(cluster.kubeconfig), machine.rpartition("/")[2]

    def status(patch: Object) -> None:
        ours.patch(f"{machine}/status", {"status": patch}, STRATEGIC)

    for count in range(3):
        status({"conditions": [{"type": "Ready", "status": "True", "reason": f"beat{count}"}]})
    ours.patch(machine, _NOTE)
    expect_phases(name, set())
    status({"capacity": {"example.com/dongle": "4"}})
    expect_phases(name, _BOTH)
    status({"allocatable": {"example.com/dongle": "3"}})
    expect_phases(name, _BOTH)
    ours.patch(machine, _TIER)
    expect_phases(name, _BOTH)


def test_a_large_object_stays_within_the_cost_limit_of_conditions(
    cluster: Cluster, expect_phases: PhaseExpectation, namespace: str
) -> None:
    name = f"matched-{uuid4().hex[:8]}"
    container = {"name": "main", "image": "none", "env": [{"name": f"V{n}", "value": "x" * 200} for n in range(_LONG)]}
    template = {**_TEMPLATE, "spec": {"containers": [container]}}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**_SELECTED, "template": template, "replicas": 0},
    }
    path = _create(cluster, manifest)
    api(cluster.kubeconfig).patch(path, _NOTE)
    expect_phases(name, set())
    patch = [{"op": "replace", "path": f"/spec/template/spec/containers/0/env/{_LONG - 1}/value", "value": "y"}]
    api(cluster.kubeconfig).patch(path, patch, JSON)
    expect_phases(name, _BOTH)
