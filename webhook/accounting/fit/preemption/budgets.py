"""Whose leaving breaks a PodDisruptionBudget.

Source: filterPodsWithPDBViolation in plugins/defaultpreemption/default_preemption.go, v1.36.
"""

from collections.abc import Iterable, Sequence

from webhook.accounting.cluster.pod_info import PodInfo
from webhook.accounting.selectors import MATCH_NOTHING, Selector, SelectorError, parse_selector
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus


class _Budget:
    """One budget, and how many more pods may leave under it."""

    def __init__(self, budget: PodDisruptionBudget) -> None:
        status = budget.status or PodDisruptionBudgetStatus()
        self._namespace = (budget.metadata or ObjectMeta()).namespace or ""
        self._selector = _selector(budget)
        self._leaving = status.disrupted_pods or {}
        self._left = status.disruptions_allowed

    def is_broken_by(self, pod: PodInfo) -> bool:
        """Count a pod that is to leave; whether that is one too many. Pods known to leave already are not counted."""
        if not self._covers(pod) or pod.name in self._leaving:
            return False
        self._left -= 1
        return self._left < 0

    def _covers(self, pod: PodInfo) -> bool:
        """Whether it is about a pod; one without a selector, or with an empty one, is about none here."""
        return (
            self._namespace == pod.namespace
            and bool(pod.group.labels)
            and not self._selector.is_empty
            and self._selector.matches(pod.group.labels)
        )


def split(pods: Sequence[PodInfo], budgets: Iterable[PodDisruptionBudget]) -> tuple[list[PodInfo], list[PodInfo]]:
    """Pods whose leaving, one after the other, breaks a budget, and the others; each in the order given."""
    kept = [_Budget(each) for each in budgets]
    # A pod counts under every budget that covers it, also after one of them is found to be broken.
    breaking = [sum([budget.is_broken_by(pod) for budget in kept]) > 0 for pod in pods]
    return (
        [pod for pod, breaks in zip(pods, breaking, strict=True) if breaks],
        [pod for pod, breaks in zip(pods, breaking, strict=True) if not breaks],
    )


def _selector(budget: PodDisruptionBudget) -> Selector:
    try:
        return parse_selector((budget.spec or PodDisruptionBudgetSpec()).selector)
    except SelectorError:
        return MATCH_NOTHING
