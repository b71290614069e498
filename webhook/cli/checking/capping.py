"""What the caps say of an object, on top of what a snapshot's pods hold and earlier manifests would take.

The very charging of the gate, over a ledger in memory whose tally is what the snapshot counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from webhook.accounting.amounts import Amounts
from webhook.accounting.problem import Problem
from webhook.accounting.quantity_parser import QuantityError
from webhook.admission.capping import CapIndex, ActiveCap
from webhook.admission.selection import Labels
from webhook.cli.checking.known import Known
from webhook.cli.checking.merging import Said
from webhook.cli.checking.snapshot import Snapshot, SnapshotError
from webhook.cli.report.finding import Level
from webhook.gate.charging import CapCharge, ChargedPod, PodCharger, ReadTransition
from webhook.gate.messages import create_excess_problems, create_missing_limit_problem, create_soft_limit_warnings
from webhook.gate.workload_forecast import ForecastWorkload, create_workload, forecast_cap
from webhook.objects.core import Pod
from webhook.objects.meta import ObjectMeta
from webhook.policy.model import ForecastEnforcement, PolicySet
from webhook.state.in_memory import MemoryLedgers
from webhook.state.ledger.ledger import Ledger, Operation
from webhook.state.ports import LedgerKey

_NOTHING = Amounts()
_ONE_PER_NODE = "DaemonSet"


@dataclass(frozen=True, slots=True)
class Capped:
    """What the caps say, and what could not be charged."""

    said: tuple[Said, ...] = ()
    unknown: tuple[str, ...] = ()


class Caps:
    """Every cap's ledger, as the snapshot fills it."""

    def __init__(self, policies: PolicySet, snapshot: Snapshot) -> None:
        self._index = CapIndex(policies)
        self._pods: dict[str, list[Pod]] = {}
        for pod in snapshot.pods:
            self._pods.setdefault(_meta(pod).namespace or "", []).append(pod)
        self._ledgers = self._counted(snapshot)
        self._attempts = 0

    def charge(self, known: Known, labels: Labels | None) -> Capped:
        """Charge a pod, or all the pods that a workload makes, to the caps over its namespace.

        What is refused is charged to none. Pods of the same object that the snapshot counts are not charged again.
        """
        namespace = known.subject.namespace
        caps = self._index.find_matching(namespace, labels)
        unknown = tuple(
            f"cap {name} was not asked: it selects namespaces by label, and the labels of namespace {namespace} are "
            "not known here"
            for name in caps.unknown
        )
        if known.view is None or not caps.caps:
            return Capped(unknown=unknown)
        if not known.view.is_template:
            return Capped(self._charged(known, known.view.pod, caps.caps, 1), unknown)
        asked = create_workload(known.manifest.kind, known.judged, known.view)
        if asked is None:
            return Capped(unknown=unknown)
        foreseen = self._foreseen(known, asked, caps.caps)
        if foreseen:
            return Capped(foreseen, unknown)
        if known.manifest.kind == _ONE_PER_NODE:
            return Capped(unknown=(*unknown, "caps were not asked: how many pods a DaemonSet makes is not known"))
        return Capped(self._charged(known, known.view.pod, caps.caps, asked.replicas.count), unknown)

    def has_own(self, known: Known) -> bool:
        """Whether the snapshot has pods of this very object."""
        return known.view is not None and bool(self._stored(known, known.view.pod))

    def _foreseen(self, known: Known, asked: ForecastWorkload, caps: Sequence[ActiveCap]) -> tuple[Said, ...]:
        """What will become of a workload's pods, as the gate would say when it is applied."""
        stored = self._stored(known, asked.template)
        said: list[Said] = []
        for counted in caps:
            before = sum((_held(counted, pod) for pod in stored), _NOTHING)
            key = LedgerKey(counted.key, "" if counted.definition.shared else known.subject.namespace)
            for each in forecast_cap(asked, counted, counted.compute_charge, before, partial(self._ledger, key)):
                refused = each.permanent and counted.definition.workloads is ForecastEnforcement.DENY
                said.append(_cap(each.problem, Level.ERROR if refused else Level.WARNING))
        return tuple(said)

    def _ledger(self, key: LedgerKey) -> Ledger:
        return self._ledgers.transact(key, ReadTransition(), math.inf) or Ledger(_NOTHING)

    def _charged(self, known: Known, pod: Pod, caps: Sequence[ActiveCap], count: int) -> tuple[Said, ...]:
        stored = self._stored(known, pod)
        asked: list[CapCharge] = []
        missing: list[Problem] = []
        for counted in caps:
            charge = counted.compute_charge(pod)
            path = known.view.path if known.view else ""
            missing += [
                create_missing_limit_problem(counted.definition.name, name, names, path)
                for name, names in charge.unlimited.items()
            ]
            held = sum((counted.compute_charge(each).amounts for each in stored), _NOTHING)
            asked.append(CapCharge(counted, held, _times(charge.amounts, count), may_exceed=False))
        if missing:
            return tuple(_cap(problem, Level.ERROR) for problem in missing)
        self._attempts += 1
        who = ChargedPod(
            f"{self._attempts}", known.subject.namespace, known.subject.name, f"{self._attempts}", Operation.CREATE
        )
        outcome = PodCharger(self._ledgers, who, math.inf).charge(asked)
        refused = [
            _cap(problem, Level.ERROR) for booked in outcome.exceeded for problem in create_excess_problems(booked)
        ]
        soft = [
            _cap(problem, Level.WARNING)
            for booked in outcome.reserved
            for problem in create_soft_limit_warnings(booked)
        ]
        return (*refused, *soft)

    def _stored(self, known: Known, pod: Pod) -> list[Pod]:
        """The snapshot's pods that are this object's own: the pod itself, or all that carry the template's labels."""
        pods = self._pods.get(known.subject.namespace, [])
        if known.view is None or not known.view.is_template:
            return [each for each in pods if _meta(each).name == known.subject.name]
        wanted = (_meta(pod).labels or {}).items()
        return [each for each in pods if wanted and wanted <= (_meta(each).labels or {}).items()]

    def _counted(self, snapshot: Snapshot) -> MemoryLedgers:
        tallies: dict[LedgerKey, tuple[ActiveCap, Amounts]] = {}
        for pod in snapshot.pods:
            namespace = _meta(pod).namespace or ""
            for counted in self._index.find_matching(namespace, snapshot.labels.get(namespace)).caps:
                key = LedgerKey(counted.key, "" if counted.definition.shared else namespace)
                before = tallies.get(key, (counted, _NOTHING))[1]
                tallies[key] = (counted, before + _held(counted, pod))
        return MemoryLedgers({key: Ledger(counted.hard, tally) for key, (counted, tally) in tallies.items()})


def _held(counted: ActiveCap, pod: Pod) -> Amounts:
    try:
        return counted.compute_charge(pod).amounts
    except QuantityError as error:
        name = f"{_meta(pod).namespace}/{_meta(pod).name}"
        raise SnapshotError(
            f"the snapshot's pod {name} has a quantity that no API server would have stored: {error}"
        ) from error


def _cap(problem: Problem, level: Level) -> Said:
    return Said(problem, f"cap {problem.rule}", level)


def _times(amounts: Amounts, count: int) -> Amounts:
    return Amounts({name: amount * count for name, amount in amounts.items()})


def _meta(pod: Pod) -> ObjectMeta:
    return pod.metadata or ObjectMeta()
