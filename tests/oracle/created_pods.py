"""Random pods with the LimitRanges, ResourceQuotas and classes that decide about them: questions for `created`."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_AMOUNTS: Mapping[str, Sequence[str]] = {
    "cpu": ("100m", "250m", "330m", "500m", "700m", "1", "1100m", "1500m", "2", "3"),
    "memory": ("64Mi", "100M", "128Mi", "256Mi", "512Mi", "1Gi", "1500M", "2Gi"),
    "ephemeral-storage": ("500Mi", "1Gi", "2Gi"),
    "hugepages-2Mi": ("2Mi", "4Mi", "8Mi"),
    "nvidia.com/gpu": ("0", "1", "2", "4"),
}
_BYTES = {"": 1, "m": 0.001, "M": 10**6, "Mi": 2**20, "Gi": 2**30}
_RATIOS = ("1", "1100m", "1.5", "2", "2.3", "3", "4.4", "10")
_COUNTED = (
    "pods", "count/pods", "cpu", "requests.cpu", "limits.cpu", "memory", "requests.memory", "limits.memory",
    "ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage", "hugepages-2Mi",
    "requests.hugepages-2Mi", "requests.nvidia.com/gpu", "count/deployments.apps", "configmaps",
    "requests.deviceclass.resource.kubernetes.io/gpu", "gpu.deviceclass.resource.k8s.io/devices",
)  # fmt: skip
_CLASSES = (None, None, "high", "low")
_OVERHEAD = {"cpu": "250m", "memory": "128Mi"}
_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
_COMPUTE_ONLY = frozenset({"NotTerminating", "Terminating", "NotBestEffort", "PriorityClass"})


def _measure(text: str) -> float:
    number = text.rstrip("mMGi")
    return float(number) * _BYTES[text[len(number) :]]


def _draw_sorted(rng: random.Random, name: str, count: int) -> list[str]:
    return sorted(rng.choices(_AMOUNTS[name], k=count), key=_measure)


def _draw_resources(rng: random.Random, names: Iterable[str], share: float) -> dict[str, dict[str, str]]:
    """Return requests and limits: in some cases only one of them, and in a few a limit below its request."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for name in names:
        if rng.random() > share:
            continue
        request, limit = _draw_sorted(rng, name, 2)
        if "/" in name or "-2Mi" in name:
            limits[name] = request
            if rng.random() < 0.5:
                requests[name] = request
            continue
        form = rng.random()
        if form < 0.7:
            requests[name] = request
        if form > 0.35:
            limits[name] = limit
        if form > 0.98:
            requests[name], limits[name] = limit, request
    return {key: listed for key, listed in (("requests", requests), ("limits", limits)) if listed}


def _draw_affinity(rng: random.Random) -> dict[str, Any]:
    reach: dict[str, Any] = rng.choice([{}, {"namespaces": ["other"]}, {"namespaceSelector": {}}])
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}, **reach}
    kind = rng.choice(["podAffinity", "podAntiAffinity"])
    if rng.random() < 0.5:
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}}


def _draw_pod(rng: random.Random) -> dict[str, Any]:
    names = [
        name for name in _AMOUNTS if rng.random() < {"hugepages-2Mi": 0.15, "ephemeral-storage": 0.3}.get(name, 0.7)
    ]
    share = rng.choice([0.2, 0.7, 1.0])
    spec: dict[str, Any] = {
        "containers": [
            {"name": f"c{index}", "image": "x", "resources": _draw_resources(rng, names, share)}
            for index in range(rng.choice([1, 1, 2, 3]))
        ]
    }
    if count := rng.choice([0, 0, 1, 2]):
        spec["initContainers"] = [
            {"name": f"i{index}", "image": "x", "resources": _draw_resources(rng, names, share)}
            | ({"restartPolicy": "Always"} if rng.random() < 0.5 else {})
            for index in range(count)
        ]
    if rng.random() < 0.25:
        own = [name for name in ("cpu", "memory", "hugepages-2Mi") if name in names]
        spec["resources"] = _draw_resources(rng, own, 0.8)
    if name := rng.choice(_CLASSES):
        spec["priorityClassName"] = name
    if rng.random() < 0.2:
        spec["runtimeClassName"] = rng.choice(["kata", "runc"])
    if rng.random() < 0.08:
        spec["overhead"] = rng.choice([_OVERHEAD, {"cpu": "1"}])
    if rng.random() < 0.3:
        spec["activeDeadlineSeconds"] = 30
    if rng.random() < 0.3:
        spec["affinity"] = _draw_affinity(rng)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def _draw_item(rng: random.Random, kind: str) -> dict[str, Any]:
    """Return an entry of a LimitRange, with its values in order."""
    item: dict[str, Any] = {"type": kind}
    if kind == "PersistentVolumeClaim":
        return {**item, "max": {"storage": "1Gi"}}
    for name in _AMOUNTS:
        if rng.random() > (0.3 if "cpu" in name or "mem" in name else 0.08):
            continue
        values = dict(zip(("min", "defaultRequest", "default", "max"), _draw_sorted(rng, name, 4), strict=True))
        if "/" in name or "-2Mi" in name:
            values["defaultRequest"] = values["default"]
        if kind == "Pod":
            values = {key: values[key] for key in ("min", "max")}
        for key in [key for key in values if rng.random() < 0.5]:
            item.setdefault(key, {})[name] = values[key]
        if rng.random() < 0.25:
            item.setdefault("maxLimitRequestRatio", {})[name] = rng.choice(_RATIOS)
    return item


def _draw_limit_ranges(rng: random.Random) -> list[dict[str, Any]]:
    kinds = ("Container", "Container", "Pod", "PersistentVolumeClaim")
    return [
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": f"l{index}"},
            "spec": {
                "limits": [_draw_item(rng, kind) for kind in {rng.choice(kinds) for _ in range(rng.choice([1, 2]))}]
            },
        }
        for index in range(rng.choice([0, 1, 1, 2]))
    ]


def _draw_scope(rng: random.Random) -> dict[str, Any]:
    """Return the scope of a quota, as a list or as a selector."""
    scope = rng.choice(_SCOPES)
    if rng.random() < 0.4:
        return {"scopes": [scope]}
    match: dict[str, Any] = {"scopeName": scope, "operator": "Exists"}
    if scope == "PriorityClass":
        match["operator"] = rng.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        if match["operator"].endswith("In"):
            match["values"] = rng.choice([["high"], ["low"], ["high", "low"], ["other"]])
    return {"scopeSelector": {"matchExpressions": [match]}}


def _draw_quantity(rng: random.Random, key: str, *, most: int) -> str:
    """Return an amount in the unit of a key: up to this number of small pods."""
    number = rng.randint(0, most)
    if key.endswith("cpu"):
        return f"{number * 500}m"
    if key.endswith(("memory", "storage")):
        return f"{number * 256}Mi"
    return f"{number * 2}Mi" if "hugepages" in key else str(number)


def _draw_quota(rng: random.Random, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = _draw_scope(rng) if rng.random() < 0.6 else {}
    keys = rng.sample(_COUNTED, k=rng.choice([1, 1, 2, 3]))
    scopes = {
        *spec.get("scopes", ()),
        *(each["scopeName"] for each in spec.get("scopeSelector", {}).get("matchExpressions", ())),
    }
    if scopes - _COMPUTE_ONLY:
        keys = (
            ["pods"] if "BestEffort" in scopes else [each for each in keys if each == "pods" or "." in each] or ["pods"]
        )
    hard = {key: _draw_quantity(rng, key, most=12) for key in keys}
    used = {key: _draw_quantity(rng, key, most=4) for key in keys}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used},
    }


def draw_created_pod(rng: random.Random) -> dict[str, Any]:
    """Return a pod, what exists beside it, and the number of copies that a controller makes."""
    priorities = [{"metadata": {"name": name}, "value": 10} for name in ("high", "low")]
    if rng.random() < 0.3:
        priorities[rng.randint(0, 1)]["globalDefault"] = True
    kata: dict[str, Any] = {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": _OVERHEAD}}
    if rng.random() < 0.2:
        kata["scheduling"] = {"nodeSelector": {"kata": "yes"}}
    return {
        "pod": _draw_pod(rng),
        "limitRanges": _draw_limit_ranges(rng),
        "quotas": [_draw_quota(rng, f"q{index}") for index in range(rng.choice([0, 1, 1, 2]))],
        "priorityClasses": priorities,
        "runtimeClasses": [kata, {"metadata": {"name": "runc"}, "handler": "runc"}],
        "copies": rng.randint(1, 5),
    }


def _draw_partial_limits(rng: random.Random) -> dict[str, str]:
    """Return limits of cpu and memory, some of which are missing or 0."""
    drawn = {"cpu": rng.choice(["", "0", "500m", "1"]), "memory": rng.choice(["", "0", "256Mi", "1Gi"])}
    return {name: amount for name, amount in drawn.items() if amount}


def draw_pod_of_versions(rng: random.Random) -> dict[str, Any]:
    """Return a question on which 1.37 and 1.38 often differ: limits in part, and limits next to their ratio."""
    asked = draw_created_pod(rng) | {"limitRanges": [], "quotas": [], "copies": rng.randint(1, 3)}
    resources = [{"limits": _draw_partial_limits(rng)} for _ in range(rng.choice([1, 2, 3]))]
    spec: dict[str, Any] = {"resources": {"requests": {"cpu": "4", "memory": "4Gi"}}}
    if rng.random() < 0.5:
        ratio, request = rng.randint(1001, 9999), rng.choice([1000, 2000, 3000])
        resources = [{"requests": {"cpu": f"{request}m"}, "limits": {"cpu": f"{request * ratio // 1000}m"}}]
        item = {"type": rng.choice(["Container", "Pod"]), "maxLimitRequestRatio": {"cpu": f"{ratio}m"}}
        metadata = {"name": "ratio"}
        asked["limitRanges"] = [
            {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}}
        ]
        spec = {}
    elif rng.random() < 0.2:
        spec = {}
    hard = {"limits.cpu": rng.choice(["0", "500m", "2"]), "limits.memory": rng.choice(["0", "512Mi", "2Gi"])}
    if not asked["limitRanges"]:
        used = dict.fromkeys(hard, "0")
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "limits"}}
        asked["quotas"] = [quota | {"spec": {"hard": hard}, "status": {"hard": hard, "used": used}}]
    named = [{"name": f"c{index}", "image": "x", "resources": each} for index, each in enumerate(resources)]
    if len(named) > 1 and rng.random() < 0.3:
        spec["initContainers"] = [named.pop() | ({"restartPolicy": "Always"} if rng.random() < 0.5 else {})]
    return asked | {
        "pod": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"containers": named, **spec},
        }
    }
