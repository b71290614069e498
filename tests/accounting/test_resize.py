"""Requests of pods during a resize, for the scheduler, quota and caps."""

from typing import Any

import pytest

from tallygate.accounting.pod_requests import (
    ResizeView,
    apply_status,
    compute_limits,
    compute_pod_limits,
    compute_pod_requests,
    compute_requests,
)
from tallygate.accounting.pod_resources import parse_pod_resources
from tallygate.objects.core import PodSpec, PodStatus
from tests.accounting.objects import container, container_status, pod_spec, sidecar, status

INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]


def cpu(quantity: Any) -> dict[str, Any]:
    return {"cpu": quantity}


def create_status(actual: Any, allocated: Any, **more: Any) -> PodStatus:
    """Return a status of container `a` with actual and allocated amounts of cpu."""
    seen = container_status(
        "a", resources={"requests": cpu(actual), "limits": cpu(actual)}, allocatedResources=cpu(allocated)
    )
    return status(containerStatuses=[seen], **more)


TWO = pod_spec(container("a", cpu(2), cpu(2)))


@pytest.mark.parametrize(
    ("spec", "pod_status", "expected"),
    [
        pytest.param(TWO, create_status(1, 1), "2", id="the requested amount counts before it is granted"),
        pytest.param(TWO, create_status(1, 1, conditions=DEFERRED), "2", id="also while it is deferred"),
        pytest.param(TWO, create_status(1, 1, conditions=INFEASIBLE), "1", id="not when it is infeasible"),
        pytest.param(
            TWO, create_status(1, 3, conditions=INFEASIBLE), "3", id="then the larger of allocated and actual"
        ),
        pytest.param(
            TWO,
            create_status(1, 1, conditions=[*DEFERRED, *INFEASIBLE]),
            "2",
            id="the first condition of the type decides",
        ),
        pytest.param(
            TWO,
            create_status(1, 1, conditions=[{"type": "Ready", "reason": "Infeasible"}]),
            "2",
            id="a reason of another condition does not count",
        ),
        pytest.param(TWO, create_status(4, 1), "4", id="the actual amount counts"),
        pytest.param(TWO, create_status(1, 5), "5", id="the allocated amount counts"),
        pytest.param(
            TWO,
            status(containerStatuses=[container_status("a", allocatedResources=cpu(9))]),
            "2",
            id="a status without resources",
        ),
        pytest.param(
            TWO,
            status(containerStatuses=[container_status("b", resources={"requests": cpu(9)})]),
            "2",
            id="another's status",
        ),
        pytest.param(TWO, status(), "2", id="an empty status"),
        pytest.param(
            pod_spec(container("c", cpu(1)), initContainers=[container("a", cpu(2))]),
            status(initContainerStatuses=[container_status("a", resources={"requests": cpu(9)})]),
            "2",
            id="init steps are over",
        ),
        pytest.param(
            pod_spec(container("c", cpu(1)), initContainers=[sidecar("a", cpu(2))]),
            status(initContainerStatuses=[container_status("a", resources={"requests": cpu(9)})]),
            "10",
            id="sidecars count",
        ),
    ],
)
def test_the_largest_amount_counts_for_the_scheduler(spec: PodSpec, pod_status: PodStatus, expected: str) -> None:
    assert str(compute_pod_requests(spec, pod_status).quantities["cpu"]) == expected


@pytest.mark.parametrize(
    ("view", "expected"),
    [(ResizeView.SPEC, "2"), (ResizeView.QUOTA, "1"), (ResizeView.SCHEDULER, "1"), (ResizeView.CHARGED, "2")],
)
def test_an_infeasible_resize_by_view(view: ResizeView, expected: str) -> None:
    seen = apply_status(parse_pod_resources(TWO), create_status(1, 1, conditions=INFEASIBLE), view)
    assert str(compute_requests(seen).quantities["cpu"]) == expected


def test_limits_are_the_larger_of_requested_and_actual() -> None:
    assert str(compute_pod_limits(TWO, create_status(3, 9)).quantities["cpu"]) == "3"
    assert str(compute_pod_limits(TWO, create_status(1, 9)).quantities["cpu"]) == "2"
    assert str(compute_pod_limits(TWO, create_status(1, 9, conditions=INFEASIBLE)).quantities["cpu"]) == "1"


POD_LEVEL = pod_spec(container("a", cpu(1)), resources={"requests": cpu(2), "limits": cpu(4)})


@pytest.mark.parametrize(
    ("pod_status", "view", "requests", "limits"),
    [
        pytest.param(
            status(resources={"requests": cpu(3), "limits": cpu(5)}),
            ResizeView.SCHEDULER,
            "3",
            "5",
            id="the status counts",
        ),
        pytest.param(
            status(resources={"requests": cpu(3), "limits": cpu(5)}), ResizeView.QUOTA, "2", "4", id="not by quota"
        ),
        pytest.param(status(resources={}, allocatedResources=cpu(6)), ResizeView.SCHEDULER, "6", "4", id="allocated"),
        pytest.param(status(allocatedResources=cpu(6)), ResizeView.SCHEDULER, "2", "4", id="allocated without actual"),
        pytest.param(
            status(resources={"requests": cpu(1), "limits": cpu(1)}, conditions=INFEASIBLE),
            ResizeView.SCHEDULER,
            "1",
            "1",
            id="infeasible",
        ),
        pytest.param(
            status(resources={"requests": cpu(1), "limits": cpu(1)}, conditions=INFEASIBLE),
            ResizeView.CHARGED,
            "2",
            "4",
            id="infeasible, charged by a cap",
        ),
        pytest.param(
            status(resources={}, conditions=INFEASIBLE),
            ResizeView.SCHEDULER,
            "0",
            "4",
            id="infeasible, without limits in the status",
        ),
        pytest.param(
            status(resources={"limits": {}}, conditions=INFEASIBLE),
            ResizeView.SCHEDULER,
            "0",
            "0",
            id="infeasible, with empty limits in the status",
        ),
    ],
)
def test_the_pod_level_of_a_resized_pod(pod_status: PodStatus, view: ResizeView, requests: str, limits: str) -> None:
    resources = apply_status(parse_pod_resources(POD_LEVEL), pod_status, view)
    assert str(compute_requests(resources).quantities["cpu"]) == requests
    assert str(compute_limits(resources).quantities["cpu"]) == limits
