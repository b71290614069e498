"""The charges of manifests, one after the other, on top of the pods, claims and quotas of a snapshot.

The ledgers are in memory, and their used amounts are those of the snapshot. Of a workload for which there is too little
room, the pods that are admitted now are charged; a rejected object changes nothing.
"""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, is_milli
from tallygate.accounting.devices.least_amounts import LeastAmounts
from tallygate.accounting.problem import Problem
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.admission.evaluate import NodeRuleEvaluator
from tallygate.admission.request import AdmissionRequest
from tallygate.admission.rule_codes import OVER_SOFT_CAP
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.usage_lister import get_ledger_key
from tallygate.errors import TallygateError
from tallygate.gate.charge_transitions import ReadTransition
from tallygate.gate.charging import charge_consumer
from tallygate.objects.core import ResourceQuota, ResourceQuotaStatus
from tallygate.review.active_policies import ActivePolicySet
from tallygate.review.applied_workload import DaemonPodCounter, ForecastWorkload, select_pods
from tallygate.review.cap_charge import CapCharge, ChargedConsumer, ChargeResult
from tallygate.review.cap_messages import create_new_cap_warning, create_soft_limit_warnings
from tallygate.review.claim_forecast import NO_CLAIMS
from tallygate.review.outcome import Outcome
from tallygate.review.planned_pods import PlannedPods, PlannedState
from tallygate.review.planned_review import charge_claims, create_consumer, forecast_claims
from tallygate.review.quota_forecast import QuotaForecaster, read_limits
from tallygate.review.review import conclude, review
from tallygate.review.view import ClusterView
from tallygate.state.in_memory import MemoryLedgers
from tallygate.state.informers.usage_sums import GroupUsage
from tallygate.state.ledger.guarantees import create_guarantees
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey

_COUNTED = 1
"""The revision of the pods in a ledger that is counted from a state: any but that of one that was never counted."""


class StoredPodError(TallygateError):
    """A pod of the state that no API server would have stored."""


class PlannedCharges:
    """The ledgers of all caps and the used amounts of all quotas, with what earlier objects add to them."""

    def __init__(
        self,
        policy_set: ActivePolicySet,
        planned: PlannedState,
        count_daemon_pods: DaemonPodCounter | None = None,
        charged_namespaces: Collection[str] | None = None,
    ) -> None:
        """Count the pods and claims of the state.

        With `charged_namespaces`, objects of no other one may be charged, and ledgers of others are not counted.

        Raises:
            StoredPodError: if a pod is not as an API server would have stored it.
        """
        state = planned.state
        self._policy_set = policy_set
        self._planned = planned
        self._quotas = _PlannedQuotas(state)
        self._unknown: dict[LedgerKey, set[str]] = {}
        self._ledgers = MemoryLedgers(self._count_usage(state, policy_set.caps, charged_namespaces))
        self._attempts = count(1)
        self._view = ClusterView(
            namespaces=state.namespaces,
            quotas=self._quotas,
            claim_templates=state.claim_templates,
            cap_sources=state.get_cap_sources,
            least_amounts=LeastAmounts(
                lambda: state.devices.list_slices() if planned.has_devices else None,
                state.device_classes.find_selectors,
            ),
            find_pod_defaults=state.find_pod_defaults,
            count_daemon_pods=count_daemon_pods,
        )

    def charge(
        self, request: AdmissionRequest, evaluate_node_rules: NodeRuleEvaluator | None
    ) -> tuple[Outcome, tuple[int, ...] | None]:
        """Review and charge an object; return the outcome, and the number of the pods of each template that fit now.

        There is no number if all of them fit. An object that exceeds a new cap is denied, with the warning from when on
        the cap enforces its limits: the gate admits it until then.
        """
        outcome, counts = self._charge(request, evaluate_node_rules)
        return outcome.warn(self._find_new_caps(outcome)), counts

    def _charge(
        self, request: AdmissionRequest, evaluate_node_rules: NodeRuleEvaluator | None
    ) -> tuple[Outcome, tuple[int, ...] | None]:
        view = replace(self._view, evaluate_node_rules=evaluate_node_rules)
        outcome = review(
            request,
            self._policy_set,
            view,
            nonce=self._create_nonce,
            read_ledger=self._read_ledger,
            planned=self._planned,
        )
        result = ChargeResult()
        if outcome.charges is not None:
            result = self._reserve(outcome.charges.consumer, outcome.charges.charges)
            outcome = conclude(outcome, view, result)
        outcome = self._charge_claims(forecast_claims(outcome, view, result))
        plan = outcome.planned
        if plan is None or not outcome.is_allowed:
            return outcome, None
        if plan.has_room:
            self._quotas.charge(request.namespace, self._select_admitted(request, plan), plan.stored_counts)
            return outcome, None
        return outcome, self._admit_part(request, plan)

    def _find_new_caps(self, outcome: Outcome) -> Iterator[Problem]:
        """Yield the warnings that caps by which an object is rejected are new in the cluster."""
        namespace, state = outcome.request.namespace, self._planned.state
        exceeded = {problem.rule for problem in outcome.rejections}
        for cap in self._policy_set.caps.find_matching(namespace, state.namespaces.labels(namespace)).caps:
            ledger = state.find_ledger(get_ledger_key(cap, namespace)) if cap.definition.name in exceeded else None
            if ledger is not None and ledger.counts_first:
                yield create_new_cap_warning(cap, ledger.activation)

    def _select_admitted(self, request: AdmissionRequest, plan: PlannedPods) -> ForecastWorkload:
        """Return the pods with their claims; a single pod is stored without claims that have no room."""
        workload = plan.workload
        if not plan.claims.claims.claims or self._quotas.admits(request.namespace, workload, plan.stored_counts):
            return workload
        return replace(workload, pod_sets=tuple(replace(pods, claims=NO_CLAIMS) for pods in workload.pod_sets))

    def _charge_claims(self, outcome: Outcome) -> Outcome:
        """Charge the claims that are made for an admitted pod, if all fit besides it."""
        charges = charge_claims(outcome, self._create_nonce()) if outcome.is_allowed else None
        if charges is None:
            return outcome
        reserved = self._reserve(charges.consumer, charges.charges).reserved
        exceeded = {problem.rule for problem in outcome.verdict.warnings if problem.code == OVER_SOFT_CAP}
        warnings = (warning for result in reserved for warning in create_soft_limit_warnings(result))
        return outcome.warn(warning for warning in warnings if warning.rule not in exceeded)

    def _admit_part(self, request: AdmissionRequest, plan: PlannedPods) -> tuple[int, ...]:
        """Charge the pods of a workload that fit now, and return their number by template, with the stored ones.

        The pods of the first template are created first. Of a workload whose pods start together, all or none fit.
        """
        counts = plan.stored_counts
        if plan.starts_together:
            return counts
        for index, pods in enumerate(plan.workload.pod_sets):
            low, high = counts[index], pods.replicas.count
            while low < high:
                middle = -(-(low + high) // 2)
                fits = self._fits(request, plan, [*counts[:index], middle, *counts[index + 1 :]])
                low, high = (middle, high) if fits else (low, middle - 1)
            counts = (*counts[:index], low, *counts[index + 1 :])
        part = select_pods(plan.workload, counts)
        self._reserve(create_consumer(request, self._create_nonce()), [plan.charge(part, cap) for cap in plan.caps])
        self._quotas.charge(request.namespace, part, plan.stored_counts)
        return counts

    def _fits(self, request: AdmissionRequest, plan: PlannedPods, counts: Sequence[int]) -> bool:
        """Return whether caps and quotas have room for such a part of a workload."""
        part = select_pods(plan.workload, counts)
        consumer = msgspec.structs.replace(create_consumer(request, self._create_nonce()), is_dry_run=True)
        if self._reserve(consumer, [plan.charge(part, cap) for cap in plan.caps]).exceeded:
            return False
        return self._quotas.admits(request.namespace, part, plan.stored_counts)

    def _reserve(self, consumer: ChargedConsumer, charges: Sequence[CapCharge]) -> ChargeResult:
        """Charge an object under all its caps, or under none if one rejects it."""
        result = charge_consumer(self._ledgers, consumer, charges, math.inf)
        reserved = tuple(
            msgspec.structs.replace(booked, ledger=self._mark_counted(booked.charge.cap, key, booked.ledger))
            for booked in result.reserved
            for key in [get_ledger_key(booked.charge.cap, consumer.namespace)]
        )
        return msgspec.structs.replace(result, reserved=reserved)

    def _create_nonce(self) -> str:
        return f"{next(self._attempts)}"

    def _read_ledger(self, key: LedgerKey) -> Ledger | None:
        cap = self._policy_set.caps.find_cap(key.cap, key.namespace)
        ledger = self._ledgers.transact(key, ReadTransition(), math.inf) or Ledger(NO_AMOUNTS)
        return ledger if cap is None else self._mark_counted(cap, key, ledger)

    def _mark_counted(self, cap: ActiveCap, key: LedgerKey, ledger: Ledger) -> Ledger:
        """Return the ledger with the names that it counts: not those of which a used amount is unknown."""
        unknown: Collection[str] = cap.device_meters.keys()
        if self._planned.has_devices:
            unknown = self._unknown.get(key, frozenset())
        return msgspec.structs.replace(ledger, resources=cap.counted - cap.list_sources(unknown))

    def _count_usage(
        self, state: ClusterState, caps: CapIndex, charged: Collection[str] | None
    ) -> dict[LedgerKey, Ledger]:
        """Return the ledgers with the used amounts, and without reservations."""
        stored = {*state.pods.list_namespaces(), *state.claims.list_namespaces()}
        caps_by_key = _find_caps(state, caps, sorted(stored if charged is None else charged))
        guaranteeing = [cap for cap in state.list_caps(caps) if cap.definition.guarantee]
        caps_by_key |= {key: cap for cap in guaranteeing for key in state.list_keys(cap)}
        foreign = [name for name in stored if state.namespaces.find(name) is None]
        ledgers = {}
        for key, cap in caps_by_key.items():
            members: Collection[str] = (names := state.get_membership(cap, key).names)
            guaranteed = cap.resolve_guarantees(names)
            if others := [name for name in foreign if key in _find_caps(state, caps, (name,))]:
                members = {*members, *others}
            if stored.isdisjoint(members) and not guaranteed:
                continue
            usage = state.count_usage(cap, members, None)
            for group in usage.invalid:
                raise _create_quantity_error(cap, group, state.pods.list_pod_names(group, 1))
            if usage.uncounted:
                self._unknown[key] = set(usage.uncounted)
            used = state.count_usage_by_namespace(cap, guaranteed, None)
            guarantees = create_guarantees(guaranteed, used)
            ledgers[key] = Ledger(cap.hard, usage.used, pods_revision=_COUNTED, guarantees=guarantees)
        return ledgers


def _find_caps(state: ClusterState, caps: CapIndex, namespaces: Iterable[str]) -> dict[LedgerKey, ActiveCap]:
    """Return the ledgers to which objects of these namespaces are charged, with their caps."""
    return {
        get_ledger_key(cap, namespace): cap
        for namespace in namespaces
        for cap in caps.find_matching(namespace, state.namespaces.labels(namespace)).caps
    }


def _create_quantity_error(cap: ActiveCap, pods: GroupUsage, names: Sequence[str]) -> StoredPodError:
    text = f"the snapshot's pod {pods.namespace}/{names[0]} has a quantity that no API server would have stored"
    try:
        cap.compute_charge(pods.group.to_pod())
    except QuantityError as error:
        text = f"{text}: {error}"
    return StoredPodError(text)


class _PlannedQuotas:
    """The quotas of a state, whose used amounts have what was charged here."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._added: dict[tuple[str, str], Amounts] = {}
        self._forecaster = QuotaForecaster(self, state.device_classes.get_resources_by_class, lambda _: True)

    def list_quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        """Return the quotas of a namespace."""
        return [self._add_charged(namespace, quota) for quota in self._state.quotas.list_quotas(namespace)]

    def admits(self, namespace: str, workload: ForecastWorkload, counted: Sequence[int]) -> bool:
        """Return whether all quotas have room for the pods of a workload that are not counted yet."""
        quotas = self.list_quotas(namespace)
        return not any(self._forecaster.find_excess(workload, counted, quota) for quota in quotas)

    def charge(self, namespace: str, workload: ForecastWorkload, counted: Sequence[int]) -> None:
        """Count the pods of a workload that are not counted yet, for the objects that follow."""
        for quota in self._state.quotas.list_quotas(namespace):
            key = namespace, (quota.metadata.name if quota.metadata else "") or ""
            increase = self._forecaster.compute_increase(workload, counted, quota)
            self._added[key] = self._added.get(key, NO_AMOUNTS) + increase

    def _add_charged(self, namespace: str, quota: ResourceQuota) -> ResourceQuota:
        added = self._added.get((namespace, (quota.metadata.name if quota.metadata else "") or ""))
        if not added or quota.status is None:
            return quota
        _, used = read_limits(quota)
        total = {name: _encode_amount(name, used.get(name, 0) + added.get(name, 0)) for name in used}
        return msgspec.structs.replace(quota, status=ResourceQuotaStatus(quota.status.hard, total))


def _encode_amount(name: str, amount: int) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(f"{amount}m" if is_milli(name) else f"{amount}").encode())
