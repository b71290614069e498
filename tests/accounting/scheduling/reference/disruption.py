"""Disruption budgets (filterPodsWithPDBViolation in framework/plugins/defaultpreemption/default_preemption.go, v1.36).

v1.37: FilterVictimsWithPDBViolation in framework/preemption/util.go.
"""

from tests.accounting.scheduling.reference.cluster import PodInfo
from tests.accounting.scheduling.reference.objects import (
    Json,
    get_labels,
    get_name,
    get_namespace,
    get_spec,
    get_status,
)
from tests.accounting.scheduling.reference.selectors import SelectorError, parse_label_selector


def split_by_budgets(pods: list[PodInfo], budgets: list[Json], minor: int) -> tuple[list[PodInfo], list[PodInfo]]:
    """Return the pods whose eviction would break a budget, after the pods before them, and the other pods."""
    allowed = [get_status(each).get("disruptionsAllowed") or 0 for each in budgets]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        matching = [index for index, each in enumerate(budgets) if _is_covered(each, pod.pod, minor)]
        for index in matching:
            allowed[index] -= 1
            if minor >= 37 and allowed[index] < 0:
                break
        (violating if any(allowed[index] < 0 for index in matching) else others).append(pod)
    return violating, others


def _is_covered(budget: Json, pod: Json, minor: int) -> bool:
    """Return whether a budget counts a pod that was not evicted yet; up to v1.37 an empty selector matches no pod."""
    if (minor < 38 and not get_labels(pod)) or get_namespace(budget) != get_namespace(pod):
        return False
    try:
        selector = parse_label_selector(get_spec(budget).get("selector"))
    except SelectorError:
        return False
    if (minor < 38 and selector.is_empty) or not selector.matches(get_labels(pod)):
        return False
    return get_name(pod) not in (get_status(budget).get("disruptedPods") or {})
