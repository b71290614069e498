"""What the gate would say to an object's creation, as far as that does not depend on what else is there now."""

from collections.abc import Callable, Iterator

from webhook.accounting.amounts import Amounts
from webhook.accounting.problem import Problem
from webhook.accounting.quantity_parser import QuantityError
from webhook.admission.capping import ActiveCap, CapIndex
from webhook.admission.change import AdmissionRequest, Phase
from webhook.admission.decide import evaluate_request
from webhook.admission.reading import decode_object
from webhook.admission.selection import Labels, RuleIndex
from webhook.admission.verdict import Verdict
from webhook.admission.workloads import REVIEW_TARGETS
from webhook.audit.kinds import POD
from webhook.audit.looked import AuditCoverage
from webhook.gate.messages import create_missing_limit_problem
from webhook.gate.scheduling_snapshot import SnapshotProvider, check_schedulability
from webhook.gate.workload_forecast import WORKLOAD_KINDS, create_workload, forecast_cap
from webhook.policy.model import Enforcement, ForecastEnforcement, PolicySet

_NO_AMOUNTS = Amounts()

EvaluatedProblem = tuple[Enforcement, Problem]


class ObjectEvaluator:
    """Rules, nodes and caps, ready to be asked; what cannot be judged becomes a remark."""

    def __init__(
        self,
        policies: PolicySet,
        labels: Callable[[str], Labels | None],
        snapshots: SnapshotProvider | None,
        coverage: AuditCoverage,
    ) -> None:
        self.caps = CapIndex(policies)
        self._rules = RuleIndex(policies)
        self._labels = labels
        self._snapshots = snapshots if self._rules.has_node_rules else None
        self._coverage = coverage

    def evaluate(self, request: AdmissionRequest) -> Iterator[EvaluatedProblem]:
        """All that is said of an object.

        Raises:
            ReviewError: it is not of the kind it says it is.
        """
        labels = self._labels(request.namespace) if request.namespace else None
        # In this phase what a rule is about to fill in is not missing.
        verdicts = [evaluate_request(request, self._rules, labels, Phase.MUTATING)]
        if self._snapshots is not None and request.kind in WORKLOAD_KINDS:
            verdicts.append(check_schedulability(request, self._rules, labels, self._snapshots))
        for verdict in verdicts:
            for remark in verdict.unknown:
                self._coverage.add_remark(remark)
            yield from _list_problems(verdict)
        if self.caps and request.namespace:
            matching = self.caps.find_matching(request.namespace, labels)
            for name in matching.unknown:
                self._coverage.add_remark(
                    f"cap {name} was not asked about namespace {request.namespace}, whose labels are not known here"
                )
            for cap in matching.caps:
                yield from _evaluate_cap(cap, request)


def _list_problems(verdict: Verdict) -> Iterator[EvaluatedProblem]:
    for problems, enforcement in (
        (verdict.problems, Enforcement.DENY),
        (verdict.warnings, Enforcement.WARN),
        (verdict.audits, Enforcement.AUDIT),
    ):
        for problem in problems:
            yield enforcement, problem


def _evaluate_cap(cap: ActiveCap, request: AdmissionRequest) -> Iterator[EvaluatedProblem]:
    """What one cap says that it will go on saying: a limit is missing, or so many pods can never have room."""
    target = REVIEW_TARGETS[request.group, request.kind]
    decoded_object = decode_object(target, request, request.object)
    pod_view = target.find_pod(decoded_object)
    if pod_view is None:
        return
    try:
        if (request.group, request.kind) == POD:
            for name, containers in cap.compute_charge(pod_view.pod).unlimited.items():
                yield Enforcement.DENY, create_missing_limit_problem(cap.definition.name, name, containers)
            return
        forecast_workload = (
            create_workload(request.kind, decoded_object, pod_view) if request.kind in WORKLOAD_KINDS else None
        )
        if forecast_workload is None or cap.definition.workloads is ForecastEnforcement.IGNORE:
            return
        for forecast in forecast_cap(forecast_workload, cap, cap.compute_charge, _NO_AMOUNTS, _get_no_charge):
            is_denied = forecast.permanent and cap.definition.workloads is ForecastEnforcement.DENY
            yield Enforcement.DENY if is_denied else Enforcement.WARN, forecast.problem
    except QuantityError:
        return  # rules say so, and no API server stores it


def _get_no_charge() -> None:
    """What is charged now: of what is stored already it is no matter."""
