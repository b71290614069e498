"""Priority and preemption policy of a stored pod."""

from typing import Any

import pytest

from tallygate.accounting.scheduling.incoming_pod import with_resolved_priority
from tallygate.objects.scheduling import PriorityClass
from tests.accounting.scheduling.clusters import decode_pod, pod

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
        pytest.param(CLASSES, {"priorityClassName": "polite"}, 500, "Never", id="a class that forbids preemption"),
        pytest.param(
            CLASSES,
            {"priorityClassName": "high", "preemptionPolicy": "Never"},
            1000,
            "Never",
            id="the pod's own policy",
        ),
        pytest.param(DEFAULTS, {}, 7, "PreemptLowerPriority", id="the lowest of several defaults"),
        pytest.param(
            DEFAULTS, {"priorityClassName": "high"}, 1000, "PreemptLowerPriority", id="a class wins over the default"
        ),
        pytest.param(
            {}, {"priorityClassName": "system-node-critical"}, 2000001000, "PreemptLowerPriority", id="system"
        ),
        pytest.param(DEFAULTS, {"priority": 3, "preemptionPolicy": "Never"}, 3, "Never", id="the pod's own priority"),
    ],
)
def test_a_priority_is_resolved_as_by_the_api_server(
    classes: dict[str, PriorityClass], spec: dict[str, Any], priority: int, policy: str
) -> None:
    resolved = with_resolved_priority(decode_pod(pod(**spec)), classes).spec
    assert resolved is not None
    assert (resolved.priority, resolved.preemption_policy) == (priority, policy)
