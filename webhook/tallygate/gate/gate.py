"""The gate: from the bytes of an admission review to the bytes of its response."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.claim_charge import NO_CLASSES
from tallygate.accounting.devices.least_amounts import LeastAmounts, LeastAmountsReview
from tallygate.accounting.pod_defaults import UNKNOWN_POD_DEFAULTS, PodDefaults
from tallygate.accounting.problem import Problem
from tallygate.accounting.resource_quota import requests_any
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.admission.evaluate import NodeRuleEvaluator, evaluate_decoded_request, find_device_defaults_of
from tallygate.admission.implied_requests import creates_pod
from tallygate.admission.kinds import DecodedRequest, ReviewTargets
from tallygate.admission.request import ALLOWED, CREATE, Phase, decode_review
from tallygate.cluster.usage_lister import UsageLister, get_ledger_key
from tallygate.gate.cap_activation import CapActivation
from tallygate.gate.charge_transitions import ReadTransition
from tallygate.gate.charging import charge_consumer
from tallygate.gate.decisions import (
    Decision,
    allow_under_caps,
    decide_by_rules,
    decide_with_warnings,
    decide_without_result,
    deny_by_caps,
    retry_later,
)
from tallygate.gate.limit_admissions import LimitAdmissions
from tallygate.gate.rolling_pods import SurgeCharger
from tallygate.gate.top_consumers import TopConsumers
from tallygate.objects.core import Pod
from tallygate.policy.limit_annotations import NO_LIMIT_ANNOTATIONS, LimitAnnotations
from tallygate.policy.model import PolicySet
from tallygate.review.active_policies import ActivePolicies
from tallygate.review.applied_workload import DaemonPodCounter
from tallygate.review.cap_charge import CapCharge, CapChargeResult, CapObstacle
from tallygate.review.cap_messages import create_excess_problems
from tallygate.review.charged_requests import (
    RequestCharges,
    UndecidedChargeError,
    compute_request_charges,
    find_charged_caps,
    find_no_device,
    is_charged,
)
from tallygate.review.claim_forecast import (
    ClaimTemplateLister,
    counts_devices,
    describe_unknown,
    describe_unseen_classes,
    describe_unseen_template,
    forecast_devices,
    forecast_impossible_claims,
    forecast_waiting_claims,
)
from tallygate.review.context import ReviewContext, UndecidedError, add_warnings, describe_unevaluated
from tallygate.review.limit_annotation_review import check_limit_annotations, is_namespace_write
from tallygate.review.namespace_moves import check_namespace_move, is_namespace_update
from tallygate.review.owner_chain import OwnerChains, UnreadableOwnerError
from tallygate.review.quota_forecast import (
    NO_EXPECTED_CLAIMS,
    ExpectedClaims,
    QuotaForecaster,
    QuotaLister,
    find_expected_claims,
)
from tallygate.review.rejected_pods import find_rejected_pods
from tallygate.review.scale_requests import UnreadableWorkloadError, WorkloadReader, is_scale_request
from tallygate.review.whole_workloads import add_owners, create_whole_problems
from tallygate.review.workload_review import WorkloadReviewer
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import (
    LedgerKey,
    Ledgers,
    NamespaceLister,
    RetryLaterError,
    StoreUnavailableError,
)


class Gate:
    """The decisions on reviews by the active policies, with the charges under caps in the validating phase.

    `policies` returns the active policy set, `nonce` a text that no other attempt of any process has, `monotonic`
    seconds, `unix_time` seconds of the Unix epoch. `usage_lister` shows the stored pods, where they are watched.
    `top_consumers` finds the details of rejections. `quotas` lists the ResourceQuotas of namespaces and
    `claim_templates` the templates of claims, where they are watched. `evaluate_node_rules` evaluates the rules that
    compare pods with nodes. `workload_reader` reads the workload of a scale request. `resources_by_class` returns the
    extended resource of each DeviceClass, the same object until one changes; `is_advertised` returns whether any node
    may advertise a resource. `least_amounts` has the least that claims can get, where slices and classes of devices
    are watched. `limit_annotations` returns the annotations that set limits, the same object until one changes;
    `limit_admissions` get the admitted changes of these. `find_pod_defaults` returns what built-in admission gives new
    pods of a namespace. `count_daemon_pods` counts the pods of DaemonSets by the nodes, where they are watched.
    `activation` tells new caps from those whose ledgers are lost; without it no cap is new.
    """

    def __init__(  # noqa: PLR0913  # ports, each by its name
        self,
        *,
        policies: Callable[[], PolicySet],
        namespaces: NamespaceLister,
        ledgers: Ledgers,
        monotonic: Callable[[], float],
        nonce: Callable[[], str],
        unix_time: Callable[[], float],
        usage_lister: UsageLister | None = None,
        top_consumers: TopConsumers | None = None,
        quotas: QuotaLister | None = None,
        claim_templates: ClaimTemplateLister | None = None,
        evaluate_node_rules: NodeRuleEvaluator | None = None,
        workload_reader: WorkloadReader | None = None,
        resources_by_class: Callable[[], Mapping[str, str]] = lambda: NO_CLASSES,
        least_amounts: LeastAmounts | None = None,
        is_advertised: Callable[[str], bool] = lambda _: True,
        limit_annotations: Callable[[], LimitAnnotations] = lambda: NO_LIMIT_ANNOTATIONS,
        activation: CapActivation | None = None,
        limit_admissions: LimitAdmissions | None = None,
        find_pod_defaults: Callable[[str], PodDefaults] = lambda _: UNKNOWN_POD_DEFAULTS,
        count_daemon_pods: DaemonPodCounter | None = None,
    ) -> None:
        self._namespaces = namespaces
        self._activation = activation
        self._ledgers = ledgers
        self._usage_lister = usage_lister
        self._find_device = find_no_device if usage_lister is None else usage_lister.find_device
        self._quotas = QuotaForecaster(quotas, resources_by_class, is_advertised) if quotas is not None else None
        self._claim_templates = claim_templates
        self._find_pod_defaults = find_pod_defaults
        self._evaluate_node_rules = evaluate_node_rules
        self._top_consumers = top_consumers or TopConsumers(monotonic, usage_lister)
        self._limit_admissions = limit_admissions
        self._monotonic = monotonic
        self._nonce = nonce
        self._least_amounts = least_amounts
        # without a watch of pods, nothing shows that a workload makes none
        chains = OwnerChains(workload_reader, monotonic) if workload_reader is not None else None
        self._owner_chains = chains if usage_lister is not None else None
        self._workloads = WorkloadReviewer(
            quotas=self._quotas,
            claim_templates=claim_templates,
            least_amounts=least_amounts,
            owner_chains=self._owner_chains,
            workload_reader=workload_reader,
            read_ledger=self._read_ledger,
            nonce=nonce,
            count_daemon_pods=count_daemon_pods,
        )
        self._surge_charger = SurgeCharger(self._owner_chains, usage_lister, nonce, unix_time)
        self._active_policies = ActivePolicies(policies, resources_by_class, unix_time, usage_lister, limit_annotations)

    def admit(self, body: bytes, phase: Phase, deadline: float) -> Decision:
        """Decide a review before `deadline` (seconds of the monotonic clock).

        Raises:
            ReviewError: if the body is not a review with a possible decision.
            UndecidedError: if a cap cannot be charged: its store or the namespace's labels are unavailable; or if it is
                unknown whether a new pod gets an implied request.
        """
        request, policy_set = decode_review(body), self._active_policies.start_review()
        labels = self._namespaces.labels(request.namespace) if policy_set.needs_labels and request.namespace else None
        decoded_request = policy_set.rules.decode(request, labels)
        implied = decoded_request.implied
        if implied.unknown and phase is Phase.MUTATING and creates_pod(request):
            raise UndecidedError(
                f"implied request {implied.unknown[0]} selects namespaces by label, and the labels of namespace "
                f"{request.namespace} are unknown here",
                request.uid,
                is_transient=self._usage_lister is not None,
            )
        verdict = evaluate_decoded_request(decoded_request, policy_set.rules, labels, phase)
        if phase is not Phase.VALIDATING:
            return decide_by_rules(ReviewContext(request, phase, policy_set, verdict, implied))
        target = decoded_request.target
        if (target is not None and target.creates_pods) or is_scale_request(request):
            implied = decoded_request.implied = implied.with_defaults(self._find_pod_defaults(request.namespace))
        context = ReviewContext(request, phase, policy_set, verdict, implied)
        context = add_warnings(context, find_device_defaults_of(decoded_request))
        context = add_warnings(context, find_rejected_pods(decoded_request))
        if context.verdict.is_allowed and self._evaluate_node_rules is not None:
            selection = policy_set.rules.select_node_rules(request.kind, request.namespace, labels)
            verdict = ALLOWED if selection is None else self._evaluate_node_rules(decoded_request, selection)
            if verdict is not ALLOWED:
                context = replace(context, verdict=context.verdict.merge(verdict))
        try:
            return self._decide(context, decoded_request, labels, deadline)
        except (UnreadableOwnerError, UnreadableWorkloadError) as error:
            return retry_later(context, str(error))

    def _decide(
        self, context: ReviewContext, decoded_request: DecodedRequest, labels: Mapping[str, str] | None, deadline: float
    ) -> Decision:
        """Return the decision of the validating phase, with charges and forecasts, after the rules."""
        request, policy_set, target = context.request, context.policy_set, decoded_request.target
        if context.verdict.is_allowed:
            if policy_set.caps and is_charged(decoded_request):
                return self._charge(context, decoded_request, labels, deadline)
            if target is not None and target.creates_pods:
                return self._review_workload(context, labels, deadline)
            if request.kind == "ResourceClaimTemplate":
                caps = policy_set.caps.find_matching(request.namespace, labels).caps
                problems = self._forecast_devices(decoded_request, caps, deadline)
                return decide_with_warnings(context, problems, describe_unseen_template(decoded_request, caps))
        if is_namespace_write(request):
            denied = list(check_limit_annotations(request, policy_set.policies.caps))
            if denied:
                return deny_by_caps(context, denied)
            if self._limit_admissions is not None and context.verdict.is_allowed:
                self._limit_admissions.add(request)
        if is_scale_request(request):
            scaled = self._workloads.resolve_scale(context)
            return decide_by_rules(context) if scaled is None else self._review_workload(scaled, labels, deadline)
        if policy_set.caps and is_namespace_update(request) and self._usage_lister is not None:
            read_ledger = partial(self._read_ledger, deadline=deadline)
            problems = check_namespace_move(request, policy_set.caps, self._usage_lister, read_ledger)
            return decide_with_warnings(context, problems)
        return self._forecast_pod(context, decoded_request)

    def get_active_caps(self) -> CapIndex:
        """Return the active caps."""
        return self._active_policies.get_current().caps

    def get_review_targets(self) -> ReviewTargets:
        """Return the review targets of all kinds that the active policies know."""
        return self._active_policies.get_current().rules.targets

    def _charge(
        self, context: ReviewContext, decoded_request: DecodedRequest, labels: Mapping[str, str] | None, deadline: float
    ) -> Decision:
        caps = find_charged_caps(context, labels, is_transient=self._usage_lister is not None)
        for name in context.policy_set.caps.find_matching(context.request.namespace, labels).unknown:
            context = add_warnings(
                context, (), describe_unevaluated(name, "it selects namespaces by label, which are unknown here")
            )
        if not caps:
            return self._forecast_pod(context, decoded_request)
        try:
            request_charges = compute_request_charges(decoded_request, caps, self._nonce(), self._find_device)
        except UndecidedChargeError as error:
            return self._wait_for_charge(context, error)
        if request_charges is None:
            return decide_with_warnings(context, self._forecast_devices(decoded_request, caps, deadline))
        if request_charges.missing_limits:
            return deny_by_caps(context, list(request_charges.missing_limits))
        if (retry := self._wait_for_namespace(context, labels, request_charges)) is not None:
            return retry
        warnings: Iterable[Problem] = request_charges.warnings
        if request_charges.consumer.kind is ConsumerKind.CLAIM:
            warnings = (*warnings, *self._forecast_devices(decoded_request, caps, deadline))
        if self._owner_chains is not None and any(cap.definition.admits_whole and cap.hard for cap in caps):
            request_charges = add_owners(request_charges, decoded_request, self._owner_chains)
        return self._reserve(context, request_charges, deadline, warnings)

    def _wait_for_charge(self, context: ReviewContext, error: UndecidedChargeError) -> Decision:
        """Return the answer that requests a retry, since this replica does not know a charge."""
        if self._usage_lister is not None:
            self._usage_lister.request_progress()
        return retry_later(context, str(error), (CapObstacle(error.cap, error.cause),))

    def _wait_for_namespace(
        self, context: ReviewContext, labels: Mapping[str, str] | None, request_charges: RequestCharges
    ) -> Decision | None:
        """Return the answer that requests a retry while this replica cannot charge anything of the namespace, or None.

        Raises:
            UndecidedError: if pods are not listed yet.
        """
        request = context.request
        if not request_charges.is_limited:
            return None
        if self._usage_lister is not None and not self._usage_lister.is_listed:
            # Just after the start: another replica can decide, and a retry there takes no second.
            raise UndecidedError("pods are not listed yet", request.uid, is_transient=True)
        if self._usage_lister is not None and labels is None and self._namespaces.labels(request.namespace) is None:
            # Its new ledger would count as a lost one (rule 7), and reserve nothing for a while.
            return retry_later(context, f"namespace {request.namespace} is not known to this replica yet")
        return None

    def _forecast_devices(
        self, decoded_request: DecodedRequest, caps: Iterable[ActiveCap], deadline: float
    ) -> Iterable[Problem]:
        """Return the forecasts for the devices of the claim or template that the request creates."""
        if self._least_amounts is None:
            return ()
        namespace = decoded_request.request.namespace
        return forecast_devices(
            decoded_request,
            caps,
            self._least_amounts,
            lambda cap: self._read_ledger(get_ledger_key(cap, namespace), deadline),
        )

    def _start_review(self) -> LeastAmountsReview | None:
        return None if self._least_amounts is None else self._least_amounts.start_review()

    def _forecast_pod(self, context: ReviewContext, decoded_request: DecodedRequest) -> Decision:
        """Return the decision of the rules, with the forecasts of quotas on the claims of a new pod."""
        request, target = context.request, decoded_request.target
        if self._quotas is None or not context.verdict.is_allowed or request.kind != "Pod":
            return decide_by_rules(context)
        if request.operation == CREATE and target is not None:
            pod = decoded_request.get_object(target)
            if isinstance(pod, Pod):
                context = self._add_forecasts(context, self._find_claims(context, pod))
        return decide_by_rules(context)

    def _find_claims(self, context: ReviewContext, pod: Pod, charges: Sequence[CapCharge] = ()) -> ExpectedClaims:
        """Return the claims for a new pod, if one of the caps of these charges, or a quota, counts them."""
        spec, devices = pod.spec, context.policy_set.device_resources
        if spec is None:
            return NO_EXPECTED_CLAIMS
        if not spec.resource_claims and (not devices or self._quotas is None or not requests_any(spec, devices)):
            return NO_EXPECTED_CLAIMS
        namespace, review = context.request.namespace, self._start_review()
        has_caps = counts_devices((charge.cap for charge in charges), review)
        expected = find_expected_claims(pod, namespace, self._quotas, self._claim_templates, has_caps=has_caps)
        return expected if expected is NO_EXPECTED_CLAIMS else expected.with_review(review)

    def _add_forecasts(
        self, context: ReviewContext, expected: ExpectedClaims, reserved: Sequence[CapChargeResult] = ()
    ) -> ReviewContext:
        """Return the context with the forecasts of caps and quotas on the claims of a pod, after its charge."""
        if expected is NO_EXPECTED_CLAIMS:
            return context
        warnings = list(forecast_waiting_claims(expected.claims, reserved))
        if self._quotas is not None:
            warnings += self._quotas.forecast_pod(expected)
        unknown = describe_unknown(expected.claims, expected.limits)
        if not unknown and not expected.claims.is_controlled:
            unknown = describe_unseen_classes((result.charge.cap for result in reserved), expected.claims.claims)
        return add_warnings(context, warnings, unknown)

    def _review_workload(self, context: ReviewContext, labels: Mapping[str, str] | None, deadline: float) -> Decision:
        """Return the decision on a workload: its charge if a cap admits it as a whole, else forecasts on its pods."""
        caps = context.policy_set.caps.find_matching(context.request.namespace, labels).caps
        try:
            reviewed = self._workloads.review(context, caps, deadline)
        except UndecidedChargeError as error:
            return self._wait_for_charge(context, error)
        if reviewed is None:
            return decide_by_rules(context)
        if reviewed.denied:
            return deny_by_caps(context, reviewed.denied)
        if reviewed.charges is None:
            return decide_with_warnings(context, reviewed.warnings, reviewed.unknown)
        if (retry := self._wait_for_namespace(context, labels, reviewed.charges)) is not None:
            return retry
        context = add_warnings(context, reviewed.warnings, reviewed.unknown)
        return self._reserve(context, reviewed.charges, deadline)

    def _read_ledger(self, key: LedgerKey, deadline: float) -> Ledger | None:
        """Return the ledger, an empty one if it does not exist; None if it is unavailable, which stops no workload."""
        try:
            ledger = self._ledgers.transact(key, ReadTransition(), deadline)
        except (RetryLaterError, StoreUnavailableError):
            return None
        return ledger or Ledger(Amounts())

    def _reserve(
        self,
        context: ReviewContext,
        request_charges: RequestCharges,
        deadline: float,
        warnings: Iterable[Problem] = (),
    ) -> Decision:
        """Return the decision on a pod or claim after its charge, with the forecast of the claims of the pod.

        If it is allowed, it gets these `warnings` too.
        """
        pod, expected = request_charges.created_pod, NO_EXPECTED_CLAIMS
        if pod is not None:
            expected = self._find_claims(context, pod, request_charges.charges)
        claims = expected.claims
        if claims.claims and (problems := list(forecast_impossible_claims(claims, request_charges.charges))):
            return deny_by_caps(context, problems)
        if self._monotonic() >= deadline and request_charges.is_limited:
            return retry_later(context, "the time for a decision was over before a cap could be asked")
        consumer, targets = request_charges.consumer, context.policy_set.rules.targets
        charge = partial(
            charge_consumer,
            self._ledgers,
            deadline=deadline,
            usage_lister=self._usage_lister,
            activation=self._activation,
        )
        result = charge(consumer, request_charges.charges)
        if result.exceeded:
            result = self._surge_charger.charge_again(request_charges, result, targets, charge)
        if result.obstacles and not result.exceeded:
            return decide_without_result(context, result.obstacles)
        if result.exceeded:
            describe_excess = partial(
                self._top_consumers.describe,
                context.request.namespace,
                allocated_claim=consumer.name if consumer.allocates_at else "",
                created_pod=consumer.name if pod is not None else "",
            )
            if consumer.kind is ConsumerKind.WORKLOAD:
                create_problems = partial(
                    create_whole_problems,
                    kind=context.request.kind,
                    pod_count=request_charges.pod_count,
                    describe_excess=describe_excess,
                )
            else:
                create_problems = partial(
                    create_excess_problems, describe_excess=describe_excess, is_allocation=bool(consumer.allocates_at)
                )
            problems = [problem for cap_result in result.exceeded for problem in create_problems(cap_result)]
            return deny_by_caps(context, problems, result.obstacles)
        context = self._add_forecasts(context, expected, result.reserved)
        if warnings:
            context = add_warnings(context, warnings)
        return allow_under_caps(context, result)
