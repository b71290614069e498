"""The review: what happens to the object of a request, under the active policies, in this cluster.

`review` decides as far as no ledger is written. If caps count the object, it returns the charges that a caller has to
reserve, and `conclude` the outcome with their result.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.problem import BUILT_IN_CHECK, Problem
from tallygate.accounting.resource_quota import requests_any
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.created_pods import find_rejections
from tallygate.admission.evaluate import NodeRuleEvaluator, evaluate_decoded_request, find_device_defaults_of
from tallygate.admission.implied_requests import ImpliedRequests, creates_pod
from tallygate.admission.kinds import DecodedObject, DecodedRequest, ReviewTarget, decode_object
from tallygate.admission.pod_view import PodView
from tallygate.admission.request import ALLOWED, CREATE, AdmissionRequest, Phase
from tallygate.admission.rule_index import Labels
from tallygate.objects.core import Pod
from tallygate.review import cap_messages, claim_forecast
from tallygate.review.active_policies import ActivePolicySet
from tallygate.review.cap_charge import CapCharge, CapChargeResult, CapObstacle, ChargeResult
from tallygate.review.cap_reach import GuaranteeFinder
from tallygate.review.charged_requests import RequestCharges, UndecidedChargeError, compute_request_charges, is_charged
from tallygate.review.limit_annotation_review import check_limit_annotations, is_namespace_write
from tallygate.review.namespace_moves import check_namespace_move, is_namespace_update
from tallygate.review.outcome import Outcome, describe_unevaluated
from tallygate.review.owner_chain import UnreadableOwnerError
from tallygate.review.planned_pods import PlannedState
from tallygate.review.planned_review import PlannedLimits
from tallygate.review.pod_groups import add_owners
from tallygate.review.quota_forecast import NO_EXPECTED_CLAIMS, ExpectedClaims, find_expected_claims
from tallygate.review.scale_requests import UnreadableWorkloadError, is_scale_request
from tallygate.review.stored_objects import evaluate_stored, read_no_ledger, review_stored_limits
from tallygate.review.view import ClusterView
from tallygate.review.whole_workloads import create_gang_problems, create_whole_problems
from tallygate.review.workload_review import resolve_scaled_workload, review_workload
from tallygate.state.ledger.gangs import NO_GANG
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.reserve import Prerequisite
from tallygate.state.ports import LedgerKey, StoreUnavailableError, StoreUnreachableError


def review(  # noqa: PLR0913  # the request, and what it is reviewed by, each by its name
    request: AdmissionRequest,
    policy_set: ActivePolicySet,
    view: ClusterView,
    *,
    phase: Phase = Phase.VALIDATING,
    nonce: Callable[[], str] = str,
    read_ledger: Callable[[LedgerKey], Ledger | None] = read_no_ledger,
    is_stored: bool = False,
    planned: PlannedState | None = None,
) -> Outcome:
    """Return the outcome of a request, as far as no ledger is written.

    `nonce` returns the nonce of an attempt to reserve. `read_ledger` returns a ledger, on which nothing is decided; or
    None if it is unavailable.

    What callers want different are parameters:

    * `phase`: in the mutating phase only rules are evaluated, which may fill requests in.
    * `is_stored`: the object is stored already, and the request is one that would create it. Rules evaluate it with
      what they would fill in (`stored_objects`). All checks are evaluated, also if others deny, but the nodes for a
      stored pod. What depends on present charges is left out, and nothing is charged.
    * `planned`: the object is one of several in files, which are applied one after the other: `check` and `predict`.
      All pods of a workload are charged at once, under every cap, if the forecasts find room for all of them; else
      those that fit can be charged. Stored pods of the object count as what it had before. Forecasts are made under
      caps that ignore workloads too, and pods that can never run are a denial under each cap. ResourceQuotas reject
      pods, as they do after the webhooks. The user is unknown, and the object has no UID. Nothing makes a client wait:
      all that is not known is listed.

    Raises:
        ReviewError: if an object is not of the kind that it states, or has an invalid quantity.
    """
    labels = view.namespaces.labels(request.namespace) if policy_set.needs_labels and request.namespace else None
    decoded_request = policy_set.rules.decode(request, labels)
    implied = decoded_request.implied
    if implied.unknown and phase is Phase.MUTATING and creates_pod(request):
        # Before the rules: they would evaluate the pod without a request that it may have to get.
        return _fail_without_labels(
            Outcome(request, phase, policy_set, ALLOWED, implied), f"implied request {implied.unknown[0]}", view
        )
    if is_stored:
        verdict = evaluate_stored(decoded_request, policy_set.rules, labels)
    else:
        verdict = evaluate_decoded_request(decoded_request, policy_set.rules, labels, phase)
    if phase is not Phase.VALIDATING:
        # Other webhooks may still change the object: its amounts are decided once they are final.
        return Outcome(request, phase, policy_set, verdict, implied)
    target = decoded_request.target
    if target.creates_pods if target is not None else is_scale_request(request):
        # After the rules, which evaluate a template as it is written: the forecasts are about the pods made of it.
        implied = decoded_request.implied = implied.with_defaults(view.find_pod_defaults(request.namespace))
    outcome = Outcome(request, phase, policy_set, verdict, implied)
    if remarks := [*find_device_defaults_of(decoded_request), *find_rejected_pods(decoded_request)]:
        outcome = outcome.warn(dataclasses.replace(remark, policy_kind=BUILT_IN_CHECK) for remark in remarks)
    if view.evaluate_node_rules is not None and (not creates_pod(request) if is_stored else verdict.is_allowed):
        outcome = _evaluate_node_rules(outcome, decoded_request, labels, view.evaluate_node_rules)
    if is_stored:
        return review_stored_limits(outcome, decoded_request, labels, view)
    read = view, decoded_request, labels, nonce, read_ledger
    limits = _Limits(*read) if planned is None else PlannedLimits(*read, planned)
    return _require_capacities(limits.review(outcome), view, is_planned=planned is not None)


def _require_capacities(outcome: Outcome, view: ClusterView, *, is_planned: bool) -> Outcome:
    """Return no decision if a limit is a percentage of an unknown capacity; what is planned only says so."""
    unmeasured = _list_unmeasured(outcome)
    if not is_planned:
        return outcome.fail(unmeasured[0], is_transient=view.is_watched) if unmeasured else outcome
    for message in unmeasured:
        outcome = outcome.warn((), f"{message}, so it was not evaluated")
    return outcome


def _list_unmeasured(outcome: Outcome) -> list[str]:
    """Return a message for each limit that decides about the request, and is a percentage of an unknown capacity."""
    problem = outcome.policy_set.sources.capacity_problem
    return [
        f"cap {charge.cap.definition.name}: hard {charge.cap.definition.hard[name]} of {name} is of a capacity that is "
        f"not known: {problem}"
        for charge in (outcome.charges.charges if outcome.charges else ())
        for name in charge.unmeasured
    ]


def _fail_without_labels(outcome: Outcome, policy: str, view: ClusterView) -> Outcome:
    namespace = outcome.request.namespace
    return outcome.fail(
        f"{policy} selects namespaces by label, and the labels of namespace {namespace} are unknown here",
        is_transient=view.is_watched,
    )


def _evaluate_node_rules(
    outcome: Outcome, decoded_request: DecodedRequest, labels: Labels | None, evaluate: NodeRuleEvaluator
) -> Outcome:
    """Return the outcome with the verdict of the rules that compare pods with nodes.

    They come last of the rules, and only if no other one denies: they search the nodes of the cluster.
    """
    request = outcome.request
    selection = outcome.policy_set.rules.select_node_rules(request.kind, request.namespace, labels)
    verdict = ALLOWED if selection is None else evaluate(decoded_request, selection)
    return outcome if verdict is ALLOWED else replace(outcome, verdict=outcome.verdict.merge(verdict))


class _Limits(msgspec.Struct):
    """The review of one request by caps and quotas, in the validating phase, after the rules."""

    view: ClusterView
    decoded_request: DecodedRequest
    labels: Mapping[str, str] | None
    nonce: Callable[[], str]
    read_ledger: Callable[[LedgerKey], Ledger | None]

    def review(self, outcome: Outcome) -> Outcome:
        """Return the outcome with charges and forecasts."""
        try:
            return self._review(outcome)
        except (UnreadableOwnerError, UnreadableWorkloadError) as error:
            return outcome.retry(str(error))

    def _review(self, outcome: Outcome) -> Outcome:
        request, policy_set, target = outcome.request, outcome.policy_set, self.decoded_request.target
        if outcome.verdict.is_allowed:
            # What the rules deny is not charged. Pods and claims come first: they are most of all requests, and no
            # other condition here concerns them, although a kind of another project may both be charged and make pods.
            if policy_set.caps and is_charged(self.decoded_request):
                return self._charge(outcome)
            if target is not None and target.creates_pods:
                return self._review_workload(outcome)
            if request.kind == "ResourceClaimTemplate":
                caps = policy_set.caps.find_matching(request.namespace, self.labels).caps
                unknown = claim_forecast.describe_unseen_template(self.decoded_request, caps)
                return outcome.warn(self._forecast_devices(caps), unknown)
        if is_namespace_write(request):
            # Also if a rule denies, so that its author reads all mistakes at once; and before the move, since a denied
            # change moves nothing.
            denied = list(check_limit_annotations(request, policy_set.policies.caps))
            if denied:
                return outcome.reject(denied)
        if is_scale_request(request):
            # Outside the condition above: no rule evaluates a Scale, but for the kind of a subresource its verdict says
            # nothing about the workload.
            scaled = resolve_scaled_workload(outcome, self.view)
            return outcome if scaled is None else self._review_workload(scaled)
        if policy_set.caps and is_namespace_update(request) and self.view.usage_lister is not None:
            return outcome.warn(
                check_namespace_move(request, policy_set.caps, self.view.usage_lister, self.read_ledger)
            )
        return self._forecast_pod(outcome)

    def _charge(self, outcome: Outcome) -> Outcome:
        """Return the outcome for a pod or claim, with its charges under the caps over its namespace."""
        request, view, decoded_request = outcome.request, self.view, self.decoded_request
        matching = outcome.policy_set.caps.find_matching(request.namespace, self.labels)
        if matching.unknown_limits:
            return _fail_without_labels(outcome, f"cap {matching.unknown_limits[0]}", view)
        caps = matching.caps
        for name in matching.unknown:
            reason = "it selects namespaces by label, which are unknown here"
            outcome = outcome.warn((), describe_unevaluated(name, reason))
        if not caps:
            return self._forecast_pod(outcome)
        try:
            charges = compute_request_charges(decoded_request, caps, self.nonce(), view.find_device)
        except UndecidedChargeError as error:
            return _wait_for_charge(outcome, error)
        if charges is None:
            return outcome.warn(self._forecast_devices(caps))
        if charges.missing_limits:
            # Before anything that makes the client wait: the user has to change the object in any case.
            return outcome.reject(charges.missing_limits)
        if (waiting := self._wait_for_namespace(outcome, charges)) is not None:
            return waiting
        warnings = tuple(charges.warnings)
        if charges.consumer.kind is ConsumerKind.CLAIM:
            warnings += tuple(self._forecast_devices(caps))
        # Last, since it reads controllers from the API server.
        return self._add_owners(outcome, charges, warnings)

    def _add_owners(self, outcome: Outcome, charges: RequestCharges, warnings: tuple[Problem, ...]) -> Outcome:
        """Return the outcome with charges and the workloads that a new pod or claim belongs to.

        If its PodGroup has the charges of the claims for a pod, they have no forecast.
        """
        try:
            charges = add_owners(charges, self.decoded_request, self.view)
        except UndecidedChargeError as error:
            return _wait_for_charge(outcome, error)
        if charges.consumer.workload.gang is not NO_GANG:
            return replace(outcome, charges=charges, warnings=warnings)
        return self._expect_claims(outcome, charges, warnings)

    def _expect_claims(self, outcome: Outcome, charges: RequestCharges, warnings: tuple[Problem, ...] = ()) -> Outcome:
        """Return the outcome with charges, and with the claims of a new pod; denied if these can never fit with it."""
        pod, expected = charges.created_pod, NO_EXPECTED_CLAIMS
        if pod is not None:
            expected = self._find_claims(outcome, pod, charges.charges)
        claims = expected.claims
        if claims.claims:
            guarantees = self._create_guarantee_finder()
            problems = list(claim_forecast.forecast_impossible_claims(claims, charges.charges, guarantees))
            if problems:
                return outcome.reject(problems)
        return replace(outcome, charges=charges, warnings=warnings, claims=expected)

    def _wait_for_namespace(self, outcome: Outcome, charges: RequestCharges) -> Outcome | None:
        """Return that there is no decision while this replica cannot charge anything of the namespace, or None."""
        request, view = outcome.request, self.view
        if view.usage_lister is None or not charges.is_limited:
            return None
        if not view.usage_lister.is_listed:
            # Just after the start: another replica can decide, and a retry there takes no second.
            return outcome.fail("pods are not listed yet", is_transient=True)
        if self.labels is None and view.namespaces.labels(request.namespace) is None:
            # Its new ledger would count as a lost one (rule 7), and reserve nothing for a while.
            return outcome.retry(f"namespace {request.namespace} is not known to this replica yet")
        return None

    def _forecast_devices(self, caps: Sequence[ActiveCap]) -> Sequence[Problem]:
        """Return the forecasts for the devices of the claim or template that the request creates."""
        if self.view.least_amounts is None:
            return ()
        return list(
            claim_forecast.forecast_devices(
                self.decoded_request, caps, self.view.least_amounts, self._create_guarantee_finder()
            )
        )

    def _create_guarantee_finder(self) -> GuaranteeFinder:
        return self.view.create_guarantee_finder(self.decoded_request.request.namespace, self.read_ledger)

    def _forecast_pod(self, outcome: Outcome) -> Outcome:
        """Return the outcome of the rules, with the forecasts of quotas on the claims of a new pod."""
        request, target = outcome.request, self.decoded_request.target
        if self.view.quotas is None or not outcome.verdict.is_allowed or request.kind != "Pod":
            return outcome
        if request.operation == CREATE and target is not None:
            pod = self.decoded_request.get_object(target)
            if isinstance(pod, Pod):
                return add_claim_forecasts(outcome, self.view, self._find_claims(outcome, pod))
        return outcome

    def _find_claims(self, outcome: Outcome, pod: Pod, charges: Sequence[CapCharge] = ()) -> ExpectedClaims:
        """Return the claims for a new pod, if one of the caps of these charges, or a quota, counts them."""
        view, spec, devices = self.view, pod.spec, outcome.policy_set.device_resources
        if spec is None:
            return NO_EXPECTED_CLAIMS
        if not spec.resource_claims and (not devices or view.quotas is None or not requests_any(spec, devices)):
            return NO_EXPECTED_CLAIMS
        namespace, least = outcome.request.namespace, view.start_least_amounts()
        has_caps = claim_forecast.counts_devices((charge.cap for charge in charges), least)
        quotas, templates = view.quota_forecaster, view.claim_templates
        expected = find_expected_claims(pod, namespace, quotas, templates, has_caps=has_caps)
        return expected if expected is NO_EXPECTED_CLAIMS else expected.with_review(least)

    def _review_workload(self, outcome: Outcome) -> Outcome:
        """Return the outcome for a workload: its charge if a cap admits it as a whole, else forecasts on its pods."""
        caps = outcome.policy_set.caps.find_matching(outcome.request.namespace, self.labels).caps
        try:
            reviewed = review_workload(outcome, caps, self.view, self.nonce, self.read_ledger)
        except UndecidedChargeError as error:
            return _wait_for_charge(outcome, error)
        if reviewed is None:
            return outcome
        if reviewed.denied:
            return outcome.reject(reviewed.denied)
        if reviewed.charges is not None:
            waiting = self._wait_for_namespace(outcome, reviewed.charges)
            if waiting is not None:
                return waiting
        outcome = outcome.warn(reviewed.warnings, reviewed.unknown)
        return outcome if reviewed.charges is None else replace(outcome, charges=reviewed.charges)


def _wait_for_charge(outcome: Outcome, error: UndecidedChargeError) -> Outcome:
    return outcome.retry(str(error), (CapObstacle(error.cap, error.cause),))


def conclude(
    outcome: Outcome,
    view: ClusterView,
    result: ChargeResult,
    describe_excess: cap_messages.ExcessDescriber | None = None,
) -> Outcome:
    """Return the outcome of a request after its charges were reserved, or were not.

    `describe_excess` returns the details of an exceeded resource, where they are known.
    """
    charges = outcome.charges
    assert charges is not None  # noqa: S101  # they were reserved
    if result.exceeded:
        # First: who exceeds one cap is denied, whatever the others say.
        return outcome.reject(
            _list_excess(outcome.request, charges, result.exceeded, describe_excess), result.obstacles
        )
    if result.obstacles:
        return _conclude_without_result(outcome, result.obstacles)
    outcome = replace(outcome, charges=None)
    outcome = add_claim_forecasts(outcome, view, outcome.claims, result.reserved)
    if outcome.warnings:
        outcome = outcome.warn(outcome.warnings)
    for obstacle in result.unevaluated:
        outcome = outcome.warn((), describe_unevaluated(obstacle.cap, str(obstacle.cause)))
    counted = [booked for booked in result.reserved if not booked.ledger.initializer]
    new_caps = [booked for booked in result.reserved if booked.ledger.counts_first and booked.charge.is_limited]
    warnings = (
        *(warning for booked in counted for warning in cap_messages.create_soft_limit_warnings(booked)),
        *(cap_messages.create_new_cap_warning(booked.charge.cap, booked.ledger.activation) for booked in new_caps),
    )
    exceeded_caps = tuple(
        booked.charge.cap.definition.name for booked in counted if cap_messages.is_newly_exceeded(booked)
    )
    if warnings or exceeded_caps:
        verdict = dataclasses.replace(
            outcome.verdict, warnings=(*outcome.verdict.warnings, *warnings), exceeded=exceeded_caps
        )
        outcome = replace(outcome, verdict=verdict)
    return outcome


def _list_excess(
    request: AdmissionRequest,
    charges: RequestCharges,
    exceeded: Sequence[CapChargeResult],
    describe_excess: cap_messages.ExcessDescriber | None,
) -> list[Problem]:
    """Return the problems of the caps that a pod, a claim, or a workload as a whole exceeds."""
    describe_excess = describe_excess or cap_messages.describe_no_excess
    as_whole = partial(
        create_whole_problems, kind=request.kind, pod_count=charges.pod_count, describe_excess=describe_excess
    )
    of_gang = partial(create_gang_problems, name=charges.consumer.workload.gang.name, describe_excess=describe_excess)
    alone = partial(
        cap_messages.create_excess_problems,
        describe_excess=describe_excess,
        is_allocation=bool(charges.consumer.allocates_at),
    )
    return [
        problem
        for result in exceeded
        for problem in (
            of_gang
            if result.gang_pods
            else as_whole
            if charges.pod_count and result.charge.cap.definition.admits_whole
            else alone
        )(result)
    ]


def _conclude_without_result(outcome: Outcome, obstacles: tuple[CapObstacle, ...]) -> Outcome:
    """Return that there is no decision: for the error of a store, or else for the first obstacle."""
    obstacle = next((obstacle for obstacle in obstacles if not isinstance(obstacle.cause, Prerequisite)), obstacles[0])
    cause = obstacle.cause
    if isinstance(cause, StoreUnavailableError):
        noted = () if outcome.request.dry_run else obstacles
        is_transient = isinstance(cause, StoreUnreachableError)
        return outcome.fail(f"the ledgers are unreachable: {cause}", noted, is_transient=is_transient)
    if isinstance(cause, Prerequisite):
        return outcome.retry(cap_messages.describe_prerequisite(obstacle.cap, cause, obstacle.activation), obstacles)
    return outcome.retry(str(cause), obstacles)


def add_claim_forecasts(
    outcome: Outcome, view: ClusterView, expected: ExpectedClaims, reserved: Sequence[CapChargeResult] = ()
) -> Outcome:
    """Return the outcome with the forecasts of caps and quotas on the claims of a pod, after its charge."""
    if expected is NO_EXPECTED_CLAIMS:
        return outcome
    guarantees = view.create_guarantee_finder(outcome.request.namespace, read_no_ledger)
    warnings = list(claim_forecast.forecast_waiting_claims(expected.claims, reserved, guarantees))
    if view.quota_forecaster is not None:
        warnings += view.quota_forecaster.forecast_pod(expected)
    unknown = claim_forecast.describe_unknown(expected.claims, expected.limits)
    if not unknown and not expected.claims.is_controlled:
        unknown = claim_forecast.describe_unseen_classes(
            (result.charge.cap for result in reserved), expected.claims.claims
        )
    return outcome.warn(warnings, unknown)


def find_rejected_pods(decoded_request: DecodedRequest) -> Sequence[Problem]:
    """Return the problems of the pods that a request lets a controller create; of a change only those that are new.

    Return none for a workload that another one controls: that one is reviewed itself.

    Raises:
        ReviewError: if an object is not of the kind that it states.
    """
    request, target, implied = decoded_request.request, decoded_request.target, decoded_request.implied
    defaults = implied.defaults
    if target is None or not target.creates_pods or request.subresource:
        return ()
    decoded_object = decoded_request.get_object(target)
    if claim_forecast.is_controlled(decoded_object.metadata):
        return ()
    is_complete = not (any(defaults.containers) or defaults.bounds or defaults.runtime_classes)
    if is_complete and not any(map(_has_pod_level, target.list_pods(decoded_object))):
        return ()
    found = _list_problems(decoded_object, target, implied)
    if not found or request.old_object is None:
        return found
    existing = frozenset(_list_problems(decode_object(target, request, request.old_object), target, implied))
    return [problem for problem in found if problem not in existing]


def _has_pod_level(view: PodView) -> bool:
    """Return whether the pods have amounts for the whole pod, which the API server completes and compares."""
    return view.pod.spec is not None and view.pod.spec.resources is not None


def _list_problems(decoded_object: DecodedObject, target: ReviewTarget, implied: ImpliedRequests) -> list[Problem]:
    """Return the problems of the templates of which pods are made now."""
    views = [pod for pod in target.list_pods(decoded_object) if pod.replicas is not None and pod.replicas.count]
    return list(find_rejections(views, implied.complete_views(views), implied.defaults))
