"""Drawn policies, clusters and new objects. The API server would accept most of the objects, and the rules some."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tallygate.accounting.names import DEVICES_SUFFIX
from tests.accounting.claims import CLASS, exactly, first_available

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
LICENCE = "example.com/licence"
UNITS = "units"
NAMESPACES = ("team-a", "team-b", "batch")
PROBE_LABEL = "probe"
"""Objects with this label are subject to no drawn rule."""


@dataclass(frozen=True)
class DrawnCase:
    """Policies, the stored objects of a cluster, and a new object."""

    policies: tuple[Object, ...]
    stored: tuple[Object, ...]
    created: Object


def _draw_some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    """Return mappings with some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


_NAMESPACE_CHOICES = st.sampled_from(
    [
        {"include": ["team-*"]},
        {"include": ["team-a", "batch"]},
        {"include": ["*"], "exclude": ["batch"]},
        {"selector": {"matchLabels": {"tier": "gold"}}},
    ]
)
_AMOUNTS = _draw_some(max=st.integers(1, 4), multipleOf=st.just(2)).filter(bool) | st.just({"oneOf": [1, 2, 4, 8]})
_CHECKS = st.fixed_dictionaries(
    {"requestsEqualLimits": st.sampled_from([True, "fill"])},
    optional={
        "perContainer": _AMOUNTS,
        "perPod": _AMOUNTS,
        "activeDeadlineSeconds": st.sampled_from([{"max": "1h", "required": False}]),
    },
) | st.just({"wholeQuantity": True, "wellFormedName": True})
_RULES = st.builds(
    lambda resources, namespaces, enforcement, checks: {
        "resources": resources,
        "match": {
            "namespaces": namespaces,
            "objectSelector": {"matchExpressions": [{"key": PROBE_LABEL, "operator": "DoesNotExist"}]},
        },
        "enforcement": enforcement,
        "checks": checks,
    },
    st.sampled_from([[GPU], ["nvidia.com/*", "example.com/*"], [LICENCE]]),
    _NAMESPACE_CHOICES,
    st.sampled_from(["deny", "warn", "audit"]),
    _CHECKS,
) | st.builds(
    lambda namespaces, enforcement: {
        "resources": [f"{CLASS}{DEVICES_SUFFIX}"],
        "match": {"namespaces": namespaces},
        "enforcement": enforcement,
        "checks": {"perClaim": {"max": 2}},
    },
    _NAMESPACE_CHOICES,
    st.sampled_from(["deny", "warn", "audit"]),
)
_LIMITS = st.fixed_dictionaries(
    {},
    optional={
        GPU: st.integers(1, 14),
        LICENCE: st.integers(1, 6),
        "cpu": st.sampled_from([2, "2500m", 8]),
        "pods": st.integers(1, 8),
        UNITS: st.integers(4, 40),
        "limits.memory": st.sampled_from(["2Gi", "8Gi"]),
    },
)


_SHARES = st.sampled_from(
    [
        lambda limit: {"percent": "60%", "atMost": limit},
        lambda limit: {"percent": f"{limit}.5%", "atLeast": min(limit, 3), "round": "up"},
        lambda limit: f"{6 * limit}.125%",
    ]
)
"""Limits that are a share of the GPUs of the nodes, by an amount."""

_MOST_OWNERS = 4
_OWNERS: list[list[list[str]]] = [[["*"]], [["*a"], ["*"]], [["*-*"]], [["*b*"], ["*-a", "*t*"]]]
"""The entries of guarantees: globs that match a namespace of every drawn cap."""


def _create_guarantees(hard: Object, owners: list[list[str]], share: Object) -> list[Object]:
    """Return guarantees of at most a third of each limit: amounts, or percentages of what is no whole number.

    A third of less than four may be nothing.
    """
    amounts: Object = {
        name: limit // 3 if isinstance(limit, int) and name not in share else "30%"
        for name, limit in hard.items()
        if not isinstance(limit, int) or limit >= _MOST_OWNERS
    }
    return [{"namespaces": names, "amounts": amounts} for names in owners if amounts]


def _create_cap_spec(spec: Object) -> Object:
    """Return a cap's spec, with the weights of a sum that it limits, and its soft limit below the hard one."""
    if UNITS in spec.get("hard", {}):
        spec = {**spec, "counts": {UNITS: {"weights": {GPU: 4, LICENCE: 1}}}}
    if GPU in spec["hard"]:
        spec = {**spec, "hard": {**spec["hard"], GPU: spec["hard"][GPU] + 1}}  # above a soft limit
    hard, share = spec["hard"], {}
    if GPU in hard and "share" in spec:
        share = {GPU: spec["share"](hard[GPU])}
    fields = {name: value for name, value in spec.items() if name not in {"grouped", "shared", "share", "owners"}}
    fields["hard"] = {**hard, **share}
    if (spec["grouped"] or spec["shared"]) and (made := _create_guarantees(hard, spec.get("owners", []), share)):
        fields["guarantee"] = made
    if spec["grouped"]:
        return {**fields, "groupBy": {"label": "team"}}
    return {**fields, "shared": True} if spec["shared"] else fields


_CAPS = st.fixed_dictionaries(
    {
        "namespaces": _NAMESPACE_CHOICES,
        "hard": _LIMITS.filter(bool),
        "grouped": st.integers(0, 5).map(lambda number: number == 5),
        "shared": st.booleans(),
    },
    optional={
        "soft": st.just({GPU: 1}),
        "workloads": st.sampled_from(["deny", "warn", "ignore"]),
        "admit": st.just("whole"),
        "share": _SHARES,
        "owners": st.sampled_from(_OWNERS),
    },
).map(_create_cap_spec)


def _name_policies(kind: str, specs: list[Object]) -> list[Object]:
    return [
        {
            "apiVersion": "tallygate.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": f"{kind.lower()}-{number}", "annotations": {"tallygate.dev/why": f"reason {number}"}},
            "spec": spec,
        }
        for number, spec in enumerate(specs)
    ]


def _unify_fill(rules: list[Object]) -> list[Object]:
    """Let all rules fill limits in or none, as the first: a rule that rejects what another fills in is a mistake."""
    checks = [rule["checks"] for rule in rules if "perClaim" not in rule["checks"]]
    for check in checks:
        check["requestsEqualLimits"] = checks[0].get("requestsEqualLimits", True)
    return rules


POLICIES = st.builds(
    lambda rules, caps: (*_name_policies("ResourceRule", rules), *_name_policies("NamespaceCap", caps)),
    st.lists(_RULES, max_size=2).map(_unify_fill),
    st.lists(_CAPS, min_size=1, max_size=3),
)

_WHOLE = st.sampled_from(["1", "1", "2", "2", "3", "4", "8", "1k", "1500m"])
_REQUESTED = _draw_some(
    **{
        GPU: _WHOLE,
        LICENCE: st.sampled_from(["1", "2"]),
        "cpu": st.sampled_from(["250m", "1"]),
        "memory": st.sampled_from(["1Gi"]),
    }
)


def _write_resources(amounts: Object, style: str) -> Object:
    match style:
        case "limits":
            return {"limits": amounts}
        case "requests":
            return {"requests": amounts}
        case _:
            return {"requests": amounts, "limits": amounts}


_RESOURCES = st.builds(
    _write_resources, _REQUESTED, st.sampled_from(["both", "both", "both", "limits", "limits", "requests"])
)
_POD_CLAIMS: st.SearchStrategy[list[Object]] = st.lists(
    st.sampled_from(
        [{"name": "made", "resourceClaimTemplateName": "two-gpus"}, {"name": "stored", "resourceClaimName": "stored-0"}]
    ),
    max_size=2,
    unique_by=lambda claim: str(claim["name"]),
) | st.just([])


def _create_pod_spec(containers: list[Object], init: list[Object], claims: list[Object], **fields: Any) -> Object:
    spec: Object = {
        "containers": [
            {"name": f"c{number}", "image": "x:1", "resources": resources}
            for number, resources in enumerate(containers)
        ]
    }
    if init:
        spec["initContainers"] = [{"name": "init", "image": "x:1", "resources": init[0]}]
    if claims:
        spec["resourceClaims"] = claims
    return spec | fields


_POD_SPECS = st.builds(
    _create_pod_spec,
    st.lists(_RESOURCES, min_size=1, max_size=2),
    st.lists(_RESOURCES, max_size=1),
    _POD_CLAIMS,
)


def _create_workload(kind: str, count: int, spec: Object) -> Object:
    template = {"metadata": {"labels": {"app": "new"}}, "spec": spec}
    selector = {"matchLabels": {"app": "new"}}
    match kind:
        case "Job":
            spec = {"parallelism": count, "template": {**template, "spec": {**spec, "restartPolicy": "Never"}}}
            return _create_object("batch/v1", kind, spec)
        case "CronJob":
            job = {"template": {**template, "spec": {**spec, "restartPolicy": "Never"}}}
            return _create_object("batch/v1", kind, {"schedule": "0 3 * * *", "jobTemplate": {"spec": job}})
        case _:
            return _create_object("apps/v1", kind, {"replicas": count, "selector": selector, "template": template})


def _create_object(api_version: str, kind: str, spec: Object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "new"}, "spec": spec}


_DEVICES = st.lists(
    st.builds(exactly, st.integers(1, 4)) | st.builds(first_available, st.tuples(st.just(CLASS), st.integers(1, 3))),
    min_size=1,
    max_size=1,
)
_NEW_OBJECTS = st.one_of(
    st.builds(
        _create_workload,
        st.sampled_from(["Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob"]),
        st.integers(0, 4),
        _POD_SPECS,
    ),
    st.builds(lambda spec: _create_object("v1", "Pod", spec), _POD_SPECS),
    st.builds(
        lambda requests: _create_object("resource.k8s.io/v1", "ResourceClaim", {"devices": {"requests": requests}}),
        _DEVICES,
    ),
    st.builds(
        lambda requests: _create_object(
            "resource.k8s.io/v1", "ResourceClaimTemplate", {"spec": {"devices": {"requests": requests}}}
        ),
        _DEVICES,
    ),
)


def _create_stored(kind: str, name: str, namespace: str, **fields: Any) -> Object:
    metadata = {"name": name, "uid": f"uid-{kind}-{namespace}-{name}", "resourceVersion": "5"}
    return {
        "kind": kind,
        "metadata": {**metadata, **({"namespace": namespace} if namespace else {}), **fields.pop("meta", {})},
        **fields,
    }


def _create_stored_pod(number: int, namespace: str, gpus: int, phase: str) -> Object:
    amounts = {GPU: str(gpus), LICENCE: "1", "cpu": "500m", "memory": "1Gi"}
    container = {"name": "c0", "image": "x:1", "resources": {"requests": amounts, "limits": amounts}}
    spec, status = {"nodeName": "n1", "containers": [container]}, {"phase": phase}
    return _create_stored("Pod", f"stored-{number}", namespace, apiVersion="v1", spec=spec, status=status)


def _create_stored_claim(number: int, namespace: str, count: int, *, is_allocated: bool) -> Object:
    results = [{"request": "gpu", "driver": "d", "pool": "p", "device": f"d-{each}"} for each in range(count)]
    status = {"status": {"allocation": {"devices": {"results": results}}}} if is_allocated else {}
    return _create_stored(
        "ResourceClaim",
        f"stored-{number}",
        namespace,
        apiVersion="resource.k8s.io/v1",
        spec={"devices": {"requests": [exactly(count)]}},
        **status,
    )


_STORED_PODS = st.lists(
    st.tuples(
        st.sampled_from(NAMESPACES), st.integers(1, 4), st.sampled_from(["Running", "Running", "Pending", "Succeeded"])
    ),
    max_size=4,
).map(lambda drawn: [_create_stored_pod(number, *pod) for number, pod in enumerate(drawn)])
_STORED_CLAIMS = st.lists(st.tuples(st.sampled_from(NAMESPACES), st.integers(1, 3), st.booleans()), max_size=2).map(
    lambda drawn: [
        _create_stored_claim(number, namespace, count, is_allocated=is_allocated)
        for number, (namespace, count, is_allocated) in enumerate(drawn)
    ]
)
_STORED_TEMPLATE = _create_stored(
    "ResourceClaimTemplate",
    "two-gpus",
    "team-a",
    apiVersion="resource.k8s.io/v1",
    spec={"spec": {"devices": {"requests": [exactly(2)]}}},
)
_LIMIT_RANGE_ITEMS = _draw_some(
    default=st.sampled_from([{"cpu": "1", "memory": "1Gi"}, {LICENCE: "1"}]), max=st.just({GPU: "4"})
).filter(bool)
_LIMIT_RANGES = st.lists(_LIMIT_RANGE_ITEMS, max_size=1).map(
    lambda items: [
        _create_stored(
            "LimitRange", "limits", "team-a", apiVersion="v1", spec={"limits": [{"type": "Container", **item}]}
        )
        for item in items
    ]
)
_STORED_CLASS = _create_stored(
    "DeviceClass", CLASS, "", apiVersion="resource.k8s.io/v1", spec={"extendedResourceName": GPU}
)
_STORED_NODES = [
    _create_stored("Node", name, "", apiVersion="v1", spec=spec, status={"allocatable": {GPU: gpus}})
    for name, gpus, spec in (("gpu-1", "8", {}), ("gpu-2", "9", {"unschedulable": True}))
]
"""The nodes of whose GPUs limits are shares."""
_LABELS = _draw_some(tier=st.sampled_from(["gold", "silver"]), team=st.sampled_from(["vision", "speech"]))


def _create_stored_namespaces(labels: list[Object]) -> list[Object]:
    return [
        _create_stored("Namespace", name, "", apiVersion="v1", meta={"labels": labels_of_one})
        for name, labels_of_one in zip(NAMESPACES, labels, strict=True)
    ]


CASES = st.builds(
    lambda policies, namespaces, pods, claims, limit_ranges, created: DrawnCase(
        policies,
        (
            *_create_stored_namespaces(namespaces),
            *_STORED_NODES,
            _STORED_CLASS,
            _STORED_TEMPLATE,
            *limit_ranges,
            *claims,
            *pods,
        ),
        created,
    ),
    POLICIES,
    st.lists(_LABELS, min_size=len(NAMESPACES), max_size=len(NAMESPACES)),
    _STORED_PODS,
    _STORED_CLAIMS,
    _LIMIT_RANGES,
    _NEW_OBJECTS,
)
