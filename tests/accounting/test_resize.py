"""Pods that are being resized, as the scheduler, quota and caps see them."""

from typing import Any

import pytest

from tests.accounting.objects import container, running, sidecar, spec_of, status
from webhook.accounting.pod_requests import (
    ResizeView,
    apply_status,
    compute_limits,
    compute_pod_limits,
    compute_pod_requests,
    compute_requests,
)
from webhook.accounting.pod_resources import parse_pod_resources
from webhook.objects.core import PodSpec, PodStatus

INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]


def cpu(quantity: Any) -> dict[str, Any]:
    return {"cpu": quantity}


def resized(actual: Any, promised: Any, **more: Any) -> PodStatus:
    """A status of container `a` with this in place and this promised."""
    seen = running("a", resources={"requests": cpu(actual), "limits": cpu(actual)}, allocatedResources=cpu(promised))
    return status(containerStatuses=[seen], **more)


TWO = spec_of(container("a", cpu(2), cpu(2)))


@pytest.mark.parametrize(
    ("spec", "seen", "expected"),
    [
        pytest.param(TWO, resized(1, 1), "2", id="what is asked for counts before it is granted"),
        pytest.param(TWO, resized(1, 1, conditions=DEFERRED), "2", id="also while it is deferred"),
        pytest.param(TWO, resized(1, 1, conditions=INFEASIBLE), "1", id="not when it is infeasible"),
        pytest.param(TWO, resized(1, 3, conditions=INFEASIBLE), "3", id="then the larger of promised and actual"),
        pytest.param(
            TWO, resized(1, 1, conditions=[*DEFERRED, *INFEASIBLE]), "2", id="the first condition of the type decides"
        ),
        pytest.param(
            TWO,
            resized(1, 1, conditions=[{"type": "Ready", "reason": "Infeasible"}]),
            "2",
            id="a reason of another condition is not looked at",
        ),
        pytest.param(TWO, resized(4, 1), "4", id="what it still has counts"),
        pytest.param(TWO, resized(1, 5), "5", id="what it was promised counts"),
        pytest.param(
            TWO, status(containerStatuses=[running("a", allocatedResources=cpu(9))]), "2", id="no resources, no say"
        ),
        pytest.param(
            TWO, status(containerStatuses=[running("b", resources={"requests": cpu(9)})]), "2", id="another's status"
        ),
        pytest.param(TWO, status(), "2", id="an empty status"),
        pytest.param(
            spec_of(container("c", cpu(1)), initContainers=[container("a", cpu(2))]),
            status(initContainerStatuses=[running("a", resources={"requests": cpu(9)})]),
            "2",
            id="init steps are over",
        ),
        pytest.param(
            spec_of(container("c", cpu(1)), initContainers=[sidecar("a", cpu(2))]),
            status(initContainerStatuses=[running("a", resources={"requests": cpu(9)})]),
            "10",
            id="sidecars are seen",
        ),
    ],
)
def test_the_scheduler_sees_the_largest(spec: PodSpec, seen: PodStatus, expected: str) -> None:
    assert str(compute_pod_requests(spec, seen).quantities["cpu"]) == expected


@pytest.mark.parametrize(
    ("view", "expected"),
    [(ResizeView.SPEC, "2"), (ResizeView.QUOTA, "1"), (ResizeView.SCHEDULER, "1"), (ResizeView.CHARGED, "2")],
)
def test_an_infeasible_resize_by_view(view: ResizeView, expected: str) -> None:
    seen = apply_status(parse_pod_resources(TWO), resized(1, 1, conditions=INFEASIBLE), view)
    assert str(compute_requests(seen).quantities["cpu"]) == expected


def test_limits_are_the_larger_of_asked_and_actual() -> None:
    assert str(compute_pod_limits(TWO, resized(3, 9)).quantities["cpu"]) == "3"
    assert str(compute_pod_limits(TWO, resized(1, 9)).quantities["cpu"]) == "2"
    assert str(compute_pod_limits(TWO, resized(1, 9, conditions=INFEASIBLE)).quantities["cpu"]) == "1"


POD_LEVEL = spec_of(container("a", cpu(1)), resources={"requests": cpu(2), "limits": cpu(4)})


@pytest.mark.parametrize(
    ("seen", "view", "requests", "limits"),
    [
        pytest.param(
            status(resources={"requests": cpu(3), "limits": cpu(5)}), ResizeView.SCHEDULER, "3", "5", id="seen"
        ),
        pytest.param(
            status(resources={"requests": cpu(3), "limits": cpu(5)}), ResizeView.QUOTA, "2", "4", id="not by quota"
        ),
        pytest.param(status(resources={}, allocatedResources=cpu(6)), ResizeView.SCHEDULER, "6", "4", id="promised"),
        pytest.param(status(allocatedResources=cpu(6)), ResizeView.SCHEDULER, "2", "4", id="promised without actual"),
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
            id="held",
        ),
        pytest.param(
            status(resources={}, conditions=INFEASIBLE),
            ResizeView.SCHEDULER,
            "0",
            "4",
            id="infeasible, and nothing said",
        ),
        pytest.param(
            status(resources={"limits": {}}, conditions=INFEASIBLE),
            ResizeView.SCHEDULER,
            "0",
            "0",
            id="infeasible, and said nothing",
        ),
    ],
)
def test_the_pod_level_of_a_resized_pod(seen: PodStatus, view: ResizeView, requests: str, limits: str) -> None:
    ask = apply_status(parse_pod_resources(POD_LEVEL), seen, view)
    assert str(compute_requests(ask).quantities["cpu"]) == requests
    assert str(compute_limits(ask).quantities["cpu"]) == limits
