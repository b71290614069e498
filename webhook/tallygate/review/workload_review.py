"""The review of a workload: forecasts of caps and quotas on its pods, and its charge if a cap admits it as a whole."""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.devices.least_amounts import LeastAmounts
from tallygate.accounting.problem import Problem
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.kinds import REVIEW_TARGETS, SCALABLE_KINDS, ReviewTarget, find_review_target
from tallygate.admission.rule_codes import WORKLOAD_OVER_CAP
from tallygate.cluster.usage_lister import get_ledger_key
from tallygate.objects.core import ResourceQuota
from tallygate.objects.meta import ObjectMeta, PartialObjectMetadata
from tallygate.policy.model import ForecastEnforcement
from tallygate.review.applied_workload import (
    DaemonPodCounter,
    ForecastWorkload,
    add_affinities,
    add_claims,
    count_daemon_pods,
    decode_workloads,
)
from tallygate.review.charged_requests import RequestCharges, compute_pod_charge
from tallygate.review.claim_forecast import (
    ClaimTemplateLister,
    counts_devices,
    describe_unknown,
    describe_unseen_classes,
    is_controlled,
)
from tallygate.review.context import ReviewContext
from tallygate.review.gpu_annotation_review import find_uncounted_of_workload
from tallygate.review.owner_chain import OwnerChains
from tallygate.review.quota_forecast import QuotaForecaster, name_limits
from tallygate.review.scale_requests import WorkloadReader, resolve_scale
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


class WorkloadReviewer:
    """The review of workloads, with the parts of a gate that it needs.

    `read_ledger` returns the ledger of a key before a deadline, or None if it is unavailable. Without
    `count_daemon_pods` a DaemonSet has one pod, the least. Without `owner_chains`,
    no workload is admitted as a whole.
    """

    def __init__(  # noqa: PLR0913  # ports, each by its name
        self,
        *,
        quotas: QuotaForecaster | None,
        claim_templates: ClaimTemplateLister | None,
        least_amounts: LeastAmounts | None,
        owner_chains: OwnerChains | None,
        workload_reader: WorkloadReader | None,
        read_ledger: Callable[[LedgerKey, float], Ledger | None],
        nonce: Callable[[], str],
        count_daemon_pods: DaemonPodCounter | None,
    ) -> None:
        self._count_daemon_pods = count_daemon_pods
        self._quotas = quotas
        self._claim_templates = claim_templates
        self._least_amounts = least_amounts
        self._owner_chains = owner_chains
        self._workload_reader = workload_reader
        self._read_ledger = read_ledger
        self._nonce = nonce

    def resolve_scale(self, context: ReviewContext) -> ReviewContext | None:
        """Return the review of the update that a scale request stands for; None if no limit concerns it.

        Raises:
            ReviewError: if an object is not a Scale.
            UnreadableWorkloadError: if the workload cannot be read, and a cap may admit it as a whole.
        """
        if self._workload_reader is None or not (context.policy_set.caps or self._quotas is not None):
            return None
        kind = context.request.resource[0], SCALABLE_KINDS[context.request.resource]
        has_whole_caps = any(cap.definition.admits_whole for cap in context.policy_set.caps.list_caps())
        must_be_read = has_whole_caps and REVIEW_TARGETS[kind].starts_together and self._owner_chains is not None
        request = resolve_scale(context.request, self._workload_reader, must_be_read=must_be_read)
        return None if request is None else replace(context, request=request)

    def review(self, context: ReviewContext, caps: Sequence[ActiveCap], deadline: float) -> ReviewedWorkload | None:
        """Return the forecasts and charges of the workload in a request; None if no limit concerns it.

        The forecasts are warnings; a permanent one is a denial if the cap enforces forecasts by deny.

        Raises:
            ReviewError: if the object is not of the kind that it states.
            UnreadableOwnerError: if the workload that controls this one cannot be read.
            UndecidedChargeError: if a cap admits it as a whole, and pods that it starts name a class or a template of
                claims that is not seen.
        """
        request, targets, unknown = context.request, context.policy_set.rules.targets, ""
        quotas = self._quotas.list_quotas(request.namespace) if self._quotas is not None else ()
        pod_target = find_review_target(request, targets) if context.policy_set.caps or quotas else None
        if pod_target is None:
            return None
        whole_caps = select_whole_caps(pod_target, caps)
        unwatched_caps = whole_caps if self._owner_chains is None else ()
        if unwatched_caps:
            whole_caps = ()
        workload, old_workload = self._decode(context, pod_target, quotas, with_controlled=bool(whole_caps))
        if workload is None:
            return None
        if unwatched_caps and workload.pod_count:
            unknown = describe_unwatched(unwatched_caps, request.kind)
        metadata = _METADATA.decode(request.object).metadata if whole_caps else None
        by_quotas = self._quotas is not None and self._quotas.counts_claims(quotas)
        review = None if self._least_amounts is None else self._least_amounts.start_review()
        forecast_caps = [cap for cap in caps if cap.definition.workloads is not ForecastEnforcement.IGNORE]
        limits = name_limits(has_caps=counts_devices((*forecast_caps, *whole_caps), review), has_quotas=by_quotas)
        if self._claim_templates is not None and limits:
            workload, old_workload = add_claims(
                workload, old_workload, request.namespace, self._claim_templates, review
            )
        charges = compute_workload_charges(request, workload, old_workload, whole_caps, self._nonce)
        if is_controlled(metadata):
            if charges is not None:
                charges = self._drop_counted_by_owners(charges, metadata, context)
            return ReviewedWorkload((), (), charges=charges)
        by_cap = [(cap, cap in whole_caps) for cap in forecast_caps]
        denied, warnings = self._forecast(request.namespace, workload, old_workload, by_cap, deadline)
        if self._quotas is not None:
            warnings += self._quotas.forecast_workload(workload, old_workload, quotas)
        unknown = unknown or describe_unknown(workload.unknown_claims, limits)
        claims = (claim for pods in workload.pod_sets for claim in pods.claims.claims)
        pods = (each.view.pod for each in workload.pod_sets)
        unknown = unknown or describe_unseen_classes(forecast_caps, claims, pods)
        unknown = unknown or next(describe_unknown_defaults(workload, forecast_caps, compute_pod_charge), "")
        unknown = unknown or describe_unknown_count(workload, forecast_caps, compute_pod_charge)
        return ReviewedWorkload(denied, warnings, unknown, charges)

    def _decode(
        self,
        context: ReviewContext,
        pod_target: ReviewTarget,
        quotas: Sequence[ResourceQuota],
        *,
        with_controlled: bool,
    ) -> tuple[ForecastWorkload | None, ForecastWorkload | None]:
        """Return the workload of a request and the one that it replaces, with what is not in their templates alone.

        These are the pods of a DaemonSet on all nodes, and the affinity by which a quota may select the pods.
        """
        request, implied = context.request, context.implied
        new, old = decode_workloads(request, pod_target, implied=implied, with_controlled=with_controlled)
        if self._quotas is not None and self._quotas.selects_by_affinity(quotas):
            new = new and add_affinities(new, request.object)
            old = old and add_affinities(old, request.old_object)
        kind, count = (request.group, request.kind), self._count_daemon_pods
        return (
            new and count_daemon_pods(new, kind, request.object, implied, count),
            old and count_daemon_pods(old, kind, request.old_object, implied, count),
        )

    def _drop_counted_by_owners(
        self, charges: RequestCharges, metadata: ObjectMeta | None, context: ReviewContext
    ) -> RequestCharges | None:
        assert self._owner_chains is not None  # noqa: S101  # there are whole caps
        assert self._workload_reader is not None  # noqa: S101  # the chains read by it
        targets = context.policy_set.rules.targets
        controllers = self._owner_chains.list_controllers(charges.consumer.namespace, metadata, targets)
        return drop_counted_by_owners(charges, controllers, targets, self._workload_reader, context.implied)

    def _forecast(
        self,
        namespace: str,
        workload: ForecastWorkload,
        old_workload: ForecastWorkload | None,
        caps: Sequence[tuple[ActiveCap, bool]],
        deadline: float,
    ) -> tuple[list[Problem], list[Problem]]:
        """Return the problems that deny a workload, and its warnings.

        Each cap is given with whether it admits the workload as a whole: then the charge decides about its amounts.
        """
        denied: list[Problem] = []
        warnings: list[Problem] = []
        for cap, is_whole in caps:
            read_ledger = partial(self._read_ledger, get_ledger_key(cap, namespace), deadline)
            compute_charge = partial(compute_pod_charge, cap)
            before = old_workload.sum_charges(cap, compute_charge) if old_workload else Amounts()
            read = read_none if is_whole else read_ledger
            for forecast in forecast_cap(workload, cap, compute_charge, before, read):
                if is_whole and forecast.problem.code == WORKLOAD_OVER_CAP.number:
                    continue
                denies = forecast.permanent and cap.definition.workloads is ForecastEnforcement.DENY
                (denied if denies else warnings).append(forecast.problem)
        warnings += find_uncounted_of_workload([cap for cap, _ in caps], workload.pod_sets)
        return denied, warnings
