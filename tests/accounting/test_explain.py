"""The arithmetic of a pod's request in one line, and its terms."""

from typing import Any

import pytest

from tallygate.accounting.pod_requests import (
    EffectiveRequest,
    compute_pod_limits,
    compute_pod_requests,
    explain_request,
)
from tallygate.accounting.pod_resources import ContainerRole
from tests.accounting.objects import container, pod_spec, sidecar

GPU = "nvidia.com/gpu"


def one(quantity: Any) -> dict[str, Any]:
    return {GPU: quantity}


TWO = (container("a", one(1)), container("b", one(2)))
WARM = container("warm", one(4))


@pytest.mark.parametrize(
    ("effective", "line"),
    [
        pytest.param(
            compute_pod_requests(pod_spec(*TWO, initContainers=[WARM], overhead={"cpu": "100m"})),
            'nvidia.com/gpu = max(containers 1 + 2, init step "warm" 4) + overhead 0 = 4',
            id="containers, an init step and overhead",
        ),
        pytest.param(compute_pod_requests(pod_spec(TWO[0])), "nvidia.com/gpu = container 1 = 1", id="one container"),
        pytest.param(
            compute_pod_requests(pod_spec(TWO[0], initContainers=[sidecar("s", one(2)), container("i", one(3))])),
            'nvidia.com/gpu = max(container 1 + sidecar 2, init step "i" 3 + sidecars 2 beneath) = 5',
            id="sidecars beneath an init step",
        ),
        pytest.param(
            compute_pod_requests(pod_spec(container("z"), initContainers=[WARM])),
            'nvidia.com/gpu = init step "warm" 4 = 4',
            id="init only",
        ),
        pytest.param(
            compute_pod_requests(pod_spec(container("z"), overhead=one(1))),
            "nvidia.com/gpu = containers 0 + overhead 1 = 1",
            id="overhead only",
        ),
        pytest.param(
            compute_pod_requests(pod_spec(container("z"))), "nvidia.com/gpu = containers 0 = 0", id="no requests at all"
        ),
        pytest.param(
            compute_pod_requests(pod_spec(container("a", one("+4")), container("b", one("1Ki")))),
            "nvidia.com/gpu = containers +4 + 1Ki = 1028",
            id="quantities are printed as written, the sum in canonical form",
        ),
        pytest.param(
            compute_pod_limits(pod_spec(container("a", None, one(0)), overhead=one(1))),
            "nvidia.com/gpu = container 0 (overhead 1 not added: no limit) = 0",
            id="overhead that is not added to a limit of zero",
        ),
    ],
)
def test_a_sum_in_one_line(effective: EffectiveRequest, line: str) -> None:
    assert explain_request(effective, GPU) == line


def test_a_pod_level_request_shows_the_replaced_sum() -> None:
    spec = pod_spec(container("a", {"cpu": 1}), container("b", {"cpu": 1}), resources={"requests": {"cpu": 3}})
    assert explain_request(compute_pod_requests(spec), "cpu") == "cpu = pod level 3 (in place of containers 1 + 1) = 3"


def _list_terms(effective: EffectiveRequest, name: str) -> list[tuple[str, ContainerRole, str, bool]]:
    return [(each.container, each.role, str(each.quantity), each.is_counted) for each in effective.list_terms(name)]


def test_only_deciding_terms_count() -> None:
    spec = pod_spec(*TWO, initContainers=[container("small", one(1)), WARM], overhead=one(1))
    assert _list_terms(compute_pod_requests(spec), GPU) == [
        ("a", ContainerRole.CONTAINER, "1", False),
        ("b", ContainerRole.CONTAINER, "2", False),
        ("small", ContainerRole.INIT, "1", False),
        ("warm", ContainerRole.INIT, "4", True),
        ("", ContainerRole.OVERHEAD, "1", True),
    ]


def test_containers_count_when_no_init_step_is_larger() -> None:
    spec = pod_spec(*TWO, initContainers=[container("i", one(3))])
    assert [counts for *_, counts in _list_terms(compute_pod_requests(spec), GPU)] == [True, True, False]


def test_only_a_pod_level_request_counts() -> None:
    spec = pod_spec(
        container("a", {"cpu": 1}), initContainers=[container("i", {"cpu": 9})], resources={"requests": {"cpu": 3}}
    )
    assert _list_terms(compute_pod_requests(spec), "cpu") == [
        ("a", ContainerRole.CONTAINER, "1", False),
        ("i", ContainerRole.INIT, "9", False),
        ("", ContainerRole.POD, "3", True),
    ]
