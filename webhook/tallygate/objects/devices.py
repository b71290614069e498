"""Devices of dynamic resource allocation (resource.k8s.io/v1): classes, slices, taints, claims and their templates.

The fields are those that decide what a claim counts under a cap, what rules demand of it, and which devices
kube-scheduler allocates to it.
"""

import msgspec

from tallygate.objects.core import ResourceList
from tallygate.objects.meta import NodeSelector, ObjectMeta, StringMap

EXTENDED_RESOURCE_CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that kube-scheduler creates for the extended resources of a pod."""


class CelSelector(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`cel` of a selector of devices."""

    expression: str = ""


class DeviceSelector(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One selector of devices."""

    cel: CelSelector | None = None


class DeviceClassSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a DeviceClass: what its devices must match, and their extended resource."""

    extended_resource_name: str | None = None
    selectors: list[DeviceSelector] | None = None


class DeviceClass(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A DeviceClass."""

    metadata: ObjectMeta | None = None
    spec: DeviceClassSpec | None = None


class DevicePool(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec.pool` of a ResourceSlice; only the slices of the newest generation of a pool count."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a ResourceSlice; `devices` and `shared_counters` stay raw JSON, since few of them are read.

    The devices are those of one node, of the nodes that a selector matches, of all nodes, or each has nodes of its own.
    """

    driver: str = ""
    pool: DevicePool = DevicePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    shared_counters: list[msgspec.Raw] | None = None
    devices: list[msgspec.Raw] | None = None


class ResourceSlice(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A ResourceSlice: the devices that a driver publishes, or a part of them."""

    metadata: ObjectMeta | None = None
    spec: ResourceSliceSpec | None = None


class DeviceTaint(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A taint of devices; only the effects `NoSchedule` and `NoExecute` prevent an allocation."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceTaintSelector(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """The devices of a rule: all fields that are set must match. Without a field it selects every device."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a DeviceTaintRule: one taint for the devices that the selector matches; for none without it."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A DeviceTaintRule: taints that an administrator adds to those of the drivers."""

    metadata: ObjectMeta | None = None
    spec: DeviceTaintRuleSpec | None = None


class DeviceToleration(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One toleration of the taints of devices; an empty `operator` is `Equal`."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class CapacityRequirements(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """The capacity that a request consumes of a device that several claims share: raw quantities by name."""

    requests: ResourceList | None = None


class DeviceSubRequest(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `firstAvailable`: an alternative of a request.

    `allocation_mode` is `ExactCount`, the default, or `All`; `count` is the number of devices, 1 by default.
    """

    name: str = ""
    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None


class ExactDeviceRequest(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`exactly` of a request."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None


class DeviceRequest(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One request of a claim: `exactly` one kind of devices, or the `first_available` of several alternatives."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A constraint on the devices of the requests of these names, of all requests without names.

    They have the same value of `match_attribute`, or each another value of `distinct_attribute`.
    """

    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec.devices` of a claim."""

    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None


class ResourceClaimSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a claim; it never changes."""

    devices: DeviceClaim | None = None


class DeviceResult(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One allocated device: `request` is the name of its request, `REQUEST/ALTERNATIVE` for one of several."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    consumed_capacity: StringMap | None = None
    share_id: str | None = msgspec.field(name="shareID", default=None)
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None


class DeviceAllocation(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status.allocation.devices` of a claim."""

    results: list[DeviceResult] | None = None


class AllocationResult(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status.allocation` of a claim; the devices can be reached from the nodes that the selector matches, or all."""

    devices: DeviceAllocation | None = None
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ClaimConsumer(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `status.reservedFor`: a consumer that may use the devices of the claim."""

    api_group: str | None = None
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `conditions` of an allocated device."""

    type: str = ""
    status: str = ""


class AllocatedDeviceStatus(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `status.devices`: the conditions that a driver reports of an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(name="shareID", default=None)
    conditions: list[DeviceCondition] | None = None


class ResourceClaimStatus(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status` of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: list[ClaimConsumer] | None = None
    devices: list[AllocatedDeviceStatus] | None = None


class ResourceClaim(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A ResourceClaim."""

    metadata: ObjectMeta | None = None
    spec: ResourceClaimSpec | None = None
    status: ResourceClaimStatus | None = None


class ResourceClaimTemplateSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a template: the metadata and the spec of the claims."""

    metadata: ObjectMeta | None = None
    spec: ResourceClaimSpec | None = None


class ResourceClaimTemplate(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A ResourceClaimTemplate."""

    metadata: ObjectMeta | None = None
    spec: ResourceClaimTemplateSpec | None = None


def list_expressions(selectors: list[DeviceSelector] | None) -> tuple[str, ...]:
    """Return the expression of each selector, empty for one of an unknown kind."""
    return tuple(selector.cel.expression if selector.cel is not None else "" for selector in selectors or ())
