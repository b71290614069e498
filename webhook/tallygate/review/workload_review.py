"""The review of a workload: forecasts of caps and quotas on its pods, and its charge if a cap admits it as a whole."""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from tallygate.accounting.amounts import NO_AMOUNTS
from tallygate.accounting.problem import Problem
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.kinds import REVIEW_TARGETS, SCALABLE_KINDS, ReviewTarget, find_review_target
from tallygate.admission.rule_codes import WORKLOAD_OVER_CAP
from tallygate.objects.core import ResourceQuota
from tallygate.objects.meta import ObjectMeta, PartialObjectMetadata
from tallygate.policy.model import ForecastEnforcement
from tallygate.review.applied_workload import (
    ForecastWorkload,
    add_affinities,
    add_claims,
    count_daemon_pods,
    decode_workloads,
    leave_out_unreadable,
)
from tallygate.review.cap_reach import GuaranteeFinder
from tallygate.review.charged_requests import RequestCharges, compute_pod_charge
from tallygate.review.claim_forecast import counts_devices, describe_unknown, describe_unseen_classes, is_controlled
from tallygate.review.gpu_annotation_review import find_uncounted_of_workload
from tallygate.review.outcome import Outcome
from tallygate.review.quota_forecast import name_limits
from tallygate.review.scale_requests import resolve_scale
from tallygate.review.view import ClusterView
from tallygate.review.whole_workloads import (
    compute_workload_charges,
    describe_unwatched,
    drop_counted_by_owners,
    read_none,
    select_whole_caps,
)
from tallygate.review.workload_forecast import describe_unknown_count, describe_unknown_defaults, forecast_cap
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey

_METADATA = msgspec.json.Decoder(PartialObjectMetadata)


class ReviewedWorkload(msgspec.Struct, frozen=True):
    """The problems that deny a workload, its warnings, a message on what was not evaluated, and its charges.

    It has charges if caps admit it as a whole, and it starts more pods than before.
    """

    denied: Sequence[Problem]
    warnings: Sequence[Problem]
    unknown: str = ""
    charges: RequestCharges | None = None


def resolve_scaled_workload(outcome: Outcome, view: ClusterView) -> Outcome | None:
    """Return the outcome for the update that a scale request stands for; None if no limit concerns it.

    Raises:
        ReviewError: if an object is not a Scale.
        UnreadableWorkloadError: if the workload cannot be read, and a cap may admit it as a whole.
    """
    caps, resource = outcome.policy_set.caps, outcome.request.resource
    if view.workload_reader is None or not (caps or view.quotas is not None):
        return None
    has_whole_caps = any(cap.definition.admits_whole for cap in caps.list_caps())
    starts_together = REVIEW_TARGETS[resource[0], SCALABLE_KINDS[resource]].starts_together
    must_be_read = has_whole_caps and starts_together and view.owner_chains is not None
    request = resolve_scale(outcome.request, view.workload_reader, must_be_read=must_be_read)
    return None if request is None else replace(outcome, request=request)


def review_workload(
    outcome: Outcome,
    caps: Sequence[ActiveCap],
    view: ClusterView,
    nonce: Callable[[], str],
    read_ledger: Callable[[LedgerKey], Ledger | None],
) -> ReviewedWorkload | None:
    """Return the forecasts and charges of the workload in a request; None if no limit concerns it.

    The forecasts are warnings; a permanent one is a denial if the cap enforces forecasts by deny. Without a
    `count_daemon_pods` of the view a DaemonSet has one pod, the least. Without `owner_chains`, no workload is admitted
    as a whole.

    Raises:
        ReviewError: if the object is not of the kind that it states.
        UnreadableOwnerError: if the workload that controls this one cannot be read.
        UndecidedChargeError: if a cap admits it as a whole, and pods that it starts name a class or a template of
            claims that is not seen.
    """
    request, targets, unknown = outcome.request, outcome.policy_set.rules.targets, ""
    forecaster = view.quota_forecaster
    quotas = forecaster.list_quotas(request.namespace) if forecaster is not None else ()
    # The target is looked up again: the request of a scale request is that of another kind than the one in the review.
    pod_target = find_review_target(request, targets) if outcome.policy_set.caps or quotas else None
    if pod_target is None:
        return None
    whole_caps = select_whole_caps(pod_target, caps)
    unwatched_caps = whole_caps if view.owner_chains is None else ()
    if unwatched_caps:
        whole_caps = ()
    # A workload that another one controls is decoded only under a whole cap: it may have to reserve for itself.
    workload, old_workload = _decode(outcome, pod_target, quotas, view, with_controlled=bool(whole_caps))
    if workload is None:
        return None
    if unwatched_caps and workload.pod_count:
        unknown = describe_unwatched(unwatched_caps, request.kind)
    metadata = _METADATA.decode(request.object).metadata if whole_caps else None
    by_quotas = forecaster is not None and forecaster.counts_claims(quotas)
    least = view.start_least_amounts()
    forecast_caps = [cap for cap in caps if cap.definition.workloads is not ForecastEnforcement.IGNORE]
    # Templates of claims are looked up only for limits that count claims: a watch may wait for an unknown one.
    limits = name_limits(has_caps=counts_devices((*forecast_caps, *whole_caps), least), has_quotas=by_quotas)
    if view.claim_templates is not None and limits:
        workload, old_workload = add_claims(workload, old_workload, request.namespace, view.claim_templates, least)
    # Before the forecasts, which are of no use while it is not known what the workload counts.
    charges = compute_workload_charges(request, workload, old_workload, whole_caps, nonce)
    if is_controlled(metadata):
        # No user reads warnings about it, and the forecasts are those of its controller.
        if charges is not None:
            charges = _drop_counted_by_owners(charges, metadata, outcome, view)
        return ReviewedWorkload((), (), charges=charges)
    guarantees = view.create_guarantee_finder(request.namespace, read_ledger)
    by_cap = [(cap, cap in whole_caps) for cap in forecast_caps]
    denied, warnings = _forecast(workload, old_workload, by_cap, guarantees)
    if forecaster is not None:
        warnings += forecaster.forecast_workload(workload, old_workload, quotas)
    return ReviewedWorkload(denied, warnings, unknown or _describe_unknown(workload, forecast_caps, limits), charges)


def _describe_unknown(workload: ForecastWorkload, caps: Sequence[ActiveCap], limits: str) -> str:
    """Return one message on what is unknown: the one that makes most of the forecasts uncertain; else empty."""
    if workload.unreadable:
        return (
            f"the pods of {workload.unreadable} were compared with no limit: a value there cannot be read as a "
            "quantity, so that they are rejected"
        )
    if message := describe_unknown(workload.unknown_claims, limits):
        return message
    claims = (claim for pods in workload.pod_sets for claim in pods.kinds_of_claims)
    templates = (pods.view.pod for pods in workload.pod_sets)
    if message := describe_unseen_classes(caps, claims, templates):
        return message
    if message := next(describe_unknown_defaults(workload, caps, compute_pod_charge), ""):
        return message
    return describe_unknown_count(workload, caps, compute_pod_charge)


def _decode(
    outcome: Outcome,
    pod_target: ReviewTarget,
    quotas: Sequence[ResourceQuota],
    view: ClusterView,
    *,
    with_controlled: bool,
) -> tuple[ForecastWorkload | None, ForecastWorkload | None]:
    """Return the workload of a request and the one that it replaces, with what is not in their templates alone.

    These are the pods of a DaemonSet on all nodes, and the affinity by which a quota may select the pods. Pods that no
    API server stores are left out.
    """
    request, implied = outcome.request, outcome.implied
    new, old = decode_workloads(request, pod_target, implied=implied, with_controlled=with_controlled)
    new, old = new and leave_out_unreadable(new), old and leave_out_unreadable(old)
    if view.quota_forecaster is not None and view.quota_forecaster.selects_by_affinity(quotas):
        new = new and add_affinities(new, request.object)
        old = old and add_affinities(old, request.old_object)
    kind, count = (request.group, request.kind), view.count_daemon_pods
    return (
        new and count_daemon_pods(new, kind, request.object, implied, count),
        old and count_daemon_pods(old, kind, request.old_object, implied, count),
    )


def _drop_counted_by_owners(
    charges: RequestCharges, metadata: ObjectMeta | None, outcome: Outcome, view: ClusterView
) -> RequestCharges | None:
    assert view.owner_chains is not None  # noqa: S101  # there are whole caps
    assert view.workload_reader is not None  # noqa: S101  # the chains read by it
    targets = outcome.policy_set.rules.targets
    controllers = view.owner_chains.list_controllers(charges.consumer.namespace, metadata, targets)
    return drop_counted_by_owners(charges, controllers, targets, view.workload_reader, outcome.implied)


def _forecast(
    workload: ForecastWorkload,
    old_workload: ForecastWorkload | None,
    caps: Sequence[tuple[ActiveCap, bool]],
    guarantees: GuaranteeFinder,
) -> tuple[list[Problem], list[Problem]]:
    """Return the problems that deny a workload, and its warnings.

    Each cap is given with whether it admits the workload as a whole: then the charge decides about its amounts.
    """
    denied: list[Problem] = []
    warnings: list[Problem] = []
    for cap, is_whole in caps:
        compute_charge = partial(compute_pod_charge, cap)
        before = old_workload.sum_charges(cap, compute_charge) if old_workload else NO_AMOUNTS
        read = read_none if is_whole else partial(guarantees.read_ledger, cap)
        for forecast in forecast_cap(workload, cap, compute_charge, before, read, guarantees):
            if is_whole and forecast.problem.code == WORKLOAD_OVER_CAP:
                continue
            denies = forecast.permanent and cap.definition.workloads is ForecastEnforcement.DENY
            (denied if denies else warnings).append(forecast.problem)
    warnings += find_uncounted_of_workload([cap for cap, _ in caps], workload.pod_sets)
    return denied, warnings
