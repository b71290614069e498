"""The charge of a pod or a claim for devices under a ResourceQuota, and the scopes that select a pod.

Source: PodUsageFunc, podComputeUsageHelper, QuotaV1Pod and podMatchesScopeFunc in
pkg/quota/v1/evaluator/core/pods.go, Usage and addExtendedResourceQuota in resource_claims.go beside it, Matches in
apiserver pkg/quota/v1/generic/evaluator.go; createRequestsAndMappings in
pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go, v1.36.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import chain

import msgspec

from tallygate.accounting import names
from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.claim_charge import MAX_DEVICES
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import DEFAULT_VERSION, KubernetesVersion
from tallygate.accounting.pod_requests import ResizeView, apply_status, compute_limits, compute_requests
from tallygate.accounting.pod_resources import (
    PodResources,
    Quantities,
    is_pod_level_resource,
    limits_every_container,
    parse_pod_resources,
)
from tallygate.accounting.quantity import Quantity
from tallygate.objects import devices
from tallygate.objects.core import Pod, PodSpec, ResourceQuotaSpec, ScopeRequirement
from tallygate.objects.scheduling import PodAffinities

CROSS_NAMESPACE_SCOPE = "CrossNamespacePodAffinity"
"""The scope of pods with affinity to pods in other namespaces."""

_ONE_POD = Quantity.from_int(1)
_COMPUTE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_REQUIRED_RESOURCES = ("cpu", "memory")
_ENDED_PHASES = ("Succeeded", "Failed")
_DEFAULT_SCHEDULER = "default-scheduler"
_CLAIM_COUNT = "count/resourceclaims.resource.k8s.io"


def compute_quota_charge(
    pod: Pod, now: datetime | None, version: KubernetesVersion = DEFAULT_VERSION
) -> Mapping[str, Quantity]:
    """Return the amount that a pod adds to each quota key, as an API server of this version computes it.

    `now` decides whether the grace period of a deleted pod has ended; with None that is unknown, and the pod is
    charged.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    charge = {"count/pods": _ONE_POD}
    if not is_charged_by_quota(pod, now):
        return charge
    written = parse_pod_resources(pod.spec or PodSpec())
    resources = apply_status(written, pod.status, ResizeView.QUOTA)
    limits = compute_limits(resources).quantities
    if version.has(Switch.OMITS_PARTIAL_LIMITS):
        limits = {name: limit for name, limit in limits.items() if _is_limited(name, written, version)}
    return {**charge, **compute_quota_usage(compute_requests(resources).quantities, limits)}


def _is_limited(name: str, written: PodResources, version: KubernetesVersion) -> bool:
    """Return whether a sum of limits is one of the pod: not for cpu and memory that some container does not limit."""
    return name not in _REQUIRED_RESOURCES or name in written.limits or limits_every_container(name, written, version)


def compute_quota_usage(requests: Quantities, limits: Quantities) -> dict[str, Quantity]:
    """Return the quota keys and amounts of effective requests and limits.

    Extended resources count as `requests.<name>` only; native names other than these never count.
    """
    usage = {"pods": _ONE_POD}
    for name in _COMPUTE_RESOURCES:
        if name in requests:
            usage[name] = usage[f"requests.{name}"] = requests[name]
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    for name, quantity in requests.items():
        if names.is_hugepage(name):
            usage[name] = usage[f"requests.{name}"] = quantity
        if names.is_extended(name) or name.startswith(names.DEVICE_CLASS_PREFIX):
            usage[f"requests.{name}"] = quantity
    return usage


def is_counted_key(key: str) -> bool:
    """Return whether a quota on a key ever counts a pod (podResources and MatchingResources)."""
    resource = key.removeprefix("requests.")
    if resource in _COMPUTE_RESOURCES or names.is_hugepage(resource) or key in ("pods", "count/pods"):
        return True
    if key.startswith("limits."):
        return key.removeprefix("limits.") in _COMPUTE_RESOURCES
    return key != resource and (names.is_extended(resource) or resource.startswith(names.DEVICE_CLASS_PREFIX))


def compute_claim_quota_charge(claim: devices.ResourceClaim, resources_by_class: Mapping[str, str]) -> Amounts:
    """Return the amount that a claim surely adds to each quota key, before and after its allocation.

    `resources_by_class` has the extended resource of each DeviceClass, empty if it has none. Of several classes with
    one extended resource, Kubernetes counts one under its name, in no certain order: the least amount is returned.
    """
    requests = ((claim.spec or devices.ResourceClaimSpec()).devices or devices.DeviceClaim()).requests or ()
    return _compute_devices_charge(_count_devices_by_class(requests), resources_by_class)


def compute_scheduler_claim_charge(
    pod: Pod, resources_by_class: Mapping[str, str], is_advertised: Callable[[str], bool]
) -> Amounts:
    """Return the amount that kube-scheduler's claim for the extended resources of a pod surely adds besides the pod.

    kube-scheduler makes the claim for resources of classes that the node of the pod does not advertise.
    `is_advertised` returns whether any node may advertise a resource: then there may be no claim for it. If several
    classes have one extended resource, one of them serves it, which is not known here.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    spec = pod.spec or PodSpec()
    if spec.node_name or (spec.scheduler_name or _DEFAULT_SCHEDULER) != _DEFAULT_SCHEDULER:
        return NO_AMOUNTS
    if not resources_by_class:
        return NO_AMOUNTS
    requests = compute_requests(parse_pod_resources(msgspec.structs.replace(spec, overhead=None))).quantities
    served = {
        name: classes
        for name, quantity in requests.items()
        if quantity.sign > 0 and (classes := _find_classes(name, resources_by_class)) and not is_advertised(name)
    }
    if not served:
        return NO_AMOUNTS
    by_class = Counter[str]()
    for name, classes in served.items():
        if len(classes) == 1 and requests[name].is_whole:
            by_class[classes[0]] += requests[name].value()
    own, charge = compute_quota_charge(pod, None), _compute_devices_charge(by_class, resources_by_class)
    beside = {key: amount - (own[key].value() if key in own else 0) for key, amount in charge.items()}
    return Amounts({key: amount for key, amount in beside.items() if amount > 0})


def is_claim_key(key: str, resources_by_class: Mapping[str, str]) -> bool:
    """Return whether a quota on a key counts claims for devices (MatchingResources in resource_claims.go)."""
    if key == _CLAIM_COUNT or key.endswith(names.DEVICES_SUFFIX):
        return True
    return key.startswith(names.REQUESTS_PREFIX) and bool(
        _find_classes(key.removeprefix(names.REQUESTS_PREFIX), resources_by_class)
    )


def requests_any(pod: PodSpec, resources: frozenset[str]) -> bool:
    """Return whether a container of a pod that the API server has completed requests one of these resources."""
    for container in chain(pod.containers or (), pod.init_containers or ()):
        requirements = container.resources
        if requirements is not None and requirements.requests and not resources.isdisjoint(requirements.requests):
            return True
    return False


def is_charged_by_quota(pod: Pod, now: datetime | None) -> bool:
    """Return whether a quota charges a pod for more than its existence.

    It does not charge a pod that has ended, or whose deletion timestamp plus grace period is in the past. That
    timestamp already includes the grace period, so a deleted pod stays charged for about twice as long.

    Raises:
        ValueError: if the deletion timestamp is no RFC 3339 time.
    """
    if pod.status is not None and pod.status.phase in _ENDED_PHASES:
        return False
    meta = pod.metadata
    if now is None or meta is None or meta.deletion_timestamp is None or meta.deletion_grace_period_seconds is None:
        return True
    deletion_time = datetime.fromisoformat(meta.deletion_timestamp)
    return now <= deletion_time + timedelta(seconds=meta.deletion_grace_period_seconds)


def is_in_scope(quota: ResourceQuotaSpec, pod: PodSpec, *, is_across: bool | None) -> bool | None:
    """Return whether all scopes of a quota select a pod; a quota without scopes selects every pod.

    `is_across` is the result of `reaches_namespaces`, None if it is not known. Return None if the selection depends on
    it then.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    requirements = [ScopeRequirement(scope_name=scope, operator="Exists") for scope in quota.scopes or ()]
    if quota.scope_selector is not None:
        requirements += quota.scope_selector.match_expressions or ()
    results = [
        is_across if requirement.scope_name == CROSS_NAMESPACE_SCOPE else _is_selected(requirement, pod)
        for requirement in requirements
    ]
    if False in results:
        return False
    return None if None in results else True


def reaches_namespaces(affinities: PodAffinities) -> bool:
    """Return whether scope CrossNamespacePodAffinity selects a pod: a term names namespaces or selects them."""
    for affinity in (affinities.pod_affinity, affinities.pod_anti_affinity):
        terms = list((affinity.required_during_scheduling_ignored_during_execution if affinity else None) or ())
        preferred = (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()
        terms += [term for weighted in preferred if (term := weighted.pod_affinity_term) is not None]
        if any(term.namespaces or term.namespace_selector is not None for term in terms):
            return True
    return False


def is_terminating(pod: PodSpec) -> bool:
    """Return whether scope Terminating selects the pod: it has a deadline, which is unrelated to its deletion."""
    return pod.active_deadline_seconds is not None and pod.active_deadline_seconds >= 0


def is_best_effort(pod: PodSpec) -> bool:
    """Return whether scope BestEffort selects the pod: it requests and limits neither cpu nor memory.

    A pod that requests only GPUs is such a pod. If the pod level has amounts, only it is read; up to 1.36 also if it is
    empty. Source: ComputePodQOS in pkg/apis/core/v1/helper/qos/qos.go, v1.37.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    resources = parse_pod_resources(pod)
    lists = [resources.requests, resources.limits]
    if not _is_pod_level_set(resources):
        lists = [
            listed
            for container in (*resources.containers, *resources.init)
            for listed in (container.requests, container.limits)
        ]
    return not any(listed[name].sign > 0 for listed in lists for name in ("cpu", "memory") if name in listed)


def list_missing_amounts(key: str, pod: PodSpec) -> tuple[str, ...]:
    """Return the containers for which ResourceQuota rejects a pod under a quota on a key: they set no such amount.

    A quota on cpu or memory requires it of each container, unless the pod level has amounts. Source: Constraints and
    enforcePodContainerConstraints in pkg/quota/v1/evaluator/core/pods.go, v1.37.

    Raises:
        QuantityError: if a quantity of the pod is invalid.
    """
    resource = key.removeprefix(names.REQUESTS_PREFIX).removeprefix(names.LIMITS_PREFIX)
    if resource not in _REQUIRED_RESOURCES:
        return ()
    resources = parse_pod_resources(pod)
    if _is_pod_level_set(resources):
        return ()
    containers = (*resources.containers, *resources.init)
    is_limit = key.startswith(names.LIMITS_PREFIX)
    return tuple(
        container.name
        for container in containers
        if resource not in (container.limits if is_limit else container.requests)
    )


def _is_pod_level_set(resources: PodResources) -> bool:
    """Return whether the pod level has an amount that counts (IsPodLevelResourcesSet in component-helpers)."""
    return any(is_pod_level_resource(name) for name in (*resources.requests, *resources.limits))


def _count_devices_by_class(requests: Iterable[devices.DeviceRequest]) -> Counter[str]:
    """Return the number of devices of each class that requests may get at most, alternatives by class."""
    total = Counter[str]()
    for request in requests:
        largest = Counter[str]()
        alternatives: Iterable[devices.ExactDeviceRequest | devices.DeviceSubRequest] = request.first_available or ()
        if not alternatives and request.exactly is not None:
            alternatives = (request.exactly,)
        for alternative in alternatives:
            largest[alternative.device_class_name] = max(
                largest[alternative.device_class_name], _count_devices(alternative)
            )
        total.update(largest)
    return total


def _count_devices(request: devices.ExactDeviceRequest | devices.DeviceSubRequest) -> int:
    match request.allocation_mode or "ExactCount":
        case "ExactCount":
            return 1 if request.count is None else request.count
        case "All":
            return MAX_DEVICES
        case _:
            return 0


def _compute_devices_charge(by_class: Mapping[str, int], resources_by_class: Mapping[str, str]) -> Amounts:
    charge = {_CLAIM_COUNT: 1}
    for class_name, count in by_class.items():
        charge[class_name + names.DEVICES_SUFFIX] = count
        if class_name in resources_by_class:
            charge[names.REQUESTS_PREFIX + names.DEVICE_CLASS_PREFIX + class_name] = count
        if resource := resources_by_class.get(class_name):
            key = names.REQUESTS_PREFIX + resource
            charge[key] = min(charge.get(key, count), count)
    return Amounts({key: amount for key, amount in charge.items() if amount})


def _find_classes(resource: str, resources_by_class: Mapping[str, str]) -> list[str]:
    class_name = resource.removeprefix(names.DEVICE_CLASS_PREFIX)
    if class_name != resource:
        return [class_name] if class_name in resources_by_class else []
    return [name for name, class_resource in resources_by_class.items() if class_resource == resource]


def _is_selected(scope: ScopeRequirement, pod: PodSpec) -> bool:
    """Return whether one scope selects a pod. Unknown scopes, and those of volume claims, select no pod."""
    match scope.scope_name:
        case "Terminating":
            return is_terminating(pod)
        case "NotTerminating":
            return not is_terminating(pod)
        case "BestEffort":
            return is_best_effort(pod)
        case "NotBestEffort":
            return not is_best_effort(pod)
        case "PriorityClass":
            return _is_priority_selected(scope, pod.priority_class_name or "")
        case _:
            return False


def _is_priority_selected(scope: ScopeRequirement, priority_class: str) -> bool:
    """Return whether a selector matches the name of the pod's priority class, which may be absent."""
    match scope.operator:
        case "In":
            return bool(priority_class) and priority_class in (scope.values or ())
        case "NotIn":
            return priority_class not in (scope.values or ())
        case "Exists":
            return bool(priority_class)
        case _:
            return not priority_class
