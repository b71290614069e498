"""Drawn policies of all forms and new objects of all kinds, for what the gate is asked about."""

from typing import Any

from hypothesis import strategies as st

from tests.accounting.claims import CLASS
from tests.agreement.drawn import CASES, GPU, LICENCE, DrawnCase, Object


def _select(*requirements: Object) -> Object:
    return {"selector": {"matchExpressions": list(requirements)}}


_NAMESPACES = st.sampled_from(
    [
        None,
        {"include": ["team-*"]},
        {"include": ["team-b", "other"]},
        {"include": ["t?am-a", "*-b"], "exclude": ["team-b"]},
        {"exclude": ["team-a"]},
        {"selector": {"matchLabels": {"tier": "gold"}}},
        {"include": ["batch"], "selector": {"matchLabels": {"tier": "gold"}}},
        {"selector": {"matchLabels": {"tier": "silver", "team": "vision"}}},
        {"include": ["team-*"]} | _select({"key": "team", "operator": "Exists"}),
        _select({"key": "tier", "operator": "NotIn", "values": ["gold"]}),
        _select(
            {"key": "team", "operator": "In", "values": ["vision", "speech"]},
            {"key": "tier", "operator": "DoesNotExist"},
        ),
        _select(
            {"key": "team", "operator": "Exists"}, {"key": "team", "operator": "NotIn", "values": ["speech", "other"]}
        ),
    ]
)
_PATTERNS = st.sampled_from(
    [
        ["*"],
        ["extended", "opaque"],
        ["nvidia.com/*", "!nvidia.com/gpu"],
        ["*", "!cpu", "!memory"],
        ["*", "!extended"],
        [LICENCE, "example.com/do?gle"],
        ["cpu"],
        [GPU, f"{CLASS}.deviceclass.resource.k8s.io/devices"],
    ]
)
_CHECKS = st.sampled_from(
    [
        {},
        {"wellFormedName": True, "wholeQuantity": False, "requestsEqualLimits": False},
        {"wellFormedName": False, "wholeQuantity": True, "requestsEqualLimits": False},
        {"wellFormedName": False, "wholeQuantity": False, "requestsEqualLimits": "fill"},
        {"perPod": {"min": 2}},
        {"perContainer": {"max": 1}, "requestsEqualLimits": False},
        {"perClaim": {"max": 1}},
        {"activeDeadlineSeconds": {"max": "1h"}, "requestsEqualLimits": False, "wholeQuantity": False},
        {"devices": {"allocationModes": ["All"]}},
    ]
)


def _drop_none(fields: Object) -> Object:
    return {name: value for name, value in fields.items() if value is not None}


_RULES = st.builds(
    lambda resources, namespaces, kinds, checks, enforcement: {
        "resources": resources,
        "match": _drop_none({"namespaces": namespaces, "kinds": kinds}),
        "checks": checks,
        "enforcement": enforcement,
    },
    _PATTERNS,
    _NAMESPACES,
    st.sampled_from([None, None, ["Pod"], ["Deployment", "Job"], ["ResourceQuota", "Pod"], ["ResourceClaim"]]),
    _CHECKS,
    st.sampled_from(["deny", "warn", "audit"]),
)
_CAP_FORMS: st.SearchStrategy[Object] = st.sampled_from(
    [
        {"hard": {GPU: 2}},
        {"soft": {GPU: 1}},
        {"hard": {GPU: 2}, "workloads": "deny"},
        {"hard": {GPU: 2}, "pods": {"priorityClasses": ["high"]}},
        {"hard": {LICENCE: 1}},
        {"hard": {"example.com/dongle": 0}},
        {"hard": {"pods": 2}},
        {"hard": {"cpu": 1}},
        {"hard": {"limits.memory": "1Gi"}},
        {"hard": {f"limits.{GPU}": 2}},
        {"hard": {"devices": 3}, "devices": {"devices": {"sum": "memory"}}},
        {"hard": {LICENCE: 3}, "devices": {LICENCE: {"classes": [CLASS]}}},
        {"hard": {f"deviceclass.resource.kubernetes.io/{CLASS}": 3}},
        {"hard": {"thousandths": 100}, "counts": {"thousandths": {"annotation": "gpu-fraction"}}},
        {"hard": {"units": 3}, "counts": {"units": {"weights": {LICENCE: 2}}}},
        {"hard": {"units": 3}, "counts": {"units": {"product": [GPU, "nvidia.com/gpumem"]}}},
        {"hard": {GPU: 1}, "admit": "whole"},
    ]
)
_CAPS = st.builds(
    lambda form, namespaces, group: {
        **form,
        "namespaces": namespaces or {},
        **({"groupBy": {"label": group}} if group else {"shared": False}),
    },
    _CAP_FORMS,
    _NAMESPACES,
    st.sampled_from(["", "", "", "team"]),
)
_IMPLIED = st.builds(
    lambda namespaces: {"resource": "example.com/ip", "match": _drop_none({"namespaces": namespaces})}, _NAMESPACES
)


def name_policies(kind: str, specs: list[Object]) -> list[Object]:
    """Return policies of a kind with these specs, each with a name."""
    return [
        {
            "apiVersion": "tallygate.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": f"{kind.lower()}-{number}"},
            "spec": spec,
        }
        for number, spec in enumerate(specs)
    ]


POLICIES = st.builds(
    lambda rules, caps, implied: (
        *name_policies("ResourceRule", rules),
        *name_policies("NamespaceCap", caps),
        *name_policies("ImpliedRequest", implied),
    ),
    st.lists(_RULES, max_size=2),
    st.lists(_CAPS, max_size=2) | st.lists(_CAPS, min_size=3, max_size=5),
    st.lists(_IMPLIED, max_size=1) | st.just([]),
).filter(bool)

_NAMES = st.sampled_from(
    [
        GPU,
        GPU,
        LICENCE,
        "nvidia.com/gpumem",
        "example.com/dongle",
        "cpu",
        "memory",
        "hugepages-2Mi",
        "Bad_Name!",
        "bad name/x",
        f"deviceclass.resource.kubernetes.io/{CLASS}",
        "pod.alpha.kubernetes.io/opaque-int-resource-bananas",
    ]
)
AMOUNTS = st.dictionaries(_NAMES, st.sampled_from(["1", "2", "500m"]), max_size=2)
"""Amounts of resources."""
_RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
_CONTAINERS = st.lists(
    st.builds(lambda resources: {"name": "c", "image": "x:1", "resources": resources}, _RESOURCES), max_size=2
).map(lambda listed: [{**container, "name": f"c{number}"} for number, container in enumerate(listed)])
POD_SPECS = st.fixed_dictionaries(
    {"containers": _CONTAINERS.filter(bool)},
    optional={
        "initContainers": _CONTAINERS.map(
            lambda listed: [{**container, "name": f"i{number}"} for number, container in enumerate(listed)]
        ),
        "overhead": AMOUNTS,
        "resources": st.fixed_dictionaries({}, optional={"requests": st.just({"cpu": "1"})}),
        "priorityClassName": st.sampled_from(["high", "low"]),
        "activeDeadlineSeconds": st.sampled_from([60, 7200]),
        "resourceClaims": st.sampled_from(
            [
                [{"name": "made", "resourceClaimTemplateName": "two-gpus"}],
                [{"name": "stored", "resourceClaimName": "stored-0"}],
            ]
        ),
    },
)
"""Specs of pods."""
_QUOTA_AMOUNTS = st.dictionaries(
    st.sampled_from(["pods", "cpu", "requests.nvidia.com/gpu", "limits.cpu", "Bad_Name!", "count/jobs.batch"]),
    st.sampled_from(["1", "1500m"]),
    max_size=2,
)
ANNOTATIONS = st.sampled_from([{}, {}, {"note": "x"}, {"gpu-fraction": "0.5"}, {"gpu-memory": "2000"}])
"""Annotations of pods."""


def _create(version: str, kind: str, spec: Any, annotations: Object | None = None) -> Object:
    metadata = {"name": "new"} | ({"annotations": annotations} if annotations else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _create_workload(kind: str, spec: Object, annotations: Object, count: int) -> Object:
    template: Object = {"metadata": {"labels": {"app": "new"}, "annotations": annotations}, "spec": spec}
    match kind:
        case "Pod":
            return _create("v1", kind, spec, annotations)
        case "PodTemplate":
            return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "new"}, "template": template}
        case "Job":
            return _create("batch/v1", kind, {"parallelism": count, "template": template})
        case "CronJob":
            return _create("batch/v1", kind, {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}})
        case "ReplicationController":
            return _create("v1", kind, {"replicas": count, "template": template})
        case _:
            return _create("apps/v1", kind, {"replicas": count, "template": template})


def draw_objects(kind: str) -> st.SearchStrategy[Object]:
    """Return a strategy for new objects of a kind."""
    match kind:
        case "ResourceQuota":
            return st.builds(lambda hard: _create("v1", kind, {"hard": hard}), _QUOTA_AMOUNTS)
        case "LimitRange":
            return st.builds(
                lambda amounts, field: _create("v1", kind, {"limits": [{"type": "Container", field: amounts}]}),
                AMOUNTS,
                st.sampled_from(["max", "min", "default"]),
            )
        case _:
            return st.builds(_create_workload, st.just(kind), POD_SPECS, ANNOTATIONS, st.integers(0, 3))


_KINDS = ("Deployment", "DaemonSet", "Job", "CronJob", "PodTemplate", "ReplicationController", "LimitRange")
_OBJECTS = st.sampled_from([*["Pod"] * 3, *_KINDS, "ResourceQuota"]).flatmap(draw_objects)

ASKED_CASES = st.builds(
    lambda case, policies, created: DrawnCase(policies, case.stored, created),
    CASES,
    POLICIES,
    _OBJECTS | CASES.map(lambda case: case.created),
)
"""Cases with policies of all forms."""
