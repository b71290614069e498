"""Whose leaving breaks a PodDisruptionBudget.

Source: filterPodsWithPDBViolation in plugins/defaultpreemption/default_preemption.go, v1.36.
"""

from collections.abc import Iterable, Sequence

from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.selectors import MATCH_NOTHING, Selector, SelectorError, parse_selector
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus


class _BudgetState:
    """One budget, and how many more pods may leave under it."""

    def __init__(self, budget: PodDisruptionBudget) -> None:
        status = budget.status or PodDisruptionBudgetStatus()
        self._namespace = (budget.metadata or ObjectMeta()).namespace or ""
        self._selector = _parse_selector(budget)
        self._disrupted = status.disrupted_pods or {}
        self._allowed = status.disruptions_allowed

    def record_disruption(self, pod: PodInfo) -> bool:
        """Count a pod that is to leave; whether that is one too many. Pods known to leave already are not counted."""
        if not self._is_matching(pod) or pod.name in self._disrupted:
            return False
        self._allowed -= 1
        return self._allowed < 0

    def _is_matching(self, pod: PodInfo) -> bool:
        """Whether it is about a pod; one without a selector, or with an empty one, is about none here."""
        return (
            self._namespace == pod.namespace
            and bool(pod.group.labels)
            and not self._selector.is_empty
            and self._selector.matches(pod.group.labels)
        )


def split_by_budget(
    pods: Sequence[PodInfo], budgets: Iterable[PodDisruptionBudget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Pods whose leaving, one after the other, breaks a budget, and the others; each in the order given."""
    states = [_BudgetState(each) for each in budgets]
    # A pod counts under every budget that covers it, also after one of them is found to be broken.
    violating = [sum([budget.record_disruption(pod) for budget in states]) > 0 for pod in pods]
    return (
        [pod for pod, is_violating in zip(pods, violating, strict=True) if is_violating],
        [pod for pod, breaks in zip(pods, violating, strict=True) if not breaks],
    )


def _parse_selector(budget: PodDisruptionBudget) -> Selector:
    try:
        return parse_selector((budget.spec or PodDisruptionBudgetSpec()).selector)
    except SelectorError:
        return MATCH_NOTHING
