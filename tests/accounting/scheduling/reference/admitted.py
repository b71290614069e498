"""What the API server makes of a pod before the scheduler sees it.

pkg/registry/core/pod/strategy.go, plugin/pkg/admission/priority/admission.go and pkg/apis/core/v1/defaults.go, as far
as the scheduler reads what they write. Quantities are completed where they are read.
"""

import copy
from collections.abc import Iterable

from tests.accounting.scheduling.reference.objects import Json, labels_of, name_of, spec_of, uid_of

_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def admitted(pod: Json, others: Iterable[Json]) -> Json:
    """The pod as it would be stored; one that is stored already stays as it is."""
    if uid_of(pod):
        return pod
    stored = copy.deepcopy(pod)
    stored.setdefault("spec", {})
    _establish_priority(stored["spec"], [each for each in others if each.get("kind") == "PriorityClass"])
    _merge_label_keys(stored)
    _default_host_ports(stored["spec"])
    return stored


def _establish_priority(spec: Json, classes: list[Json]) -> None:
    """`establishPriority`, getDefaultPriority. What the pod says itself stays: a wrong number would be refused."""
    name = spec.get("priorityClassName")
    if name:
        found = next((each for each in classes if name_of(each) == name), None)
    else:
        defaults = [each for each in classes if each.get("globalDefault")]
        found = min(defaults, key=lambda each: int(each["value"]), default=None)
    value = _SYSTEM.get(name or "", 0) if found is None else found["value"]
    spec.setdefault("priority", value)
    spec.setdefault("preemptionPolicy", (found or {}).get("preemptionPolicy") or "PreemptLowerPriority")


def _merge_label_keys(pod: Json) -> None:
    """`mutatePodAffinity`, mutateTopologySpreadConstraints."""
    affinity = spec_of(pod).get("affinity") or {}
    terms = list(spec_of(pod).get("topologySpreadConstraints") or [])
    for kind in ("podAffinity", "podAntiAffinity"):
        terms += (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or []
    for term in (each for each in terms if each.get("labelSelector") is not None):
        _merge(term["labelSelector"], term.get("matchLabelKeys") or [], "In", pod)
        _merge(term["labelSelector"], term.get("mismatchLabelKeys") or [], "NotIn", pod)


def _merge(selector: Json, keys: list[str], operator: str, pod: Json) -> None:
    """`applyLabelKeysToLabelSelector`."""
    labels = labels_of(pod)
    merged = [{"key": each, "operator": operator, "values": [labels[each]]} for each in keys if each in labels]
    if merged:
        selector["matchExpressions"] = (selector.get("matchExpressions") or []) + merged


def _default_host_ports(spec: Json) -> None:
    """defaultHostNetworkPorts: on the host's network each port is the host's."""
    if not spec.get("hostNetwork"):
        return
    for container in (spec.get("containers") or []) + (spec.get("initContainers") or []):
        for port in container.get("ports") or []:
            port["hostPort"] = port.get("hostPort") or port["containerPort"]
