"""Defaults and admission of a pod by the API server, as the scheduler sees them.

pkg/registry/core/pod/strategy.go, plugin/pkg/admission/priority/admission.go and pkg/apis/core/v1/defaults.go, as far
as the scheduler reads what they write. Quantities get their defaults in `amounts`.
"""

import copy
from collections.abc import Iterable

from tests.accounting.scheduling.reference.objects import Json, get_labels, get_name, get_spec, get_uid

_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def apply_admission(pod: Json, others: Iterable[Json]) -> Json:
    """Return the pod as it would be stored; a stored pod is returned unchanged."""
    if get_uid(pod):
        return pod
    stored = copy.deepcopy(pod)
    stored.setdefault("spec", {})
    _establish_priority(stored["spec"], [each for each in others if each.get("kind") == "PriorityClass"])
    _merge_label_keys(stored)
    _default_host_ports(stored["spec"])
    return stored


def _establish_priority(spec: Json, classes: list[Json]) -> None:
    """Implement `establishPriority`, getDefaultPriority. The pod's own values stay: a wrong one would be rejected."""
    name = spec.get("priorityClassName")
    if name:
        found = next((each for each in classes if get_name(each) == name), None)
    else:
        defaults = [each for each in classes if each.get("globalDefault")]
        found = min(defaults, key=lambda each: int(each["value"]), default=None)
    value = _SYSTEM.get(name or "", 0) if found is None else found["value"]
    spec.setdefault("priority", value)
    spec.setdefault("preemptionPolicy", (found or {}).get("preemptionPolicy") or "PreemptLowerPriority")


def _merge_label_keys(pod: Json) -> None:
    """Implement `mutatePodAffinity`, mutateTopologySpreadConstraints."""
    affinity = get_spec(pod).get("affinity") or {}
    terms = list(get_spec(pod).get("topologySpreadConstraints") or [])
    for kind in ("podAffinity", "podAntiAffinity"):
        terms += (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or []
    for term in (each for each in terms if each.get("labelSelector") is not None):
        _merge(term["labelSelector"], term.get("matchLabelKeys") or [], "In", pod)
        _merge(term["labelSelector"], term.get("mismatchLabelKeys") or [], "NotIn", pod)


def _merge(selector: Json, keys: list[str], operator: str, pod: Json) -> None:
    """Implement `applyLabelKeysToLabelSelector`."""
    labels = get_labels(pod)
    merged = [{"key": each, "operator": operator, "values": [labels[each]]} for each in keys if each in labels]
    if merged:
        selector["matchExpressions"] = (selector.get("matchExpressions") or []) + merged


def _default_host_ports(spec: Json) -> None:
    """Implement defaultHostNetworkPorts: on the host network each port is a host port."""
    if not spec.get("hostNetwork"):
        return
    for container in (spec.get("containers") or []) + (spec.get("initContainers") or []):
        for port in container.get("ports") or []:
            port["hostPort"] = port.get("hostPort") or port["containerPort"]
