"""What the gate would say to an object's creation, as far as that does not depend on what else is there now."""

from collections.abc import Callable, Iterator

from webhook.accounting.amounts import Amounts
from webhook.accounting.problem import Problem
from webhook.accounting.quantity_parser import QuantityError
from webhook.admission.capping import CapIndex, Counted
from webhook.admission.change import Change, Phase
from webhook.admission.decide import judge
from webhook.admission.reading import decoded
from webhook.admission.selection import Labels, RuleIndex
from webhook.admission.verdict import Verdict
from webhook.admission.workloads import TARGETS
from webhook.audit.kinds import POD
from webhook.audit.looked import Looked
from webhook.gate.messages import create_missing_limit_problem
from webhook.gate.scheduling_snapshot import SnapshotProvider, check_schedulability
from webhook.gate.workload_forecast import WORKLOAD_KINDS, create_workload, forecast_cap
from webhook.policy.model import Enforcement, Foresight, PolicySet

_NOTHING = Amounts()

Said = tuple[Enforcement, Problem]


class Saying:
    """Rules, nodes and caps, ready to be asked; what cannot be judged becomes a remark."""

    def __init__(
        self,
        policies: PolicySet,
        labels: Callable[[str], Labels | None],
        placing: SnapshotProvider | None,
        looked: Looked,
    ) -> None:
        self.caps = CapIndex(policies)
        self._rules = RuleIndex(policies)
        self._labels = labels
        self._placing = placing if self._rules.places else None
        self._looked = looked

    def of(self, change: Change) -> Iterator[Said]:
        """All that is said of an object.

        Raises:
            ReviewError: it is not of the kind it says it is.
        """
        labels = self._labels(change.namespace) if change.namespace else None
        # In this phase what a rule is about to fill in is not missing.
        verdicts = [judge(change, self._rules, labels, Phase.MUTATING)]
        if self._placing is not None and change.kind in WORKLOAD_KINDS:
            verdicts.append(check_schedulability(change, self._rules, labels, self._placing))
        for verdict in verdicts:
            for remark in verdict.unknown:
                self._looked.remark(remark)
            yield from _of_verdict(verdict)
        if self.caps and change.namespace:
            over = self.caps.over(change.namespace, labels)
            for name in over.unknown:
                self._looked.remark(
                    f"cap {name} was not asked about namespace {change.namespace}, whose labels are not known here"
                )
            for counted in over.caps:
                yield from _under(counted, change)


def _of_verdict(verdict: Verdict) -> Iterator[Said]:
    for problems, enforcement in (
        (verdict.problems, Enforcement.DENY),
        (verdict.warnings, Enforcement.WARN),
        (verdict.audits, Enforcement.AUDIT),
    ):
        for problem in problems:
            yield enforcement, problem


def _under(counted: Counted, change: Change) -> Iterator[Said]:
    """What one cap says that it will go on saying: a limit is missing, or so many pods can never have room."""
    found = TARGETS[change.group, change.kind]
    judged = decoded(found, change, change.object)
    view = found.view(judged)
    if view is None:
        return
    try:
        if (change.group, change.kind) == POD:
            for name, containers in counted.held(view.pod).unlimited.items():
                yield Enforcement.DENY, create_missing_limit_problem(counted.cap.name, name, containers)
            return
        asked = create_workload(change.kind, judged, view) if change.kind in WORKLOAD_KINDS else None
        if asked is None or counted.cap.workloads is Foresight.IGNORE:
            return
        for each in forecast_cap(asked, counted, counted.held, _NOTHING, _unknown):
            refused = each.permanent and counted.cap.workloads is Foresight.DENY
            yield Enforcement.DENY if refused else Enforcement.WARN, each.problem
    except QuantityError:
        return  # rules say so, and no API server stores it


def _unknown() -> None:
    """What is charged now: of what is stored already it is no matter."""
