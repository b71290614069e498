"""The charge of a pod under a cap's names, and the sum of the charges of many pods."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.charge import compute_charge, compute_hard_limits
from tallygate.accounting.pod_requests import compute_pod_requests
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.resized_requests import compute_resized_amounts
from tallygate.objects.core import Pod
from tests.accounting.charges import sum_charges
from tests.accounting.objects import container, container_status, pod, sidecar

GPU = "nvidia.com/gpu"
NAMES = (GPU, "cpu", "limits.cpu", "limits.memory", "pods")


def list_charges(a_pod: Pod, *names: str) -> dict[str, int]:
    return dict(compute_charge(a_pod, names or NAMES).amounts)


@pytest.mark.parametrize(
    ("a_pod", "expected"),
    [
        pytest.param(pod(container("a")), {"pods": 1}, id="no requests"),
        pytest.param(pod(container("a", None, {GPU: 2})), {GPU: 2, "pods": 1}, id="a plain name counts requests"),
        pytest.param(
            pod(container("a", {"cpu": "250m"}, {"cpu": "1500m"})),
            {"cpu": 250, "limits.cpu": 1500, "pods": 1},
            id="requests and limits in thousandths",
        ),
        pytest.param(pod(container("a", {GPU: 0}, {GPU: 0})), {"pods": 1}, id="zero is absent"),
        pytest.param(
            pod(container("a", {GPU: -1, "memory": -1}, {"memory": -1})),
            {"pods": 1},
            id="negative amounts charge nothing",
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
    assert list_charges(a_pod) == expected


@pytest.mark.parametrize(
    ("requested", "allocated", "actual", "expected"),
    [(3, 1, 1, 3000), (1, 3, 1, 3000), (1, 1, 3, 3000), (1, 1, 1, 1000)],
)
@pytest.mark.parametrize("reason", ["Infeasible", "Deferred"])
def test_the_charge_of_a_resized_pod_is_the_largest_amount(
    requested: Any, allocated: Any, actual: Any, expected: int, reason: str
) -> None:
    resized = container_status("a", resources={"requests": {"cpu": actual}}, allocatedResources={"cpu": allocated})
    status = {"containerStatuses": [resized], "conditions": [{"type": "PodResizePending", "reason": reason}]}
    assert list_charges(pod(container("a", {"cpu": requested}), status=status), "cpu") == {"cpu": expected}


def test_the_actual_amount_of_a_resized_init_container_is_charged() -> None:
    resized = container_status("i", resources={"requests": {"cpu": 4}}, allocatedResources={"cpu": 1})
    a_pod = pod(
        container("a", {"cpu": 2}),
        initContainers=[container("i", {"cpu": 1})],
        status={"initContainerStatuses": [resized]},
    )
    assert list_charges(a_pod, "cpu") == {"cpu": 4000}


_AMOUNTS = st.fixed_dictionaries({}, optional={"cpu": st.integers(0, 3), "memory": st.integers(0, 3)})
_STATUSES = st.lists(
    st.builds(
        lambda name, actual, allocated: container_status(
            name, resources={"requests": actual}, allocatedResources=allocated
        ),
        st.sampled_from(["a", "b", "i", "s"]),
        _AMOUNTS,
        _AMOUNTS,
    ),
    unique_by=lambda each: each["name"],
)


@given(
    lists=st.lists(_AMOUNTS, min_size=4, max_size=4),
    statuses=_STATUSES,
    reason=st.sampled_from(["Infeasible", "Deferred"]),
)
def test_a_resized_pod_is_charged_no_less_than_by_quotas_and_schedulers(
    lists: list[dict[str, int]], statuses: list[dict[str, Any]], reason: str
) -> None:
    """Compare with the amounts of 1.36, and with those of 1.37, which a quota of 1.37 counts too."""
    a, b, i, s = lists
    a_pod = pod(
        container("a", a),
        container("b", b),
        initContainers=[container("i", i), sidecar("s", s)],
        status={
            "containerStatuses": [each for each in statuses if each["name"] in {"a", "b"}],
            "initContainerStatuses": [each for each in statuses if each["name"] in {"i", "s"}],
            "conditions": [{"type": "PodResizePending", "reason": reason}],
        },
    )
    charged = list_charges(a_pod, "cpu", "memory")
    assert a_pod.spec is not None
    for amounts in (compute_resized_amounts(a_pod).requests, compute_pod_requests(a_pod.spec, a_pod.status).amounts):
        assert all(charged.get(name, 0) >= amount for name, amount in amounts.items())


@pytest.mark.parametrize(
    ("a_pod", "unlimited"),
    [
        pytest.param(pod(container("a"), container("b", None, {"cpu": 1})), ("a",), id="one container without"),
        pytest.param(
            pod(container("b", None, {"cpu": 1}), initContainers=[sidecar("s"), container("i")]),
            ("s", "i"),
            id="sidecars and init steps need one",
        ),
        pytest.param(pod(container("a", {"cpu": 1})), ("a",), id="a request is not a limit"),
        pytest.param(pod(container("a"), resources={"limits": {"cpu": 1}}), (), id="the pod level limits them all"),
        pytest.param(pod(container("a", None, {"cpu": 0})), ("a",), id="a limit of zero is missing"),
        pytest.param(
            pod(container("a"), resources={"limits": {"cpu": 0}}), ("a",), id="a limit of zero at pod level is missing"
        ),
        pytest.param(
            pod(
                container("a", None, {"cpu": 0}),
                status={"containerStatuses": [container_status("a", resources={"limits": {"cpu": 1}})]},
            ),
            ("a",),
            id="a limit of zero is missing while the old one is in effect",
        ),
        pytest.param(pod(container("a"), status={"phase": "Failed"}), (), id="an ended pod needs no limit"),
    ],
)
def test_containers_without_a_counted_limit(a_pod: Pod, unlimited: tuple[str, ...]) -> None:
    found = compute_charge(a_pod, ["limits.cpu"])
    assert found.unlimited == ({"limits.cpu": unlimited} if unlimited else {})


@pytest.mark.parametrize("resource", [GPU, "hugepages-2Mi"])
def test_no_container_gets_more_of_a_device_than_it_names(resource: str) -> None:
    names = [f"limits.{resource}"]
    assert compute_charge(pod(container("a"), container("b", None, {resource: 0})), names).unlimited == {}


def test_a_limit_of_zero_at_pod_level_replaces_no_limit_of_a_container() -> None:
    charge = compute_charge(pod(container("a", None, {"cpu": 1}), resources={"limits": {"cpu": 0}}), ["limits.cpu"])
    assert dict(charge.amounts) == {"limits.cpu": 1000}


def test_limits_that_are_not_counted_are_not_required() -> None:
    assert compute_charge(pod(container("a")), ["cpu", "pods"]).unlimited == {}


def test_hard_limits_are_rounded_down() -> None:
    written = {GPU: Quantity.parse("3500m"), "cpu": Quantity.parse("1500m"), "limits.cpu": Quantity.parse("2")}
    assert dict(compute_hard_limits(written)) == {GPU: 3, "cpu": 1500, "limits.cpu": 2000}


def test_a_sum_rounds_each_pod() -> None:
    pods = [pod(container("a", {"foo.kubernetes.io/x": "500m"})) for _ in range(3)]
    assert dict(sum_charges(pods, ["foo.kubernetes.io/x", "pods"])) == {"foo.kubernetes.io/x": 3, "pods": 3}


def test_a_sum_ignores_ended_pods_even_with_invalid_quantities() -> None:
    pods = [pod(container("a", {GPU: 1})), pod(container("a", {GPU: "many"}), status={"phase": "Failed"})]
    assert dict(sum_charges(pods, [GPU, "pods"])) == {GPU: 1, "pods": 1}


def test_a_sum_of_no_pods_is_zero() -> None:
    assert dict(sum_charges([], [GPU])) == {GPU: 0}


def test_an_invalid_quantity_is_an_error() -> None:
    with pytest.raises(QuantityError):
        sum_charges([pod(container("a", {GPU: "many"}))], [GPU])
