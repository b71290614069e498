"""The pods and claims for devices that a request writes, and their charges under caps.

A claim is charged when it is created. Its allocation is decided again, as far as it changes what the claim counts: a
claim counts the most that it may get until then (docs/design/caps.md, rule 10). The end of an allocation is never
rejected. A claim that kube-scheduler creates for the extended resources of a pod is charged with the part of the pod.

Under names that count devices by attributes or capacities, every claim is charged when its devices are allocated.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.charge import Charge, ConsumerKind, has_ended
from tallygate.accounting.devices import device_meter
from tallygate.accounting.names import LIMITS_PREFIX
from tallygate.accounting.pod_defaults import PodDefaults
from tallygate.accounting.problem import Problem
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.result_cache import Fingerprint
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.class_view import PodClasses, UnseenClass
from tallygate.admission.evaluate import SCHEDULER_USER
from tallygate.admission.kinds import DecodedObject, DecodedRequest, decode_object
from tallygate.admission.request import AdmissionRequest, ReviewError
from tallygate.errors import TallygateError
from tallygate.kube.resource_codec import parse_revision
from tallygate.objects.core import Pod
from tallygate.objects.devices import AllocationResult, ResourceClaim
from tallygate.objects.meta import ObjectMeta
from tallygate.policy.matching import matches_subjects
from tallygate.review.cap_charge import CapCharge, ChargedConsumer, FixedAmounts
from tallygate.review.cap_messages import create_missing_limit_problem, create_unknown_product_problem
from tallygate.review.gpu_annotation_review import find_uncounted_annotations
from tallygate.state.informers.claim_records import find_owner_pod, find_pod_uid
from tallygate.state.ledger.ledger import Operation
from tallygate.state.ports import RetryLaterError, UnknownDeviceError, UnseenClassError, UnseenTemplateError

_POD_SUBRESOURCES = frozenset({"", "resize"})
_STATUS = "status"
_NO_CHARGE = Charge()
_MISSING_UID = "object.metadata.uid is empty: caps are charged in the validating webhook, where it is set"


class UnseenTemplate(msgspec.Struct, frozen=True):
    """A ResourceClaimTemplate that does not exist as far as this replica has seen."""

    name: str

    def __str__(self) -> str:
        """Return the reason why there is no decision."""
        return (
            f"ResourceClaimTemplate {self.name} does not exist, or was not seen yet, so it is not known what the "
            "claims of the pods count"
        )


class UndecidedChargeError(TallygateError):
    """The charge under the cap of this name is not known yet, because of `cause`: the request can be sent again."""

    def __init__(self, cap: str, cause: device_meter.UndecidedDeviceError | UnseenClass | UnseenTemplate) -> None:
        super().__init__(f"cap {cap}: {cause}")
        self.cap = cap
        self.cause: RetryLaterError = _ERRORS.get(type(cause), UnknownDeviceError)(str(self))


_ERRORS: Mapping[type, type[RetryLaterError]] = {UnseenClass: UnseenClassError, UnseenTemplate: UnseenTemplateError}


class RequestCharges(msgspec.Struct, frozen=True):
    """The consumer that a request writes, its charges, and a problem for each limit that a cap requires.

    `warnings` are the problems that reject nothing, as those under names without a hard limit. `created_pod` is the
    pod that the request creates, None for any other request. `pod_count` is the number of pods of a workload that is
    charged as a whole.
    """

    consumer: ChargedConsumer
    charges: Sequence[CapCharge]
    missing_limits: Sequence[Problem] = ()
    created_pod: Pod | None = None
    pod_count: int = 0
    warnings: Sequence[Problem] = ()

    @property
    def is_limited(self) -> bool:
        """Whether a cap can reject the request."""
        return any(charge.is_limited for charge in self.charges)


def is_charged(decoded_request: DecodedRequest) -> bool:
    """Return whether the request writes a pod or a claim in a way that caps decide on."""
    request = decoded_request.request
    if decoded_request.target is None:
        return False
    if request.kind == "Pod" and not request.group:
        return request.subresource in _POD_SUBRESOURCES
    return request.kind == "ResourceClaim"


def find_no_device(_: device_meter.DeviceId) -> device_meter.KnownDevice | None:
    """Return None: no slices are watched."""
    return None


def compute_request_charges(
    decoded_request: DecodedRequest,
    caps: Sequence[ActiveCap],
    nonce: str,
    find_device: device_meter.DeviceFinder = find_no_device,
    planned: PodDefaults | None = None,
) -> RequestCharges | None:
    """Return the charges of a request under these caps; None if it changes nothing that a cap counts.

    `planned` are the defaults of pods in the namespace, as far as they are known, for an object that is read from a
    file: it has no UID, a class that is not seen does not count, and a limit may come from a default.

    Raises:
        ReviewError: if an object is not of its kind, has no UID, or has an invalid quantity.
        UndecidedChargeError: if the amounts of an allocated device are not known.
    """
    target = decoded_request.target
    assert target is not None  # noqa: S101  # `is_charged` has asked
    request, new = decoded_request.request, decoded_request.get_object(target)
    old = decode_object(target, request, request.old_object) if request.old_object is not None else None
    if isinstance(new, ResourceClaim):
        old_claim = old if isinstance(old, ResourceClaim) else None
        is_planned = planned is not None
        return _charge_claim(request, new, old_claim, caps, nonce=nonce, find_device=find_device, is_planned=is_planned)
    assert isinstance(new, Pod)  # noqa: S101  # `is_charged` has asked
    return _charge_pod(decoded_request, new, old if isinstance(old, Pod) else None, caps, nonce, planned=planned)


def _charge_pod(  # noqa: PLR0913  # the arguments of its caller, decoded
    decoded_request: DecodedRequest,
    new: Pod,
    old: Pod | None,
    caps: Sequence[ActiveCap],
    nonce: str,
    *,
    planned: PodDefaults | None,
) -> RequestCharges | None:
    if old is not None and has_ended(old):
        # An ended pod uses nothing, and never will. Its earlier reservation counts until the next recount.
        return None
    request, charges = decoded_request.request, list[CapCharge]()
    missing_limits, warnings = list[Problem](), list[Problem]()
    fingerprint = decoded_request.get_fingerprint(new)
    for cap in caps:
        classes = examine_pod_classes(cap, new, fingerprint)
        if classes.unseen is not None and planned is None:
            require_seen_class(cap, classes.unseen, None if old is None else examine_pod_classes(cap, old).unseen)
        before = compute_pod_charge(cap, old) if old is not None else _NO_CHARGE
        after = compute_pod_charge(cap, new, fingerprint)
        charge = CapCharge(
            cap,
            before.amounts,
            after.amounts,
            may_exceed(cap, request),
            new if cap.derived else None,
            charge_under=partial(_charge_pod_under, request=request, old=old, new=new) if classes.may_count else None,
        )
        if after.unlimited and not charge.may_exceed:
            for name, problem in _find_missing_limits(new, charge, before, after, planned):
                (missing_limits if name in cap.hard else warnings).append(problem)
        charges.append(charge)
    known = {*find_uncounted_annotations(caps, old)} if old is not None else frozenset[Problem]()
    warnings += (annotation for annotation in find_uncounted_annotations(caps, new) if annotation not in known)
    consumer = _identify(request, new, ConsumerKind.POD, nonce, is_planned=planned is not None)
    return RequestCharges(consumer, charges, missing_limits, new if old is None else None, warnings=warnings)


def examine_pod_classes(cap: ActiveCap, pod: Pod, fingerprint: Fingerprint | None = None) -> PodClasses:
    """Return what the device classes that a pod names change in its charge under a cap.

    Raises:
        ReviewError: if the pod has an invalid quantity.
    """
    try:
        return cap.examine_classes(pod, fingerprint)
    except QuantityError as error:
        raise ReviewError(f"the pod has an invalid quantity: {error}") from None


def require_seen_class(cap: ActiveCap, unseen: UnseenClass | None, before: UnseenClass | None = None) -> None:
    """Check that the classes are known which decide what an object counts; what it counted `before` stays the same.

    Raises:
        UndecidedChargeError: if one is not.
    """
    if unseen is not None and unseen != before:
        raise UndecidedChargeError(cap.definition.name, unseen)


def _charge_pod_under(cap: ActiveCap, request: AdmissionRequest, old: Pod | None, new: Pod) -> CapCharge:
    """Return the charge of a pod under a cap that counts by former mappings of device classes too."""
    current, requested = compute_pod_charge(cap, old).amounts, compute_pod_charge(cap, new).amounts
    return CapCharge(cap, current, requested, may_exceed(cap, request), new if cap.derived else None)


def _charge_claim(  # noqa: PLR0913  # the arguments of its caller, decoded
    request: AdmissionRequest,
    new: ResourceClaim,
    old: ResourceClaim | None,
    caps: Sequence[ActiveCap],
    *,
    nonce: str,
    find_device: device_meter.DeviceFinder,
    is_planned: bool,
) -> RequestCharges | None:
    is_allocation = request.subresource == _STATUS
    if is_allocation and (_get_allocation(new) is None or _get_allocation(new) == _get_allocation(old)):
        return None
    for cap in () if is_planned else caps:
        before = None if old is None or is_allocation else cap.find_unseen_class_of_claim(old)
        require_seen_class(cap, cap.find_unseen_class_of_claim(new), before)
    charge_under = partial(_charge_claim_under, request=request, old=old, new=new, find_device=find_device)
    charges = [
        msgspec.structs.replace(
            charge_under(cap), charge_under=charge_under if cap.may_count_claim_by_mapping(new) else None
        )
        for cap in caps
    ]
    unknown_products = [] if old is not None else _find_unknown_products(request, new, charges)
    missing_limits = [problem for charge, name, problem in unknown_products if name in charge.cap.hard]
    warnings = [problem for charge, name, problem in unknown_products if name not in charge.cap.hard]
    charges = [charge for charge in charges if charge.requested or charge.charge_under is not None]
    if not charges and not unknown_products:
        return None
    consumer = _identify(request, new, ConsumerKind.CLAIM, nonce, is_planned=is_planned)
    if is_allocation and old is not None:
        consumer = msgspec.structs.replace(consumer, allocates_at=_get_revision(old))
    owner = find_owner_pod(new.metadata or ObjectMeta()) if old is None else None
    if owner is not None and request.user.name == SCHEDULER_USER:
        consumer = msgspec.structs.replace(consumer, pod_uid=owner.uid or "", pod_name=owner.name or "")
    return RequestCharges(consumer, charges, missing_limits, warnings=warnings)


def _charge_claim_under(
    cap: ActiveCap,
    request: AdmissionRequest,
    old: ResourceClaim | None,
    new: ResourceClaim,
    find_device: device_meter.DeviceFinder,
) -> CapCharge:
    """Return the charge of a claim under a cap.

    Raises:
        UndecidedChargeError: if the amount of a device is not known.
    """
    charge = CapCharge(cap, cap.compute_claim_charge(old), cap.compute_claim_charge(new), may_exceed(cap, request))
    if old is None:
        return charge
    if request.subresource == _STATUS:
        charge = _select_undecided(charge, old)
    return _add_devices(charge, old, new, find_device)


def _find_unknown_products(
    request: AdmissionRequest, claim: ResourceClaim, charges: Sequence[CapCharge]
) -> list[tuple[CapCharge, str, Problem]]:
    """Return charge, name and problem for each product of which a claim has a factor alone.

    The claims that kube-scheduler makes belong to pods, which are charged with the product.
    """
    if request.user.name == SCHEDULER_USER:
        return []
    return [
        (charge, name, create_unknown_product_problem(charge.cap, name))
        for charge in charges
        if not charge.may_exceed
        for name in charge.cap.list_unknown_products(claim)
    ]


def _get_allocation(claim: ResourceClaim | None) -> AllocationResult | None:
    return claim.status.allocation if claim is not None and claim.status is not None else None


def _select_undecided(charge: CapCharge, old: ResourceClaim) -> CapCharge:
    """Return the charge of an allocation, with the names apart that count the same whatever devices the claim gets."""
    least = charge.cap.compute_least_claim_charge(old)
    decided = {name for name, amount in charge.current.items() if least.get(name) == amount}
    fixed, current = _split(charge.current, decided)
    fixed_requested, requested = _split(charge.requested, decided)
    return msgspec.structs.replace(
        charge, current=current, requested=requested, fixed=FixedAmounts(fixed, fixed_requested)
    )


def _split(amounts: Amounts, names: Collection[str]) -> tuple[Amounts, Amounts]:
    """Return the amounts of these names, and those of all others."""
    chosen = {name: amount for name, amount in amounts.items() if name in names}
    return Amounts(chosen), Amounts({name: amount for name, amount in amounts.items() if name not in names})


def _add_devices(
    charge: CapCharge, old: ResourceClaim, new: ResourceClaim, find_device: device_meter.DeviceFinder
) -> CapCharge:
    """Return the charge of a change with the amounts of devices by attributes and capacities.

    The change allocates devices, or its labels bring a claim with devices under the cap.

    Raises:
        UndecidedChargeError: if the amount of a device is not known.
    """
    meters = charge.cap.device_meters
    before, after = list_counted_devices(charge.cap, old), list_counted_devices(charge.cap, new)
    if not after or before == after:
        return charge
    current = device_meter.count_devices(before, meters, find_device, NO_AMOUNTS).amounts
    try:
        hard = {name: meter for name, meter in meters.items() if name in charge.cap.hard}
        if _get_allocation(old) == _get_allocation(new):
            requested = dict(_count_known(after, hard, find_device))
        else:
            requested = {
                name: sum(meter.require_amount(device, find_device(device.id)) for device in after)
                for name, meter in hard.items()
            }
        if len(hard) < len(meters):  # without a hard limit, an unknown amount rejects nothing
            soft = {name: meter for name, meter in meters.items() if name not in hard}
            requested |= device_meter.count_devices(after, soft, find_device, NO_AMOUNTS).amounts
    except device_meter.UndecidedDeviceError as error:
        raise UndecidedChargeError(charge.cap.definition.name, error) from None
    return msgspec.structs.replace(
        charge, current=_add_amounts(charge.current, current), requested=_add_amounts(charge.requested, requested)
    )


def list_counted_devices(cap: ActiveCap, claim: ResourceClaim) -> tuple[device_meter.AllocatedDevice, ...]:
    """Return the devices of a claim that count under names by attributes or capacities; none if the claim does not."""
    is_owned = bool(find_pod_uid(claim.metadata or ObjectMeta()))
    return device_meter.list_allocated_devices(claim) if cap.counts_allocation(claim, is_owned=is_owned) else ()


def _count_known(
    devices: tuple[device_meter.AllocatedDevice, ...],
    meters: Mapping[str, device_meter.DeviceMeter],
    find_device: device_meter.DeviceFinder,
) -> Mapping[str, int]:
    """Return the amounts of devices that a claim has already.

    Raises:
        UndecidedDeviceError: if one is unknown.
    """
    count = device_meter.count_devices(devices, meters, find_device, NO_AMOUNTS)
    if count.unknown:
        names = ", ".join(sorted(count.unknown))
        raise device_meter.UndecidedDeviceError(f"a device of the claim is unknown, so its amount of {names} is too")
    return count.amounts


def _add_amounts(amounts: Amounts, more: Mapping[str, int]) -> Amounts:
    return amounts + {name: amount for name, amount in more.items() if amount}


def may_exceed(cap: ActiveCap, request: AdmissionRequest) -> bool:
    """Return whether the user of a request may exceed a cap."""
    return matches_subjects(cap.definition.exceed, request.user.name, request.user.groups)


def _get_revision(claim: ResourceClaim) -> int:
    try:
        return parse_revision((claim.metadata or ObjectMeta()).resource_version or "")
    except ValueError as error:
        raise ReviewError(f"oldObject.metadata.resourceVersion: {error}") from None


def compute_pod_charge(cap: ActiveCap, pod: Pod | None, fingerprint: Fingerprint | None = None) -> Charge:
    """Return the charge of a pod under a cap; empty without a pod.

    Raises:
        ReviewError: if the pod has an invalid quantity.
    """
    try:
        return cap.compute_charge(pod, fingerprint)
    except QuantityError as error:
        # The API server rejects such a pod before it calls a validating webhook.
        raise ReviewError(f"the pod has an invalid quantity: {error}") from None


def _identify(
    request: AdmissionRequest, new: DecodedObject, kind: ConsumerKind, nonce: str, *, is_planned: bool
) -> ChargedConsumer:
    uid = nonce if is_planned else (new.metadata.uid if new.metadata else None)
    if not uid:
        raise ReviewError(_MISSING_UID)
    operation = Operation.CREATE if request.old_object is None else Operation.UPDATE
    return ChargedConsumer(uid, request.namespace, request.name, nonce, operation, request.dry_run, kind)


def _find_missing_limits(
    pod: Pod, charge: CapCharge, before: Charge, after: Charge, planned: PodDefaults | None
) -> list[tuple[str, Problem]]:
    """Return name and problem for each limit that the pod lacks and did not lack before."""
    old_unlimited = {name: set(containers) for name, containers in before.unlimited.items()}
    new_unlimited = {
        name: tuple(container for container in containers if container not in old_unlimited.get(name, ()))
        for name, containers in (after.unlimited.items() if planned is None else list_unlimited(after, pod, planned))
    }
    return [
        (name, create_missing_limit_problem(charge.cap, name, containers, pod))
        for name, containers in new_unlimited.items()
        if containers
    ]


def list_unlimited(charge: Charge, pod: Pod, defaults: PodDefaults) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names of which containers of a new pod surely lack the limit, or a factor, and these containers."""
    for name, containers in charge.unlimited.items():
        if surely := tuple(container for container in containers if not may_be_limited(pod, name, container, defaults)):
            yield name, surely


def may_be_limited(pod: Pod, name: str, container: str, defaults: PodDefaults) -> bool:
    """Return whether a container may get a limit by a LimitRange that is not known."""
    return name.startswith(LIMITS_PREFIX) and defaults.may_limit(pod, name.removeprefix(LIMITS_PREFIX), container)
