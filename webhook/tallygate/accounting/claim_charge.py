"""The charge of a claim for devices under a cap, and the ways to a device that count under one name.

A device is requested by an extended resource, by the resource of its class, or by a claim; a cap counts it once, by
whatever way. The extended resource of a class is `spec.extendedResourceName` of the DeviceClass, and the resource of
the class itself is `deviceclass.resource.kubernetes.io/CLASS` (KEP-5004). Several classes may have one extended
resource: the newest serves it, but all of them count.

Before its allocation a claim counts the most that it may get: `All` and any sum count at most 32, the largest number
of devices of a claim (AllocationResultsMaxSize in k8s.io/api resource/v1, v1.37). Of several alternatives the largest
counts, by name. After its allocation it counts its devices. Admin access counts nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.names import DEVICE_CLASS_PREFIX, DEVICES_SUFFIX
from tallygate.objects import devices

MAX_DEVICES = 32
"""The largest number of devices of a claim."""

ClassMappings = frozenset[tuple[str, str]]
"""Classes of devices, each with an extended resource; a class may have several, at different times."""

NO_MAPPINGS: ClassMappings = frozenset()
NO_CLASSES: Mapping[str, str] = MappingProxyType({})
UNSERVED_CLASSES: Mapping[str, str] = MappingProxyType({})
"""The extended resources of the classes of an API server that has no such objects: none can exist."""

_ALL = "All"


class DeviceSources(msgspec.Struct, frozen=True):
    """The ways to a device that count under one name: `resources` of containers, and `classes` of claims.

    `weights` has the amount that a device of each class counts with; a class that is not in it counts with 1.
    """

    resources: frozenset[str]
    classes: frozenset[str]
    weights: Mapping[str, int] = {}

    @property
    def max_amount(self) -> int:
        """The largest amount of a claim: that of the largest number of devices."""
        return MAX_DEVICES * max(self.weights.values(), default=1)

    def get_weight(self, class_name: str) -> int:
        """Return the amount that a device of this class counts with: 0 if it does not count under the name."""
        return self.weights.get(class_name, 1) if class_name in self.classes else 0

    def list_texts(self, name: str) -> frozenset[str]:
        """Return each way as a text, without the name itself, for a ledger to record which of them it counts."""
        classes = (f"{name}={device_class}{DEVICES_SUFFIX}" for device_class in self.classes)
        return frozenset({*classes, *(f"{name}={resource}" for resource in self.resources if resource != name)})


def find_device_sources(
    names: Collection[str],
    resources_by_class: Mapping[str, str],
    mapped_classes: Mapping[str, Collection[str]],
    former: ClassMappings = NO_MAPPINGS,
) -> dict[str, DeviceSources]:
    """Return the sources of each counted name that stands for devices; other names are absent.

    `resources_by_class` has the extended resource of each DeviceClass, empty if it has none. `mapped_classes` are
    further classes of a name, by the policy. `former` are mappings of classes that count too, besides the present ones.
    """
    mappings = {*resources_by_class.items(), *former}
    sources = {}
    for name in names:
        own = find_named_class(name)
        named = {*mapped_classes.get(name, ()), *filter(None, [own])}
        classes = named | {class_name for class_name, resource in mappings if resource == name and not own}
        if classes:
            resources = {DEVICE_CLASS_PREFIX + device_class for device_class in classes}
            # pods by another resource of a class that counts by a former mapping alone were never charged
            resources |= {resource for class_name, resource in mappings if class_name in named and resource}
            resources |= set() if name.endswith(DEVICES_SUFFIX) else {name}
            sources[name] = DeviceSources(frozenset(resources), frozenset(classes))
    return sources


def find_named_class(name: str) -> str:
    """Return the class that a counted name has in itself; empty for any other name."""
    if name.endswith(DEVICES_SUFFIX):
        return name.removesuffix(DEVICES_SUFFIX)
    return name.removeprefix(DEVICE_CLASS_PREFIX) if name.startswith(DEVICE_CLASS_PREFIX) else ""


def list_claim_classes(claim: devices.ResourceClaim) -> set[str]:
    """Return the classes whose devices a claim may get, without those for admin access, which costs nothing."""
    requests = ((claim.spec or devices.ResourceClaimSpec()).devices or devices.DeviceClaim()).requests or []
    exact = {
        request.exactly.device_class_name
        for request in requests
        if request.exactly and not request.exactly.admin_access
    }
    return exact | {other.device_class_name for request in requests for other in request.first_available or ()}


def list_device_resources(resources_by_class: Mapping[str, str]) -> frozenset[str]:
    """Return the extended resources that stand for devices of a class."""
    own = {DEVICE_CLASS_PREFIX + class_name for class_name in resources_by_class}
    return frozenset(own | {resource for resource in resources_by_class.values() if resource})


def compute_claim_charge(claim: devices.ResourceClaim, sources: Mapping[str, DeviceSources]) -> Amounts:
    """Return the charge of a claim in devices, by counted name; names of which it has none are absent."""
    spec, status = claim.spec or devices.ResourceClaimSpec(), claim.status
    requests = (spec.devices or devices.DeviceClaim()).requests or []
    allocation = status.allocation if status else None
    if allocation is None:
        return compute_requested_devices(requests, sources)
    results = (allocation.devices.results if allocation.devices else None) or []
    return _count_results(requests, results, sources)


def compute_requested_devices(
    requests: Collection[devices.DeviceRequest], sources: Mapping[str, DeviceSources]
) -> Amounts:
    """Return the most devices that a claim with these requests may get, by counted name."""
    amounts = {}
    for name, source in sources.items():
        total = sum(_count_requested(request, source) for request in requests)
        if total:
            amounts[name] = min(total, source.max_amount)
    return Amounts(amounts) if amounts else NO_AMOUNTS


def compute_least_devices(claim: devices.ResourceClaim, sources: Mapping[str, DeviceSources]) -> Amounts:
    """Return the least devices that a claim gets if it is allocated, by counted name; names without any are absent.

    It counts the same before and after its allocation where this is the charge of the claim without an allocation.
    """
    requests = ((claim.spec or devices.ResourceClaimSpec()).devices or devices.DeviceClaim()).requests or []
    least = {name: sum(_count_least(request, source) for request in requests) for name, source in sources.items()}
    return Amounts({name: min(amount, sources[name].max_amount) for name, amount in least.items() if amount})


def _count_least(request: devices.DeviceRequest, sources: DeviceSources) -> int:
    """Return the least amount of these sources that a request gets; mode `All` needs one at least."""
    if request.exactly is not None:
        if request.exactly.admin_access:
            return 0
        alternatives: Collection[devices.ExactDeviceRequest | devices.DeviceSubRequest] = (request.exactly,)
    else:
        alternatives = request.first_available or ()
    return min((_count_alternative(alternative, sources, all_count=1) for alternative in alternatives), default=0)


def _count_requested(request: devices.DeviceRequest, sources: DeviceSources) -> int:
    """Return the largest amount of these sources that a request may get."""
    if request.exactly is not None:
        return 0 if request.exactly.admin_access else _count_alternative(request.exactly, sources)
    return max((_count_alternative(alternative, sources) for alternative in request.first_available or ()), default=0)


def _count_alternative(
    request: devices.ExactDeviceRequest | devices.DeviceSubRequest, sources: DeviceSources, all_count: int = MAX_DEVICES
) -> int:
    weight = sources.get_weight(request.device_class_name)
    if request.allocation_mode == _ALL:
        return weight * all_count
    return weight if request.count is None else weight * max(request.count, 0)


def _count_results(
    requests: Collection[devices.DeviceRequest],
    results: Collection[devices.DeviceResult],
    sources: Mapping[str, DeviceSources],
) -> Amounts:
    classes = {path: class_name for request in requests for path, class_name in _list_classes(request)}
    amounts: dict[str, int] = {}
    for result in results:
        if not result.admin_access:
            for name, source in sources.items():
                if weight := source.get_weight(classes.get(result.request, "")):
                    amounts[name] = amounts.get(name, 0) + weight
    return Amounts(amounts) if amounts else NO_AMOUNTS


def _list_classes(request: devices.DeviceRequest) -> Iterator[tuple[str, str]]:
    """Yield the names by which results refer to a request and to its alternatives, with their classes."""
    if request.exactly is not None:
        yield request.name, request.exactly.device_class_name
    for alternative in request.first_available or ():
        yield f"{request.name}/{alternative.name}", alternative.device_class_name
