"""Disruption budgets (filterPodsWithPDBViolation in framework/plugins/defaultpreemption/default_preemption.go)."""

from tests.accounting.scheduling.reference.cluster import PodInfo
from tests.accounting.scheduling.reference.objects import Json, labels_of, name_of, namespace_of, spec_of, status_of
from tests.accounting.scheduling.reference.selectors import SelectorError, label_selector


def split_by_budgets(pods: list[PodInfo], budgets: list[Json]) -> tuple[list[PodInfo], list[PodInfo]]:
    """The pods whose eviction would break a budget, those before them having used it up, and the others."""
    allowed = [status_of(each).get("disruptionsAllowed") or 0 for each in budgets]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        matching = [index for index, each in enumerate(budgets) if _is_about(each, pod.pod)]
        for index in matching:
            allowed[index] -= 1
        (violating if any(allowed[index] < 0 for index in matching) else others).append(pod)
    return violating, others


def _is_about(budget: Json, pod: Json) -> bool:
    """Whether a budget counts a pod that was not evicted yet; an empty selector is about none."""
    if not labels_of(pod) or namespace_of(budget) != namespace_of(pod):
        return False
    try:
        selector = label_selector(spec_of(budget).get("selector"))
    except SelectorError:
        return False
    if selector.is_empty or not selector.matches(labels_of(pod)):
        return False
    return name_of(pod) not in (status_of(budget).get("disruptedPods") or {})
