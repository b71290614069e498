"""What a pod costs under a cap's counted names, and what many cost together."""

from typing import Any

import pytest

from tests.accounting.charges import sum_charges
from tests.accounting.objects import container, pod, running, sidecar
from webhook.accounting.charge import compute_charge, compute_hard_limits
from webhook.accounting.quantity import Quantity
from webhook.accounting.quantity_parser import QuantityError
from webhook.objects.core import Pod

GPU = "nvidia.com/gpu"
NAMES = (GPU, "cpu", "limits.cpu", "limits.memory", "pods")


def costs(a_pod: Pod, *names: str) -> dict[str, int]:
    return dict(compute_charge(a_pod, names or NAMES).amounts)


@pytest.mark.parametrize(
    ("a_pod", "expected"),
    [
        pytest.param(pod(container("a")), {"pods": 1}, id="nothing asked for"),
        pytest.param(pod(container("a", None, {GPU: 2})), {GPU: 2, "pods": 1}, id="a plain name counts requests"),
        pytest.param(
            pod(container("a", {"cpu": "250m"}, {"cpu": "1500m"})),
            {"cpu": 250, "limits.cpu": 1500, "pods": 1},
            id="requests and limits in thousandths",
        ),
        pytest.param(pod(container("a", {GPU: 0}, {GPU: 0})), {"pods": 1}, id="zero is absent"),
        pytest.param(
            pod(container("a", {GPU: -1, "memory": -1}, {"memory": -1})), {"pods": 1}, id="nothing ever gives room back"
        ),
        pytest.param(
            pod(container("a", None, {"memory": 1, GPU: 1})), {GPU: 1, "limits.memory": 1, "pods": 1}, id="one unit"
        ),
        pytest.param(pod(container("a", {"other.io/x": 5})), {"pods": 1}, id="names that are not counted are absent"),
        pytest.param(
            pod(container("a", None, {"memory": "1Gi"}), initContainers=[sidecar("s", None, {"memory": "1Gi"})]),
            {"limits.memory": 2**31, "pods": 1},
            id="effective limits",
        ),
        pytest.param(pod(container("a", {GPU: 2}), status={"phase": "Running"}), {GPU: 2, "pods": 1}, id="running"),
        pytest.param(
            pod(container("a", {GPU: 2}), metadata={"deletionTimestamp": "2001-01-01T00:00:00Z"}),
            {GPU: 2, "pods": 1},
            id="being deleted",
        ),
        pytest.param(pod(container("a", {GPU: 2}), status={"phase": "Succeeded"}), {}, id="succeeded"),
        pytest.param(pod(container("a", {GPU: 2}), status={"phase": "Failed"}), {}, id="failed"),
    ],
)
def test_the_charge_of_one_pod(a_pod: Pod, expected: dict[str, int]) -> None:
    assert costs(a_pod) == expected


@pytest.mark.parametrize(
    ("asked", "promised", "actual", "expected"), [(3, 1, 1, 3000), (1, 3, 1, 3000), (1, 1, 3, 3000), (1, 1, 1, 1000)]
)
@pytest.mark.parametrize("reason", ["Infeasible", "Deferred"])
def test_a_resized_pod_costs_the_largest_whatever_the_node_says(
    asked: Any, promised: Any, actual: Any, expected: int, reason: str
) -> None:
    seen = running("a", resources={"requests": {"cpu": actual}}, allocatedResources={"cpu": promised})
    status = {"containerStatuses": [seen], "conditions": [{"type": "PodResizePending", "reason": reason}]}
    assert costs(pod(container("a", {"cpu": asked}), status=status), "cpu") == {"cpu": expected}


@pytest.mark.parametrize(
    ("a_pod", "unlimited"),
    [
        pytest.param(pod(container("a"), container("b", None, {"cpu": 1})), ("a",), id="one container without"),
        pytest.param(
            pod(container("b", None, {"cpu": 1}), initContainers=[sidecar("s"), container("i")]),
            ("s",),
            id="sidecars need one, init steps do not",
        ),
        pytest.param(pod(container("a", {"cpu": 1})), ("a",), id="a request is no limit"),
        pytest.param(pod(container("a"), resources={"limits": {"cpu": 1}}), (), id="the pod level limits them all"),
        pytest.param(pod(container("a", None, {"cpu": 0})), (), id="a limit of zero is one"),
        pytest.param(pod(container("a"), status={"phase": "Failed"}), (), id="an ended pod needs none"),
    ],
)
def test_containers_without_the_limit_that_is_counted(a_pod: Pod, unlimited: tuple[str, ...]) -> None:
    found = compute_charge(a_pod, ["limits.cpu"])
    assert found.unlimited == ({"limits.cpu": unlimited} if unlimited else {})


def test_limits_are_not_demanded_where_they_are_not_counted() -> None:
    assert compute_charge(pod(container("a")), ["cpu", "pods"]).unlimited == {}


def test_what_a_cap_allows_is_rounded_down() -> None:
    written = {GPU: Quantity.parse("3500m"), "cpu": Quantity.parse("1500m"), "limits.cpu": Quantity.parse("2")}
    assert dict(compute_hard_limits(written)) == {GPU: 3, "cpu": 1500, "limits.cpu": 2000}


def test_a_tally_sums_up_pods_rounded_one_by_one() -> None:
    pods = [pod(container("a", {"foo.kubernetes.io/x": "500m"})) for _ in range(3)]
    assert dict(sum_charges(pods, ["foo.kubernetes.io/x", "pods"])) == {"foo.kubernetes.io/x": 3, "pods": 3}


def test_a_tally_leaves_ended_pods_out_even_when_they_cannot_be_read() -> None:
    pods = [pod(container("a", {GPU: 1})), pod(container("a", {GPU: "many"}), status={"phase": "Failed"})]
    assert dict(sum_charges(pods, [GPU, "pods"])) == {GPU: 1, "pods": 1}


def test_a_tally_of_nothing_is_zero() -> None:
    assert dict(sum_charges([], [GPU])) == {GPU: 0}


def test_what_cannot_be_read_is_an_error() -> None:
    with pytest.raises(QuantityError):
        sum_charges([pod(container("a", {GPU: "many"}))], [GPU])
