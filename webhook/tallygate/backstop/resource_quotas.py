"""ResourceQuotas that enforce a part of the caps: one for each cap and namespace.

A quota never denies what its cap allows, with the same pods. That needs two things: the quota counts each object at
most as the cap does, and its limit is at least the highest that the gate may allow. So a name is left out, with a gap,
where ResourceQuota counts more or demands more than the cap:

- Requests of cpu and memory: a quota rejects a pod with a container that requests none, which a cap counts as 0.
- Devices of claims: a quota counts the most that a claim could get for as long as it exists, mode All as 32 devices,
  and devices with admin access. So nothing is made for a name under which Kubernetes counts claims: a name of a device
  class, and an extended resource that a DeviceClass has as `extendedResourceName`.
- Pods that the cap selects by their labels or node selectors, and users that may exceed the cap: a quota has neither.
- Limits that are percentages of a capacity and have no `atMost`: nothing raises a quota while no gate answers.

The limit of a quota is the highest of the limits that overrides give from now on and that an annotation of the
namespace may give, and the surge above it; of a percentage it is its `atMost`. What a quota counts is in
`tallygate.accounting.resource_quota`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from tallygate.accounting import names
from tallygate.accounting.amounts import format_amount
from tallygate.accounting.charge import PODS, compute_hard_limits
from tallygate.accounting.claim_charge import NO_CLASSES, find_named_class
from tallygate.accounting.derived_amounts import Product, WeightedSum
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.admission.cap_sources import CapSources
from tallygate.backstop.compiled_objects import NAME_PREFIX, CompiledObject, create_metadata
from tallygate.backstop.gaps import Gap
from tallygate.policy.cap_limits import PercentLimit
from tallygate.policy.globs import is_literal
from tallygate.policy.model import ForecastEnforcement, NamespaceCap, PolicySet

_PRIORITY_SCOPE: Final = "PriorityClass"
_REQUIRED_REQUESTS = frozenset({"cpu", "memory"})
_QUOTA_LIMITS = frozenset({"cpu", "memory", "ephemeral-storage"})
_SCOPED_STANDARD = frozenset({PODS, "limits.cpu", "limits.memory"})
"""The standard keys that ResourceQuota accepts with scope PriorityClass (IsResourceQuotaScopeValidForResource)."""
_WARNS_NOT = "a ResourceQuota denies and does not warn"
_WAY = "; name a cluster or a snapshot"
_REASON_CLAIMS = (
    "ResourceQuota counts a claim for devices with the most that it could get, also after its allocation, mode All as "
    "32 devices, and admin access: more than the cap"
)


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """The parts of a cluster on which quotas depend; None: they were not read.

    `namespaces` has the labels of each namespace, `resources_by_class` the extended resource of each DeviceClass, empty
    if it has none. `excluded_namespaces` are those for which the webhooks are not called.
    """

    namespaces: Mapping[str, Mapping[str, str]] | None = None
    resources_by_class: Mapping[str, str] | None = None
    excluded_namespaces: Collection[str] = ()


class _QuotaLine(NamedTuple):
    """A key of a quota, and the counted name of the cap whose limit it has, divided by `weight`."""

    key: str
    name: str
    weight: int = 1


@dataclass(slots=True)
class _CompiledCap:
    """The lines of the quotas of a cap, and its gaps; `raised` are the names whose quotas allow more than the cap."""

    cap: ActiveCap
    lines: list[_QuotaLine] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    raised: set[str] = field(default_factory=set)
    has_quotas: bool = False

    def add_gap(self, subject: str, reason: str, *, is_looser: bool = False) -> None:
        self.gaps.append(Gap(f"cap {self.cap.definition.name}", subject, reason, is_looser))


def create_resource_quotas(
    policies: PolicySet, cluster: ObservedCluster, now: datetime | None
) -> tuple[list[CompiledObject], list[Gap]]:
    """Return the quotas of all caps, ordered by namespace and name, and the gaps, ordered by cap and subject.

    Overrides that have ended at `now` give no limit; at no time (None) every override with an end has ended. Without
    the namespaces of the cluster there are quotas for those that a cap includes by name and without labels.
    """
    fixed = replace(policies, caps=tuple(map(_fix_limits, policies.caps)))
    index = CapIndex(fixed, now, CapSources(cluster.resources_by_class or NO_CLASSES))
    served = frozenset(filter(None, (cluster.resources_by_class or NO_CLASSES).values()))
    compiled = {cap.definition.name: _compile_cap(cap, served) for cap in index.list_caps()}
    quotas = []
    for namespace, labels in _list_namespaces(policies, cluster):
        for cap in index.find_matching(namespace, labels).caps:
            compiled_cap = compiled[cap.definition.name]
            if compiled_cap.lines:
                quotas.append(_create_quota(cap, compiled_cap, namespace, policies.digest))
    for definition in policies.caps:
        _add_gaps_of_percentages(compiled[definition.name], definition)
    for compiled_cap in compiled.values():
        _add_gaps_of_namespaces(compiled_cap, cluster)
    quotas.sort(key=_get_place)
    return quotas, sorted({gap for compiled_cap in compiled.values() for gap in compiled_cap.gaps})


def _fix_limits(definition: NamespaceCap) -> NamespaceCap:
    """Return a cap with amounts alone: for a percentage its largest amount, and no limit if it has none.

    A quota with the limit of now would deny what the gate allows once there is more capacity.
    """
    if not definition.follows_capacity:
        return definition
    most = {
        name: limit.at_most if isinstance(limit, PercentLimit) else limit for name, limit in definition.hard.items()
    }
    hard = {name: limit for name, limit in most.items() if limit is not None}
    soft = {name: limit for name, limit in definition.soft.items() if not isinstance(limit, PercentLimit)}
    return msgspec.structs.replace(definition, hard=hard, soft=soft)


def _add_gaps_of_percentages(compiled: _CompiledCap, definition: NamespaceCap) -> None:
    """Add the gaps of a cap, as it is written, whose limits follow a capacity."""
    for name, limit in definition.hard.items():
        if isinstance(limit, PercentLimit):
            has_most = limit.at_most is not None
            what = "has atMost, the largest limit" if has_most else "does not; write atMost for a fixed one"
            is_looser = any(line.name == name for line in compiled.lines)
            if is_looser or not has_most:
                reason = f"the limit follows the capacity of nodes, and a ResourceQuota {what}"
                compiled.add_gap(f"hard.{name}", reason, is_looser=is_looser)
    for name, limit in definition.soft.items():
        if isinstance(limit, PercentLimit):
            compiled.add_gap(f"soft.{name}", _WARNS_NOT)


def list_assumed_resources(objects: Iterable[CompiledObject]) -> list[str]:
    """Return the extended resources that quotas count, on the assumption that no DeviceClass has one of these names.

    A quota with a scope counts no claims, and needs no such assumption.
    """
    quotas = [content["spec"] for content in objects if content["kind"] == "ResourceQuota"]
    keys = {key for spec in quotas if "scopeSelector" not in spec for key in spec["hard"]}
    resources = {key.removeprefix(names.REQUESTS_PREFIX) for key in keys if key.startswith(names.REQUESTS_PREFIX)}
    return sorted(filter(names.is_extended, resources))


def _list_namespaces(policies: PolicySet, cluster: ObservedCluster) -> Iterator[tuple[str, Mapping[str, str] | None]]:
    """Yield each namespace that may get a quota, with its labels; None if these are unknown."""
    known: Mapping[str, Mapping[str, str] | None]
    if cluster.namespaces is None:
        known = dict.fromkeys(name for cap in policies.caps for name in cap.namespaces.include if is_literal(name))
    else:
        known = cluster.namespaces
    yield from ((name, labels) for name, labels in sorted(known.items()) if name not in cluster.excluded_namespaces)


def _compile_cap(cap: ActiveCap, served: Collection[str]) -> _CompiledCap:
    """Return the lines and gaps of a cap that do not depend on its namespaces; `served` are resources of classes."""
    definition, compiled = cap.definition, _CompiledCap(cap)
    for name in sorted(definition.soft):
        compiled.add_gap(f"soft.{name}", _WARNS_NOT)
    if definition.workloads is ForecastEnforcement.DENY and definition.hard:
        compiled.add_gap("workloads", "a ResourceQuota rejects pods, and no workload whose pods exceed it")
    obstacle = _find_obstacle(definition)
    for name in sorted(definition.hard):
        if obstacle:
            compiled.add_gap(f"hard.{name}", obstacle)
        else:
            _compile_name(compiled, name, served)
    return compiled


def _find_obstacle(definition: NamespaceCap) -> str:
    """Return the reason why a quota for any name would deny what the cap allows; empty if there is no such reason."""
    if definition.exceed != type(definition.exceed)():
        return "some users may exceed the cap (exceed), and a ResourceQuota does not know the user"
    if definition.pods.objects is not None:
        return "the cap counts pods by their labels (pods.objectSelector), and a ResourceQuota counts all of them"
    if definition.pods.node_selector:
        return "the cap counts pods by their node selector (pods.nodeSelector), and a ResourceQuota counts all of them"
    return ""


def _compile_name(compiled: _CompiledCap, name: str, served: Collection[str]) -> None:
    """Add the lines of a quota for a hard limit, or the gaps."""
    cap = compiled.cap
    derived = cap.derived.get(name)
    if isinstance(derived, Product):
        compiled.add_gap(f"hard.{name}", f"{name} is a product of requests, and a ResourceQuota multiplies nothing")
        return
    if isinstance(derived, WeightedSum):
        _compile_sum(compiled, name, derived, served)
        return
    if name in cap.device_meters:
        compiled.add_gap(f"hard.{name}", "a ResourceQuota does not count devices by their attributes or capacities")
        return
    is_scoped = bool(cap.definition.pods.priority_classes)
    if reason := _find_reason(name, served, is_scoped=is_scoped):
        compiled.add_gap(f"hard.{name}", reason)
        return
    compiled.lines.append(_QuotaLine(_get_key(name), name))
    if reason := _describe_looser(cap, name, is_scoped=is_scoped):
        compiled.add_gap(f"hard.{name}", reason, is_looser=True)


def _compile_sum(compiled: _CompiledCap, name: str, weighted: WeightedSum, served: Collection[str]) -> None:
    """Add a line for each resource of a weighted sum: alone it exceeds no more than the limit divided by its weight."""
    is_scoped = bool(compiled.cap.definition.pods.priority_classes)
    counted = [
        resource
        for resource in weighted.weights
        if names.is_extended(resource) and not _find_reason(resource, served, is_scoped=is_scoped)
    ]
    compiled.lines += (_QuotaLine(_get_key(resource), name, weighted.weights[resource]) for resource in counted)
    others = [resource for resource in weighted.weights if resource not in counted]
    if not counted:
        compiled.add_gap(
            f"hard.{name}", f"{name} is derived from amounts that a ResourceQuota does not count as the cap"
        )
    elif len(counted) > 1 or others or weighted.classes or weighted.annotation is not None:
        compiled.add_gap(
            f"hard.{name}",
            f"{name} is a sum, and a ResourceQuota limits each resource of it alone, to the limit divided by its "
            f"weight: {', '.join(counted)}",
            is_looser=True,
        )


def _find_reason(name: str, served: Collection[str], *, is_scoped: bool) -> str:
    """Return the reason why a quota on a name would deny what the cap allows, or count nothing; empty without one."""
    resource = name.removeprefix(names.LIMITS_PREFIX)
    if name in _REQUIRED_REQUESTS:
        return f"a ResourceQuota on {name} rejects pods that do not request {name}, which the cap counts as 0"
    if is_scoped and _is_standard(name) and name not in _SCOPED_STANDARD:
        return f"a ResourceQuota for priority classes does not accept {name}"
    if name == PODS or (name != resource and resource in _QUOTA_LIMITS):
        return ""
    if name != resource:
        return f"a ResourceQuota does not count limits of {resource}"
    if _is_standard(name):
        return ""
    if find_named_class(name):
        return _REASON_CLAIMS
    if not names.is_extended(name):
        return f"a ResourceQuota never counts {name}"
    if name in served and not is_scoped:
        return f"a DeviceClass has the extended resource {name}; {_REASON_CLAIMS}"
    return ""


def _is_standard(name: str) -> bool:
    """Return whether a quota key for the name is a standard one (IsStandardQuotaResourceName)."""
    resource = name.removeprefix(names.LIMITS_PREFIX)
    return name == PODS or resource in _QUOTA_LIMITS or names.is_hugepage(resource)


def _get_key(name: str) -> str:
    """Return the key of a quota that counts a name of a cap."""
    return name if name == PODS or name.startswith(names.LIMITS_PREFIX) else f"{names.REQUESTS_PREFIX}{name}"


def _describe_looser(cap: ActiveCap, name: str, *, is_scoped: bool) -> str:
    """Return the reason why a quota counts less than the cap; empty if both count the same."""
    resource = name.removeprefix(names.LIMITS_PREFIX)
    if name != resource and resource in _REQUIRED_REQUESTS:
        return f"a ResourceQuota accepts pods with {name} of 0, which the kubelet takes for no limit"
    if name != resource:
        return f"a ResourceQuota accepts pods without {name}, and counts them as 0"
    if name in cap.device_sources and not is_scoped:
        classes = ", ".join(sorted(cap.device_sources[name].classes))
        return f"a ResourceQuota counts no claims for devices of class {classes} under {name}"
    return ""


def _create_quota(cap: ActiveCap, compiled: _CompiledCap, namespace: str, digest: str) -> CompiledObject:
    """Return the quota of a cap in one namespace."""
    most = {line.name: _find_most(cap, line.name) for line in compiled.lines}
    compiled.raised |= {name for name, amount in most.items() if amount > cap.hard[name] or _will_change(cap, name)}
    compiled.has_quotas = True
    hard: dict[str, int] = {}
    for key, name, weight in compiled.lines:
        amount = most[name] // weight
        hard[key] = min(hard.get(key, amount), amount)
    spec: CompiledObject = {"hard": {key: format_amount(key, amount) for key, amount in sorted(hard.items())}}
    if classes := cap.definition.pods.priority_classes:
        expression = {"scopeName": _PRIORITY_SCOPE, "operator": "In", "values": sorted(classes)}
        spec["scopeSelector"] = {"matchExpressions": [expression]}
    name = cap.definition.name
    metadata = create_metadata(f"{NAME_PREFIX}{name}", "NamespaceCap", name, digest, namespace)
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}


def _find_most(cap: ActiveCap, name: str) -> int:
    """Return the highest amount that the gate may allow in the namespace of the cap, from now on."""
    annotation = cap.definition.annotation
    by_annotation = compute_hard_limits(annotation.most).get(name, 0) if annotation is not None else 0
    return max(cap.limits.get_most(name), by_annotation) + cap.surge.get(name, 0)


def _will_change(cap: ActiveCap, name: str) -> bool:
    """Return whether an override of the limit ends, so that another one follows."""
    period = cap.limits.periods.get(name)
    return period is not None and period.end is not None


def _add_gaps_of_namespaces(compiled: _CompiledCap, cluster: ObservedCluster) -> None:
    """Add the gaps of a cap that has lines: of its sharing, of limits that vary, and of namespaces without a quota."""
    definition = compiled.cap.definition
    if not compiled.lines:
        return
    if cluster.namespaces is None and (reason := _describe_unknown(definition)):
        compiled.add_gap("namespaces", reason, is_looser=compiled.has_quotas)
    counted = sorted({line.name for line in compiled.lines})
    if definition.shared or definition.group_by:
        for name in counted:
            compiled.add_gap(
                f"hard.{name}",
                "namespaces share the cap, and each has a ResourceQuota with the whole limit: neither their sum is "
                "limited, nor a namespace that joins them",
                is_looser=True,
            )
    if definition.admits_whole:
        compiled.add_gap("admit", "a ResourceQuota reserves nothing for the other pods of a workload", is_looser=True)
    surge, annotation = definition.surge, definition.annotation
    for name in sorted(compiled.raised):
        if surge is not None and name in surge.amounts:
            compiled.add_gap(f"surge.amounts.{name}", "the ResourceQuota allows the surge at all times", is_looser=True)
        if annotation is not None and name in annotation.most:
            reason = "the ResourceQuota has the largest limit that an annotation may give"
            compiled.add_gap(f"overrideAnnotation.most.{name}", reason, is_looser=True)
        if any(name in override.hard for override in definition.overrides):
            reason = "the ResourceQuota has the largest limit from now on, until it is compiled again"
            compiled.add_gap(f"overrides.hard.{name}", reason, is_looser=True)


def _describe_unknown(definition: NamespaceCap) -> str:
    """Return the reason why the namespaces of a cap are not known without a cluster; empty if they are."""
    if definition.group_by or definition.namespaces.selector is not None:
        return f"the labels of the namespaces were not read{_WAY}"
    patterns = [pattern for pattern in definition.namespaces.include if not is_literal(pattern)]
    if definition.namespaces.include and not patterns:
        return ""
    return f"the namespaces that match {', '.join(patterns) or '*'} were not read{_WAY}"


def _get_place(quota: CompiledObject) -> tuple[str, str]:
    return quota["metadata"]["namespace"], quota["metadata"]["name"]
