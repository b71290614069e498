"""Pod-level resources."""

from typing import Any

import pytest

from tallygate.accounting.validation.pods import validate_pod
from tests.accounting.objects import Json, container, pod, sidecar
from tests.accounting.validation.problem_views import list_causes

GPU, HUGE = "example.com/gpu", "hugepages-2Mi"
AT = "spec.resources"
NAMES = 'supported values: "cpu", "hugepages-", "memory"'
SUM = "must be greater than or equal to aggregate container"


def validate(*containers: Json, template: bool = False, **spec: Any) -> list[str]:
    return list_causes(validate_pod(pod(*containers, **spec), template=template))


@pytest.mark.parametrize(
    ("containers", "resources"),
    [
        pytest.param([container("a", {"cpu": 1})], {}, id="empty"),
        pytest.param([container("a", {"cpu": 1})], {"requests": {"cpu": 1}, "limits": {"cpu": 1}}, id="just enough"),
        pytest.param(
            [container("a", {GPU: 1}, {GPU: 1})], {"requests": {"cpu": 1}}, id="GPUs are not part of the pod level"
        ),
        pytest.param([container("a", None, {"cpu": 2})], {"limits": {"memory": 1}}, id="limits of different resources"),
        pytest.param(
            [container("a", {"cpu": 3})], {"limits": {"cpu": 4}}, id="the request is filled in from the containers"
        ),
        pytest.param(
            [container("a", {"cpu": 1, HUGE: "2Mi"}, {HUGE: "2Mi"})],
            {"limits": {"cpu": 2}},
            id="huge pages are filled in",
        ),
        pytest.param(
            [container("a", {"cpu": 1}, {"cpu": 2}), container("b", {"cpu": 1}, {"cpu": 2})],
            {"requests": {"cpu": 3}, "limits": {"cpu": 3}},
            id="containers' limits need not fit together",
        ),
    ],
)
def test_valid(containers: list[Json], resources: Json) -> None:
    assert validate(*containers, resources=resources) == []


@pytest.mark.parametrize(
    ("containers", "resources", "expected"),
    [
        pytest.param(
            [],
            {"limits": {GPU: 1}, "requests": {GPU: 1}},
            [f'{AT}.{where}[{GPU}]: Unsupported value: "{GPU}": {NAMES}' for where in ("limits", "requests")],
            id="an extended resource",
        ),
        pytest.param(
            [],
            {"requests": {"ephemeral-storage": 1}},
            [
                f'{AT}.requests[ephemeral-storage]: Unsupported value: "ephemeral-storage": {NAMES}',
            ],
            id="ephemeral storage",
        ),
        pytest.param(
            [],
            {"requests": {"gpu": 1}},
            [f'{AT}.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified'],
            id="an unknown name",
        ),
        pytest.param(
            [],
            {"requests": {"cpu": 3}, "limits": {"cpu": 2}},
            [f'{AT}.requests: Invalid value: "3": must be less than or equal to cpu limit of 2'],
            id="request above limit",
        ),
        pytest.param(
            [],
            {"requests": {"cpu": 1, HUGE: "2Mi"}, "limits": {HUGE: "4Mi"}},
            [f'{AT}.requests: Invalid value: "2Mi": must be equal to {HUGE} limit of 4Mi'],
            id="huge pages differ",
        ),
        pytest.param(
            [],
            {"requests": {"cpu": -1}},
            [
                f'{AT}.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
            ],
            id="negative",
        ),
        pytest.param(
            [container("a", {"cpu": 4}), container("b", {"cpu": "500m"})],
            {"requests": {"cpu": 3}},
            [f'{AT}.requests[cpu]: Invalid value: "3": {SUM} requests of 4500m'],
            id="less than the containers request",
        ),
        pytest.param(
            [
                container("a", {"cpu": 1, HUGE: "4Mi"}, {HUGE: "4Mi"}),
                container("b", {"cpu": 1, HUGE: "4Mi"}, {HUGE: "4Mi"}),
            ],
            {"requests": {"cpu": 2, HUGE: "6Mi"}, "limits": {HUGE: "6Mi"}},
            [
                f'{AT}.requests[{HUGE}]: Invalid value: "6Mi": {SUM} requests of 8Mi',
                f'{AT}.limits[{HUGE}]: Invalid value: "6Mi": {SUM} limits of 8Mi',
            ],
            id="less huge pages than the containers",
        ),
        pytest.param(
            [container("a", {"cpu": 1}, {"cpu": 2}), container("b", {"cpu": 1}, {"cpu": 3})],
            {"requests": {"cpu": 2}, "limits": {"cpu": 2}},
            [f'{AT}.containers[1][cpu].limits: Invalid value: "3": must be less than or equal to pod limits of 2'],
            id="a container's limit above the pod's",
        ),
        pytest.param(
            [],
            {"claims": []},
            [f"{AT}.claims: Forbidden: claims may not be set for Resources at pod-level"],
            id="an empty list of claims",
        ),
        pytest.param(
            [],
            {"claims": [{"name": "x"}]},
            [
                f"{AT}.claims: Forbidden: claims may not be set for Resources at pod-level",
                f'{AT}.claims[0]: Not found: "x": must be one of the names in pod.spec.resourceClaims which is empty',
            ],
            id="claims",
        ),
    ],
)
def test_invalid(containers: list[Json], resources: Json, expected: list[str]) -> None:
    assert validate(*containers, resources=resources) == expected


def test_init_steps_and_sidecars_are_in_the_sum() -> None:
    init = [sidecar("s", {"cpu": 2}), container("i", {"cpu": 3})]
    (cause,) = validate(container("a", {"cpu": 1}), initContainers=init, resources={"requests": {"cpu": 4}})
    assert cause.endswith("aggregate container requests of 5")


@pytest.mark.parametrize("resources", [{}, {"limits": {GPU: "half"}}, {"limits": {"cpu": 1}}])
def test_a_windows_pod_cannot_set_pod_level_resources(resources: Json) -> None:
    relevant = [
        each for each in validate(container("a"), os={"name": "windows"}, resources=resources) if "half" not in each
    ]
    assert relevant == [f"{AT}: Forbidden: may not be set for a windows pod"]


def test_a_linux_pod_can_set_pod_level_resources() -> None:
    assert validate(container("a"), os={"name": "linux"}, resources={"limits": {"cpu": 1}}) == []


def test_a_template_is_checked_without_defaults() -> None:
    """Only in a pod the pod-level request defaults to the sum of the containers."""
    assert validate(container("a", {HUGE: "2Mi", "cpu": 1}), resources={"limits": {"cpu": 1}}, template=True) == [
        "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"
    ]
