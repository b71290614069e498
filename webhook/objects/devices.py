"""Devices of dynamic resource allocation (resource.k8s.io/v1): classes, slices, claims and templates of claims.

The fields are those that decide what a claim counts under a cap, and what rules demand of it.
"""

import msgspec

from tallygate.webhook.objects.core import ResourceList
from tallygate.webhook.objects.meta import ObjectMeta, StringMap

EXTENDED_RESOURCE_CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim that kube-scheduler creates for the extended resources of a pod."""


class CelSelector(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`cel` of a selector of devices."""

    expression: str = ""


class DeviceSelector(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One selector of devices."""

    cel: CelSelector | None = None


class DeviceClassSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec` of a DeviceClass, with the extended resource of its devices."""

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
    """`spec` of a ResourceSlice; `devices` stay raw JSON, since few of them are read."""

    driver: str = ""
    pool: DevicePool = DevicePool()
    devices: list[msgspec.Raw] | None = None
    per_device_node_selection: bool | None = None


class ResourceSlice(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A ResourceSlice: the devices that a driver publishes, or a part of them."""

    metadata: ObjectMeta | None = None
    spec: ResourceSliceSpec | None = None


class CapacityRequirements(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`capacity` of a request: the amounts that it consumes of a shared device."""

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
    capacity: CapacityRequirements | None = None


class ExactDeviceRequest(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`exactly` of a request."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    capacity: CapacityRequirements | None = None


class DeviceRequest(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One request of a claim: `exactly` one kind of devices, or the `first_available` of several alternatives."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceClaim(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`spec.devices` of a claim."""

    requests: list[DeviceRequest] | None = None


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


class DeviceAllocation(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status.allocation.devices` of a claim."""

    results: list[DeviceResult] | None = None


class AllocationResult(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status.allocation` of a claim."""

    devices: DeviceAllocation | None = None


class ClaimConsumer(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One entry of `status.reservedFor`: a consumer that may use the devices of the claim."""

    api_group: str | None = None
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`status` of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: list[ClaimConsumer] | None = None


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
    return tuple(each.cel.expression if each.cel is not None else "" for each in selectors or ())
