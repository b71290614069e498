"""Which priority a pod is stored with."""

from typing import Any

import pytest

from tests.accounting.scheduling.clusters import pod, pod_of
from webhook.accounting.scheduling.incoming_pod import with_resolved_priority
from webhook.objects.scheduling import PriorityClass

CLASSES = {
    "high": PriorityClass(value=1000),
    "polite": PriorityClass(value=500, preemption_policy="Never"),
}
DEFAULTS = CLASSES | {
    "usual": PriorityClass(value=7, global_default=True),
    "another": PriorityClass(value=9, global_default=True),
}


@pytest.mark.parametrize(
    ("classes", "spec", "priority", "policy"),
    [
        pytest.param(CLASSES, {}, 0, "PreemptLowerPriority", id="no class"),
        pytest.param(CLASSES, {"priorityClassName": "high"}, 1000, "PreemptLowerPriority", id="a class"),
        pytest.param(CLASSES, {"priorityClassName": "polite"}, 500, "Never", id="a class that drives nobody out"),
        pytest.param(
            CLASSES,
            {"priorityClassName": "high", "preemptionPolicy": "Never"},
            1000,
            "Never",
            id="a policy of the pod's own",
        ),
        pytest.param(DEFAULTS, {}, 7, "PreemptLowerPriority", id="the lowest of several defaults"),
        pytest.param(DEFAULTS, {"priorityClassName": "high"}, 1000, "PreemptLowerPriority", id="a default beside"),
        pytest.param(
            {}, {"priorityClassName": "system-node-critical"}, 2000001000, "PreemptLowerPriority", id="system"
        ),
        pytest.param(DEFAULTS, {"priority": 3, "preemptionPolicy": "Never"}, 3, "Never", id="stored already"),
    ],
)
def test_a_priority_is_filled_in_as_the_api_server_does(
    classes: dict[str, PriorityClass], spec: dict[str, Any], priority: int, policy: str
) -> None:
    found = with_resolved_priority(pod_of(pod(**spec)), classes).spec
    assert found is not None
    assert (found.priority, found.preemption_policy) == (priority, policy)
