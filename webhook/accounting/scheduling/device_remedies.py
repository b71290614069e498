"""Changes of claims that would help a pod: fewer devices, another class, a toleration, the deletion of another claim.

Each is verified by a trial: the changed claim takes the place of the present one while the filters run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from msgspec.structs import replace

from tallygate.webhook.accounting.allocation.planned_requests import format_name
from tallygate.webhook.accounting.cluster.cluster import Cluster
from tallygate.webhook.accounting.cluster.columns import NodeIndices
from tallygate.webhook.accounting.cluster.device_index import DeviceIndex
from tallygate.webhook.accounting.scheduling.filters import run_filters
from tallygate.webhook.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.webhook.accounting.scheduling.plugins.resource_claims import (
    find_hold_reason,
    get_allocation,
    needs_devices,
)
from tallygate.webhook.objects.devices import (
    DeviceClaim,
    DeviceRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)

_MAX_CLASSES: Final = 8
_MAX_DELETIONS: Final = 8


class _Change(NamedTuple):
    """A change to try: the object that takes the place of another one, or the claim that is deleted."""

    description: str
    replacement: ResourceClaim | ResourceClaimTemplate | None
    deleted: ResourceClaim | None = None


def try_device_changes(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices) -> Iterator[tuple[str, str]]:
    """Yield the description and the node for each change that makes one of these nodes feasible.

    The cluster is unchanged afterwards.
    """
    devices = cluster.devices
    if devices is None or not needs_devices(pod, cluster) or find_hold_reason(pod, cluster):
        return
    for change in [*_list_changes(pod, cluster, devices), *_list_deletions(devices)]:
        with _apply(devices, change):
            feasible = run_filters(pod, cluster, nodes).feasible.tolist()
        for node_index in feasible:
            yield change.description, cluster.nodes.get_name(node_index)


@contextmanager
def _apply(devices: DeviceIndex, change: _Change) -> Iterator[None]:
    before: ResourceClaim | ResourceClaimTemplate | None = change.deleted
    if change.deleted is not None:
        devices.remove(change.deleted)
    if change.replacement is not None:
        before = devices.find(change.replacement)
        devices.put(change.replacement)
    try:
        yield
    finally:
        if before is not None:
            devices.put(before)


def _list_changes(pod: IncomingPod, cluster: Cluster, devices: DeviceIndex) -> Iterator[_Change]:
    """Yield the changes of the claims of a pod that have no devices, and of the templates of claims to be made."""
    for reference in pod.spec.resource_claims or ():
        if reference.resource_claim_name is not None:
            claim = devices.claims.get((pod.namespace, reference.resource_claim_name))
            if claim is not None and get_allocation(claim) is None:
                for text, spec in _list_specs(claim.spec, cluster):
                    yield _Change(f"{text} in claim {format_name(claim)}", replace(claim, spec=spec))
        elif not pod.uid:
            name = reference.resource_claim_template_name or ""
            template = devices.find_template(pod.namespace, name)
            if template is not None and template.spec is not None:
                for text, spec in _list_specs(template.spec.spec, cluster):
                    changed = replace(template, spec=replace(template.spec, spec=spec))
                    yield _Change(f"{text} in claim template {pod.namespace}/{name}", changed)


def _list_specs(spec: ResourceClaimSpec | None, cluster: Cluster) -> Iterator[tuple[str, ResourceClaimSpec]]:
    claimed = spec.devices if spec else None
    requests = (claimed.requests if claimed else None) or []
    for index, request in enumerate(requests):
        if request.exactly is not None:
            for text, exactly in _list_requests(request.name, request.exactly, cluster):
                changed = [*requests[:index], DeviceRequest(request.name, exactly), *requests[index + 1 :]]
                yield text, ResourceClaimSpec(replace(claimed or DeviceClaim(), requests=changed))
    if claimed is not None and claimed.constraints:
        yield "no constraint", ResourceClaimSpec(replace(claimed, constraints=None))


def _list_requests(
    name: str, request: ExactDeviceRequest, cluster: Cluster
) -> Iterator[tuple[str, ExactDeviceRequest]]:
    count = 1 if request.count is None else request.count
    if request.allocation_mode == "All":
        yield f"one device in place of all for request {name}", replace(request, allocation_mode="ExactCount", count=1)
    elif count > 1:
        devices = f"{count - 1} device{'s' * (count > 2)}"  # noqa: PLR2004  # one less than two is one
        yield f"{devices} for request {name}", replace(request, count=count - 1)
    others = [each for each in sorted(cluster.device_classes.by_name) if each != request.device_class_name]
    for other in others[:_MAX_CLASSES]:
        yield f"class {other} for request {name}", replace(request, device_class_name=other)
    tolerations: Sequence[DeviceToleration] = request.tolerations or ()
    if not any(each.operator == "Exists" and not each.key and not each.effect for each in tolerations):
        every = [*tolerations, DeviceToleration(operator="Exists")]
        yield f"a toleration of the devices' taints for request {name}", replace(request, tolerations=every)


def _list_deletions(devices: DeviceIndex) -> Iterator[_Change]:
    """Yield the deletion of claims with devices that no pod has reserved."""
    idle = [
        each
        for each in devices.claims.values()
        if get_allocation(each) is not None and each.status is not None and not each.status.reserved_for
    ]
    for claim in sorted(idle, key=format_name)[:_MAX_DELETIONS]:
        yield _Change(f"delete claim {format_name(claim)}, which no pod uses", None, claim)
