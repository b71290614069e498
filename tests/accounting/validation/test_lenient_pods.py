"""Faults of pods that Kubernetes accepts and tallygate reports."""

from typing import Any

import pytest

from tallygate.accounting.validation.pods import check_pod_strictly, validate_pod
from tallygate.objects.core import Pod
from tests.accounting.objects import container, pod, sidecar
from tests.accounting.validation.problem_views import list_codes

OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
LIKE = "notkubernetes.io/gpu"
AT = "spec.containers[0].resources"


def both(name: str) -> list[tuple[str, str]]:
    return [(f"{AT}.limits[{name}]", "TG060"), (f"{AT}.requests[{name}]", "TG060")]


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        pytest.param(None, {OPAQUE: "1500m"}, both(OPAQUE), id="half an opaque one"),
        pytest.param(None, {LIKE: "1500m"}, both(LIKE), id="half of a name that contains kubernetes.io/"),
        pytest.param(None, {"foo.kubernetes.io/x": "500m"}, both("foo.kubernetes.io/x"), id="half of a native name"),
        pytest.param({OPAQUE: 2}, None, [(f"{AT}.limits", "TG061")], id="an opaque one without a limit"),
        pytest.param({OPAQUE: 1}, {OPAQUE: 3}, [(f"{AT}.requests", "TG062")], id="an opaque one that differs from it"),
        pytest.param(
            {OPAQUE: "500m"},
            {OPAQUE: "3500m"},
            [*both(OPAQUE), (f"{AT}.requests", "TG062")],
            id="both wrong",
        ),
        pytest.param({OPAQUE: 2}, {OPAQUE: 2}, [], id="a whole opaque one"),
        pytest.param({LIKE: 2}, None, [], id="other native names may lack a limit"),
        pytest.param({"cpu": "1500m", "memory": "1.5Ki"}, None, [], id="half a cpu, and whole bytes"),
        pytest.param({"memory": "500m"}, None, [(f"{AT}.requests[memory]", "TG068")], id="half a byte"),
        pytest.param(
            None,
            {"ephemeral-storage": "0.1Ki"},
            [(f"{AT}.{where}[ephemeral-storage]", "TG068") for where in ("limits", "requests")],
            id="a fraction of a byte in another suffix",
        ),
        pytest.param(None, {"example.com/gpu": "1500m"}, [], id="a fraction that Kubernetes rejects itself"),
    ],
)
def test_a_container(requests: Any, limits: Any, expected: list[tuple[str, str]]) -> None:
    assert list_codes(check_pod_strictly(pod(container("a", requests, limits)))) == expected


def test_kubernetes_validation_accepts_them() -> None:
    broken = pod(container("a", {OPAQUE: "500m", LIKE: "1500m"}, {OPAQUE: "3500m"}))
    assert validate_pod(broken) == []


def test_init_containers_sidecars_and_overhead_too() -> None:
    half = {OPAQUE: "500m"}
    init = [container("i", None, half), sidecar("s", half)]
    fields = [
        field for field, _ in list_codes(check_pod_strictly(pod(initContainers=init, overhead=half), "spec.template."))
    ]
    assert fields == [
        f"spec.template.spec.initContainers[0].resources.limits[{OPAQUE}]",
        f"spec.template.spec.initContainers[0].resources.requests[{OPAQUE}]",
        f"spec.template.spec.initContainers[1].resources.requests[{OPAQUE}]",
        "spec.template.spec.initContainers[1].resources.limits",
        f"spec.template.spec.overhead.limits[{OPAQUE}]",
    ]


def test_a_template_is_checked_without_defaults() -> None:
    assert list_codes(check_pod_strictly(pod(container("a", None, {OPAQUE: "500m"})), template=True)) == [
        (f"{AT}.limits[{OPAQUE}]", "TG060")
    ]


def test_an_unreadable_quantity_is_not_a_strict_problem() -> None:
    assert check_pod_strictly(pod(container("a", {OPAQUE: "two"}, {OPAQUE: 2}))) == []


def test_a_pod_without_a_spec() -> None:
    assert check_pod_strictly(Pod()) == []


def test_the_message_suggests_a_valid_value() -> None:
    (found,) = check_pod_strictly(pod(container("a", None, {OPAQUE: "1500m"})), template=True)
    assert found.message.startswith(f"1500m is not a whole number; {OPAQUE} is counted in whole units: use 1 or 2")
