"""Drawn rules of all forms, and drawn requests about objects of all kinds that are compiled."""

import copy
from typing import Any, NamedTuple

from hypothesis import strategies as st

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
LICENCE = "example.com/licence"
OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
CLASS = "gpu.example.com"
_NAMES = (GPU, GPU, LICENCE, OPAQUE, "cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "mykubernetes.io/x")
_AMOUNTS = (
    "0",
    "1",
    "2",
    "3",
    "4",
    "8",
    "500m",
    "1500m",
    "2.500",
    "0.5",
    "1Gi",
    "2Gi",
    "1k",
    "3e3",
    "1500.0",
)
_RARE_AMOUNTS = ("9223372036854775807", "10E", "100Ti", "1234567890123456789m", "12000000000000", "1u", 3, 2.5)


class DrawnRequests(NamedTuple):
    """Rules as documents, and admission requests, each with the labels of its namespace."""

    policies: tuple[Object, ...]
    requests: list[tuple[Object, Object]]


def _drop_none(fields: Object) -> Object:
    return {name: value for name, value in fields.items() if value is not None}


def _draw_some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries({}, optional=fields)


_LABEL_SELECTORS = st.sampled_from(
    [
        {"matchLabels": {"tier": "gold"}},
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "Exists"}], "matchLabels": {"team": "vision"}},
        {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
        {},
    ]
)
_NAMESPACES = st.sampled_from(
    [
        *[None] * 5,
        {"include": ["team-*"]},
        {"include": ["team-b", "other"]},
        {"include": ["t?am-a", "*-b"], "exclude": ["team-b"]},
        {"exclude": ["team-a"]},
        {"selector": {"matchLabels": {"tier": "gold"}}},
        {"include": ["team-a"], "selector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}},
    ]
)
_PATTERNS = st.sampled_from(
    [
        *[["*"]] * 4,
        *[["extended", "opaque"]] * 3,
        ["opaque"],
        ["nvidia.com/*", "!nvidia.com/gpu"],
        ["*", "!cpu", "!memory"],
        ["*", "!extended"],
        [LICENCE, "example.com/l?cence"],
        ["cpu"],
        ["memory", "*-storage", "hugepages-*"],
        [GPU, f"{CLASS}.deviceclass.resource.k8s.io/devices"],
        ["deviceclass.resource.kubernetes.io/*", GPU],
    ]
)
_QUANTITIES = st.sampled_from(["0", 1, 2, 3, 4, "500m", "1Gi", "1k", "2.5", "1e3"])
_UNITS = st.sampled_from([1, 2, 3, "500m", "512Mi", "1k", "0.25", "1e3"])
_BOUNDS = _draw_some(
    min=_QUANTITIES,
    max=_QUANTITIES,
    multipleOf=_UNITS,
    oneOf=st.lists(_QUANTITIES, min_size=1, max_size=3, unique=True),
).filter(bool)
_DEVICES = _draw_some(
    classes=st.sampled_from([["gpu.*"], ["*", "!gpu.example.com"], [CLASS]]),
    allocationModes=st.sampled_from([["All"], ["ExactCount"]]),
    adminAccess=st.sampled_from([{}, {"users": ["jane"]}, {"serviceAccounts": ["ci/*"]}]),
    selectors=st.just("required"),
).filter(bool)
_CHECKS = _draw_some(
    wellFormedName=st.booleans(),
    wholeQuantity=st.booleans(),
    requestsEqualLimits=st.sampled_from([True, False, False, "fill"]),
    perContainer=_BOUNDS,
    perPod=_BOUNDS,
    perClaim=_BOUNDS,
    devices=_DEVICES,
)
_EXEMPT = st.sampled_from(
    [
        *[None] * 6,
        {"users": ["jane"]},
        {"groups": ["admins-*", "ops"]},
        {"serviceAccounts": ["ci/*", "team-?/deployer"]},
        {"users": ["o'br[i]en\\*", "x^*"]},
    ]
)
_KINDS = st.sampled_from(
    [
        *[None] * 8,
        ["Pod"],
        ["Deployment", "Job", "Pod"],
        ["ResourceQuota", "LimitRange"],
        ["ResourceClaim", "ResourceClaimTemplate", "Pod"],
        ["ResourceClaim"],
    ]
)
_RULES = st.builds(
    lambda resources, namespaces, kinds, checks, enforcement, exempt, selector: {
        "resources": resources,
        "match": _drop_none(
            {"namespaces": namespaces, "kinds": kinds, "exempt": exempt, "objectSelector": selector},
        ),
        "checks": checks,
        "enforcement": enforcement,
    },
    _PATTERNS,
    _NAMESPACES,
    _KINDS,
    _CHECKS,
    st.sampled_from(["deny", "deny", "warn", "audit"]),
    _EXEMPT,
    st.none() | st.none() | _LABEL_SELECTORS,
)


def _create_documents(specs: list[Object]) -> tuple[Object, ...]:
    why = {"tallygate.dev/why": 'devices aren\'t shared;\n  see "the page"'}
    return tuple(
        {
            "apiVersion": "tallygate.dev/v1alpha1",
            "kind": "ResourceRule",
            "metadata": {"name": f"rule-{number}"} | ({"annotations": why} if number == 1 else {}),
            "spec": spec,
        }
        for number, spec in enumerate(specs)
    )


POLICIES = st.lists(_RULES, min_size=1, max_size=3).map(_create_documents)

_LISTS = st.dictionaries(
    st.sampled_from(_NAMES), st.sampled_from([*_AMOUNTS, *_AMOUNTS, *_AMOUNTS, *_RARE_AMOUNTS]), max_size=3
)
_RESOURCES: st.SearchStrategy[Object] = st.one_of(
    st.just({}),
    _LISTS.map(lambda amounts: {"requests": amounts, "limits": amounts}),
    _LISTS.map(lambda amounts: {"limits": amounts}),
    st.fixed_dictionaries({"requests": _LISTS, "limits": _LISTS}),
)


def _draw_containers(prefix: str, max_size: int, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Object]]:
    containers = st.lists(st.fixed_dictionaries({"resources": _RESOURCES}, optional=fields), max_size=max_size)
    return containers.map(
        lambda listed: [
            {"name": f"{prefix}{number}", "image": "x:1", **container} for number, container in enumerate(listed)
        ]
    )


_POD_LEVEL = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "2", "3Gi"]), max_size=2)
_POD_SPECS = st.fixed_dictionaries(
    {"containers": _draw_containers("c", 3).filter(bool)},
    optional={
        "initContainers": _draw_containers("i", 3, restartPolicy=st.just("Always")),
        "overhead": _LISTS,
        "resources": st.fixed_dictionaries({}, optional={"requests": _POD_LEVEL, "limits": _POD_LEVEL}),
    },
)
_LABELS = _draw_some(tier=st.sampled_from(["gold", "silver", "lead"]), team=st.sampled_from(["vision", "speech"]))


def _create(version: str, kind: str, labels: Object, **fields: Any) -> Object:
    metadata = {"name": "new", "namespace": "team-a", "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _create_pod_object(kind: str, spec: Object, labels: Object) -> Object:
    template = {"metadata": {"labels": labels}, "spec": spec}
    match kind:
        case "Pod":
            return _create("v1", kind, labels, spec=spec)
        case "PodTemplate":
            return _create("v1", kind, {}, template=template)
        case "Job":
            return _create("batch/v1", kind, {}, spec={"template": template})
        case "CronJob":
            job = {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}}
            return _create("batch/v1", kind, {}, spec=job)
        case "ReplicationController":
            return _create("v1", kind, {}, spec={"template": template})
        case _:
            return _create("apps/v1", kind, {}, spec={"template": template})


_QUOTA_NAMES = (
    *("pods", "cpu", "requests.cpu", "limits.memory", f"requests.{GPU}", f"requests.{LICENCE}", "count/jobs.batch"),
    *(f"{CLASS}.deviceclass.resource.k8s.io/devices", "requests.requests.example.com/x"),
)
_QUOTAS = st.builds(
    lambda hard, labels: _create("v1", "ResourceQuota", labels, spec={"hard": hard}),
    st.dictionaries(st.sampled_from(_QUOTA_NAMES), st.sampled_from(_AMOUNTS), max_size=3),
    _LABELS,
)
_LIMIT_RANGES = st.builds(
    lambda items, labels: _create("v1", "LimitRange", labels, spec={"limits": items}),
    st.lists(
        st.builds(
            lambda kind, lists: {"type": kind, **lists},
            st.sampled_from(["Container", "Pod"]),
            _draw_some(max=_LISTS, min=_LISTS, default=_LISTS, defaultRequest=_LISTS),
        ),
        max_size=2,
        unique_by=lambda item: item["type"],
    ),
    _LABELS,
)
_SELECTORS = st.just([{"cel": {"expression": "true"}}])
_ALTERNATIVES = _draw_some(
    count=st.integers(1, 5), allocationMode=st.sampled_from(["ExactCount", "All"]), selectors=_SELECTORS
).flatmap(
    lambda fields: st.sampled_from([CLASS, "mig.example.com"]).map(
        lambda name: {
            "deviceClassName": name,
            **{key: value for key, value in fields.items() if key != "count" or fields.get("allocationMode") != "All"},
        }
    )
)
_DEVICE_REQUESTS = st.one_of(
    st.builds(
        lambda alternative, admin: {"exactly": {**alternative, **({"adminAccess": True} if admin else {})}},
        _ALTERNATIVES,
        st.booleans(),
    ),
    st.lists(_ALTERNATIVES, min_size=1, max_size=3).map(
        lambda listed: {
            "firstAvailable": [{"name": f"a{number}", **each} for number, each in enumerate(listed)],
        }
    ),
)
_DEVICE_CLAIMS = st.lists(_DEVICE_REQUESTS, max_size=3).map(
    lambda listed: {"devices": {"requests": [{"name": f"r{number}", **each} for number, each in enumerate(listed)]}}
)
_CLAIMS = st.builds(
    lambda spec, labels: _create("resource.k8s.io/v1", "ResourceClaim", labels, spec=spec), _DEVICE_CLAIMS, _LABELS
)
_CLAIM_TEMPLATES = st.builds(
    lambda spec, labels: _create(
        "resource.k8s.io/v1", "ResourceClaimTemplate", {}, spec={"metadata": {"labels": labels}, "spec": spec}
    ),
    _DEVICE_CLAIMS,
    _LABELS,
)
_POD_KINDS = (
    *("Pod", "Pod", "Pod", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "CronJob", "PodTemplate"),
    "ReplicationController",
)
_POD_OBJECTS = st.builds(_create_pod_object, st.sampled_from(_POD_KINDS), _POD_SPECS, _LABELS)
_OBJECTS = st.sampled_from(
    [*[_POD_OBJECTS] * 12, _QUOTAS, _QUOTAS, _LIMIT_RANGES, _CLAIMS, _CLAIMS, _CLAIM_TEMPLATES]
).flatmap(lambda objects: objects)

RESOURCES = {
    "Pod": "pods",
    "ReplicationController": "replicationcontrollers",
    "PodTemplate": "podtemplates",
    "LimitRange": "limitranges",
    "ResourceQuota": "resourcequotas",
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
    "Job": "jobs",
    "CronJob": "cronjobs",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
}
"""The resource of each kind that is compiled."""

_USERS = st.sampled_from(
    [
        {"username": "jane", "groups": ["system:authenticated"]},
        {"username": "joe", "groups": ["system:authenticated", "admins-eu"]},
        {"username": "system:serviceaccount:ci:deployer", "groups": []},
        {"username": "system:serviceaccount:team-b:deployer"},
        {"username": "o'br[i]en\\x"},
        {"username": "system:kube-scheduler"},
        {"username": "system:kube-controller-manager"},
        {},
    ]
)


@st.composite
def _draw_requests(draw: st.DrawFn) -> Object:
    created = draw(_OBJECTS)
    kind, version = created["kind"], created["apiVersion"]
    group, _, version = version.rpartition("/")
    request = {
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": RESOURCES[kind],
        "namespace": draw(st.sampled_from(["team-a", "team-a", "team-b", "other"])),
        "name": "new",
        "operation": "CREATE",
        "userInfo": draw(_USERS),
        "object": created,
    }
    if draw(st.booleans()):
        is_resize = kind == "Pod" and draw(st.booleans())
        request |= {"operation": "UPDATE", "oldObject": _change(draw, created, is_resize=is_resize)}
        if is_resize:
            request["subResource"] = "resize"
    return request


def _change(draw: st.DrawFn, created: Object, *, is_resize: bool) -> Object:
    """Return an older version of an object: other labels, or other values in some places that may change."""
    old = copy.deepcopy(created)
    if created["kind"] in {"Pod", "ResourceClaim", "ResourceClaimTemplate"} and not is_resize:
        metadata = old["spec"]["metadata"] if created["kind"] == "ResourceClaimTemplate" else old["metadata"]
        metadata["labels"] = draw(_LABELS)
        return old
    if draw(st.booleans()):
        old["metadata"]["labels"] = draw(_LABELS)
    for lists in _list_resource_lists(old):
        for name in list(lists):
            match draw(st.sampled_from(["keep", "keep", "change", "drop"])):
                case "change":
                    lists[name] = draw(st.sampled_from(_AMOUNTS))
                case "drop":
                    del lists[name]
    return old


def _list_resource_lists(value: Any) -> list[Object]:
    found: list[Object] = []
    if isinstance(value, dict):
        for key, child in value.items():
            is_list = key in {"requests", "limits", "hard", "max", "min", "default", "defaultRequest", "overhead"}
            found += [child] if is_list and isinstance(child, dict) else _list_resource_lists(child)
    elif isinstance(value, list):
        for child in value:
            found += _list_resource_lists(child)
    return found


REQUESTS_OF_RULES = 12
"""The number of requests that are drawn for the same rules."""

DRAWN_REQUESTS = st.builds(
    DrawnRequests,
    POLICIES,
    st.lists(st.tuples(_LABELS, _draw_requests()), min_size=REQUESTS_OF_RULES, max_size=REQUESTS_OF_RULES),
)
