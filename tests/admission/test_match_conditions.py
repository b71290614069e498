"""Updates that the match conditions exclude: the gate would allow them without warning and without charge.

The conditions themselves are evaluated by a real API server in e2e; here their comparisons are read from their text,
and any two objects that agree in all of them are put through the gate.
"""

import ast
import copy
import itertools
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.admission.kinds import BUILT_IN_TARGETS, REVIEW_TARGETS
from tallygate.admission.request import Phase
from tallygate.admission.webhook_configuration import ServiceTarget
from tallygate.admission.workload_resources import find_resource
from tallygate.policy.known_kinds import KNOWN_KINDS
from tests.admission.plain_configurations import create_plain_configurations
from tests.admission.test_workload_resources import EVERYTHING_SERVED
from tests.effort import examples
from tests.gate.gate_fixture import GateFixture, response

GPU = "nvidia.com/gpu"
EVERY_RULE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec: {resources: [extended, opaque], checks: {requestsEqualLimits: true}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: fill}
spec: {resources: [extended, cpu], enforcement: warn, checks: {requestsEqualLimits: fill, perPod: {max: 3}}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: labelled}
spec:
  resources: ["*"]
  match: {objectSelector: {matchLabels: {team: vision}}}
  checks: {advertised: true, wholeQuantity: true, perContainer: {max: 2}, perPod: {multipleOf: 2}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: audited}
spec:
  resources: ["*"]
  enforcement: audit
  checks: {advertised: true, wholeQuantity: true, perContainer: {oneOf: [1]}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: short}
spec: {resources: [extended], checks: {activeDeadlineSeconds: {max: 1h}}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: all}
spec: {namespaces: {include: ["*"]}, hard: {nvidia.com/gpu: 4, pods: 1}, soft: {cpu: 1}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: labelled}
spec:
  namespaces: {include: ["*"]}
  pods: {objectSelector: {matchLabels: {team: vision}}, priorityClasses: [high]}
  hard: {nvidia.com/gpu: 1, limits.memory: 1Gi, thousandths: 1}
  counts: {thousandths: {annotation: gpu-fraction}}
  exceed: {users: [admin]}
"""

GATE = GateFixture(EVERY_RULE)
namespaces = itertools.count()

amounts = st.sampled_from(["1500m", "1", "2", "10E"])
lists = st.dictionaries(st.sampled_from([GPU, "example.com/dongle", "cpu", "memory", "Bad_Name!"]), amounts, min_size=1)
needs = st.fixed_dictionaries({}, optional={"requests": lists, "limits": lists})
containers = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"resources": needs}),
    max_size=2,
    unique_by=lambda each: str(each["name"]),
)
labels = st.sampled_from([{}, {"x": "y"}, {"team": "vision"}])
CONTAINER_MEMORY = "nvidia.com/container.a.gpu-memory.request"
annotations = st.dictionaries(
    st.sampled_from(["x", "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", CONTAINER_MEMORY]),
    st.sampled_from(["y", "2", "half"]),
)
metadata = st.fixed_dictionaries(
    {"uid": st.just("u")},
    optional={
        "labels": labels,
        "annotations": annotations,
        "finalizers": st.lists(st.sampled_from(["a/b", "c/d"]), max_size=1),
        "deletionTimestamp": st.just("2026-01-01T00:00:00Z"),
        "deletionGracePeriodSeconds": st.integers(0, 30),
        "ownerReferences": st.just([{"kind": "Job", "name": "j"}]),
    },
)
pod_specs = st.fixed_dictionaries(
    {"containers": containers},
    optional={
        "initContainers": containers,
        "ephemeralContainers": containers,
        "overhead": lists,
        "resources": needs,
        "priorityClassName": st.sampled_from(["high", "low"]),
        "nodeName": st.just("n"),
        "activeDeadlineSeconds": st.sampled_from([60, 7200]),
    },
)
pod_statuses = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
        "containerStatuses": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"resources": needs}), max_size=2
        ),
    },
)
templates = st.fixed_dictionaries({"spec": pod_specs}, optional={"metadata": metadata})
workloads = st.fixed_dictionaries(
    {"template": templates},
    optional={"replicas": st.integers(0, 3), "activeDeadlineSeconds": st.sampled_from([60, 7200])},
)
limits = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["Pod", "Container"])}, optional={"max": lists, "default": lists}),
    max_size=2,
    unique_by=lambda each: str(each["type"]),
)
statuses = st.fixed_dictionaries({}, optional={"replicas": st.integers(0, 3), "conditions": st.just([{"type": "A"}])})
node_statuses = st.fixed_dictionaries(
    {"capacity": lists}, optional={"allocatable": lists, "conditions": st.just([{"type": "Ready"}])}
)

BODIES: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "Pod": {"spec": pod_specs, "status": pod_statuses},
    "CronJob": {"spec": st.fixed_dictionaries({"jobTemplate": st.fixed_dictionaries({"spec": workloads})})},
    "PodTemplate": {"template": templates},
    "Node": {"spec": st.fixed_dictionaries({}, optional={"unschedulable": st.booleans()}), "status": node_statuses},
    "ResourceQuota": {"spec": st.fixed_dictionaries({}, optional={"hard": lists}), "status": statuses},
    "LimitRange": {"spec": st.fixed_dictionaries({}, optional={"limits": limits})},
}


def objects(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for objects of a kind."""
    body = BODIES.get(kind, {"spec": workloads, "status": statuses})
    return st.fixed_dictionaries({"kind": st.just(kind), "metadata": metadata, **body})


def list_compared_paths(phase: Phase, group: str, kind: str) -> list[list[str]]:
    """Return the field paths that the match condition of a kind compares."""
    resources = [resource for each in KNOWN_KINDS if (resource := find_resource(each, EVERYTHING_SERVED))]
    configuration = create_plain_configurations(ServiceTarget(), workload_resources=resources)[list(Phase).index(phase)]
    part = "nodes" if kind == "Node" else "updates" if (group, kind) in BUILT_IN_TARGETS else "workloads"
    (webhook,) = (each for each in configuration["webhooks"] if each["name"] == f"{part}.{phase}.tallygate.dev")
    (condition,) = webhook["matchConditions"]
    expression = condition["expression"].removeprefix("request.operation != 'UPDATE' || ")
    comparisons = split_terms(expression)
    found = [re.fullmatch(r"object\.(\S+) != oldObject\.(\S+)", each) for each in comparisons]
    paths = [(match[1], match[2]) for match in found if match]
    quantified = [each for each, match in zip(comparisons, found, strict=True) if not match]
    assert all(new == old for new, old in paths)
    return [*(new.replace("?", "").split(".") for new, _ in paths), *list_compared_annotations(quantified)]


def split_terms(expression: str) -> list[str]:
    """Return the terms of a disjunction; those in parentheses stay together."""
    terms: list[str] = []
    for part in expression.split(" || "):
        if terms and terms[-1].count("(") > terms[-1].count(")"):
            terms[-1] += f" || {part}"
        else:
            terms.append(part)
    return terms


def list_compared_annotations(quantified: list[str]) -> list[list[str]]:
    """Return the paths of the annotations that a condition compares, if it compares some on both objects."""
    if not quantified:
        return []
    new, old = quantified
    assert old == new.replace("object.", "oldObject.", 1)
    names = re.search(r"key in (\[[^]]*\]) \|\| key\.startsWith\('nvidia\.com/container\.'\)", new)
    assert names
    assert "object.metadata.?annotations[?key] != oldObject.metadata.?annotations[?key]" in new
    return [["metadata", "annotations", name] for name in (*ast.literal_eval(names[1]), CONTAINER_MEMORY)]


def copy_paths(new: dict[str, Any], old: dict[str, Any], paths: list[list[str]]) -> dict[str, Any]:
    """Return the new object with the old object's values, or none, at these paths."""
    new = copy.deepcopy(new)
    for *parents, last in paths:
        source, into = old, new
        for parent in parents:
            source, into = source.get(parent, {}), into.setdefault(parent, {})
        into.pop(last, None)
        if last in source:
            into[last] = copy.deepcopy(source[last])
    return new


@pytest.mark.parametrize("group_and_kind", sorted(REVIEW_TARGETS))
@given(st.data())
@settings(max_examples=examples(30))
def test_the_gate_would_allow_every_excluded_update_without_a_warning(
    group_and_kind: tuple[str, str], data: st.DataObject
) -> None:
    group, kind = group_and_kind
    old = data.draw(objects(kind))
    phase = data.draw(st.sampled_from(Phase))
    new = copy_paths(data.draw(objects(kind)), old, list_compared_paths(phase, group, kind))
    if kind == "Pod" and phase is Phase.VALIDATING:
        # Writing a pod, or its resize, leaves the status as it is; that is done before the validating phase
        # (podStrategy, podResizeStrategy and podEphemeralContainersStrategy in pkg/registry/core/pod, v1.36).
        new = {key: value for key, value in new.items() if key != "status"} | (
            {"status": old["status"]} if "status" in old else {}
        )
    namespace = f"team-{next(namespaces)}"  # without earlier requests
    request: dict[str, Any] = {
        "kind": {"group": group, "kind": kind},
        "namespace": "" if kind == "Node" else namespace,
        "userInfo": {"username": data.draw(st.sampled_from(["jane", "admin"]))},
    }
    if data.draw(st.booleans()):
        GATE.admit(old, **request)  # the create, so that its own reservation exists
    reserved = [GATE.read_reserved(cap, namespace) for cap in ("all", "labelled")]
    part = data.draw(st.sampled_from(sorted(REVIEW_TARGETS[group_and_kind].subresources)))
    decision = GATE.admit(new, phase, oldObject=old, subResource=part, **request)
    assert response(decision) == {"uid": "r", "allowed": True}
    assert [GATE.read_reserved(cap, namespace) for cap in ("all", "labelled")] == reserved
