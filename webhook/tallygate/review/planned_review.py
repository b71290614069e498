"""The limits of an object that is read from a file: the charges and forecasts for all its pods at once.

What caps and quotas count of the objects before it is in the view and in the ledgers. Without a snapshot nothing is
used: each finding is then true at any time, and others may be missing. All that is not known is listed.

Nothing is reserved under a cap by allocated devices before kube-scheduler allocates them, so each object is compared
there with the amounts of the snapshot alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, format_amount
from tallygate.accounting.names import DEVICE_CLASS_PREFIX, is_extended
from tallygate.accounting.problem import Problem
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.kinds import DecodedRequest, ReviewTarget
from tallygate.admission.pod_view import PodView, ReplicaCount
from tallygate.admission.request import AdmissionRequest
from tallygate.admission.rule_codes import WORKLOAD_OVER_CAP
from tallygate.admission.rule_index import Labels
from tallygate.cluster.usage_lister import get_ledger_key
from tallygate.objects.core import Pod
from tallygate.objects.devices import ResourceClaim, ResourceClaimTemplate
from tallygate.policy.model import ForecastEnforcement
from tallygate.review import applied_workload, claim_forecast
from tallygate.review.cap_charge import CapCharge, ChargedConsumer, ChargeResult
from tallygate.review.cap_reach import GuaranteeFinder
from tallygate.review.charged_requests import RequestCharges, compute_request_charges
from tallygate.review.gpu_annotation_review import find_uncounted_of_workload
from tallygate.review.outcome import Outcome, describe_unlabelled
from tallygate.review.planned_pods import PlannedPods, PlannedState, StoredPods
from tallygate.review.quota_forecast import ExpectedClaims
from tallygate.review.stored_objects import read_no_ledger
from tallygate.review.view import ClusterView
from tallygate.review.whole_workloads import read_none, select_whole_caps
from tallygate.review.workload_forecast import describe_unknown_defaults, forecast_cap
from tallygate.state.ledger.ledger import Ledger, Operation
from tallygate.state.ports import LedgerKey


@dataclass(frozen=True, slots=True)
class PlannedLimits:
    """The review of one object by caps and quotas, after the rules."""

    view: ClusterView
    decoded_request: DecodedRequest
    labels: Labels | None
    nonce: Callable[[], str]
    read_ledger: Callable[[LedgerKey], Ledger | None]
    planned: PlannedState

    def review(self, outcome: Outcome) -> Outcome:
        """Return the outcome with charges and forecasts."""
        request, target = outcome.request, self.decoded_request.target
        if target is None or not outcome.verdict.is_allowed:
            return outcome
        matching = outcome.policy_set.caps.find_matching(request.namespace, self.labels)
        for name in matching.unknown:
            outcome = outcome.warn((), describe_unlabelled(name, request.namespace))
        caps, content = matching.caps, self.decoded_request.get_object(target)
        if isinstance(content, ResourceClaim):
            return self._charge_claim(outcome, content, caps)
        if isinstance(content, ResourceClaimTemplate):
            return outcome.warn(self._forecast_devices(caps))
        forecaster, views = self.view.quota_forecaster, self.decoded_request.list_pods(target)
        if not views or not (caps or (forecaster is not None and forecaster.list_quotas(request.namespace))):
            return outcome
        workload = self._create_workload(views, target)
        if workload is not None:
            return self._review_workload(outcome, self._add_claims(workload, caps), target, caps)
        return self._charge_pod(outcome, views[0], caps) if isinstance(content, Pod) else outcome

    def _create_workload(
        self, views: Sequence[PodView], target: ReviewTarget
    ) -> applied_workload.ForecastWorkload | None:
        """Return the workload in an object, a DaemonSet with its pods on the nodes; None without pods to count."""
        request, implied = self.decoded_request.request, self.decoded_request.implied
        defaults = self.view.find_pod_defaults(request.namespace)
        if self.planned.count is not None:
            replicas = ReplicaCount(self.planned.count)
            pod_sets = tuple(applied_workload.ForecastPods(view, replicas) for view in views)
            return applied_workload.ForecastWorkload(pod_sets, defaults)
        content = self.decoded_request.get_object(target)
        workload = applied_workload.create_workload(content, views, defaults=defaults)
        kind, count = (request.group, request.kind), self.view.count_daemon_pods
        return workload and applied_workload.count_daemon_pods(workload, kind, request.object, implied, count)

    def _charge_claim(self, outcome: Outcome, claim: ResourceClaim, caps: Sequence[ActiveCap]) -> Outcome:
        """Return the outcome for a claim; a stored one is counted already, and its requests never change."""
        request = outcome.request
        if not caps or self.planned.state.claims.find_record(request.namespace, request.name) is not None:
            return outcome
        charges = compute_request_charges(
            self.decoded_request, caps, self.nonce(), planned=self.view.find_pod_defaults(request.namespace)
        )
        forecasts = tuple(self._forecast_devices(caps))
        if charges is None:
            outcome = outcome.warn(forecasts)
        else:
            outcome = outcome.warn(charges.warnings)
            if charges.missing_limits:
                return outcome.reject(charges.missing_limits)
            outcome = msgspec.structs.replace(outcome, charges=charges, warnings=forecasts)
        return _add_unknown(outcome, self._describe_claims(claim_forecast.PodClaims((claim,)), caps))

    def _charge_pod(self, outcome: Outcome, view: PodView, caps: Sequence[ActiveCap]) -> Outcome:
        """Return the outcome for a single pod: a quota without room rejects it, if it is not stored yet."""
        namespace = outcome.request.namespace
        defaults, forecaster = self.view.find_pod_defaults(namespace), self.view.quota_forecaster
        pods = applied_workload.ForecastPods(view, ReplicaCount(1))
        workload = self._add_claims(applied_workload.ForecastWorkload((pods,), defaults), caps)
        (claims,) = (pods.claims for pods in workload.pod_sets)
        stored = self._find_stored(view)
        quotas = forecaster.list_quotas_of_claims(view.pod, namespace) if forecaster is not None else ()
        plan = PlannedPods(workload, (stored,), caps, claims=ExpectedClaims(view.pod, claims, quotas))
        outcome = msgspec.structs.replace(outcome, planned=plan)
        outcome = _add_unknown(outcome, self._list_unknown(workload, caps))
        if forecaster is not None and not stored.pod_count:
            # without its claims, which are made once it is stored
            own = applied_workload.ForecastWorkload((pods,), defaults)
            if rejections := [*forecaster.reject_pod(own, forecaster.list_quotas(namespace))]:
                return outcome.reject(rejections)
        if not caps:
            return outcome
        charges = compute_request_charges(self.decoded_request, caps, self.nonce(), planned=defaults)
        assert charges is not None  # noqa: S101  # no pod is replaced
        outcome = outcome.warn(charges.warnings)
        if charges.missing_limits:
            return outcome.reject(charges.missing_limits)
        guarantees = self._create_guarantee_finder()
        if impossible := [*claim_forecast.forecast_impossible_claims(claims, charges.charges, guarantees)]:
            return outcome.reject(impossible)
        own_charges = [
            msgspec.structs.replace(charge, current=stored.compute_used(charge.cap, claim_forecast.NO_CLAIMS))
            for charge in charges.charges
        ]
        return msgspec.structs.replace(outcome, charges=msgspec.structs.replace(charges, charges=own_charges))

    def _review_workload(
        self,
        outcome: Outcome,
        workload: applied_workload.ForecastWorkload,
        target: ReviewTarget,
        caps: Sequence[ActiveCap],
    ) -> Outcome:
        """Return the outcome for a workload: forecasts, and the charge of all its pods if these find room for them.

        Caps that admit it as a whole decide by the charge, whatever other forecasts say.
        """
        request, forecaster = outcome.request, self.view.quota_forecaster
        whole_caps = select_whole_caps(target, caps)
        stored = tuple(self._find_stored(pods.view) for pods in workload.pod_sets)
        plan = PlannedPods(workload, stored, caps, starts_together=target.starts_together)
        denied, warnings = self._forecast(plan, whole_caps)
        outcome = _add_unknown(outcome, self._list_unknown(workload, caps))
        outcome = outcome.warn(find_uncounted_of_workload(caps, workload.pod_sets))
        if workload.uncounted_kind and not (denied or warnings):
            message = f"caps were not asked: how many pods a {workload.uncounted_kind} makes is not known"
            return outcome.warn((), message)
        quotas = forecaster.list_quotas(request.namespace) if forecaster is not None else ()
        if forecaster is not None and quotas:
            counts = plan.stored_counts
            counted = applied_workload.select_pods(workload, counts) if any(counts) else None
            warnings += forecaster.forecast_workload(workload, counted, quotas)
        plan = replace(plan, has_room=not (denied or warnings))
        outcome = msgspec.structs.replace(outcome.warn(warnings), planned=plan)
        if denied:
            return outcome.reject(denied)
        charges = [plan.charge(workload, cap) for cap in (caps if plan.has_room else whole_caps)]
        if not charges:
            return outcome
        consumer = create_consumer(request, self.nonce())
        pod_count = workload.pod_count if target.starts_together else 0
        return msgspec.structs.replace(outcome, charges=RequestCharges(consumer, charges, pod_count=pod_count))

    def _forecast(self, plan: PlannedPods, whole_caps: Sequence[ActiveCap]) -> tuple[list[Problem], list[Problem]]:
        """Return the problems that deny a workload, and its warnings, as the gate reports them for the applied object.

        The charge decides about the amounts under the caps that admit it as a whole.
        """
        denied, warnings, guarantees = list[Problem](), list[Problem](), self._create_guarantee_finder()
        for cap in plan.caps:
            used, pod_sets = NO_AMOUNTS, []
            for pods, stored in zip(plan.workload.pod_sets, plan.stored, strict=True):
                claims = _select_comparable(pods.claims, cap, stored)
                used += stored.compute_used(cap, claims)
                used += claim_forecast.compute_least(cap, stored.claims, claims.review)
                pod_sets.append(replace(pods, claims=claims))
            is_whole = cap in whole_caps
            compared = replace(plan.workload, pod_sets=tuple(pod_sets))
            read = read_none if is_whole else partial(self._read_ledger_of, cap)
            for forecast in forecast_cap(compared, cap, cap.compute_charge, used, read, guarantees):
                if is_whole and forecast.problem.code == WORKLOAD_OVER_CAP:
                    continue
                denies = forecast.permanent and cap.definition.workloads is ForecastEnforcement.DENY
                (denied if denies or forecast.affects_all else warnings).append(forecast.problem)
        return denied, warnings

    def _find_stored(self, view: PodView) -> StoredPods:
        request = self.decoded_request.request
        return self.planned.find_pods(request.namespace, request.name, view)

    def _add_claims(
        self, workload: applied_workload.ForecastWorkload, caps: Sequence[ActiveCap]
    ) -> applied_workload.ForecastWorkload:
        """Return the pods with the claims that templates make for each; none for a stored pod, as in the gate."""
        templates, by_quotas = self.view.claim_templates, self._counts_claims_by_quotas()
        if templates is None or not (by_quotas or any(map(_may_count_claims, caps))):
            return workload
        pod_sets = []
        for pods in workload.pod_sets:
            if pods.view.is_template or not self._find_stored(pods.view).pod_count:
                namespace, least = self.decoded_request.request.namespace, self.view.start_least_amounts()
                found = claim_forecast.find_template_claims(pods.view, namespace, templates)
                # a user reads the findings about every pod
                claims = msgspec.structs.replace(found.each.with_review(least), is_controlled=False)
                # those of the PodGroup of a Job are made before its pods
                starts = pods.replicas.count > 0 and not self._find_stored(pods.view).pod_count
                shared = found.shared.with_review(least) if starts and not claims.unknown else claim_forecast.NO_CLAIMS
                pods = replace(pods, claims=claims, shared=shared)  # noqa: PLW2901  # the same pods, with more
            pod_sets.append(pods)
        return replace(workload, pod_sets=tuple(pod_sets))

    def _counts_claims_by_quotas(self) -> bool:
        forecaster = self.view.quota_forecaster
        return forecaster is not None and forecaster.counts_claims(
            forecaster.list_quotas(self.decoded_request.request.namespace)
        )

    def _forecast_devices(self, caps: Sequence[ActiveCap]) -> Iterator[Problem]:
        """Yield the forecasts for the devices of the claim, or of the claims of the template."""
        if self.view.least_amounts is not None:
            yield from claim_forecast.forecast_devices(
                self.decoded_request, caps, self.view.least_amounts, self._create_guarantee_finder()
            )

    def _create_guarantee_finder(self) -> GuaranteeFinder:
        return self.view.create_guarantee_finder(self.decoded_request.request.namespace, self.read_ledger)

    def _read_ledger_of(self, cap: ActiveCap) -> Ledger | None:
        return self.read_ledger(get_ledger_key(cap, self.decoded_request.request.namespace))

    def _list_unknown(self, workload: applied_workload.ForecastWorkload, caps: Sequence[ActiveCap]) -> Iterator[str]:
        namespace = self.decoded_request.request.namespace
        for default in describe_unknown_defaults(workload, caps, ActiveCap.compute_charge):
            yield f"{default} in namespace {namespace}"
        for pods in workload.pod_sets:
            yield from self._describe_claims(pods.claims, caps)
            yield from self._describe_claims(pods.shared, caps)
            yield from _describe_unknown_classes(pods.template, caps)

    def _describe_claims(self, claims: claim_forecast.PodClaims, caps: Sequence[ActiveCap]) -> Iterator[str]:
        """Yield a message for claims that are unknown, and for what is not known of the others."""
        if message := claim_forecast.describe_unknown(claims):
            yield f"{message} in namespace {self.decoded_request.request.namespace}"
        for claim in claims.claims:
            for name in self._list_unknown_classes(claim, caps):
                yield (
                    f"claims of class {name} were not compared with the extended resources of caps: the class is "
                    "neither in the manifests nor in the snapshot"
                )
            yield from self._describe_uncompared(claim, caps)

    def _list_unknown_classes(self, claim: ResourceClaim, caps: Sequence[ActiveCap]) -> list[str]:
        """Return the classes of a claim of which neither a class nor a cap says whether they count."""
        devices = claim.spec.devices if claim.spec else None
        requests = (devices.requests if devices else None) or ()
        exact = {request.exactly.device_class_name for request in requests if request.exactly is not None}
        alternatives = {other.device_class_name for request in requests for other in request.first_available or ()}
        known = {name for cap in caps for source in cap.device_sources.values() for name in source.classes}
        return sorted((exact | alternatives) - known - self.view.get_resources_by_class().keys())

    def _describe_uncompared(self, claim: ResourceClaim, caps: Iterable[ActiveCap]) -> Iterator[str]:
        """Yield a message for each cap with names under which a claim was not compared with the limit."""
        review, has_devices = self.view.start_least_amounts(), self.planned.has_devices
        for cap in caps:
            ledger = self._read_ledger_of(cap) if cap.counts_allocation(claim, is_owned=False) else None
            if ledger is None:
                continue
            counted = {name for name in cap.device_meters if claim_forecast.is_counted(ledger, cap, name)}
            compared = counted & claim_forecast.compute_least(cap, (claim,), review).keys() & cap.hard.keys()
            if names := sorted(cap.device_meters.keys() - compared):
                used = "what is used under them is unknown, without the ResourceSlices and claims of a snapshot"
                if has_devices:
                    used = f"used {', '.join(_format_used(cap, name, ledger, counted) for name in names)}"
                yield (
                    f"cap {cap.definition.name} counts {', '.join(names)} when devices are allocated, so "
                    f"{'some ' * has_devices}claims of namespace {self.decoded_request.request.namespace} were not "
                    f"compared with it; {used}"
                )


def forecast_claims(outcome: Outcome, view: ClusterView, result: ChargeResult) -> Outcome:
    """Return the outcome for a pod that caps admit, with the forecasts on its claims besides it."""
    plan, forecaster = outcome.planned, view.quota_forecaster
    if plan is None or not outcome.is_allowed:
        return outcome
    guarantees = view.create_guarantee_finder(outcome.request.namespace, read_no_ledger)
    outcome = outcome.warn(claim_forecast.forecast_waiting_claims(plan.claims.claims, result.reserved, guarantees))
    return outcome if forecaster is None else outcome.warn(forecaster.forecast_pod(plan.claims))


def charge_claims(outcome: Outcome, nonce: str) -> RequestCharges | None:
    """Return the charges of the claims that are made for an admitted pod; None if no cap counts them."""
    plan = outcome.planned
    if plan is None or not plan.claims.claims.claims:
        return None
    compute_charge = plan.claims.claims.compute_charge
    charges = [CapCharge(cap, NO_AMOUNTS, compute_charge(cap), may_exceed=False) for cap in plan.caps]
    return RequestCharges(create_consumer(outcome.request, nonce), charges)


def create_consumer(request: AdmissionRequest, nonce: str) -> ChargedConsumer:
    """Return the consumer for the pods, or the claims, that are made for an object; its nonce stands for the UID.

    It has no name: a ledger counts consumers of one name once (rule 13), and those of a Deployment, of a Job and of a
    pod of the same name all exist.
    """
    return ChargedConsumer(nonce, request.namespace, "", nonce, Operation.CREATE)


def _add_unknown(outcome: Outcome, messages: Iterable[str]) -> Outcome:
    for message in messages:
        outcome = outcome.warn((), message)
    return outcome


def _may_count_claims(cap: ActiveCap) -> bool:
    """Return whether a cap may count claims, whatever classes exist."""
    return (
        cap.counts_claims
        or cap.multiplies_devices
        or any(
            is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX) for name in cap.definition.list_requested_names()
        )
    )


def _format_used(cap: ActiveCap, name: str, ledger: Ledger, counted: set[str]) -> str:
    amount = format_amount(name, ledger.used.get(name, 0)) if name in counted else "unknown"
    limit = f" of {format_amount(name, cap.hard[name])}" if name in cap.hard else ""
    return f"{amount}{limit} {name}"


def _describe_unknown_classes(pod: Pod, caps: Sequence[ActiveCap]) -> Iterator[str]:
    """Yield a message for each cap under which the mapping of an unknown class decides what a pod counts."""
    for cap in caps:
        try:
            unseen = cap.examine_classes(pod).unseen
        except QuantityError:
            continue  # the API server's validation reports it
        if unseen is not None:
            yield (
                f"pods that may get devices of class {unseen.class_name} were not compared with {unseen.name} of cap "
                f"{cap.definition.name} as devices of it: the class is neither in the manifests nor in the snapshot"
            )


def _select_comparable(
    claims: claim_forecast.PodClaims, cap: ActiveCap, stored: StoredPods
) -> claim_forecast.PodClaims:
    """Return the claims of each pod of a workload, without the least amounts if its stored pods have other claims.

    Those may have got more than their least, so the increase is unknown, as in the gate (`add_claims`).
    """
    least = claim_forecast.compute_least(cap, stored.claims, claims.review)
    is_alike = least == applied_workload.multiply(claims.compute_least(cap), stored.pod_count)
    return claims if is_alike else msgspec.structs.replace(claims, review=None)
