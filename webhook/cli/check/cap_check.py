"""The evaluation of an object by the caps, on top of the pods of a snapshot and the earlier manifests.

It uses the charging of the gate, with ledgers in memory whose used amounts are those of the snapshot's pods. Without a
snapshot nothing is used: each finding is then true at any time, and others may be missing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tallygate.webhook.accounting.amounts import Amounts
from tallygate.webhook.accounting.problem import Problem
from tallygate.webhook.accounting.quantity_parser import QuantityError
from tallygate.webhook.admission.cap_index import ActiveCap, CapIndex
from tallygate.webhook.admission.rule_index import Labels
from tallygate.webhook.cli.check.merge import ReportedProblem
from tallygate.webhook.cli.manifests.typed_objects import TypedObject
from tallygate.webhook.cli.output.findings import FindingSeverity
from tallygate.webhook.cli.sources.snapshot_reader import SnapshotContents, SnapshotError
from tallygate.webhook.gate.charging import CapCharge, ChargedConsumer, ReadTransition, charge_consumer
from tallygate.webhook.gate.decisions import (
    create_excess_problems,
    create_missing_limit_problem,
    create_soft_limit_warnings,
)
from tallygate.webhook.gate.usage_lister import get_ledger_key
from tallygate.webhook.gate.workload_forecast import ForecastWorkload, create_workload, forecast_cap
from tallygate.webhook.objects.core import Pod
from tallygate.webhook.objects.meta import ObjectMeta
from tallygate.webhook.policy.model import ForecastEnforcement, PolicySet
from tallygate.webhook.state.in_memory import MemoryLedgers
from tallygate.webhook.state.ledger.ledger import Ledger, Operation
from tallygate.webhook.state.ports import LedgerKey

_NO_AMOUNTS = Amounts()
_ONE_PER_NODE = "DaemonSet"


@dataclass(frozen=True, slots=True)
class CapCheckResult:
    """The problems that the caps report, and the messages on caps that were not evaluated."""

    problems: tuple[ReportedProblem, ...] = ()
    not_evaluated: tuple[str, ...] = ()


class CapChecker:
    """A checker with the ledgers of all caps, filled from a snapshot."""

    def __init__(self, policies: PolicySet, snapshot: SnapshotContents) -> None:
        self._index = CapIndex(policies)
        self._pods: dict[str, list[Pod]] = {}
        for pod in snapshot.pods:
            self._pods.setdefault(_get_metadata(pod).namespace or "", []).append(pod)
        self._ledgers = self._create_ledgers(snapshot)
        self._attempts = 0

    def charge(self, typed: TypedObject, labels: Labels | None) -> CapCheckResult:
        """Charge a pod, or all the pods that a workload makes, to the caps over its namespace.

        A rejected charge changes no ledger. Pods of the same object that the snapshot counts are not charged again.
        """
        namespace = typed.subject.namespace
        matching = self._index.find_matching(namespace, labels)
        not_evaluated = tuple(
            f"cap {name} was not evaluated: it selects namespaces by label, and the labels of namespace {namespace} "
            "are unknown here"
            for name in matching.unknown
        )
        if typed.view is None or not matching.caps:
            return CapCheckResult(not_evaluated=not_evaluated)
        if not typed.view.is_template:
            return CapCheckResult(self._charge_pods(typed, typed.view.pod, matching.caps, 1), not_evaluated)
        planned = create_workload(typed.manifest.kind, typed.content, typed.view)
        if planned is None:
            return CapCheckResult(not_evaluated=not_evaluated)
        problems = self._forecast(typed, planned, matching.caps)
        if problems:
            return CapCheckResult(problems, not_evaluated)
        if typed.manifest.kind == _ONE_PER_NODE:
            return CapCheckResult(
                not_evaluated=(*not_evaluated, "caps were not asked: how many pods a DaemonSet makes is not known")
            )
        return CapCheckResult(
            self._charge_pods(typed, typed.view.pod, matching.caps, planned.replicas.count), not_evaluated
        )

    def has_existing_pods(self, typed: TypedObject) -> bool:
        """Return whether the snapshot has pods of the same object."""
        return typed.view is not None and bool(self._find_existing_pods(typed, typed.view.pod))

    def _forecast(
        self, typed: TypedObject, planned: ForecastWorkload, caps: Sequence[ActiveCap]
    ) -> tuple[ReportedProblem, ...]:
        """Return the forecast for the pods of a workload, as the gate would report it for the applied object."""
        existing = self._find_existing_pods(typed, planned.template)
        problems: list[ReportedProblem] = []
        for cap in caps:
            used = sum((_compute_used(cap, pod) for pod in existing), _NO_AMOUNTS)
            key = get_ledger_key(cap, typed.subject.namespace)
            for forecast in forecast_cap(planned, cap, cap.compute_charge, used, partial(self._read_ledger, key)):
                is_denied = forecast.affects_all or (
                    forecast.permanent and cap.definition.workloads is ForecastEnforcement.DENY
                )
                problems.append(
                    _create_cap_problem(
                        forecast.problem, FindingSeverity.ERROR if is_denied else FindingSeverity.WARNING
                    )
                )
        return tuple(problems)

    def _read_ledger(self, key: LedgerKey) -> Ledger:
        return self._ledgers.transact(key, ReadTransition(), math.inf) or Ledger(_NO_AMOUNTS)

    def _charge_pods(
        self, typed: TypedObject, pod: Pod, caps: Sequence[ActiveCap], count: int
    ) -> tuple[ReportedProblem, ...]:
        existing = self._find_existing_pods(typed, pod)
        charges: list[CapCharge] = []
        missing_limits: list[Problem] = []
        for cap in caps:
            pod_charge = cap.compute_charge(pod)
            path = typed.view.path if typed.view else ""
            missing_limits += [
                create_missing_limit_problem(cap.definition.name, name, names, path)
                for name, names in pod_charge.unlimited.items()
            ]
            current = sum((cap.compute_charge(each).amounts for each in existing), _NO_AMOUNTS)
            charges.append(CapCharge(cap, current, _multiply(pod_charge.amounts, count), may_exceed=False))
        if missing_limits:
            return tuple(_create_cap_problem(problem, FindingSeverity.ERROR) for problem in missing_limits)
        self._attempts += 1
        charged_pod = ChargedConsumer(
            f"{self._attempts}", typed.subject.namespace, typed.subject.name, f"{self._attempts}", Operation.CREATE
        )
        result = charge_consumer(self._ledgers, charged_pod, charges, math.inf)
        errors = [
            _create_cap_problem(problem, FindingSeverity.ERROR)
            for exceeded in result.exceeded
            for problem in create_excess_problems(exceeded)
        ]
        warnings = [
            _create_cap_problem(problem, FindingSeverity.WARNING)
            for reserved in result.reserved
            for problem in create_soft_limit_warnings(reserved)
        ]
        return (*errors, *warnings)

    def _find_existing_pods(self, typed: TypedObject, pod: Pod) -> list[Pod]:
        """Return the snapshot's pods of an object: the pod itself, or all pods with the labels of the template."""
        pods = self._pods.get(typed.subject.namespace, [])
        if typed.view is None or not typed.view.is_template:
            return [each for each in pods if _get_metadata(each).name == typed.subject.name]
        labels = (_get_metadata(pod).labels or {}).items()
        return [each for each in pods if labels and labels <= (_get_metadata(each).labels or {}).items()]

    def _create_ledgers(self, snapshot: SnapshotContents) -> MemoryLedgers:
        used_by_key: dict[LedgerKey, tuple[ActiveCap, Amounts]] = {}
        for pod in snapshot.pods:
            namespace = _get_metadata(pod).namespace or ""
            for cap in self._index.find_matching(namespace, snapshot.labels_by_namespace.get(namespace)).caps:
                key = get_ledger_key(cap, namespace)
                previous = used_by_key.get(key, (cap, _NO_AMOUNTS))[1]
                used_by_key[key] = (cap, previous + _compute_used(cap, pod))
        return MemoryLedgers({key: Ledger(cap.hard, used) for key, (cap, used) in used_by_key.items()})


def _compute_used(cap: ActiveCap, pod: Pod) -> Amounts:
    try:
        return cap.compute_charge(pod).amounts
    except QuantityError as error:
        name = f"{_get_metadata(pod).namespace}/{_get_metadata(pod).name}"
        raise SnapshotError(
            f"the snapshot's pod {name} has a quantity that no API server would have stored: {error}"
        ) from error


def _create_cap_problem(problem: Problem, severity: FindingSeverity) -> ReportedProblem:
    return ReportedProblem(problem, f"cap {problem.rule}", severity)


def _multiply(amounts: Amounts, count: int) -> Amounts:
    return Amounts({name: amount * count for name, amount in amounts.items()})


def _get_metadata(pod: Pod) -> ObjectMeta:
    return pod.metadata or ObjectMeta()
