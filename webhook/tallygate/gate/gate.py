"""The gate: from the bytes of an admission review to the bytes of its response."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tallygate.accounting.amounts import Amounts
from tallygate.admission.cap_index import CapIndex
from tallygate.admission.kinds import ReviewTargets
from tallygate.admission.request import AdmissionRequest, Phase, decode_review
from tallygate.gate.cap_activation import CapActivation
from tallygate.gate.charge_transitions import ReadTransition
from tallygate.gate.charging import charge_consumer
from tallygate.gate.decisions import Decision, encode_decision
from tallygate.gate.limit_admissions import LimitAdmissions
from tallygate.gate.policy_reviews import PolicyReviews, is_config_map
from tallygate.gate.rolling_pods import SurgeCharger
from tallygate.gate.top_consumers import TopConsumers
from tallygate.policy.model import PolicySet
from tallygate.review.active_policies import ActivePolicies
from tallygate.review.cap_messages import ExcessDescriber
from tallygate.review.charged_requests import RequestCharges
from tallygate.review.limit_annotation_review import is_namespace_write
from tallygate.review.outcome import Outcome
from tallygate.review.owner_chain import OwnerChains, UnreadableOwnerError
from tallygate.review.review import conclude, review
from tallygate.review.view import ClusterView
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, Ledgers, RetryLaterError, StoreUnavailableError


class Gate:
    """The decisions on reviews by the active policies, with the charges under caps in the validating phase.

    `policies` returns the active policy set, `view` shows the cluster. `nonce` returns a text that no other attempt of
    any process has, `monotonic` seconds, `unix_time` seconds of the Unix epoch. `top_consumers` finds the details of
    rejections. `activation` tells new caps from those whose ledgers are lost; without it no cap is new.
    `limit_admissions` get the admitted changes of annotations that set limits. `find_page` returns the address of the
    page of a namespace, which denials have. `policy_reviews` decide on ConfigMaps; without it they are allowed.
    """

    def __init__(  # noqa: PLR0913  # ports, each by its name
        self,
        *,
        policies: Callable[[], PolicySet],
        view: ClusterView,
        ledgers: Ledgers,
        monotonic: Callable[[], float],
        nonce: Callable[[], str],
        unix_time: Callable[[], float],
        top_consumers: TopConsumers | None = None,
        activation: CapActivation | None = None,
        limit_admissions: LimitAdmissions | None = None,
        find_page: Callable[[str], str] | None = None,
        policy_reviews: PolicyReviews | None = None,
    ) -> None:
        # without a watch of pods, nothing shows that a workload makes none
        if view.workload_reader is not None and view.is_watched:
            view = replace(view, owner_chains=OwnerChains(view.workload_reader, monotonic))
        self._view = view
        self._ledgers = ledgers
        self._activation = activation
        self._limit_admissions = limit_admissions
        self._find_page = find_page
        self._policy_reviews = policy_reviews
        self._monotonic = monotonic
        self._nonce = nonce
        self._top_consumers = top_consumers or TopConsumers(monotonic, view.usage_lister)
        self._surge_charger = SurgeCharger(view.owner_chains, view.usage_lister, nonce, unix_time)
        self._active_policies = ActivePolicies(policies, view.cap_sources, unix_time, view.usage_lister)

    def admit(self, body: bytes, phase: Phase, deadline: float) -> Decision:
        """Decide a review before `deadline` (seconds of the monotonic clock).

        Raises:
            ReviewError: if the body is not a review with a possible decision.
            UndecidedError: if a cap cannot be charged: its store or the namespace's labels are unavailable; or if it is
                unknown whether a new pod gets an implied request; or while another ConfigMap of policies is read.
        """
        request = decode_review(body)
        if self._policy_reviews is not None and is_config_map(request):
            return self._policy_reviews.decide(request, phase)
        outcome = self.decide(request, phase, deadline)
        if self._find_page is None or not outcome.problems or not outcome.request.namespace:
            return encode_decision(outcome)
        return encode_decision(outcome, self._find_page(outcome.request.namespace))

    def decide(self, request: AdmissionRequest, phase: Phase, deadline: float) -> Outcome:
        """Return the outcome of a request, with its amounts reserved if it is allowed.

        Raises:
            ReviewError: if an object is not of the kind that it states, or has an invalid quantity.
        """
        outcome = review(
            request,
            self._active_policies.start_review(),
            self._view,
            phase=phase,
            nonce=self._nonce,
            read_ledger=partial(self._read_ledger, deadline=deadline),
        )
        if outcome.charges is not None:
            return self._reserve(outcome, outcome.charges, deadline)
        if outcome.obstacles:
            # What it waits for is in a watch: ask for it, so that a retry is decided.
            self._request_progress()
        elif self._limit_admissions is not None and outcome.is_allowed and is_namespace_write(request):
            self._limit_admissions.add(request)
        return outcome

    def get_active_caps(self) -> CapIndex:
        return self._active_policies.get_current().caps

    def get_review_targets(self) -> ReviewTargets:
        """Return the review targets of all kinds that the active policies know."""
        return self._active_policies.get_current().rules.targets

    def _request_progress(self) -> None:
        if self._view.usage_lister is not None:
            self._view.usage_lister.request_progress()

    def _read_ledger(self, key: LedgerKey, deadline: float) -> Ledger | None:
        """Return the ledger, an empty one if it does not exist; None if it is unavailable, which stops no workload."""
        try:
            ledger = self._ledgers.transact(key, ReadTransition(), deadline)
        except (RetryLaterError, StoreUnavailableError):
            return None
        return ledger or Ledger(Amounts())

    def _reserve(self, outcome: Outcome, charges: RequestCharges, deadline: float) -> Outcome:
        """Return the outcome of a pod, claim or workload after its charge."""
        if self._monotonic() >= deadline and charges.is_limited:
            # Before any write: the API server has given up, and a reservation would stay until it expires.
            return outcome.retry("the time for a decision was over before a cap could be asked")
        charge = partial(
            charge_consumer,
            self._ledgers,
            deadline=deadline,
            usage_lister=self._view.usage_lister,
            activation=self._activation,
        )
        result = charge(charges.consumer, charges.charges)
        if result.exceeded:
            # Only what the hard limit rejects is examined for a surge: this reads controllers from the API server.
            targets = outcome.policy_set.rules.targets
            try:
                result = self._surge_charger.charge_again(charges, result, targets, charge)
            except UnreadableOwnerError as error:
                return outcome.retry(str(error))
        describe_excess = self._create_describer(charges) if result.exceeded else None
        return conclude(outcome, self._view, result, describe_excess)

    def _create_describer(self, charges: RequestCharges) -> ExcessDescriber:
        consumer = charges.consumer
        return partial(
            self._top_consumers.describe,
            consumer.namespace,
            allocated_claim=consumer.name if consumer.allocates_at else "",
            created_pod=consumer.name if charges.created_pod is not None else "",
        )
