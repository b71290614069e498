"""Changes that would help a pod without devices: fewer devices, another class, a toleration, no idle claim, no taint.

Each is verified by a trial: the changed claim, or the pod with other requests for extended resources, takes the place
of the present one while the filters run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from tallygate.accounting.allocation.planned_requests import MAX_RESULTS, format_name
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import NodeIndices
from tallygate.accounting.cluster.device_index import DeviceIndex
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins.resource_claims import find_claim, find_hold_reason, get_allocation
from tallygate.accounting.scheduling.plugins.special_claim import get_requests, read_device_count
from tallygate.objects.core import ResourceRequirements
from tallygate.objects.devices import (
    DeviceClaim,
    DeviceRequest,
    DeviceTaintRule,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from tallygate.objects.scheduling import SchedulingContainer

_DELETED_CLAIM: Final = re.compile(r"delete claim (?P<namespace>[^/]+)/\S+, which no pod uses")
_MAX_CLASSES: Final = 8
_MAX_DELETIONS: Final = 8


class _Change(NamedTuple):
    """A change to try: the object or pod that takes the place of another one, or the objects that are deleted."""

    description: str
    replacement: ResourceClaim | ResourceClaimTemplate | None = None
    deleted: Sequence[ResourceClaim | DeviceTaintRule] = ()
    pod: IncomingPod | None = None


_Changes = Sequence[_Change]
"""Changes of one kind, the largest first: the last one that helps is reported. If one helps, so do those before it."""


def try_claim_changes(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[tuple[str, str]]:
    """Yield the description and the node for each change of the pod or its claims that makes a node feasible for it.

    The cluster is unchanged afterwards.
    """
    devices = cluster.devices
    if devices is not None and not find_hold_reason(pod, cluster):
        changes = (*_list_changes(pod, cluster, devices), *_list_fewer(pod, cluster))
        yield from _try_each(pod, cluster, devices, nodes, changes)


def try_deletions(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[tuple[str, str]]:
    """Yield the description and the node for each deletion of another object that makes a node feasible for a pod.

    The cluster is unchanged afterwards.
    """
    devices = cluster.devices
    if devices is not None and not find_hold_reason(pod, cluster):
        rules = _list_rule_deletions(devices) if cluster.version.has(Switch.APPLIES_TAINT_RULES) else ()
        yield from _try_each(pod, cluster, devices, nodes, (*_list_deletions(devices), *rules))


def _try_each(
    pod: IncomingPod, cluster: Cluster, devices: DeviceIndex, nodes: NodeIndices, every: Sequence[_Changes]
) -> Iterator[tuple[str, str]]:
    for changes in every:
        description, feasible = _find_smallest(pod, cluster, devices, nodes, changes)
        for node_index in feasible:
            yield description, cluster.nodes.get_name(node_index)


def _find_smallest(
    pod: IncomingPod, cluster: Cluster, devices: DeviceIndex, nodes: NodeIndices, changes: _Changes
) -> tuple[str, list[int]]:
    """Return the description of the smallest change that helps, and the nodes; none if the largest does not help."""
    description, found = "", list[int]()
    low, high = 0, len(changes)
    while low < high:
        middle = (low + high) // 2
        change = changes[middle]
        with _apply(devices, change):
            feasible = run_filters(change.pod or pod, cluster, nodes).feasible.tolist()
        if feasible:
            description, found, low = change.description, feasible, middle + 1
        else:
            high = middle
    return description, found


@contextmanager
def _apply(devices: DeviceIndex, change: _Change) -> Iterator[None]:
    before: ResourceClaim | ResourceClaimTemplate | None = None
    for claim in change.deleted:
        devices.remove(claim)
    if change.replacement is not None:
        before = devices.find_put(change.replacement)
        devices.put(change.replacement)
    try:
        yield
    finally:
        if change.replacement is not None:
            devices.remove(change.replacement)
        for deleted in (*change.deleted, *([] if before is None else [before])):
            devices.put(deleted)


def _list_changes(pod: IncomingPod, cluster: Cluster, devices: DeviceIndex) -> Iterator[_Changes]:
    """Yield the changes of the claims of a pod that have no devices, and of the templates of its claims."""
    for reference in pod.spec.resource_claims or ():
        claim = find_claim(pod, reference, cluster, devices)
        if claim is None or get_allocation(claim) is not None:
            continue
        place, template = f"claim {format_name(claim)}", None
        if reference.resource_claim_name is None:
            template = devices.find_template(pod.namespace, reference.resource_claim_template_name or "")
            place = f"claim template {pod.namespace}/{reference.resource_claim_template_name}"
        for specs in _list_specs(claim.spec, cluster):
            yield [
                _Change(
                    f"{text} in {place}",
                    replace(claim, spec=spec)
                    if pod.uid or template is None
                    else replace(template, spec=ResourceClaimTemplateSpec(spec=spec)),
                )
                for text, spec in specs
            ]


def _list_specs(spec: ResourceClaimSpec | None, cluster: Cluster) -> Iterator[Sequence[tuple[str, ResourceClaimSpec]]]:
    claimed = spec.devices if spec else None
    requests = (claimed.requests if claimed else None) or []
    for index, request in enumerate(requests):
        if request.exactly is not None:
            before, after = requests[:index], requests[index + 1 :]
            for changed in _list_requests(request.name, request.exactly, cluster):
                yield [
                    (text, _with_requests(claimed, [*before, DeviceRequest(request.name, exactly), *after]))
                    for text, exactly in changed
                ]
    if claimed is not None and claimed.constraints:
        yield [("no constraint", ResourceClaimSpec(replace(claimed, constraints=None)))]


def _with_requests(claimed: DeviceClaim | None, requests: list[DeviceRequest]) -> ResourceClaimSpec:
    return ResourceClaimSpec(replace(claimed or DeviceClaim(), requests=requests))


def _list_requests(
    name: str, request: ExactDeviceRequest, cluster: Cluster
) -> Iterator[Sequence[tuple[str, ExactDeviceRequest]]]:
    if request.allocation_mode == "All":
        one = replace(request, allocation_mode="ExactCount", count=1)
        yield [(f"one device in place of all for request {name}", one)]
    else:
        yield [
            (f"{_format_devices(count)} for request {name}", replace(request, count=count))
            for count in _list_smaller(1 if request.count is None else request.count)
        ]
    others = [
        class_name for class_name in sorted(cluster.device_classes.by_name) if class_name != request.device_class_name
    ]
    for other in others[:_MAX_CLASSES]:
        yield [(f"class {other} for request {name}", replace(request, device_class_name=other))]
    tolerations: Sequence[DeviceToleration] = request.tolerations or ()
    if not any(
        toleration.operator == "Exists" and not toleration.key and not toleration.effect for toleration in tolerations
    ):
        every = [*tolerations, DeviceToleration(operator="Exists")]
        yield [(f"a toleration of the devices' taints for request {name}", replace(request, tolerations=every))]


def _list_smaller(count: int) -> range:
    return range(1, min(count, MAX_RESULTS + 1))


def _format_devices(count: int) -> str:
    return f"{count} device{'s' * (count != 1)}"


def _list_fewer(pod: IncomingPod, cluster: Cluster) -> Iterator[_Changes]:
    """Yield the pods with fewer extended resources in one container, for those that a class of devices backs."""
    spec = pod.spec
    for field, containers in (("init_containers", spec.init_containers), ("containers", spec.containers)):
        every = containers or []
        for index, container in enumerate(every):
            before, after = every[:index], every[index + 1 :]
            requests = get_requests(container)
            for resource in sorted(requests):
                if resource in pod.requests and cluster.device_classes.find_class(resource) is not None:
                    yield [
                        _Change(
                            f"{count} {resource} in container {container.name}",
                            pod=_with_containers(
                                pod, cluster, field, [*before, _with_amount(container, resource, count), *after]
                            ),
                        )
                        for count in _list_smaller(read_device_count(requests[resource]))
                    ]


def _with_amount(container: SchedulingContainer, resource: str, count: int) -> SchedulingContainer:
    resources, amount = container.resources or ResourceRequirements(), {resource: Raw(b'"%d"' % count)}
    requests, limits = {**(resources.requests or {}), **amount}, {**(resources.limits or {}), **amount}
    return replace(container, resources=replace(resources, requests=requests, limits=limits))


def _with_containers(
    pod: IncomingPod, cluster: Cluster, field: str, containers: list[SchedulingContainer]
) -> IncomingPod:
    changed = replace(pod.pod, spec=replace(pod.spec, **{field: containers}))
    return IncomingPod.from_pod(changed, cluster.priority_classes)


def _list_deletions(devices: DeviceIndex) -> Iterator[_Changes]:
    idle = [
        claim
        for claim in devices.claims.values()
        if get_allocation(claim) is not None and claim.status is not None and not claim.status.reserved_for
    ]
    for claim in sorted(idle, key=format_name)[:_MAX_DELETIONS]:
        yield [_Change(f"delete claim {format_name(claim)}, which no pod uses", deleted=[claim])]


def find_namespace_of_deleted(description: str) -> str | None:
    """Return the namespace of the claim that a change of `try_deletions` deletes; None for any other change."""
    match = _DELETED_CLAIM.fullmatch(description)
    return match["namespace"] if match else None


def _list_rule_deletions(devices: DeviceIndex) -> Iterator[_Changes]:
    """Yield the deletion of each taint rule, after that of all of them: a device may have the taints of several."""
    rules = {rule.metadata.name or "": rule for rule in devices.list_taint_rules() if rule.metadata}
    names = sorted(rules)[:_MAX_DELETIONS]
    every = _Change(f"delete DeviceTaintRules {', '.join(names)}", deleted=[rules[name] for name in names])
    for name in names:
        one = _Change(f"delete DeviceTaintRule {name}", deleted=[rules[name]])
        yield [every, one] if len(names) > 1 else [one]
