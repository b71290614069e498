"""The evaluation of an object by the caps, on top of the pods and claims of a snapshot and the earlier manifests.

It uses the charging of the gate, with ledgers in memory whose used amounts are those of the snapshot's pods and claims
for devices. Without a snapshot nothing is used: each finding is then true at any time, and others may be missing.

The claims that templates make for a pod are forecast as by the gate, and then charged with it if they fit.

The comparison of claims with caps by allocated devices: with the least that they get of a snapshot's devices.

It uses the forecasts of the gate, with the ResourceSlices and claims of the snapshot. Nothing is reserved under such a
cap before kube-scheduler allocates devices, so each object is compared with the used amounts of the snapshot alone.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, format_amount
from tallygate.accounting.charge import ConsumerKind
from tallygate.accounting.devices.least_amounts import LeastAmounts, LeastAmountsReview
from tallygate.accounting.names import DEVICE_CLASS_PREFIX, is_extended
from tallygate.accounting.problem import Problem
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.cap_index import ActiveCap, CapIndex, MatchingCaps
from tallygate.admission.implied_requests import NO_IMPLIED
from tallygate.admission.kinds import BUILT_IN_TARGETS, DecodedRequest
from tallygate.admission.pod_view import PodView, ReplicaCount
from tallygate.admission.rule_codes import WORKLOAD_OVER_CAP
from tallygate.admission.rule_index import Labels
from tallygate.cli.check.merge import API_SERVER, ReportedProblem
from tallygate.cli.check.quota_check import QuotaChecker, select_pods
from tallygate.cli.manifests.typed_objects import TypedObject
from tallygate.cli.output.findings import FindingSeverity
from tallygate.cli.sources.snapshot_file import SnapshotError
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.kinds import CLAIMS, SLICES
from tallygate.cluster.usage_lister import get_ledger_key
from tallygate.gate.charge_transitions import ReadTransition
from tallygate.gate.charging import charge_consumer
from tallygate.objects.core import Pod
from tallygate.objects.devices import ResourceClaim, ResourceClaimTemplate
from tallygate.policy.model import ForecastEnforcement, PolicySet
from tallygate.review import claim_forecast
from tallygate.review.applied_workload import (
    DaemonPodCounter,
    ForecastPods,
    ForecastWorkload,
    count_daemon_pods,
    create_workload,
    multiply,
    sum_pod_sets,
)
from tallygate.review.cap_charge import CapCharge, ChargedConsumer, ChargeResult
from tallygate.review.cap_messages import (
    create_excess_problems,
    create_missing_limit_problem,
    create_soft_limit_warnings,
    create_unknown_product_problem,
)
from tallygate.review.device_forecast import compute_least, is_counted
from tallygate.review.gpu_annotation_review import find_uncounted_annotations
from tallygate.review.outcome import describe_unlabelled
from tallygate.review.whole_workloads import create_whole_problems, read_none, select_whole_caps
from tallygate.review.workload_forecast import describe_unknown_defaults, forecast_cap, list_unlimited
from tallygate.state.in_memory import MemoryLedgers
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.informers.consumer_store import GroupUsage
from tallygate.state.ledger.ledger import Ledger, Operation
from tallygate.state.ports import LedgerKey


class SnapshotUsage:
    """The used amounts by ledger; `ledgers` are without reservations."""

    def __init__(self, index: CapIndex, state: ClusterState) -> None:
        """Count the pods and claims.

        Raises:
            SnapshotError: if a pod is not as an API server would have stored it.
        """
        self.has_devices = state.knows(SLICES) and state.knows(CLAIMS)
        self._unknown: dict[LedgerKey, set[str]] = {}
        used_by_key: dict[LedgerKey, tuple[ActiveCap, Amounts]] = {}
        for namespace in sorted({*state.pods.list_namespaces(), *state.claims.list_namespaces()}):
            for cap in index.find_matching(namespace, state.namespaces.labels(namespace)).caps:
                count, key = state.count_usage(cap, (namespace,), None), get_ledger_key(cap, namespace)
                for group in count.invalid:
                    raise _create_quantity_error(cap, group, state.pods.list_pod_names(group, 1))
                used_by_key[key] = cap, used_by_key.get(key, (cap, NO_AMOUNTS))[1] + count.used
                if count.uncounted:
                    self._unknown.setdefault(key, set()).update(count.uncounted)
        self.ledgers = {key: Ledger(cap.hard, used) for key, (cap, used) in used_by_key.items()}

    def mark_counted(self, cap: ActiveCap, namespace: str, ledger: Ledger) -> Ledger:
        """Return the ledger with the names that it counts: not those of which a used amount is unknown."""
        unknown: Collection[str] = cap.device_meters.keys()
        if self.has_devices:
            unknown = self._unknown.get(get_ledger_key(cap, namespace), frozenset())
        return msgspec.structs.replace(ledger, resources=cap.counted - cap.list_sources(unknown))

    def describe_allocated(self, cap: ActiveCap, key: LedgerKey, names: Iterable[str]) -> str:
        """Return the used amounts under these names that count allocated devices, and what is not known of them."""
        if not self.has_devices:
            return "what is used under them is unknown, without the ResourceSlices and claims of a snapshot"
        ledger = self.ledgers.get(key)
        unknown: Collection[str] = self._unknown.get(key, ())
        used = NO_AMOUNTS if ledger is None else ledger.used
        return f"used {', '.join(_list_amounts(cap, names, used, unknown))}"


def _create_quantity_error(cap: ActiveCap, pods: GroupUsage, names: Sequence[str]) -> SnapshotError:
    text = f"the snapshot's pod {pods.namespace}/{names[0]} has a quantity that no API server would have stored"
    try:
        cap.compute_charge(pods.group.to_pod())
    except QuantityError as error:
        text = f"{text}: {error}"
    return SnapshotError(text)


def _list_amounts(cap: ActiveCap, names: Iterable[str], used: Amounts, unknown: Collection[str]) -> Iterator[str]:
    for name in sorted(names):
        amount = "unknown" if name in unknown else format_amount(name, used.get(name, 0))
        limit = f" of {format_amount(name, cap.hard[name])}" if name in cap.hard else ""
        yield f"{amount}{limit} {name}"


@dataclass(frozen=True, slots=True)
class CapCheckResult:
    """The problems that the caps and quotas report, and the messages on caps that were not evaluated.

    `admitted` is the number of the pods of each template that they admit now; None if they admit all, or are not asked.
    """

    problems: tuple[ReportedProblem, ...] = ()
    not_evaluated: tuple[str, ...] = ()
    admitted: tuple[int, ...] | None = None


class CapChecker:
    """A checker with the ledgers of all caps at the time `now`, filled from the state of a cluster.

    `count` is the number of pods of each template, in place of that in the objects.
    """

    def __init__(
        self,
        policies: PolicySet,
        state: ClusterState,
        now: datetime,
        count_daemon_pods: DaemonPodCounter | None = None,
        count: int | None = None,
    ) -> None:
        self._count = count
        self._find_pod_defaults = state.find_pod_defaults
        self._count_daemon_pods = count_daemon_pods
        self._state = state
        self._index = state.index_caps(policies, now)
        self._usage = SnapshotUsage(self._index, state)
        self._allocation = AllocationChecker(self._usage, state)
        self._ledgers = MemoryLedgers(self._usage.ledgers)
        self._quotas = QuotaChecker(state)
        self._pods: dict[str, Sequence[tuple[StoredConsumer, Mapping[str, str]]]] = {}
        self._existing: tuple[object, Sequence[StoredConsumer]] = (None, ())
        self._attempts = 0

    def charge(self, typed: TypedObject, labels: Labels | None) -> CapCheckResult:
        """Charge a pod, or all the pods that a workload makes, to the caps and quotas of its namespace.

        A rejected pod changes no ledger; of a workload those pods are charged that are admitted now. Pods of the same
        object that the snapshot counts are not charged again.
        """
        matching = self._index.find_matching(typed.subject.namespace, labels)
        result = self._charge(typed, matching)
        uncounted = tuple(
            _create_cap_problem(problem, FindingSeverity.WARNING)
            for view in typed.views
            if view.replicas is None or view.replicas.count
            for problem in find_uncounted_annotations(matching.caps, view.pod, view)
        )
        return replace(result, problems=(*result.problems, *uncounted)) if uncounted else result

    def _charge(self, typed: TypedObject, matching: MatchingCaps) -> CapCheckResult:
        namespace = typed.subject.namespace
        not_evaluated = tuple(describe_unlabelled(name, namespace) for name in matching.unknown)
        if isinstance(typed.content, ResourceClaim):
            return self._charge_claim(typed, typed.content, matching.caps, not_evaluated)
        if isinstance(typed.content, ResourceClaimTemplate):
            return CapCheckResult(self._forecast_devices(typed, matching.caps), not_evaluated)
        has_quotas = bool(self._quotas.list_quotas(namespace))
        if not typed.views or not (matching.caps or has_quotas):
            return CapCheckResult(not_evaluated=not_evaluated)
        planned, defaults = self._create_workload(typed), self._find_pod_defaults(namespace)
        if planned is None and typed.views[0].is_template:
            return CapCheckResult(not_evaluated=not_evaluated)
        pod_sets = self._list_pod_sets(typed, planned, matching.caps)
        workload = ForecastWorkload(tuple(pod_sets), defaults)
        unknown = [*describe_unknown_defaults(workload, matching.caps, ActiveCap.compute_charge)]
        not_evaluated += tuple(f"{default} in namespace {namespace}" for default in unknown)
        for pods in pod_sets:
            not_evaluated += tuple(self._describe_unread_claims(namespace, pods.claims, matching.caps))
            not_evaluated += tuple(_describe_unknown_classes(pods.view.pod, matching.caps))
        if planned is None:
            return self._charge_pod(typed, workload, matching.caps, not_evaluated)
        if planned.uncounted_kind:
            workload = replace(workload, uncounted_kind=planned.uncounted_kind)
        result = self._charge_workload(typed, workload, matching.caps)
        return replace(result, not_evaluated=(*not_evaluated, *result.not_evaluated))

    def _charge_workload(
        self, typed: TypedObject, workload: ForecastWorkload, caps: Sequence[ActiveCap]
    ) -> CapCheckResult:
        """Charge the pods of a workload; where forecasts find too little room, those that are admitted now."""
        namespace, pod_sets = typed.subject.namespace, workload.pod_sets
        whole_caps = select_whole_caps(typed.target, caps)
        problems = self._forecast(typed, workload, caps, whole_caps)
        if problems and whole_caps and not _has_error(problems):
            problems += self._charge_pods(typed, pod_sets, whole_caps)
        if workload.uncounted_kind and not problems:
            message = f"caps were not asked: how many pods a {workload.uncounted_kind} makes is not known"
            return CapCheckResult(not_evaluated=(message,))
        existing = self._count_existing(typed, pod_sets)
        problems += self._forecast_quotas(namespace, workload, existing)
        if not problems:
            problems = self._charge_pods(typed, pod_sets, caps)
            if not _has_error(problems):
                self._quotas.charge(namespace, workload, existing)
                return CapCheckResult(problems)
        admitted = self._admit_part(typed, workload, caps, is_rejected=_has_error(problems))
        return CapCheckResult(problems, admitted=admitted)

    def _charge_pod(
        self, typed: TypedObject, workload: ForecastWorkload, caps: Sequence[ActiveCap], not_evaluated: tuple[str, ...]
    ) -> CapCheckResult:
        """Charge a single pod: a cap or quota without room rejects it, if it is not stored yet."""
        namespace = typed.subject.namespace
        if any(self._count_existing(typed, workload.pod_sets)):
            return CapCheckResult(self._charge_pods(typed, workload.pod_sets, caps), not_evaluated)
        rejections = tuple(
            ReportedProblem(problem, API_SERVER, FindingSeverity.ERROR)
            for problem in self._quotas.check_pod(namespace, workload)
        )
        problems = rejections or self._charge_pods(typed, workload.pod_sets, caps)
        if _has_error(problems):
            return CapCheckResult(problems, not_evaluated, (0,))
        self._quotas.charge(namespace, workload, [0])
        return CapCheckResult(problems, not_evaluated)

    def _forecast_quotas(
        self, namespace: str, workload: ForecastWorkload, existing: Sequence[int]
    ) -> tuple[ReportedProblem, ...]:
        """Return the forecasts of the quotas, which reject pods of a workload when its controller creates them."""
        problems = self._quotas.forecast(namespace, workload, existing)
        return tuple(ReportedProblem(problem, API_SERVER, FindingSeverity.WARNING) for problem in problems)

    def _count_existing(self, typed: TypedObject, pod_sets: Sequence[ForecastPods]) -> list[int]:
        return [
            min(len(self._find_existing_pods(typed, pods.view)), pods.replicas.count) if pods.replicas.count else 0
            for pods in pod_sets
        ]

    def _admit_part(
        self, typed: TypedObject, workload: ForecastWorkload, caps: Sequence[ActiveCap], *, is_rejected: bool
    ) -> tuple[int, ...]:
        """Charge the pods of a workload that fit now, and return their number by template, with those that exist.

        The pods of the first template are created first. Of a workload whose pods start together, all or none fit.
        """
        pod_sets = workload.pod_sets
        counts = existing = self._count_existing(typed, pod_sets)
        if is_rejected or typed.target.starts_together:
            return tuple(counts)
        for index, pods in enumerate(pod_sets):
            low, high = counts[index], pods.replicas.count
            while low < high:
                middle = -(-(low + high) // 2)
                fits = self._fits(typed, workload, [*counts[:index], middle, *counts[index + 1 :]], caps)
                low, high = (middle, high) if fits else (low, middle - 1)
            counts = [*counts[:index], low, *counts[index + 1 :]]
        part = select_pods(workload, counts)
        self._reserve(typed, [self._sum_charges(typed, part.pod_sets, cap) for cap in caps], ConsumerKind.POD)
        self._quotas.charge(typed.subject.namespace, part, existing)
        return tuple(counts)

    def _fits(
        self, typed: TypedObject, workload: ForecastWorkload, counts: Sequence[int], caps: Sequence[ActiveCap]
    ) -> bool:
        """Return whether caps and quotas have room for such a part of a workload."""
        part = select_pods(workload, counts)
        charges = [self._sum_charges(typed, part.pod_sets, cap) for cap in caps]
        if self._reserve(typed, charges, ConsumerKind.POD, is_dry_run=True).exceeded:
            return False
        return self._quotas.admits(typed.subject.namespace, part, self._count_existing(typed, workload.pod_sets))

    def _create_workload(self, typed: TypedObject) -> ForecastWorkload | None:
        """Return the workload in an object, a DaemonSet with its pods on the nodes of the snapshot."""
        if self._count is not None:
            return ForecastWorkload(tuple(ForecastPods(view, ReplicaCount(self._count)) for view in typed.views))
        workload = create_workload(typed.content, typed.views)
        kind = typed.manifest.group, typed.manifest.kind
        implied = NO_IMPLIED.with_defaults(self._find_pod_defaults(typed.subject.namespace))
        return workload and count_daemon_pods(workload, kind, typed.body, implied, self._count_daemon_pods)

    def _list_pod_sets(
        self, typed: TypedObject, planned: ForecastWorkload | None, caps: Sequence[ActiveCap]
    ) -> list[ForecastPods]:
        """Return the pods of an object, with the claims that templates make for them."""
        pod_sets = planned.pod_sets if planned else (ForecastPods(typed.views[0], ReplicaCount(1)),)
        return [replace(pods, claims=self._find_claims(typed, pods.view, caps)) for pods in pod_sets]

    def _find_claims(self, typed: TypedObject, view: PodView, caps: Sequence[ActiveCap]) -> claim_forecast.PodClaims:
        """Return the claims that templates make for each pod of an object; none for a stored pod, as in the gate."""
        if not any(
            cap.counts_claims
            or cap.multiplies_devices
            or any(map(may_count_devices, cap.definition.list_requested_names()))
            for cap in caps
        ):
            return claim_forecast.NO_CLAIMS
        if not view.is_template and self._find_existing_pods(typed, view):
            return claim_forecast.NO_CLAIMS
        claims = claim_forecast.find_pod_claims(view.pod, typed.subject.namespace, self._state.claim_templates)
        claims = claims.with_review(self._allocation.start_review())
        return msgspec.structs.replace(claims, is_controlled=False)  # a user reads the findings about every pod

    def _describe_unread_claims(
        self, namespace: str, claims: claim_forecast.PodClaims, caps: Sequence[ActiveCap]
    ) -> Iterator[str]:
        """Yield a message for claims that are unknown, and for what is not known of the others."""
        if message := claim_forecast.describe_unknown(claims):
            yield f"{message} in namespace {namespace}"
        for claim in claims.claims:
            yield from map(_describe_unknown_class, self._list_unknown_classes(claim, caps))
            yield from self._allocation.describe(namespace, claim, caps, partial(self._read_ledger, namespace))

    def _charge_claim(
        self, typed: TypedObject, claim: ResourceClaim, caps: Sequence[ActiveCap], not_evaluated: tuple[str, ...]
    ) -> CapCheckResult:
        """Charge a claim for devices; a stored one is counted already, and its requests never change."""
        subject = typed.subject
        if not caps or self._state.claims.find_record(subject.namespace, subject.name) is not None:
            return CapCheckResult(not_evaluated=not_evaluated)
        charges = [CapCharge(cap, NO_AMOUNTS, cap.compute_claim_charge(claim), may_exceed=False) for cap in caps]
        unknown = tuple(
            _create_cap_problem(create_unknown_product_problem(cap, name), _get_severity(cap, name))
            for cap in caps
            for name in cap.list_unknown_products(claim)
        )
        if any(each.severity is FindingSeverity.ERROR for each in unknown):
            return CapCheckResult(unknown, not_evaluated)
        result = self._reserve(typed, charges, ConsumerKind.CLAIM)
        waiting = () if result.exceeded else self._forecast_devices(typed, caps)
        remarks = self._describe_unread_claims(subject.namespace, claim_forecast.PodClaims((claim,)), caps)
        return CapCheckResult((*unknown, *_list_problems(result), *waiting), (*not_evaluated, *remarks))

    def _forecast_devices(self, typed: TypedObject, caps: Sequence[ActiveCap]) -> tuple[ReportedProblem, ...]:
        """Return the forecast for the devices of a claim, or of the claims of a template."""
        problems = self._allocation.forecast(typed, caps, partial(self._read_ledger, typed.subject.namespace))
        return tuple(_create_cap_problem(problem, FindingSeverity.WARNING) for problem in problems)

    def _list_unknown_classes(self, claim: ResourceClaim, caps: Sequence[ActiveCap]) -> list[str]:
        """Return the classes of a claim of which neither a class nor a cap says whether they count."""
        devices = claim.spec.devices if claim.spec else None
        requests = (devices.requests if devices else None) or ()
        exact = {request.exactly.device_class_name for request in requests if request.exactly is not None}
        alternatives = {other.device_class_name for request in requests for other in request.first_available or ()}
        known = {name for cap in caps for source in cap.device_sources.values() for name in source.classes}
        return sorted((exact | alternatives) - known - self._state.device_classes.get_resources_by_class().keys())

    def has_existing_pods(self, typed: TypedObject) -> bool:
        """Return whether the snapshot has pods of the same object."""
        return any(self._find_existing_pods(typed, view) for view in typed.views)

    def _forecast(
        self,
        typed: TypedObject,
        planned: ForecastWorkload,
        caps: Sequence[ActiveCap],
        whole_caps: Sequence[ActiveCap],
    ) -> tuple[ReportedProblem, ...]:
        """Return the forecast for the pods of a workload, as the gate would report it for the applied object.

        The charge decides about the amounts under the caps that admit it as a whole.
        """
        problems: list[ReportedProblem] = []
        for cap in caps:
            used, pod_sets = NO_AMOUNTS, []
            for pods in planned.pod_sets:
                existing = self._find_existing_pods(typed, pods.view)
                owned = self._list_owned(existing)
                claims = select_comparable(pods.claims, cap, owned, len(existing))
                used += sum((_compute_used(cap, pod) for pod in existing), _compute_owned(cap, owned, claims))
                used += compute_least(cap, owned, claims.review)
                pod_sets.append(replace(pods, claims=claims))
            is_whole = cap in whole_caps
            read = partial(self._read_ledger, typed.subject.namespace, cap)
            compared, read_free = replace(planned, pod_sets=tuple(pod_sets)), read_none if is_whole else read
            for forecast in forecast_cap(compared, cap, cap.compute_charge, used, read_free):
                if is_whole and forecast.problem.code == WORKLOAD_OVER_CAP:
                    continue
                is_denied = forecast.affects_all or (
                    forecast.permanent and cap.definition.workloads is ForecastEnforcement.DENY
                )
                problems.append(
                    _create_cap_problem(
                        forecast.problem, FindingSeverity.ERROR if is_denied else FindingSeverity.WARNING
                    )
                )
        return tuple(problems)

    def _read_ledger(self, namespace: str, cap: ActiveCap) -> Ledger:
        key = get_ledger_key(cap, namespace)
        ledger = self._ledgers.transact(key, ReadTransition(), math.inf) or Ledger(NO_AMOUNTS)
        return self._usage.mark_counted(cap, namespace, ledger)

    def _list_owned(self, pods: Iterable[StoredConsumer]) -> tuple[ResourceClaim, ...]:
        """Return the claims that templates made for stored pods."""
        return tuple(claim for pod in pods for claim in self._state.list_template_claims(pod.uid))

    def _charge_pods(
        self, typed: TypedObject, pod_sets: Sequence[ForecastPods], caps: Sequence[ActiveCap]
    ) -> tuple[ReportedProblem, ...]:
        """Charge all pods of an object together."""
        defaults = self._find_pod_defaults(typed.subject.namespace)
        missing_limits = tuple(
            _create_cap_problem(
                create_missing_limit_problem(cap, name, names, pods.template, pods.view.locate),
                _get_severity(cap, name),
            )
            for cap in caps
            for pods in pod_sets
            if pods.replicas.count and not pods.view.is_partial
            for name, names in list_unlimited(cap.compute_charge(pods.template), pods.template, defaults)
        )
        if any(limit.severity is FindingSeverity.ERROR for limit in missing_limits):
            return missing_limits
        charges = [self._sum_charges(typed, pod_sets, cap) for cap in caps]
        claims = pod_sets[0].claims
        if pod_sets[0].view.is_template or not claims.claims:
            is_whole = typed.target.starts_together
            pod_count = sum(pods.replicas.count for pods in pod_sets) if is_whole else 0
            charged = self._reserve(typed, charges, ConsumerKind.POD)
            return (*missing_limits, *_list_problems(charged, typed.manifest.kind, pod_count))
        return (*missing_limits, *self._charge_pod_with_claims(typed, charges, claims))

    def _sum_charges(self, typed: TypedObject, pod_sets: Sequence[ForecastPods], cap: ActiveCap) -> CapCharge:
        """Return the charge of all pods of an object, and what the cap counts for those that exist."""
        current = NO_AMOUNTS
        requested: list[tuple[ReplicaCount, Amounts]] = []
        for pods in pod_sets:
            existing = self._find_existing_pods(typed, pods.view)
            current += sum((_compute_used(cap, pod) for pod in existing), NO_AMOUNTS)
            per_pod = cap.compute_charge(pods.template).amounts
            if pods.view.is_template:
                current += _compute_owned(cap, self._list_owned(existing), pods.claims)
                per_pod += pods.claims.compute_charge(cap)
            requested.append((pods.replicas, per_pod))
        pods, *others = pod_sets
        is_one_pod = pods.replicas.count == 1 and not (others or pods.claims.claims)
        explained = pods.template if cap.derived and is_one_pod else None
        return CapCharge(cap, current, sum_pod_sets(requested), may_exceed=False, pod=explained)

    def _charge_pod_with_claims(
        self, typed: TypedObject, charges: Sequence[CapCharge], claims: claim_forecast.PodClaims
    ) -> tuple[ReportedProblem, ...]:
        """Charge a pod, and its claims too if all of them fit besides it."""
        if impossible := [*claim_forecast.forecast_impossible_claims(claims, charges)]:
            return tuple(_create_cap_problem(problem, FindingSeverity.ERROR) for problem in impossible)
        checked = self._reserve(typed, charges, ConsumerKind.POD, is_dry_run=True)
        mark_counted, namespace = self._usage.mark_counted, typed.subject.namespace
        reserved = [
            msgspec.structs.replace(result, ledger=mark_counted(result.charge.cap, namespace, result.ledger))
            for result in checked.reserved
        ]
        waiting = [
            _create_cap_problem(problem, FindingSeverity.WARNING)
            for problem in claim_forecast.forecast_waiting_claims(claims, reserved)
        ]
        together = [
            msgspec.structs.replace(charge, requested=charge.requested + claims.compute_charge(charge.cap))
            for charge in charges
        ]
        result = self._reserve(typed, together, ConsumerKind.POD)
        if result.exceeded:
            result = self._reserve(typed, charges, ConsumerKind.POD)
        return (*_list_problems(result), *waiting)

    def _reserve(
        self, typed: TypedObject, charges: Sequence[CapCharge], kind: ConsumerKind, *, is_dry_run: bool = False
    ) -> ChargeResult:
        """Charge an object under all its caps, or under none if one rejects it."""
        self._attempts += 1
        attempt, subject = f"{self._attempts}", typed.subject
        consumer = ChargedConsumer(
            attempt, subject.namespace, subject.name, attempt, Operation.CREATE, is_dry_run=is_dry_run, kind=kind
        )
        return charge_consumer(self._ledgers, consumer, charges, math.inf)

    def _find_existing_pods(self, typed: TypedObject, view: PodView) -> Sequence[StoredConsumer]:
        """Return the stored pods of an object: the pod itself, or all pods with the labels of the template."""
        namespace = typed.subject.namespace
        if not view.is_template:
            return [pod for pod, _ in self._list_pods(namespace) if pod.name == typed.subject.name]
        labels = (view.pod.metadata.labels if view.pod.metadata else None) or {}
        key = namespace, frozenset(labels.items())
        if self._existing[0] != key:  # several steps of one object ask for the same pods
            found = [pod for pod, own in self._list_pods(namespace) if labels and labels.items() <= own.items()]
            self._existing = key, found
        return self._existing[1]

    def _list_pods(self, namespace: str) -> Sequence[tuple[StoredConsumer, Mapping[str, str]]]:
        """Return the stored pods of a namespace with their labels."""
        if namespace not in self._pods:
            pods = self._state.pods.list_all(namespace)
            self._pods[namespace] = [(pod, self._state.read_labels(pod)) for pod in pods]
        return self._pods[namespace]


def _has_error(problems: Iterable[ReportedProblem]) -> bool:
    return any(problem.severity is FindingSeverity.ERROR for problem in problems)


def may_count_devices(name: str) -> bool:
    """Return whether a name in a cap may stand for devices, whatever classes exist."""
    return is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX)


def _compute_used(cap: ActiveCap, pod: StoredConsumer) -> Amounts:
    return NO_AMOUNTS if pod.has_ended else cap.compute_charge(pod.group.to_pod()).amounts


def _compute_owned(cap: ActiveCap, owned: Sequence[ResourceClaim], claims: claim_forecast.PodClaims) -> Amounts:
    """Return what a cap counts for the claims that templates made for the stored pods of a workload.

    If `claims`, those of a further pod, are unknown, the increase is unknown too, so both are without claims.
    """
    return NO_AMOUNTS if claims.unknown else claim_forecast.PodClaims(tuple(owned)).compute_charge(cap)


def _list_problems(result: ChargeResult, kind: str = "", pod_count: int = 0) -> tuple[ReportedProblem, ...]:
    """Return the problems that a charge gives; `kind` and `pod_count` are those of a workload that starts together."""
    errors = [
        _create_cap_problem(problem, FindingSeverity.ERROR)
        for exceeded in result.exceeded
        for problem in (
            create_whole_problems(exceeded, kind, pod_count)
            if pod_count and exceeded.charge.cap.definition.admits_whole
            else create_excess_problems(exceeded)
        )
    ]
    warnings = [
        _create_cap_problem(problem, FindingSeverity.WARNING)
        for reserved in result.reserved
        for problem in create_soft_limit_warnings(reserved)
    ]
    return (*errors, *warnings)


def _describe_unknown_class(name: str) -> str:
    return (
        f"claims of class {name} were not compared with the extended resources of caps: the class is neither in the "
        "manifests nor in the snapshot"
    )


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


def _get_severity(cap: ActiveCap, name: str) -> FindingSeverity:
    """Return the severity of a problem under a name: without a hard limit a cap rejects nothing."""
    return FindingSeverity.ERROR if name in cap.hard else FindingSeverity.WARNING


def _create_cap_problem(problem: Problem, severity: FindingSeverity) -> ReportedProblem:
    return ReportedProblem(problem, f"cap {problem.rule}", severity)


class AllocationChecker:
    """A checker of claims under names that count allocated devices. `read_ledger` states which names it counts."""

    def __init__(self, usage: SnapshotUsage, state: ClusterState) -> None:
        self._usage = usage
        self._least_amounts = LeastAmounts(
            lambda: state.devices.list_slices() if usage.has_devices else None, state.device_classes.find_selectors
        )

    def start_review(self) -> LeastAmountsReview:
        """Return the least amounts for the claims of one object."""
        return self._least_amounts.start_review()

    def forecast(
        self, typed: TypedObject, caps: Sequence[ActiveCap], read_ledger: claim_forecast.LedgerReader
    ) -> Iterator[Problem]:
        """Yield a problem for each cap that has no room for a claim or template, as the gate warns its creator."""
        return claim_forecast.forecast_devices(
            DecodedRequest(typed.request, BUILT_IN_TARGETS), caps, self._least_amounts, read_ledger
        )

    def describe(
        self, namespace: str, claim: ResourceClaim, caps: Iterable[ActiveCap], read_ledger: claim_forecast.LedgerReader
    ) -> Iterator[str]:
        """Yield a message for each cap with names under which a claim was not compared with the limit."""
        review = self.start_review()
        for cap in caps:
            if not cap.counts_allocation(claim, is_owned=False):
                continue
            ledger = read_ledger(cap)
            compared = {
                name
                for name in compute_least(cap, (claim,), review)
                if name in cap.hard and ledger is not None and is_counted(ledger, cap, name)
            }
            names = sorted(cap.device_meters.keys() - compared)
            if names:
                used = self._usage.describe_allocated(cap, get_ledger_key(cap, namespace), names)
                some = "some " * self._usage.has_devices
                yield (
                    f"cap {cap.definition.name} counts {', '.join(names)} when devices are allocated, so {some}claims "
                    f"of namespace {namespace} were not compared with it; {used}"
                )


def select_comparable(
    claims: claim_forecast.PodClaims, cap: ActiveCap, stored: Sequence[ResourceClaim], pod_count: int
) -> claim_forecast.PodClaims:
    """Return the claims of each pod of a workload, without the least amounts if its stored pods have other claims.

    Those may have got more than their least, so the increase is unknown, as in the gate (`add_claims`).
    """
    is_alike = compute_least(cap, stored, claims.review) == multiply(claims.compute_least(cap), pod_count)
    return claims if is_alike else msgspec.structs.replace(claims, review=None)
