"""Workloads whose pods start together, under caps with `admit: whole` (rule 11 of docs/design/caps.md).

The creation of such a workload, and each change that starts more pods, reserves the amounts of all its pods under its
own UID, or is denied. A workload that another one controls, such as a Job of a JobSet, reserves nothing: the other one
has reserved for its pods. Devices that a claim gets by attributes are not reserved: they are decided by their
allocation.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, format_amount
from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.problem import Problem, Reason
from tallygate.accounting.validation.unreadable import is_pod_readable
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.class_view import UnseenClass
from tallygate.admission.implied_requests import NO_IMPLIED, ImpliedRequests
from tallygate.admission.kinds import ReviewTarget, ReviewTargets
from tallygate.admission.request import AdmissionRequest, ReviewError
from tallygate.admission.rule_codes import WORKLOAD_NOT_WHOLE
from tallygate.cluster.consumer_sums import describe_consumers
from tallygate.errors import TallygateError
from tallygate.kube.resource_codec import parse_revision
from tallygate.objects.core import Pod
from tallygate.objects.meta import PartialObjectMetadata
from tallygate.review import charged_requests
from tallygate.review.applied_workload import ForecastPods, ForecastWorkload, sum_pod_sets
from tallygate.review.cap_charge import CapCharge, CapChargeResult, ChargedConsumer
from tallygate.review.cap_messages import (
    ExcessDescriber,
    describe_guaranteed,
    describe_larger_limit,
    describe_no_excess,
    describe_scope,
    describe_wait,
    find_hard,
    find_reach,
)
from tallygate.review.cap_reach import Reach, describe_reach
from tallygate.review.claim_forecast import counts_devices
from tallygate.review.owner_chain import POD_GROUP_KIND, POD_GROUPS, Controller, UnreadableOwnerError
from tallygate.review.scale_requests import WorkloadReader
from tallygate.state.ledger.ledger import Operation, Reservation
from tallygate.state.ledger.reserve import WorkloadTerms

_END_CONDITIONS = frozenset({"Complete", "Completed", "Failed", "Finished", "Succeeded"})
_TRUE = "True"
_UNKNOWN_REVISION = 0
_METADATA = msgspec.json.Decoder(PartialObjectMetadata)


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class _StatusFields(msgspec.Struct, frozen=True):
    status: _Status | None = None


_STATUS = msgspec.json.Decoder(_StatusFields)


def select_whole_caps(target: ReviewTarget, caps: Sequence[ActiveCap]) -> tuple[ActiveCap, ...]:
    """Return the caps under which a workload of this kind is admitted as a whole."""
    if not target.starts_together:
        return ()
    return tuple(cap for cap in caps if cap.definition.admits_whole and cap.hard)


def describe_unwatched(caps: Sequence[ActiveCap], kind: str) -> str:
    """Return the message of a gate that watches no cluster: nothing would show that pods are stored, or never come."""
    return (
        f"cap {caps[0].definition.name} admits a {kind} as a whole only where the gate watches the cluster "
        "(--cluster); here its pods are decided one by one"
    )


def read_none() -> None:
    """Return None in place of a ledger: under a cap that admits a workload as a whole, the charge itself reads it."""


def drop_counted_by_owners(
    request_charges: charged_requests.RequestCharges,
    controllers: Sequence[Controller],
    targets: ReviewTargets,
    reader: WorkloadReader,
    implied: ImpliedRequests = NO_IMPLIED,
) -> charged_requests.RequestCharges | None:
    """Return the charges of a workload without those under caps that one of its controllers reserves under; or None.

    A controller that starts together reserves for all pods itself, if its own templates state what they request: those
    of an AppWrapper may be of a kind that is not read.

    Raises:
        UnreadableOwnerError: if a controller cannot be read.
    """
    charges = list(request_charges.charges)
    for controller in controllers:
        target = targets.get((controller.group, controller.kind))
        if charges and target is not None and target.starts_together:
            pods = _list_pods(reader, request_charges.consumer.namespace, controller, target)
            charges = [
                charge for charge in charges if not any(_counts_pod(charge.cap, implied.complete(pod)) for pod in pods)
            ]
    return replace(request_charges, charges=charges) if charges else None


def _list_pods(reader: WorkloadReader, namespace: str, controller: Controller, target: ReviewTarget) -> list[Pod]:
    resource = (controller.group, controller.version, controller.resource)
    try:
        content = reader.read_workload(resource, namespace, controller.name)
        views = target.list_pods(target.decode(content)) if content is not None else ()
    except (TallygateError, ValueError, RecursionError) as error:
        raise UnreadableOwnerError(controller, namespace, error) from error
    return [view.pod for view in views if is_pod_readable(view.pod.spec)]


def _counts_pod(cap: ActiveCap, pod: Pod) -> bool:
    """Return whether a cap counts something of a pod, or of a claim for it."""
    has_claims = pod.spec is not None and bool(pod.spec.resource_claims)
    return (
        has_claims
        or charged_requests.examine_pod_classes(cap, pod).may_count
        or bool(charged_requests.compute_pod_charge(cap, pod).amounts)
    )


def compute_workload_charges(
    request: AdmissionRequest,
    workload: ForecastWorkload,
    old_workload: ForecastWorkload | None,
    caps: Sequence[ActiveCap],
    nonce: Callable[[], str],
) -> charged_requests.RequestCharges | None:
    """Return the charges of a workload as a whole under these caps; None if it starts no more pods than before.

    Raises:
        ReviewError: if the object has no UID.
        UndecidedChargeError: if it starts more pods than before that name a class or a template of claims which is not
            seen.
    """
    charges, starts_pods = [], _starts_other_pods(workload, old_workload)
    for cap in caps:
        _require_seen_classes(workload, old_workload, cap)
        _require_seen_template(workload, old_workload, cap)
        charge_under = partial(_charge_under, request=request, workload=workload, old_workload=old_workload)
        charge = charge_under(cap)
        if starts_pods and any(_may_count_by_mapping(pods, cap) for pods in workload.pod_sets):
            charge = replace(charge, charge_under=charge_under)
        if charge.charge_under is not None or charge.requested.find_shortfall(charge.current):
            charges.append(charge)
    if not charges:
        return None
    meta = _METADATA.decode(request.object)
    if meta.metadata is None or not meta.metadata.uid:
        raise ReviewError("object.metadata.uid is empty: caps are charged in the validating webhook, where it is set")
    consumer = ChargedConsumer(
        meta.metadata.uid,
        request.namespace,
        meta.metadata.name or request.name,
        nonce(),
        Operation.CREATE if request.old_object is None else Operation.UPDATE,
        request.dry_run,
        ConsumerKind.WORKLOAD,
        workload=WorkloadTerms(f"{meta.api_version}/{request.kind}"),
    )
    return charged_requests.RequestCharges(consumer, charges, pod_count=workload.pod_count)


def _starts_other_pods(workload: ForecastWorkload, old_workload: ForecastWorkload | None) -> bool:
    """Return whether the pods of a workload, or their number, differ from those before."""
    if old_workload is None or workload.is_rollout:
        return True
    counts, before = ([pod_set.replicas.count for pod_set in known.pod_sets] for known in (workload, old_workload))
    return counts != before


def _require_seen_classes(workload: ForecastWorkload, old_workload: ForecastWorkload | None, cap: ActiveCap) -> None:
    """Check that the classes are seen which decide what the pods count that a workload starts.

    Raises:
        UndecidedChargeError: if one is not.
    """
    unseen = [(pods.replicas.count, each) for pods in workload.pod_sets if (each := _find_unseen_class(pods, cap))]
    old_sets = old_workload.pod_sets if old_workload is not None else ()
    count_before = sum(pods.replicas.count for pods in old_sets if _find_unseen_class(pods, cap))
    if sum(count for count, _ in unseen) > count_before:
        charged_requests.require_seen_class(cap, next(found_class for count, found_class in unseen if count))


def _require_seen_template(workload: ForecastWorkload, old_workload: ForecastWorkload | None, cap: ActiveCap) -> None:
    """Check that the templates are seen by which claims are made for the pods that a workload starts.

    Without their amounts the workload would be admitted, and its claims be decided one by one.

    Raises:
        UndecidedChargeError: if one is not, and the cap counts claims.
    """
    name = workload.unknown_claims.unseen_template
    if not name or not counts_devices((cap,), None):
        return
    count_before = old_workload.pod_count if old_workload is not None else 0
    if workload.pod_count > count_before or (workload.is_rollout and workload.pod_count):
        raise charged_requests.UndecidedChargeError(cap.definition.name, charged_requests.UnseenTemplate(name))


def _find_unseen_class(pods: ForecastPods, cap: ActiveCap) -> UnseenClass | None:
    """Return a class that is not seen, and decides what pods of a template, or the claims for them, count."""
    of_claims = map(cap.find_unseen_class_of_claim, pods.kinds_of_claims)
    return charged_requests.examine_pod_classes(cap, pods.template).unseen or next(filter(None, of_claims), None)


def _may_count_by_mapping(pods: ForecastPods, cap: ActiveCap) -> bool:
    """Return whether pods of a template, or the claims for them, may count by another mapping of a class."""
    of_claims = any(cap.may_count_claim_by_mapping(claim) for claim in pods.kinds_of_claims)
    return of_claims or charged_requests.examine_pod_classes(cap, pods.template).may_count


def _charge_under(
    cap: ActiveCap, request: AdmissionRequest, workload: ForecastWorkload, old_workload: ForecastWorkload | None
) -> CapCharge:
    """Return the charge of a workload as a whole under a cap, by the mappings of classes that the cap counts by."""
    current = _sum_charges(old_workload, cap) if old_workload is not None else NO_AMOUNTS
    return CapCharge(cap, current, _sum_charges(workload, cap), charged_requests.may_exceed(cap, request))


def _sum_charges(workload: ForecastWorkload, cap: ActiveCap) -> Amounts:
    return sum_pod_sets(
        (
            pods.replicas,
            charged_requests.compute_pod_charge(cap, pods.template).amounts + pods.claims.compute_charge(cap),
        )
        for pods in workload.pod_sets
    ) + workload.sum_shared(cap)


def create_whole_problems(
    result: CapChargeResult, kind: str, pod_count: int, describe_excess: ExcessDescriber = describe_no_excess
) -> Iterator[Problem]:
    """Yield one problem for each resource of which the pods of a workload of this kind together exceed a cap."""
    noun = "pod requests" if pod_count == 1 else "pods request"
    return _create_problems(result, f"a {kind}", f"its {pod_count} {noun}", "start fewer pods", describe_excess)


def create_gang_problems(
    result: CapChargeResult, name: str, describe_excess: ExcessDescriber = describe_no_excess
) -> Iterator[Problem]:
    """Yield one problem for each resource of which the pods of the PodGroup of a new pod together exceed a cap."""
    count = result.gang_pods
    pods = "its last pod of minCount" if count == 1 else f"{count} pods like this one, for its minCount,"
    verb = "requests" if count == 1 else "request"
    return _create_problems(result, f"the PodGroup {name}", f"{pods} {verb}", "lower its minCount", describe_excess)


def _create_problems(
    result: CapChargeResult, subject: str, pods_request: str, remedy: str, describe_excess: ExcessDescriber
) -> Iterator[Problem]:
    """Yield one problem for each resource of which pods together exceed a cap.

    `subject` is what the cap admits as a whole, `pods_request` the pods with their verb, `remedy` how they get fewer.
    """
    cap = result.charge.cap
    for name in sorted(result.excess):
        details = describe_excess(result, name)
        consumers = f"; top consumers: {describe_consumers(name, details.consumers)}" if details.consumers else ""
        used, reserved, hard = (
            result.before.used.get(name, 0),
            result.before.reserved.get(name, 0),
            find_hard(result, name),
        )
        amount, free = result.charge.requested.get(name, 0), max(hard - used - reserved, 0)
        reach = find_reach(result, name)
        started = result.charge.current.get(name, 0)
        more = f", {format_amount(name, amount - started)} more than now" if started else ""
        end = _describe_end(cap, name, reach, amount, remedy)
        expiry = f"; unused reservations expire within {details.expires_within} s" if details.expires_within else ""
        text = (
            f"cap {cap.definition.name} {describe_scope(cap)} admits {subject} as a whole or not at all: "
            f"{pods_request} {format_amount(name, amount)} {name}{more}, used {format_amount(name, used)}, "
            f"reserved {format_amount(name, reserved)}, hard {cap.limits.describe(name, hard)}, free "
            f"{format_amount(name, free)}{describe_guaranteed(result, name, free)}{consumers}. {end}{expiry}"
        )
        yield Problem(
            "",
            WORKLOAD_NOT_WHOLE,
            Reason.FORBIDDEN,
            text,
            value=format_amount(name, amount),
            rule=cap.definition.name,
            policy_kind="cap",
        )


def _describe_end(cap: ActiveCap, name: str, reach: Reach, amount: int, remedy: str) -> str:
    """Return what a rejected workload waits for, or that it never has room, with the reason and the remedy."""
    if amount > reach.ever:
        need = f"It needs {format_amount(name, amount)} at a time, which the cap never allows"
        reason = describe_reach(cap, name, reach, amount)
        return f"{need}. {reason}{remedy[0].upper()}{remedy[1:]}" if reason else f"{need}: {remedy}"
    if amount > reach.now:
        return f"Wait until {describe_larger_limit(cap, name)}, or {remedy}"
    return f"Wait until {describe_wait(cap, name)}, or {remedy}"


def read_workload_state(
    reader: WorkloadReader, get_targets: Callable[[], ReviewTargets], uid: str, reservation: Reservation
) -> tuple[int | None, bool]:
    """Return the revision of the workload of a reservation, None if it does not exist, and whether it may start pods.

    A workload that cannot be read may start some: its reservation ends after a while, whatever becomes of it.
    """
    api_version, _, kind = reservation.workload_kind.rpartition("/")
    group, _, version = api_version.rpartition("/")
    targets = get_targets()
    target = targets.get((group, kind))
    is_group = (group, kind) == POD_GROUP_KIND
    plural = POD_GROUPS if is_group else target.plural if target is not None else ""
    if not plural:
        return None, False
    try:
        content = reader.read_workload((group, version, plural), reservation.namespace, reservation.name)
        meta = _METADATA.decode(content).metadata if content is not None else None
        if content is None or meta is None or meta.uid != uid:
            return None, False
        # a PodGroup has no end of its own: its pods may come as long as it is stored
        may_start = _may_start_pods(content, target) if target is not None else meta.deletion_timestamp is None
        return parse_revision(meta.resource_version or ""), may_start
    except (TallygateError, ValueError, RecursionError):
        return _UNKNOWN_REVISION, True


def _may_start_pods(content: bytes, target: ReviewTarget) -> bool:
    """Return whether the controller of a stored workload may still make pods, given the JSON of the object.

    It makes none of a workload that is suspended, has finished or is being deleted.

    Raises:
        ValueError: if the object is not of its kind.
    """
    meta = _METADATA.decode(content).metadata
    if meta is not None and meta.deletion_timestamp is not None:
        return False
    status = _STATUS.decode(content).status or _Status()
    if any(condition.type in _END_CONDITIONS and condition.status == _TRUE for condition in status.conditions or ()):
        return False
    return any(view.replicas is not None and view.replicas.count for view in target.list_pods(target.decode(content)))
